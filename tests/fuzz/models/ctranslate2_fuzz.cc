// CTranslate2's model.bin of a Whisper model, its config.json and its vocabulary.
#include "tests/fuzz/models/whisper_files.h"

namespace vesper::fuzz {
namespace {

const SoundFolders& sound() {
  static const SoundFolders folders({test::smallest_whisper().ctranslate2(DType::kI8)});
  return folders;
}

}  // namespace

std::vector<std::string> seeds() { return sound().seeds(); }

void use(Bytes input) { use_whisper(*open_weights(sound().with(input))); }

}  // namespace vesper::fuzz
