#pragma once
// The worker process. One step thread does everything: reads control messages, serves the calls of
// other ranks, runs steps; the compute threads only help inside kernels.

namespace fasteep {

// Runs until the controller says stop or is gone. control_fd: the rank's end of its control socket,
// taken over. Returns the exit status: 0 stopped or the controller is gone, 1 failed (the
// controller was told why).
int run_rank(int control_fd);

}  // namespace fasteep
