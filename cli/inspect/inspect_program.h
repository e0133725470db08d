// `inspect`: a look inside any model.
#pragma once

namespace vesper {

// The whole program. Returns the exit status.
int inspect_main(int argc, const char* const* argv);

}  // namespace vesper
