#include "cli/cli.h"

int main(int argc, char** argv) { return fasteep::run_command_line(argc, argv); }
