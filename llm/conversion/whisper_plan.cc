#include "llm/conversion/whisper_plan.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "error/error.h"
#include "llm/tokenizer/whisper_tokens.h"
#include "llm/weights/model_check.h"
#include "llm/weights/model_families.h"
#include "llm/weights/tensor_names.h"

namespace vesper {
namespace {

constexpr uint32_t kGgmlMagic = 0x67676d6c;

constexpr uint32_t kBlockVersion = 2000;  // added to the type of files with blocks

// ggml's numbers of the type of a file, unlike those of tensors and of GGUF files.
constexpr std::array<std::pair<DType, uint32_t>, 12> kFileTypes = {{{DType::kF32, 0},
                                                                    {DType::kF16, 1},
                                                                    {DType::kQ4_0, 2},
                                                                    {DType::kQ4_1, 3},
                                                                    {DType::kQ8_0, 7},
                                                                    {DType::kQ5_0, 8},
                                                                    {DType::kQ5_1, 9},
                                                                    {DType::kQ2_K, 10},
                                                                    {DType::kQ3_K, 11},
                                                                    {DType::kQ4_K, 12},
                                                                    {DType::kQ5_K, 13},
                                                                    {DType::kQ6_K, 14}}};

class WhisperPlanner {
 public:
  WhisperPlanner(const WeightProvider& weights, const Mixture& mixture)
      : weights_(weights), model_(weights.config()), mixture_(mixture), dtype_(mixture.most) {}

  ConversionPlan plan(const std::vector<float>& mel_filters) {
    if (weights_.find("decoder.output.weight") != nullptr) {
      fail("an output matrix that is the embedding, found another one");
    }
    write_sizes();
    const std::vector<float>& filters =
        model_.mel_filters.empty() ? mel_filters : model_.mel_filters;
    put(model_.n_mels);
    put(kMelFilterBins);
    for (const float filter : filters) put(filter);
    write_vocabulary();
    for (const TensorView& tensor : weights_.tensors()) add(tensor);
    plan_.stated = model_;
    return std::move(plan_);
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw Error(ErrorKind::kModel, weights_.path().string() + ": expected " + expected);
  }

  template <typename T>
  void put(T value, std::string* to = nullptr) {
    static_assert(sizeof value == 4);
    std::array<char, 4> bytes{};
    std::memcpy(bytes.data(), &value, sizeof value);
    (to == nullptr ? plan_.head : *to).append(bytes.data(), bytes.size());
  }

  void write_sizes() {
    const auto* type = std::find_if(kFileTypes.begin(), kFileTypes.end(),
                                    [&](const auto& row) { return row.first == dtype_; });
    if (type == kFileTypes.end()) {
      fail(std::string("a type that whisper.cpp reads, found ") + dtype_descriptor(dtype_).name);
    }
    const StackConfig &encoder = model_.encoder(), &decoder = model_.decoder();
    const bool has_blocks = dtype_descriptor(dtype_).block > 1;
    for (const uint32_t size :
         {kGgmlMagic, model_.n_vocab, encoder.n_positions, encoder.d_model, encoder.n_heads,
          encoder.n_layers, decoder.n_positions, decoder.d_model, decoder.n_heads, decoder.n_layers,
          model_.n_mels, type->second + (has_blocks ? kBlockVersion : 0)}) {
      put(size);
    }
  }

  // Readers make the special tokens themselves.
  void write_vocabulary() {
    const std::vector<std::string>& tokens = weights_.vocabulary();
    const auto eot = static_cast<size_t>(WhisperTokens::of_vocabulary_size(model_.n_vocab).eot);
    const size_t n = std::min(tokens.size(), eot);
    if (n == 0) fail("a vocabulary beside the weights, found none");
    put(static_cast<uint32_t>(n));
    for (size_t id = 0; id < n; ++id) {
      put(static_cast<uint32_t>(tokens[id].size()));
      plan_.head += tokens[id];
    }
  }

  void add(const TensorView& tensor) {
    const auto named = file_tensor_name(*whisper_family().ggml_names, tensor.name);
    if (!named) {
      plan_.left_out.push_back(tensor.file_name);
      return;
    }
    PlannedTensor planned;
    planned.name = named->name;
    planned.shape = tensor.shape;
    planned.parts = {tensor};
    planned.wanted = planned.dtype = wanted_whisper_format(mixture_, tensor.name, tensor.shape);
    const DTypeDescriptor& format = dtype_descriptor(planned.dtype);
    if (planned.shape.back() % format.block != 0) {
      fail("rows of a multiple of " + std::to_string(format.block) + " for type " + format.name +
           ", found " + std::to_string(planned.shape.back()) + " in tensor " + tensor.file_name);
    }
    // The biases of convolutions are columns.
    if (tensor.name.find(".conv") != std::string::npos && tensor.shape.size() == 1) {
      planned.shape.push_back(1);
    }
    put(static_cast<uint32_t>(planned.shape.size()), &planned.before);
    put(static_cast<uint32_t>(planned.name.size()), &planned.before);
    put(static_cast<uint32_t>(format.ggml_type), &planned.before);
    for (size_t i = planned.shape.size(); i > 0; --i) {
      put(static_cast<uint32_t>(planned.shape[i - 1]), &planned.before);
    }
    planned.before += planned.name;
    plan_.tensors.push_back(std::move(planned));
  }

  const WeightProvider& weights_;
  const ModelConfig& model_;
  const Mixture& mixture_;
  DType dtype_;
  ConversionPlan plan_;
};

}  // namespace

ConversionPlan plan_whisper(const WeightProvider& weights, const Mixture& mixture,
                            const std::vector<float>& mel_filters) {
  return WhisperPlanner(weights, mixture).plan(mel_filters);
}

}  // namespace vesper
