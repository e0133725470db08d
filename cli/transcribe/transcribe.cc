// transcribe: recordings to text and subtitles.
#include "cli/transcribe/transcribe_program.h"
#include "session/whisper_engine.h"

int main(int argc, char** argv) {
  return vesper::transcribe_main(argc, argv, vesper::load_whisper_engine);
}
