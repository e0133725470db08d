#include "llm/weights/whisper/ctranslate2_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "error/error.h"
#include "llm/files/byte_reader.h"
#include "llm/files/json_file.h"
#include "llm/weights/model_check.h"
#include "llm/weights/model_families.h"
#include "llm/weights/whisper/vocabulary_file.h"
#include "llm/weights/whisper/whisper_sizes.h"

namespace vesper {
namespace {

// Binary versions 4 to 6 have the same layout of variables. Older ones store only the width of a
// type.
constexpr uint32_t kOldestVersion = 4;
constexpr uint32_t kNewestVersion = 6;
constexpr uint8_t kMaxCtranslate2Rank = 8;
constexpr int64_t kGelu = 3;  // exact GELU with erf, in CTranslate2's list of activations

// By CTranslate2's type number.
constexpr DType kTypes[] = {DType::kF32, DType::kI8,  DType::kI16,
                            DType::kI32, DType::kF16, DType::kBF16};

struct Variable {
  std::string name;
  DType dtype;
  std::vector<uint64_t> shape;
  std::span<const uint8_t> data;
  uint64_t offset;  // of the data in the file
};

std::string read_name(ByteReader& reader, std::string_view what) {
  const auto length = reader.read<uint16_t>(what);
  if (length == 0) reader.fail("expected " + std::string(what) + ", found no bytes of it");
  std::string name = reader.read_name(length - 1u, what);
  if (reader.read<char>(what) != '\0') {
    reader.fail("expected " + std::string(what) + " that ends with a NUL byte");
  }
  return name;
}

class Ctranslate2Reader {
 public:
  Ctranslate2Reader(const ModelFiles& files, std::shared_ptr<const MappedFile> model)
      : files_(files), model_(std::move(model)) {}

  ModelContents read() {
    contents_.format = "ctranslate2";
    contents_.family = "whisper";
    contents_.files = {model_};
    contents_.config = start_config(whisper_family());
    read_variables();
    check_architecture();
    for (const Variable& variable : variables_) add_tensors(variable);
    read_neighbours();
    complete_whisper_sizes(model_->name(), contents_);
    check_model(model_->name(), contents_);
    return std::move(contents_);
  }

 private:
  [[noreturn]] void fail(const Variable& variable, const std::string& message) const {
    fail_at(model_->name(), variable.offset, "variable " + variable.name + ": " + message);
  }

  void read_variables() {
    ByteReader reader(*model_);
    const auto version = reader.read<uint32_t>("the binary version");
    if (version < kOldestVersion || version > kNewestVersion) {
      reader.fail("expected a CTranslate2 binary of version 4 to 6, found version " +
                  std::to_string(version));
    }
    const std::string specification = read_name(reader, "the specification's name");
    if (specification != "WhisperSpec") {
      reader.fail("expected a model of WhisperSpec, found " + specification);
    }
    reader.read<uint32_t>("the specification's revision");
    const auto n_variables = reader.read<uint32_t>("the number of variables");
    for (uint32_t i = 0; i < n_variables; ++i) read_variable(reader);
    const auto n_aliases = reader.read<uint32_t>("the number of aliases");
    for (uint32_t i = 0; i < n_aliases; ++i) {
      std::string alias = read_name(reader, "an alias");
      const std::string target = read_name(reader, "an alias's variable");
      const Variable* variable = find(target);
      if (variable == nullptr) {
        reader.fail("expected alias " + alias + " to name a variable, found " + target);
      }
      aliases_.emplace(std::move(alias), static_cast<size_t>(variable - variables_.data()));
    }
    if (reader.remaining() != 0) {
      reader.fail("expected the end of the file, found " + std::to_string(reader.remaining()) +
                  " more bytes");
    }
  }

  void read_variable(ByteReader& reader) {
    Variable variable;
    variable.name = read_name(reader, "a variable's name");
    const auto rank = reader.read<uint8_t>("a variable's rank");
    if (rank > kMaxCtranslate2Rank) {
      reader.fail("variable " + variable.name + ": expected at most " +
                  std::to_string(kMaxCtranslate2Rank) + " dimensions, found " +
                  std::to_string(rank));
    }
    uint64_t n = 1;
    for (uint8_t axis = 0; axis < rank; ++axis) {
      variable.shape.push_back(reader.read<uint32_t>("a variable's dimensions"));
      if (__builtin_mul_overflow(n, variable.shape.back(), &n)) {
        reader.fail("variable " + variable.name + ": its dimensions overflow 64 bits");
      }
    }
    const auto type = reader.read<uint8_t>("a variable's type");
    if (type >= std::size(kTypes)) {
      reader.fail("variable " + variable.name + ": expected a type from 0 to 5, found " +
                  std::to_string(type));
    }
    variable.dtype = kTypes[type];
    const auto n_bytes = reader.read<uint32_t>("a variable's size");
    if (n_bytes != dtype_bytes(variable.dtype, n)) {
      reader.fail("variable " + variable.name + ": expected " +
                  std::to_string(dtype_bytes(variable.dtype, n)) +
                  " bytes by its dimensions, found a size of " + std::to_string(n_bytes));
    }
    variable.offset = reader.offset();
    variable.data = reader.take(n_bytes, "variable " + variable.name);
    const size_t place = variables_.size();
    if (!by_name_.emplace(variable.name, place).second) {
      reader.fail("expected one variable " + variable.name + ", found two");
    }
    variables_.push_back(std::move(variable));
  }

  const Variable* find(const std::string& name) const {
    if (const auto found = by_name_.find(name); found != by_name_.end()) {
      return &variables_[found->second];
    }
    const auto alias = aliases_.find(name);
    return alias == aliases_.end() ? nullptr : &variables_[alias->second];
  }

  // The value of an integer scalar, or `absent`.
  int64_t integer(const std::string& name, int64_t absent) const {
    const Variable* variable = find(name);
    if (variable == nullptr) return absent;
    if (variable->shape.empty()) {
      int16_t i16 = 0;
      int32_t i32 = 0;
      switch (variable->dtype) {
        case DType::kI8:
          return static_cast<int8_t>(variable->data[0]);
        case DType::kI16:
          std::memcpy(&i16, variable->data.data(), sizeof i16);
          return i16;
        case DType::kI32:
          std::memcpy(&i32, variable->data.data(), sizeof i32);
          return i32;
        default:
          break;
      }
    }
    fail(*variable, "expected an integer scalar");
  }

  void expect_integer(const std::string& name, int64_t expected, const char* meaning) const {
    const int64_t found = integer(name, expected);
    if (found != expected) {
      fail(*find(name), "expected " + std::to_string(expected) + " (" + meaning + "), found " +
                            std::to_string(found));
    }
  }

  // All Whisper models have this architecture; another one would give wrong results.
  void check_architecture() {
    for (StackConfig& stack : contents_.config->stacks) {
      const std::string part(stack.name);
      const int64_t n_heads = integer(part + "/num_heads", 0);
      if (n_heads <= 0) {
        throw Error(ErrorKind::kModel, model_->name() + ": expected " + part +
                                           "/num_heads above 0, found " + std::to_string(n_heads));
      }
      stack.n_heads = static_cast<uint32_t>(n_heads);
      expect_integer(part + "/pre_norm", 1, "norms before the layers");
      expect_integer(part + "/activation", kGelu, "GELU");
      expect_integer(part + "/alibi", 0, "no position bias");
      expect_integer(part + "/scale_embeddings", 0, "embeddings as they are");
    }
  }

  // 1 / stored for every row: the file has weight = i8 / stored.
  std::vector<float> scales_of(const Variable& variable) const {
    const Variable* stored = find(variable.name + "_scale");
    if (variable.dtype != DType::kI8 || variable.shape.empty() || stored == nullptr) return {};
    uint64_t n = 1;
    for (const uint64_t size : stored->shape) n *= size;
    if (stored->dtype != DType::kF32 || n != variable.shape[0]) {
      fail(*stored, "expected " + std::to_string(variable.shape[0]) +
                        " f32 scales, one for each row of " + variable.name);
    }
    std::vector<float> scales(n);
    std::memcpy(scales.data(), stored->data.data(), stored->data.size());
    for (float& scale : scales) {
      if (!std::isfinite(scale) || scale == 0.0f) {
        fail(*stored, "expected finite scales other than 0, found " + std::to_string(scale));
      }
      scale = 1.0f / scale;
    }
    return scales;
  }

  // A fused bias has zeros for keys, which have no bias.
  static bool is_zero(std::span<const uint8_t> data) {
    return std::all_of(data.begin(), data.end(), [](uint8_t byte) { return byte == 0; });
  }

  void add_tensors(const Variable& variable) {
    const auto names = canonical_names(*whisper_family().ctranslate2_names, variable.name);
    const uint64_t n_parts = std::max<size_t>(names.size(), 1);
    if (n_parts > 1 && (variable.shape.empty() || variable.shape[0] % n_parts != 0)) {
      fail(variable, "expected rows for " + std::to_string(n_parts) + " equal parts");
    }
    const std::vector<float> scales = scales_of(variable);
    for (uint64_t part = 0; part < n_parts; ++part) {
      TensorView tensor;
      tensor.name = names.empty() ? variable.name : names[part];
      tensor.file_name = variable.name;
      tensor.dtype = variable.dtype;
      tensor.shape = variable.shape;
      if (n_parts > 1) tensor.shape[0] /= n_parts;
      tensor.bytes = variable.data.size() / n_parts;
      const auto data = variable.data.subspan(part * tensor.bytes, tensor.bytes);
      tensor.data = data.data();
      if (tensor.name.ends_with(".k.bias") && is_zero(data)) continue;
      if (!scales.empty()) {
        const auto first = scales.begin() + static_cast<std::ptrdiff_t>(part * tensor.shape[0]);
        tensor.scale.assign(first, first + static_cast<std::ptrdiff_t>(tensor.shape[0]));
      }
      contents_.tensors.push_back(std::move(tensor));
    }
  }

  void read_neighbours() {
    ModelConfig& model = *contents_.config;
    if (files_.has("config.json")) {
      const auto file = files_.open("config.json");
      const auto config = parse_json(*file);
      model.alignment_heads = pair_list(file->name(), config, "alignment_heads");
      model.suppress_tokens = id_list(file->name(), config, "suppress_ids");
      model.suppress_tokens_at_begin = id_list(file->name(), config, "suppress_ids_begin");
    }
    if (files_.has("preprocessor_config.json")) {
      const auto file = files_.open("preprocessor_config.json");
      model.n_mels = count_member(file->name(), parse_json(*file), "feature_size");
    }
    contents_.vocabulary = read_ctranslate2_vocabulary(files_);
  }

  const ModelFiles& files_;
  std::shared_ptr<const MappedFile> model_;
  ModelContents contents_;
  std::vector<Variable> variables_;
  std::unordered_map<std::string, size_t> by_name_;
  std::unordered_map<std::string, size_t> aliases_;
};

}  // namespace

bool is_ctranslate2(const MappedFile& file) {
  // u32 version, u16 length of a name, the name with its terminating zero.
  const auto bytes = file.bytes();
  if (bytes.size() < 6) return false;
  uint32_t version = 0;
  uint16_t length = 0;
  std::memcpy(&version, bytes.data(), sizeof version);
  std::memcpy(&length, bytes.data() + 4, sizeof length);
  if (version == 0 || version > 255 || length < 2 || length > 255) return false;
  if (bytes.size() < 6u + length || bytes[5u + length] != 0) return false;
  return std::all_of(bytes.begin() + 6, bytes.begin() + 5 + length,
                     [](uint8_t c) { return c > 0x20 && c < 0x7f; });
}

ModelContents read_ctranslate2(const ModelFiles& files, std::shared_ptr<const MappedFile> model) {
  return Ctranslate2Reader(files, std::move(model)).read();
}

}  // namespace vesper
