#pragma once
// KV blocks of one rank: fixed number, reference-counted (prefix sharing), block-major in one pool:
// block b = [layers][layer_block_bytes]. Whole blocks can be copied between ranks.
#include <vector>

#include "base/ids.h"
#include "memory/pool.h"

namespace fasteep {

// Threads: the rank's step thread.
class KvBlocks {
 public:
  static Result<KvBlocks> create(int num_blocks, int num_layers, size_t layer_block_bytes,
                                 DeviceLedger& ledger);
  int num_blocks() const;
  size_t block_bytes() const;
  size_t committed_bytes() const;
  std::byte* layer_data(BlockId block, int layer_index) const;  // this layer's part of a block

 private:
  KvBlocks(MemoryPool pool, int num_blocks, int num_layers, size_t layer_block_bytes);
  MemoryPool pool_;
  int num_blocks_ = 0, num_layers_ = 0;
  size_t layer_block_bytes_ = 0;
};

}  // namespace fasteep
