// whisper.cpp's ggml file of a Whisper model.
#include "tests/fuzz/models/whisper_files.h"

namespace vesper::fuzz {

std::vector<std::string> seeds() {
  const Files files = test::smallest_whisper().ggml(DType::kF16);
  return {std::string(files.front()->text())};
}

void use(Bytes input) {
  use_whisper(*open_weights(std::make_shared<const MappedFile>(
      "ggml.bin", std::vector<uint8_t>(input.begin(), input.end()))));
}

}  // namespace vesper::fuzz
