// Finds out by content which reader a file or a folder is for.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "error/error.h"
#include "llm/weights/ctranslate2_reader.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

std::string hex_of_first_bytes(const MappedFile& file) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(file.bytes().size(), 8); ++i) {
    char digits[4];
    std::snprintf(digits, sizeof digits, i == 0 ? "%02x" : " %02x", file.bytes()[i]);
    text += digits;
  }
  return text.empty() ? "an empty file" : "a file that begins " + text;
}

ModelContents read_contents(const ModelFiles& files, std::shared_ptr<const MappedFile> file) {
  if (is_ctranslate2(*file)) return read_ctranslate2(files, std::move(file));
  throw Error(ErrorKind::kModel, file->name() +
                                     ": expected a model in ggml, CTranslate2 or safetensors "
                                     "format, found " +
                                     hex_of_first_bytes(*file));
}

}  // namespace

std::unique_ptr<WeightProvider> open_weights(const ModelFiles& files) {
  return std::make_unique<WeightProvider>(files.folder(),
                                          read_contents(files, files.open("model.bin")));
}

std::unique_ptr<WeightProvider> open_weights(std::shared_ptr<const MappedFile> file) {
  const std::filesystem::path path = file->name();
  return std::make_unique<WeightProvider>(
      path, read_contents(ModelFiles(path.parent_path(), {}), std::move(file)));
}

std::unique_ptr<WeightProvider> open_weights(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return open_weights(ModelFiles(path));
  auto file = std::make_shared<const MappedFile>(path);
  // What belongs to a model of several files stands beside the one that was named.
  return std::make_unique<WeightProvider>(
      path, read_contents(ModelFiles(path.parent_path()), std::move(file)));
}

}  // namespace vesper
