// Times the embedder on token ids, for bench/compare_embed.py.
//
//   embedding_bench MODEL COMPUTE THREADS IDS [BATCH_TOKENS]
//
// IDS has the token ids of one text per line. After loading and one run, prints "ready DIMENSIONS".
// For each line on standard input, embeds all texts and prints the seconds. At the end of the
// input, writes the vectors to IDS.f32.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "embedder/embedder.h"
#include "llm/devices/open_device.h"

namespace vesper {
namespace {

std::vector<std::vector<int32_t>> read_ids(const std::string& path) {
  std::vector<std::vector<int32_t>> texts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream numbers(line);
    std::vector<int32_t>& ids = texts.emplace_back();
    for (int32_t id = 0; numbers >> id;) ids.push_back(id);
  }
  return texts;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4 && arguments.size() != 5) {
    std::cerr << "usage: embedding_bench MODEL COMPUTE THREADS IDS [BATCH_TOKENS]\n";
    return 2;
  }
  DeviceOptions options;
  options.n_threads = static_cast<uint32_t>(std::stoul(arguments[2]));
  EmbedderOptions embedding;
  if (arguments.size() == 5) {
    embedding.batch_tokens = static_cast<uint32_t>(std::stoul(arguments[4]));
  }
  Embedder embedder(arguments[0], open_device("cpu", options), parse_compute(arguments[1]),
                    embedding);
  const auto texts = read_ids(arguments[3]);
  const std::vector<std::span<const int32_t>> spans(texts.begin(), texts.end());
  std::vector<float> vectors(texts.size() * embedder.dimensions());
  embedder.embed(spans, vectors.data());
  std::cout << "ready " << embedder.dimensions() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    embedder.embed(spans, vectors.data());
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::cout << elapsed.count() << std::endl;
  }
  std::ofstream(arguments[3] + ".f32", std::ios::binary)
      .write(reinterpret_cast<const char*>(vectors.data()),
             static_cast<std::streamsize>(vectors.size() * sizeof(float)));
  return 0;
}

}  // namespace
}  // namespace vesper

int main(int argc, char** argv) {
  try {
    return vesper::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "embedding_bench: " << error.what() << "\n";
    return 1;
  }
}
