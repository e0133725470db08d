#include "llm/weights/hugging_face/mlx_quantization.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "error/error.h"
#include "llm/files/json_file.h"

namespace vesper {
namespace {

using nlohmann::json;

constexpr std::string_view kWeight = ".weight", kScales = ".scales", kBiases = ".biases";

struct Quantization {
  uint32_t group = 0, bits = 0;
};

std::optional<DType> affine_dtype(uint32_t bits) {
  switch (bits) {
    case 2:
      return DType::kAffine2;
    case 3:
      return DType::kAffine3;
    case 4:
      return DType::kAffine4;
    case 5:
      return DType::kAffine5;
    case 6:
      return DType::kAffine6;
    case 8:
      return DType::kAffine8;
    default:
      return std::nullopt;
  }
}

class Joiner {
 public:
  Joiner(const std::string& config_name, const json& quantization, ModelContents& contents)
      : config_name_(config_name), quantization_(quantization), contents_(contents) {
    for (const TensorView& tensor : contents.tensors) tensors_[tensor.file_name] = &tensor;
  }

  void join() {
    const Quantization common = read(quantization_, "quantization");
    std::vector<TensorView> joined;
    std::set<std::string> used;
    std::erase_if(contents_.unreadable, [&](const UnreadableTensor& words) {
      if (words.format != "U32" || !words.name.ends_with(kWeight)) return false;
      const std::string module = words.name.substr(0, words.name.size() - kWeight.size());
      const std::string scales = module + std::string(kScales);
      const std::string biases = module + std::string(kBiases);
      Quantization own = common;
      if (const json* member = find_member(quantization_, module.c_str());
          member != nullptr && member->is_object()) {
        own = read(*member, module);
      }
      joined.push_back(matrix(words, own, find(words, scales), find(words, biases)));
      used.insert(scales);
      used.insert(biases);
      return true;
    });
    std::erase_if(contents_.tensors,
                  [&](const TensorView& tensor) { return used.count(tensor.file_name) != 0; });
    for (TensorView& tensor : joined) contents_.tensors.push_back(std::move(tensor));
  }

 private:
  [[noreturn]] void fail(const std::string& tensor, const std::string& message) const {
    throw Error(ErrorKind::kModel,
                contents_.files.front()->name() + ": tensor " + tensor + ": " + message);
  }

  Quantization read(const json& object, const std::string& where) const {
    const Quantization found{count_member(config_name_, object, "group_size"),
                             count_member(config_name_, object, "bits")};
    if (!affine_dtype(found.bits) ||
        (found.group != 32 && found.group != 64 && found.group != 128)) {
      throw Error(ErrorKind::kModel,
                  config_name_ + ": " + where +
                      ": expected bits 2, 3, 4, 5, 6 or 8 and group_size 32, 64 or 128, found " +
                      std::to_string(found.bits) + " and " + std::to_string(found.group));
    }
    return found;
  }

  const TensorView& find(const UnreadableTensor& words, const std::string& name) const {
    const auto at = tensors_.find(name);
    if (at == tensors_.end())
      fail(words.name, "expected a tensor " + name + " beside it, found none");
    return *at->second;
  }

  TensorView matrix(const UnreadableTensor& words, const Quantization& is, const TensorView& scales,
                    const TensorView& biases) const {
    if (words.shape.size() != 2 || words.shape[0] == 0 || words.shape[1] == 0 ||
        words.shape[1] > UINT32_MAX / 32 || words.shape[0] > UINT32_MAX) {
      fail(words.name, "expected a matrix of words, found shape " + shape_text(words.shape));
    }
    const uint64_t bits = words.shape[1] * 32;
    if (bits % is.bits != 0 || bits / is.bits % is.group != 0) {
      fail(words.name, "expected rows of whole groups of " + std::to_string(is.group) +
                           " codes of " + std::to_string(is.bits) + " bits, found rows of " +
                           std::to_string(words.shape[1]) + " words");
    }
    TensorView tensor;
    tensor.name = tensor.file_name = words.name;
    tensor.dtype = *affine_dtype(is.bits);
    tensor.shape = {words.shape[0], bits / is.bits};
    tensor.data = words.data;
    tensor.bytes = words.shape[0] * words.shape[1] * 4;
    if (words.bytes != tensor.bytes) {
      fail(words.name, "expected " + std::to_string(tensor.bytes) + " bytes by its shape, found " +
                           std::to_string(words.bytes));
    }
    const std::vector<uint64_t> shape{words.shape[0], tensor.shape[1] / is.group};
    for (const TensorView* part : {&scales, &biases}) {
      if (part->shape != shape || part->dtype != scales.dtype ||
          (part->dtype != DType::kF32 && part->dtype != DType::kF16 &&
           part->dtype != DType::kBF16)) {
        fail(part->file_name, "expected shape " + shape_text(shape) +
                                  " of f32, f16 or bf16 as the scales of " + words.name +
                                  ", found " + shape_text(part->shape) + " of " +
                                  dtype_descriptor(part->dtype).name);
      }
    }
    tensor.groups = {is.group, scales.dtype, scales.data, biases.data};
    return tensor;
  }

  const std::string& config_name_;
  const json& quantization_;
  ModelContents& contents_;
  std::map<std::string, const TensorView*> tensors_;  // by the file's name
};

}  // namespace

void join_mlx_tensors(const std::string& config_name, const json& config, ModelContents& contents) {
  const json* quantization = find_member(config, "quantization");
  if (quantization == nullptr || !quantization->is_object() ||
      find_member(*quantization, "group_size") == nullptr || contents.files.empty()) {
    return;
  }
  Joiner(config_name, *quantization, contents).join();
}

}  // namespace vesper
