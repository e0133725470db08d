// OpenAI's checkpoint of a Whisper model: a zip file with a pickle.
#include "tests/fuzz/models/whisper_files.h"

namespace vesper::fuzz {

std::vector<std::string> seeds() {
  const Files files = test::smallest_whisper().openai(DType::kF16);
  return {std::string(files.front()->text())};
}

void use(Bytes input) {
  use_whisper(*open_weights(std::make_shared<const MappedFile>(
      "tiny.pt", std::vector<uint8_t>(input.begin(), input.end()))));
}

}  // namespace vesper::fuzz
