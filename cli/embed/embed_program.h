// `embed`: turns texts into vectors, and finds similar texts.
#pragma once

namespace vesper {

// The whole program. Returns the exit status.
int embed_main(int argc, const char* const* argv);

}  // namespace vesper
