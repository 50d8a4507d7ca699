#pragma once
// The weights that every rank holds (attention, norms, routers, dense FFNs, embeddings, head),
// packed into one pool; and the packing of a single expert into its slot.
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/kernels.h"
#include "memory/expert_slots.h"
#include "memory/pool.h"
#include "model/weight_source.h"

namespace fasteep {

// Views into the pool. Norms and biases are float32 whatever the model's type.
struct LayerWeights {
  std::span<const float> input_norm, post_norm;  // [hidden]
  std::span<const float> q_norm, k_norm;         // [head_dim], empty without qk_norm
  PackedMatrix qkv;                              // [q, k, v outputs; hidden]
  std::span<const float> qkv_bias, o_bias;       // empty without attention_bias
  PackedMatrix o;                                // [hidden; heads * head_dim]
  PackedMatrix router;                           // MoE layers: float32 [experts; hidden]
  const std::byte* dense_ffn = nullptr;          // dense layers: pack_ffn's bytes
};

// Bytes of checkpoint tensors read so far and in all.
using LoadProgress = std::function<void(size_t done_bytes, size_t total_bytes)>;

// Exact bytes in the pool, before it rounds up to slabs. A pure function of its arguments: equal in
// every rank, so that the bytes can be copied from a peer.
size_t replicated_size_bytes(const ModelConfig& config, DType dtype);

// Threads: load on one thread; afterwards read-only, any.
class ReplicatedWeights {
 public:
  static Result<ReplicatedWeights> load(const WeightSource& source, DType dtype,
                                        DeviceLedger& ledger, const LoadProgress& progress = {});

  DType dtype() const { return dtype_; }
  const LayerWeights& layer(int index) const { return layers_[index]; }
  // One token's embedding: [hidden] of dtype.
  const std::byte* embedding_row(TokenId token) const;
  std::span<const float> final_norm() const { return final_norm_; }
  const PackedMatrix& lm_head() const { return lm_head_; }  // [vocab; hidden]
  std::span<const std::byte> bytes() const { return {pool_.base(), size_bytes_}; }
  size_t committed_bytes() const { return pool_.committed_bytes(); }

 private:
  ReplicatedWeights(MemoryPool pool, const ModelConfig& config, DType dtype);
  class Loader;

  MemoryPool pool_;
  DType dtype_;
  size_t row_bytes_ = 0;
  size_t size_bytes_ = 0;
  std::byte* embedding_ = nullptr;  // [vocab, hidden] of dtype
  std::span<const float> final_norm_;
  PackedMatrix lm_head_;
  std::vector<LayerWeights> layers_;
};

// Packs one expert into `destination` [ffn_size_bytes(config.expert_shape(dtype))], aligned to
// kPackAlignment. Any thread.
void load_expert(const WeightSource& source, DType dtype, ExpertKey key, std::byte* destination);
// Checkpoint bytes that load_expert reads.
size_t expert_source_bytes(const WeightSource& source);

}  // namespace fasteep
