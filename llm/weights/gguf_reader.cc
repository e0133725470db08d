#include "llm/weights/gguf_reader.h"

#include <charconv>

#include "error/error.h"
#include "llm/tokenizer/byte_level.h"
#include "llm/weights/language_model_files.h"
#include "llm/weights/text_encoder_model.h"

namespace vesper {
namespace {

// tokenizer.ggml.token_type: what kind of token one is.
constexpr int64_t kNormalToken = 1;
constexpr int64_t kByteToken = 6;

std::string bytes_of_sentence_piece(std::string_view spelling) {
  constexpr std::string_view kSpace = "\xe2\x96\x81";
  std::string bytes;
  while (!spelling.empty()) {
    const bool is_space = spelling.starts_with(kSpace);
    bytes += is_space ? ' ' : spelling.front();
    spelling.remove_prefix(is_space ? kSpace.size() : 1);
  }
  return bytes;
}

// "<0x0A>" is byte 10; what is not spelt so stays as it is.
std::string bytes_of_byte_token(std::string_view spelling) {
  unsigned value = 0;
  if (spelling.size() == 6 && spelling.starts_with("<0x") && spelling.back() == '>') {
    const char* end = spelling.data() + 5;
    const auto [stop, error] = std::from_chars(spelling.data() + 3, end, value, 16);
    if (error == std::errc() && stop == end) return {static_cast<char>(value)};
  }
  return std::string(spelling);
}

}  // namespace

std::vector<std::string> gguf_vocabulary(const Gguf& gguf) {
  std::vector<std::string> vocabulary;
  const GgufValue* tokens = gguf.find("tokenizer.ggml.tokens");
  if (tokens == nullptr) return vocabulary;
  const auto model = gguf.find_string("tokenizer.ggml.model").value_or("");
  const bool is_byte_level = model == "gpt2";
  const bool is_sentence_piece = model == "llama";
  const GgufValue* types = gguf.find("tokenizer.ggml.token_type");
  GgufElements next_type(types == nullptr ? GgufValue{} : *types);
  GgufElements next_token(*tokens);
  GgufValue token;
  GgufValue type;
  while (next_token.next(token)) {
    const std::string_view spelling = token.as_string().value_or("");
    const int64_t kind =
        next_type.next(type) ? type.as_signed().value_or(kNormalToken) : kNormalToken;
    if (kind == kByteToken) {
      vocabulary.push_back(bytes_of_byte_token(spelling));
    } else if (kind == kNormalToken && is_byte_level) {
      vocabulary.push_back(bytes_of_byte_level(spelling));
    } else if (kind == kNormalToken && is_sentence_piece) {
      vocabulary.push_back(bytes_of_sentence_piece(spelling));
    } else {
      vocabulary.emplace_back(spelling);
    }
  }
  return vocabulary;
}

ModelContents read_gguf(const ModelFiles& files, std::shared_ptr<const MappedFile> file) {
  auto gguf = std::make_shared<const Gguf>(read_gguf_files(files, std::move(file)));
  if (!gguf->problems.empty()) throw Error(ErrorKind::kModel, gguf->problems.front());
  ModelContents contents;
  contents.format = "gguf";
  contents.family = gguf->find_string("general.architecture").value_or("");
  contents.files = gguf->files;
  for (const GgufTensor& from : gguf->tensors) {
    const DTypeDescriptor* format = find_dtype(from.format);
    if (format == nullptr) {
      contents.unreadable.push_back(
          {from.name, from.format, from.shape, from.data.data(), from.bytes});
      continue;
    }
    TensorView tensor;
    tensor.name = from.name;
    tensor.file_name = from.name;
    tensor.dtype = format->dtype;
    tensor.shape = from.shape;
    tensor.data = from.data.data();
    tensor.bytes = from.bytes;
    contents.tensors.push_back(std::move(tensor));
  }
  read_gguf_text_encoder(contents.files.front()->name(), *gguf, contents);
  read_gguf_language_model(contents.files.front()->name(), *gguf, contents);
  contents.vocabulary = gguf_vocabulary(*gguf);
  contents.gguf = std::move(gguf);
  return contents;
}

}  // namespace vesper
