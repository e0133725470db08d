// safetensors of a Whisper model, in one file and in two with an index, and the JSON files beside
// them.
#include "tests/fuzz/models/whisper_files.h"

namespace vesper::fuzz {
namespace {

const SoundFolders& sound() {
  static const SoundFolders folders({test::smallest_whisper().safetensors(DType::kF16),
                                     test::smallest_whisper().safetensors(DType::kF16, 2)});
  return folders;
}

}  // namespace

std::vector<std::string> seeds() { return sound().seeds(); }

void use(Bytes input) { use_whisper(*open_weights(sound().with(input))); }

}  // namespace vesper::fuzz
