#define XXH_STATIC_LINKING_ONLY  // XXH64_state_t as a value: no allocation for a hash
#include <xxhash.h>

#include "scheduler/scheduler.h"

namespace fasteep {

constexpr uint64_t kHashSeed = 0;  // fixed: every process of an instance must agree

uint64_t block_hash(uint64_t parent_hash, std::span<const TokenId> tokens) {
  XXH64_state_t state;
  XXH64_reset(&state, kHashSeed);
  XXH64_update(&state, &parent_hash, sizeof(parent_hash));
  XXH64_update(&state, tokens.data(), tokens.size_bytes());
  return XXH64_digest(&state);
}

}  // namespace fasteep
