// inspect: what a model file holds, and what it takes to run it.
#include "cli/inspect/inspect_program.h"

int main(int argc, char** argv) { return vesper::inspect_main(argc, argv); }
