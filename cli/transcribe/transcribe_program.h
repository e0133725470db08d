// `transcribe`: recordings in, transcripts out. All of it except the engine.
#pragma once

#include "session/transcription_engine.h"

namespace vesper {

// The whole program but for main(): reads the command line, finds the model, has `load` load it,
// and writes what the engine makes of each input. Returns the exit status, which of several
// failures is the first one's.
int transcribe_main(int argc, const char* const* argv, const EngineLoader& load);

}  // namespace vesper
