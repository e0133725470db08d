// `generate` but for main().
#pragma once

namespace vesper {

// Runs the program and returns its exit status.
int generate_main(int argc, const char* const* argv);

}  // namespace vesper
