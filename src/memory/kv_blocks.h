#pragma once
// The bytes of one rank's KV blocks, block-major in one pool: block b =
// [layers][layer_block_bytes]. Whole blocks can be copied between ranks. Their number changes while
// the rank serves.
#include <vector>

#include "base/ids.h"
#include "memory/pool.h"

namespace fasteep {

// Threads: the rank's step thread.
class KvBlocks {
 public:
  // Reserves addresses for max_blocks; none is there yet. fd: as in MemoryPool::create.
  static Result<KvBlocks> reserve(int max_blocks, int num_layers, size_t layer_block_bytes,
                                  DeviceLedger& ledger, int fd = -1);
  // The same, and all blocks are there.
  static Result<KvBlocks> create(int num_blocks, int num_layers, size_t layer_block_bytes,
                                 DeviceLedger& ledger);

  // Blocks [0, num_blocks) are there from now on, at their old addresses; what new ones hold is
  // any; memory is taken or given back in whole slabs. At most max_blocks(). On an error
  // (kExhausted) the number is as before. It takes about 0.1 ms a slab: change by little between
  // two steps.
  Result<void> set_num_blocks(int num_blocks);
  int num_blocks() const;
  int max_blocks() const { return max_blocks_; }
  const std::byte* base() const { return pool_.base(); }  // stays the same for life
  size_t block_bytes() const;
  size_t committed_bytes() const;
  std::byte* layer_data(BlockId block, int layer_index) const;  // this layer's part of a block

 private:
  void release_behind(size_t size);
  KvBlocks(MemoryPool pool, int max_blocks, int num_layers, size_t layer_block_bytes);
  MemoryPool pool_;
  int max_blocks_ = 0, num_blocks_ = 0, num_layers_ = 0;
  size_t layer_block_bytes_ = 0;
};

}  // namespace fasteep
