#include "llm/conversion/adapters.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "error/error.h"
#include "llm/files/gguf_file.h"
#include "llm/files/json_file.h"
#include "llm/weights/hugging_face/safetensors.h"
#include "llm/weights/tensor_names.h"

namespace vesper {
namespace {

using nlohmann::json;

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kWeights = "adapter_model.safetensors";

// The two factors of a module, as in the file.
struct Module {
  TensorView a, b;
  bool is_embedding = false;
};

// Transposes [n_rows, n_columns].
std::vector<float> transposed(const std::vector<float>& values, uint64_t n_rows,
                              uint64_t n_columns) {
  std::vector<float> turned(values.size());
  for (uint64_t i = 0; i < n_rows; ++i) {
    for (uint64_t j = 0; j < n_columns; ++j) turned[j * n_rows + i] = values[i * n_columns + j];
  }
  return turned;
}

// Adds modules of one adapter to the changes of a model's tensors.
class AdapterReader {
 public:
  AdapterReader(std::string where, const WeightProvider& model, const TensorNaming& naming,
                bool is_interleaved)
      : where_(std::move(where)), model_(model), naming_(naming), is_interleaved_(is_interleaved) {}

  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::kModel, where_ + ": " + message);
  }

  // `name`: of the matrix, as the model's file format has it. A is [rank, columns], B [rows, rank].
  // `alpha`: 0 if the factors have their scale.
  void add(const std::string& name, const Module& module, bool is_gguf, double alpha,
           bool is_rank_stabilized, Adapter& adapter) const {
    LowRankChange change;
    change.left = module.b;
    change.right = module.a;
    if (module.is_embedding) {
      // A is [rank, n_vocab] in PEFT and [n_vocab, rank] in GGUF, B [d, rank]: the change of the
      // embedding [n_vocab, d] is the transposed product.
      change.left = module.a;
      change.is_left_transposed = !is_gguf;
      change.right = module.b;
      change.is_right_transposed = true;
    }
    for (const TensorView* factor : {&change.left, &change.right}) {
      if (factor->shape.size() == 2 && factor->n_elements() > 0 &&
          factor->shape.back() % row_unit(*factor) == 0 && !is_integer(factor->dtype) &&
          factor->dtype != DType::kI8) {
        continue;
      }
      fail("tensor " + factor->file_name + ": expected a matrix of numbers, found shape " +
           shape_text(factor->shape) + " in format " + dtype_descriptor(factor->dtype).name);
    }
    const auto& left = change.left.shape;
    const auto& right = change.right.shape;
    const uint64_t n_rows = left[change.is_left_transposed ? 1 : 0];
    change.rank = left[change.is_left_transposed ? 0 : 1];
    change.columns = right[change.is_right_transposed ? 0 : 1];
    if (right[change.is_right_transposed ? 1 : 0] != change.rank) {
      fail("expected factors of one rank, found " + change.left.file_name + " " + shape_text(left) +
           " and " + change.right.file_name + " " + shape_text(right));
    }
    const double rank = static_cast<double>(change.rank);
    change.scale = alpha == 0
                       ? 1.0f
                       : static_cast<float>(alpha / (is_rank_stabilized ? std::sqrt(rank) : rank));
    add_parts(name, change, n_rows, adapter);
  }

 private:
  void add_parts(const std::string& name, LowRankChange change, uint64_t n_rows,
                 Adapter& adapter) const {
    const std::vector<std::string> parts = canonical_names(naming_, name);
    const std::string factors = change.left.file_name + " " + shape_text(change.left.shape) +
                                " and " + change.right.file_name + " " +
                                shape_text(change.right.shape);
    std::vector<const TensorView*> tensors;
    uint64_t expected_rows = 0;
    for (const std::string& part : parts) {
      const TensorView* tensor = model_.find(part);
      if (tensor == nullptr || tensor->shape.size() != 2) tensors.clear();
      if (tensor == nullptr || tensor->shape.size() != 2) break;
      tensors.push_back(tensor);
      expected_rows += tensor->shape[0];
    }
    if (tensors.empty()) {
      fail("expected factors of matrices of the model, found " + factors + ": " +
           model_.path().string() + " has no matrix " + name);
    }
    const uint64_t columns = tensors[0]->shape[1];
    if (n_rows != expected_rows || change.columns != columns) {
      fail("expected factors of a matrix " + shape_text({expected_rows, columns}) + ", that of " +
           tensors[0]->file_name + " in " + model_.path().string() + ", found " + factors);
    }
    for (const TensorView* tensor : tensors) {
      if (tensor->name == "decoder.embed.weight" &&
          model_.find("decoder.output.weight") == nullptr) {
        fail("expected a model whose output matrix is not its embedding, because " +
             change.left.file_name + " changes only the embedding; found " +
             model_.path().string());
      }
      change.order = rotary_order(model_.config().decoder(), tensor->name, is_interleaved_,
                                  model_.config().decoder().interleaved_rope);
      if (!adapter.changes.emplace(tensor->name, change).second) {
        fail("expected one change of a matrix, found another: " + factors);
      }
      change.first_row += tensor->shape[0];
    }
  }

  std::string where_;
  const WeightProvider& model_;
  const TensorNaming& naming_;
  bool is_interleaved_;
};

double number_member(const std::string& name, const json& object, const char* key) {
  const json* member = find_member(object, key);
  const double number = member != nullptr && member->is_number() ? member->get<double>() : NAN;
  if (std::isfinite(number) && std::abs(number) > 0 && std::abs(number) < 1e9) return number;
  fail_in_file(name, std::string("expected ") + key + " to be a number other than 0, found " +
                         shown_json(member));
}

// What a LoRA adapter of PEFT states besides its factors.
class PeftConfig {
 public:
  PeftConfig(std::string name, const json& config) : name_(std::move(name)) {
    if (const std::string type = text_member(name_, config, "peft_type", ""); type != "LORA") {
      fail_in_file(name_, "expected peft_type LORA, found \"" + type.substr(0, 60) + "\"");
    }
    if (const std::string bias = text_member(name_, config, "bias", "none"); bias != "none") {
      fail_in_file(name_, "expected bias none, found \"" + bias.substr(0, 60) + "\"");
    }
    for (const char* key :
         {"use_dora", "fan_in_fan_out", "lora_bias", "use_qalora", "use_bdlora"}) {
      if (truth_member(name_, config, key, false)) {
        fail_in_file(name_, std::string("expected ") + key + " false, found true");
      }
    }
    for (const char* key : {"modules_to_save", "layer_replication", "target_parameters",
                            "alora_invocation_tokens", "trainable_token_indices"}) {
      const json* member = find_member(config, key);
      if (member == nullptr || member->empty()) continue;
      fail_in_file(name_, std::string("expected no ") + key + ", found " + shown_json(member));
    }
    is_rank_stabilized_ = truth_member(name_, config, "use_rslora", false);
    alpha_ = number_member(name_, config, "lora_alpha");
    const json* patterns = find_member(config, "alpha_pattern");
    if (patterns == nullptr) return;
    if (!patterns->is_object()) {
      fail_in_file(name_, "expected alpha_pattern to be an object, found " + shown_json(patterns));
    }
    for (const auto& [pattern, alpha] : patterns->items()) {
      const bool is_plain = std::all_of(pattern.begin(), pattern.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
      });
      if (!is_plain || pattern.empty()) {
        fail_in_file(name_, "expected names of modules in alpha_pattern, found " +
                                shown_json(&*patterns->find(pattern)) + " for \"" +
                                pattern.substr(0, 60) + "\"");
      }
      alphas_.emplace_back(pattern, number_member(name_, *patterns, pattern.c_str()));
    }
  }

  bool is_rank_stabilized() const { return is_rank_stabilized_; }
  // By the first pattern that is the name or ends it behind a dot.
  double alpha(const std::string& module) const {
    for (const auto& [pattern, alpha] : alphas_) {
      if (module == pattern || module.ends_with("." + pattern)) return alpha;
    }
    return alpha_;
  }

 private:
  std::string name_;
  bool is_rank_stabilized_ = false;
  double alpha_ = 1;
  std::vector<std::pair<std::string, double>> alphas_;
};

bool remove_suffix(std::string& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.resize(text.size() - suffix.size());
  return true;
}

// "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight", with the adapter's name in older
// files: "lora_A.default.weight".
bool add_peft_factor(const TensorView& tensor, std::map<std::string, Module>& modules) {
  constexpr std::string_view kPrefix = "base_model.model.";
  std::string name = tensor.file_name;
  if (!name.starts_with(kPrefix)) return false;
  name.erase(0, kPrefix.size());
  remove_suffix(name, ".weight");
  remove_suffix(name, ".default");
  for (const bool is_embedding : {false, true}) {
    const std::string stem = is_embedding ? ".lora_embedding_" : ".lora_";
    for (const bool is_a : {true, false}) {
      if (!remove_suffix(name, stem + (is_a ? "A" : "B"))) continue;
      Module& module = modules[name];
      module.is_embedding = is_embedding;
      (is_a ? module.a : module.b) = tensor;
      return true;
    }
  }
  return false;
}

bool add_gguf_factor(const TensorView& tensor, std::map<std::string, Module>& modules) {
  std::string name = tensor.file_name;
  const bool is_a = remove_suffix(name, ".lora_a");
  if (!is_a && !remove_suffix(name, ".lora_b")) return false;
  Module& module = modules[name];
  module.is_embedding = name == "token_embd.weight";
  (is_a ? module.a : module.b) = tensor;
  return true;
}

using AddFactor = bool (*)(const TensorView& tensor, std::map<std::string, Module>& modules);

std::map<std::string, Module> modules_of(const AdapterReader& reader,
                                         const std::vector<TensorView>& tensors,
                                         const std::vector<UnreadableTensor>& unreadable,
                                         AddFactor add_factor) {
  if (!unreadable.empty()) {
    reader.fail("expected tensor " + unreadable[0].name + " in a known format, found " +
                unreadable[0].format);
  }
  std::map<std::string, Module> modules;
  for (const TensorView& tensor : tensors) {
    if (add_factor(tensor, modules)) continue;
    reader.fail("expected only the factors of a LoRA adapter, found tensor " + tensor.file_name +
                " " + shape_text(tensor.shape));
  }
  if (modules.empty()) reader.fail("expected the factors of a LoRA adapter, found no tensor");
  for (const auto& [name, module] : modules) {
    const bool has_a = !module.a.file_name.empty(), has_b = !module.b.file_name.empty();
    if (has_a && has_b) continue;
    reader.fail("expected two factors of " + name + ", found only " +
                (has_a ? module.a : module.b).file_name);
  }
  return modules;
}

[[noreturn]] void fail_without_names(const std::string& where, const WeightProvider& model) {
  throw Error(ErrorKind::kModel, where + ": expected a model whose family has names in the " +
                                     "adapter's format, found family " +
                                     std::string(model.family()));
}

}  // namespace

LowRankChange::Factors LowRankChange::read() const {
  Factors factors{read_f32(left), read_f32(right)};
  if (is_left_transposed) factors.left = transposed(factors.left, left.shape[0], left.shape[1]);
  if (is_right_transposed)
    factors.right = transposed(factors.right, right.shape[0], right.shape[1]);
  return factors;
}

void LowRankChange::add(const Factors& factors, uint64_t first, uint64_t n, float* rows) const {
  for (uint64_t i = 0; i < n; ++i, rows += columns) {
    const float* weights = factors.left.data() + (first_row + order.source_of(first + i)) * rank;
    for (uint64_t k = 0; k < rank; ++k) {
      const float weight = scale * weights[k];
      const float* row = factors.right.data() + k * columns;
      for (uint64_t j = 0; j < columns; ++j) rows[j] += weight * row[j];
    }
  }
}

Adapter read_peft_adapter(const ModelFiles& files, const WeightProvider& model) {
  const auto config_file = files.open(kConfig);
  const PeftConfig config(config_file->name(), parse_json(*config_file));
  const auto file = files.open(kWeights);
  if (!is_safetensors(*file)) fail_in_file(file->name(), "expected a safetensors file");
  Safetensors tensors;
  read_safetensors(file, tensors);
  const ModelFamily* family = hugging_face_family(model);
  const TensorNaming* naming = family == nullptr ? nullptr : family->hugging_face_names;
  if (naming == nullptr) fail_without_names(file->name(), model);
  const AdapterReader reader(file->name(), model, *naming, family->interleaved_rope);
  Adapter adapter{std::move(tensors.files), {}};
  for (const auto& [name, module] :
       modules_of(reader, tensors.tensors, tensors.unreadable, add_peft_factor)) {
    reader.add(name + ".weight", module, false, config.alpha(name), config.is_rank_stabilized(),
               adapter);
  }
  return adapter;
}

Adapter read_gguf_adapter(std::shared_ptr<const MappedFile> file, const WeightProvider& model) {
  const std::string where = file->name();
  const Gguf gguf = read_gguf_files(ModelFiles({}, {}), std::move(file));
  if (!gguf.problems.empty()) throw Error(ErrorKind::kModel, gguf.problems.front());
  const auto expect = [&](const char* key, std::string_view expected) {
    const std::string found(gguf.find_string(key).value_or("none"));
    if (found == expected) return;
    fail_in_file(where, std::string("expected ") + key + " " + std::string(expected) + ", found " +
                            found.substr(0, 60));
  };
  expect("general.type", "adapter");
  expect("adapter.type", "lora");
  const ModelFamily* family = gguf_family(model);
  if (family == nullptr || family->gguf_names == nullptr) fail_without_names(where, model);
  expect("general.architecture", family->gguf);
  const double alpha = gguf.find_number("adapter.lora.alpha").value_or(0);
  if (!std::isfinite(alpha) || std::abs(alpha) > 1e9) {
    fail_in_file(where, "expected a number for adapter.lora.alpha, found " + std::to_string(alpha));
  }
  std::vector<TensorView> tensors;
  std::vector<UnreadableTensor> unreadable;
  for (const GgufTensor& from : gguf.tensors) {
    const DTypeDescriptor* format = find_dtype(from.format);
    if (format == nullptr) {
      unreadable.push_back({from.name, from.format});
      continue;
    }
    TensorView& tensor = tensors.emplace_back();
    tensor.name = tensor.file_name = from.name;
    tensor.dtype = format->dtype;
    tensor.shape = from.shape;
    tensor.data = from.data.data();
    tensor.bytes = from.bytes;
  }
  const AdapterReader reader(where, model, *family->gguf_names,
                             family->interleaved_rope || family->gguf_interleaved_rope);
  Adapter adapter{gguf.files, {}};
  for (const auto& [name, module] : modules_of(reader, tensors, unreadable, add_gguf_factor)) {
    reader.add(name, module, true, alpha, false, adapter);
  }
  return adapter;
}

Adapter read_adapter(const std::filesystem::path& path, const WeightProvider& model) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return read_peft_adapter(ModelFiles(path), model);
  auto file = std::make_shared<const MappedFile>(path);
  if (is_gguf(*file)) return read_gguf_adapter(std::move(file), model);
  if (is_safetensors(*file) && path.filename() == kWeights) {
    return read_peft_adapter(model_folder(path), model);
  }
  throw Error(ErrorKind::kModel, path.string() + ": expected a folder with " + kConfig + " and " +
                                     kWeights + ", or a GGUF adapter");
}

}  // namespace vesper
