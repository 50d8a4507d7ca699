#pragma once
// A background thread of a rank that fills memory which nobody uses yet: copies from the pools of
// peers, loads from the checkpoint. Limited, so that serving keeps its token latency.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "transport/descriptor.h"

namespace fasteep {

struct CopyPiece {
  int fd = -1;  // readable by position, alive until the job has finished
  size_t offset = 0;
  std::byte* destination = nullptr;
  size_t size = 0;
  std::optional<uint64_t> checksum;  // XXH3 of what must arrive
};

struct MoverJob {
  uint64_t ticket = 0;
  std::vector<CopyPiece> copies;
  // Run one by one after the copies, on the mover's thread (loading from the checkpoint). Each
  // returns the XXH3 of what it has filled.
  std::vector<std::function<Result<uint64_t>()>> loads;
};

struct FinishedJob {
  uint64_t ticket = 0;
  Result<void> result;              // kCancelled, kIo, kInvalidInput (a checksum differs)
  std::vector<uint64_t> checksums;  // of the copies, then the loads
  uint64_t bytes = 0;               // copied
};

// Threads: members on the owner's thread.
class Mover {
 public:
  // bytes_per_second: of copies, averaged over milliseconds; 0: half of what the machine copies,
  // measured as it goes. on_finished: called on the mover's thread; it wakes the owner.
  Mover(uint64_t bytes_per_second, std::function<void()> on_finished);
  ~Mover();  // cancels what is left and joins

  void start(MoverJob job);      // jobs run one after the other
  void cancel(uint64_t ticket);  // finishes soon as kCancelled, if it has not finished
  std::vector<FinishedJob> take_finished();
  bool is_idle() const;  // nothing runs, waits or is to be taken

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fasteep
