// Finds the reader of a file or folder by content.
#include <algorithm>

#include "error/error.h"
#include "error/number_text.h"
#include "llm/files/zip_directory.h"
#include "llm/tokenizer/files/open_text_tokenizer.h"
#include "llm/weights/gguf/gguf_reader.h"
#include "llm/weights/hugging_face/hugging_face_reader.h"
#include "llm/weights/weight_provider.h"
#include "llm/weights/whisper/ctranslate2_reader.h"
#include "llm/weights/whisper/ggml_reader.h"
#include "llm/weights/whisper/openai_reader.h"

namespace vesper {
namespace {

std::string first_bytes(const MappedFile& file) {
  if (file.bytes().empty()) return "an empty file";
  std::string text = "a file that begins";
  for (size_t i = 0; i < std::min<size_t>(file.bytes().size(), 8); ++i) {
    text += formatted(" %02x", file.bytes()[i]);
  }
  return text;
}

// `files` has the files that belong to `file`.
ModelContents read_contents(const ModelFiles& files, std::shared_ptr<const MappedFile> file) {
  if (is_ggml(*file)) return read_ggml(std::move(file));
  if (is_gguf(*file)) return read_gguf(files, std::move(file));
  if (is_ctranslate2(*file)) return read_ctranslate2(files, std::move(file));
  if (is_safetensors(*file)) {
    Safetensors safetensors;
    read_safetensors(std::move(file), safetensors);
    return read_hugging_face(files, std::move(safetensors));
  }
  if (is_zip(*file)) return read_openai(files, std::move(file));
  throw Error(ErrorKind::kModel,
              file->name() +
                  ": expected a model in GGUF, ggml, CTranslate2, safetensors or OpenAI's format, "
                  "found " +
                  first_bytes(*file));
}

ModelContents read_folder(const ModelFiles& files) {
  if (files.has("model.bin")) return read_contents(files, files.open("model.bin"));
  if (!files.names_ending_with(".safetensors").empty()) {
    return read_hugging_face(files, read_safetensors(files));
  }
  // GGUF, ggml and OpenAI's files have no fixed names. The first file of a split one leads to the
  // others.
  auto names = files.names_ending_with(".gguf");
  if (!names.empty() && names.front().find("-00001-of-") != std::string::npos) names.resize(1);
  for (const char* ending : {".bin", ".pt"}) {
    const auto others = files.names_ending_with(ending);
    names.insert(names.end(), others.begin(), others.end());
  }
  if (names.size() != 1) {
    throw Error(ErrorKind::kModel,
                files.folder().string() +
                    ": expected model.bin, *.safetensors, one *.gguf, *.bin or *.pt in "
                    "this folder, found " +
                    std::to_string(names.size()) + " of the last three");
  }
  return read_contents(files, files.open(names.front()));
}

}  // namespace

std::unique_ptr<WeightProvider> open_weights(const ModelFiles& files) {
  return std::make_unique<WeightProvider>(files.folder(), read_folder(files));
}

std::unique_ptr<WeightProvider> open_weights(std::shared_ptr<const MappedFile> file) {
  const std::filesystem::path path = file->name();
  const ModelFiles nothing_beside(path.parent_path(), {});
  return std::make_unique<WeightProvider>(path, read_contents(nothing_beside, std::move(file)));
}

std::unique_ptr<WeightProvider> open_weights(const std::filesystem::path& path,
                                             std::shared_ptr<const Gguf> gguf) {
  return std::make_unique<WeightProvider>(path, read_gguf(std::move(gguf)));
}

std::unique_ptr<WeightProvider> open_weights(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return open_weights(ModelFiles(path));
  auto file = std::make_shared<const MappedFile>(path);
  const ModelFiles beside(path.parent_path());
  return std::make_unique<WeightProvider>(path, read_contents(beside, std::move(file)));
}

std::unique_ptr<TextTokenizer> open_text_tokenizer(const WeightProvider& weights) {
  return weights.gguf() != nullptr ? open_text_tokenizer(weights.path(), *weights.gguf())
                                   : open_text_tokenizer(model_folder(weights.path()));
}

}  // namespace vesper
