// `embed`: texts to vectors, and what is most like what.
#pragma once

namespace vesper {

// The whole program. Returns the exit status.
int embed_main(int argc, const char* const* argv);

}  // namespace vesper
