#pragma once
// The program `fasteep`: its subcommands and nothing else. The only place that wires things.

namespace fasteep {

// Exit status: 0 done, 1 failed, 2 wrong usage, 3 served but lost a rank on the way.
int run_command_line(int argc, char** argv);

}  // namespace fasteep
