// Keys and values of a prompt in a file.
#include "llm/cpu/cpu_device.h"
#include "llm/generation/generator.h"
#include "tests/fuzz/fuzz.h"

namespace vesper::fuzz {
namespace {

Generator& generator() {
  static const auto device = open_cpu_device({.n_threads = 1});
  static Generator generator = [] {
    GeneratorOptions options;
    options.n_ctx = 8;
    return Generator(*device, *open_weights(std::filesystem::path(LANGUAGE_MODELS) / "mistral"),
                     Compute::kF32, options);
  }();
  return generator;
}

void answer() {
  generator().start(0, std::vector<int32_t>{1, 2, 3, 4}, 2, Sampling{});
  while (generator().advance(1)) {
  }
}

}  // namespace

std::vector<std::string> seeds() {
  generator().forget(0);
  answer();
  const std::vector<std::byte> saved = generator().save(0);
  return {std::string(reinterpret_cast<const char*>(saved.data()), saved.size())};
}

void use(Bytes input) {
  generator().forget(0);
  generator().restore(0, std::as_bytes(input));
  answer();
  for (const int32_t id : generator().sampled(0)) {
    require(id >= 0 && static_cast<uint32_t>(id) < generator().n_vocab(), "an id out of range");
  }
}

}  // namespace vesper::fuzz
