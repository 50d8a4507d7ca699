#pragma once
// Settings of the engine: the model, its ranks and their memory, the scheduler's limits.
#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/settings.h"

namespace fasteep {

struct EngineOptions {
  // Not settings: wired by the program.
  std::string model;                            // folder
  std::string rank_program = "/proc/self/exe";  // run as `PROGRAM rank --control-fd N`

  int usable_vocab = 0;  // ids from here on are padding and never sampled; 0: all are usable

  std::string dtype = "auto";
  int num_ranks = 1;
  int max_ranks = 0;
  int num_redundant_experts = 0;
  int threads_per_rank = 0;
  bool pin_threads = true;
  int64_t device_memory = 0;
  int num_kv_blocks = 0;
  int block_size = 16;
  bool enable_prefix_caching = true;
  int max_model_len = 0;
  int max_num_seqs = 64;
  int max_num_batched_tokens = 512;
  int max_prefill_chunk = 0;
  int max_waiting_requests = 1024;
  std::string kernel_isa = "auto";

  template <class V>
  void visit(V& v) {
    v(dtype, "dtype", "type of weights, KV and the rows between ranks; auto: the checkpoint's",
      Choices{{"auto", "float32", "bfloat16"}});
    v(num_ranks, "data-parallel-size",
      "ranks; each holds a share of the experts and serves requests of its own",
      Range{1, kMaxRanks}, Aliases{{"ep-size"}});
    v(max_ranks, "max-ep-size", "ranks that there may ever be; 0: no more than at the start",
      Range{0, kMaxRanks});
    v(num_redundant_experts, "num-redundant-experts",
      "extra replicas of experts per layer, over all ranks", Range{0, 1 << 16});
    v(threads_per_rank, "threads-per-rank", "compute threads of a rank; 0: cores / ranks",
      Range{0, 256});
    v(pin_threads, "pin-threads", "bind each compute thread to a core while there are enough");
    v(device_memory, "device-memory",
      "memory of each rank; 0: a fair share of what is available, of which KV takes what "
      "max-num-seqs sequences can use",
      Bytes{});
    v(num_kv_blocks, "num-kv-blocks", "KV blocks of each rank; 0: what device-memory leaves",
      Range{0, 1 << 24}, Aliases{{"num-gpu-blocks-override"}});
    v(block_size, "block-size", "tokens of a KV block, a multiple of 16", Range{16, 256});
    v(enable_prefix_caching, "enable-prefix-caching", "reuse the KV of equal prompt beginnings");
    v(max_model_len, "max-model-len", "longest prompt and answer together; 0: the model's own",
      Range{0, 1 << 24});
    v(max_num_seqs, "max-num-seqs", "sequences of one rank's step", Range{1, 4096});
    v(max_num_batched_tokens, "max-num-batched-tokens", "rows of one rank's step", Range{1, 16384});
    v(max_prefill_chunk, "max-prefill-chunk",
      "rows of one prompt in one step; 0: max-num-batched-tokens", Range{0, 16384});
    v(max_waiting_requests, "max-waiting-requests",
      "requests of one rank that wait beside max-num-seqs; more are refused with 429",
      Range{0, 1 << 20});
    v(kernel_isa, "kernel-isa", "instruction set of the kernels; auto: the fastest here",
      Choices{{"auto", "portable", "avx2", "avx512", "avx512_bf16"}});
  }
};

}  // namespace fasteep
