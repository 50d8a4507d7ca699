#include "memory/kv_blocks.h"

namespace fasteep {
namespace {

Result<size_t> total_bytes(int num_blocks, int num_layers, size_t layer_block_bytes) {
  if (num_blocks < 1 || num_layers < 1 || layer_block_bytes == 0)
    return invalid_input("{} KV blocks of {} layers of {} bytes; each must be at least 1",
                         num_blocks, num_layers, layer_block_bytes);
  size_t size = 0;
  if (__builtin_mul_overflow(layer_block_bytes, static_cast<size_t>(num_layers), &size) ||
      __builtin_mul_overflow(size, static_cast<size_t>(num_blocks), &size))
    return invalid_input("{} KV blocks of {} layers of {} bytes do not fit an address space",
                         num_blocks, num_layers, layer_block_bytes);
  return size;
}

}  // namespace

KvBlocks::KvBlocks(MemoryPool pool, int max_blocks, int num_layers, size_t layer_block_bytes)
    : pool_(std::move(pool)),
      max_blocks_(max_blocks),
      num_layers_(num_layers),
      layer_block_bytes_(layer_block_bytes) {}

Result<KvBlocks> KvBlocks::reserve(int max_blocks, int num_layers, size_t layer_block_bytes,
                                   DeviceLedger& ledger, int fd) {
  FASTEEP_TRY(const size_t size, total_bytes(max_blocks, num_layers, layer_block_bytes));
  FASTEEP_TRY(MemoryPool pool, MemoryPool::create(PoolTag::kKv, size, ledger, fd));
  return KvBlocks(std::move(pool), max_blocks, num_layers, layer_block_bytes);
}

Result<KvBlocks> KvBlocks::create(int num_blocks, int num_layers, size_t layer_block_bytes,
                                  DeviceLedger& ledger) {
  FASTEEP_TRY(KvBlocks blocks, reserve(num_blocks, num_layers, layer_block_bytes, ledger));
  FASTEEP_TRY_VOID(blocks.set_num_blocks(num_blocks));
  return blocks;
}

Result<void> KvBlocks::set_num_blocks(int num_blocks) {
  CHECK(num_blocks >= 0 && num_blocks <= max_blocks_, "{} KV blocks of at most {}", num_blocks,
        max_blocks_);
  const size_t before = static_cast<size_t>(num_blocks_) * block_bytes();
  const size_t after = static_cast<size_t>(num_blocks) * block_bytes();
  if (after > before) {
    const Result<void> committed = pool_.commit(before, after - before);
    if (!committed) {
      release_behind(before);
      return committed.error().with("{} KV blocks of {} bytes", num_blocks, block_bytes());
    }
  } else {
    release_behind(after);
  }
  num_blocks_ = num_blocks;
  return {};
}

void KvBlocks::release_behind(size_t size) { pool_.release(size, pool_.reserved_bytes() - size); }

int KvBlocks::num_blocks() const { return num_blocks_; }
size_t KvBlocks::block_bytes() const {
  return static_cast<size_t>(num_layers_) * layer_block_bytes_;
}
size_t KvBlocks::committed_bytes() const { return pool_.committed_bytes(); }

std::byte* KvBlocks::layer_data(BlockId block, int layer_index) const {
  CHECK(block.value >= 0 && block.value < num_blocks_, "KV block {} of {}", block, num_blocks_);
  CHECK(layer_index >= 0 && layer_index < num_layers_, "layer {} of {}", layer_index, num_layers_);
  return pool_.base() + static_cast<size_t>(block.value) * block_bytes() +
         static_cast<size_t>(layer_index) * layer_block_bytes_;
}

}  // namespace fasteep
