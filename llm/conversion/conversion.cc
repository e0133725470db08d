#include "llm/conversion/conversion.h"

#include <algorithm>

#include "error/error.h"
#include "llm/chat/chat_template.h"
#include "llm/conversion/gguf_keys.h"
#include "llm/files/gguf_file.h"
#include "llm/files/gguf_writer.h"
#include "llm/generation/sampling_defaults.h"
#include "llm/weights/model_families.h"
#include "llm/weights/name_tensors.h"
#include "llm/weights/tensor_names.h"

namespace vesper {
namespace {

// Facts about the tensors of one GGUF file, which the new file does not repeat.
bool is_of_old_file(std::string_view key) {
  return key == "general.alignment" || key == "general.file_type" ||
         key == "general.quantization_version" || key.starts_with("split.") ||
         key.starts_with("quantize.");
}

// A GGUF model keeps its names, shapes and metadata.
void copy_gguf(const WeightProvider& weights, ConversionPlan& plan, GgufWriter& writer) {
  const Gguf& gguf = *weights.gguf();
  for (const GgufEntry& entry : gguf.metadata) {
    if (!is_of_old_file(entry.key)) writer.add(entry);
  }
  for (const GgufTensor& from : gguf.tensors) {
    const DTypeDescriptor* format = find_dtype(from.format);
    if (format == nullptr) {
      throw Error(ErrorKind::kModel, weights.path().string() + ": expected tensor " + from.name +
                                         " in a known format, found " + from.format);
    }
    if (format->ggml_type < 0 || from.n_elements == 0) {
      throw Error(ErrorKind::kModel, weights.path().string() + ": expected tensor " + from.name +
                                         " to hold weights, found shape " + shape_text(from.shape) +
                                         " in format " + from.format);
    }
    PlannedTensor& tensor = plan.tensors.emplace_back();
    tensor.name = from.name;
    tensor.shape = from.shape;
    TensorView& part = tensor.parts.emplace_back();
    part.name = part.file_name = from.name;
    part.dtype = format->dtype;
    part.shape = from.shape;
    part.data = from.data.data();
    part.bytes = from.bytes;
  }
}

// A model of another format: names, metadata and the order of rows are those of llama.cpp's
// converter.
class ModelPlanner {
 public:
  ModelPlanner(const WeightProvider& weights, ConversionPlan& plan, GgufWriter& writer)
      : weights_(weights),
        family_(family_of(weights)),
        model_(plan.stated.emplace(stated_model(weights.config(), family_))),
        stack_(model_.decoder()),
        plan_(plan),
        writer_(writer) {}

  void run(uint32_t pooling_type) {
    writer_.add("general.architecture", family_.gguf);
    writer_.add("general.name", weights_.path().filename().string());
    write_model_keys(model_, family_, writer_);
    if (weights_.type() == ModelType::kTextEncoder) {
      write_encoder_keys(family_, token_types(), pooling_type, writer_);
    }
    const ModelFiles files = model_folder(weights_.path());
    plan_.has_tokenizer = write_tokenizer_keys(files, model_.n_vocab, writer_);
    if (const auto source = chat_template_source(weights_)) {
      writer_.add("tokenizer.chat_template", std::string_view(*source));
    }
    write_sampling_keys(sampling_defaults(weights_), writer_);
    for (const TensorView& tensor : weights_.tensors()) add(tensor);
    for (const UnreadableTensor& tensor : weights_.unreadable()) {
      plan_.left_out.push_back(tensor.name);
    }
    add_rope();
  }

 private:
  // The row that describes the family's GGUF files.
  static const ModelFamily& family_of(const WeightProvider& weights) {
    const ModelFamily* in_gguf = gguf_family(weights);
    if (in_gguf == nullptr) {
      throw Error(ErrorKind::kModel, weights.path().string() +
                                         ": expected a family that GGUF has a name for, found " +
                                         std::string(weights.family()));
    }
    return *in_gguf;
  }

  // Kinds of tokens that have a vector.
  uint32_t token_types() const {
    const TensorView* types = weights_.find("encoder.token_type.weight");
    return types == nullptr ? 0 : static_cast<uint32_t>(types->shape[0]);
  }

  // Where GGUF's family has no sliding windows, the context ends where a window would begin to
  // slide.
  static ModelConfig stated_model(ModelConfig model, const ModelFamily& family) {
    StackConfig& stack = model.decoder();
    if (family.window_period != 0) return model;
    for (LayerConfig& layer : stack.layers) {
      if (layer.sliding_window == 0) continue;
      stack.n_positions = std::min(stack.n_positions, layer.sliding_window);
      layer.sliding_window = 0;
    }
    return model;
  }

  void add(const TensorView& tensor) {
    const auto named = file_tensor_name(*family_.gguf_names, tensor.name);
    if (!named) {
      plan_.left_out.push_back(tensor.file_name);
      return;
    }
    const std::string& first = named->parts.front();
    const bool is_stack = first.find('*') != std::string::npos;
    // A tensor of several parts is planned with the first of them.
    if (tensor.name != (is_stack ? with_number(first, 0) : first)) return;
    PlannedTensor& planned = plan_.tensors.emplace_back();
    planned.name = named->name;
    planned.shape = tensor.shape;
    if (is_stack) {
      for (uint32_t i = 0; i < stack_.experts.n; ++i) {
        planned.parts.push_back(weights_.require(with_number(first, i)));
      }
      planned.shape.insert(planned.shape.begin(), stack_.experts.n);
    } else {
      planned.shape[0] = 0;
      for (const std::string& part : named->parts) {
        planned.parts.push_back(weights_.require(part));
        planned.shape[0] += planned.parts.back().shape[0];
      }
    }
    planned.order = rotary_order(stack_, first, stack_.interleaved_rope,
                                 family_.interleaved_rope || family_.gguf_interleaved_rope);
    // GGUF has no position embeddings of padding.
    if (tensor.name == "encoder.position.weight" && stack_.first_position != 0) {
      planned.parts = {cut_tensor(tensor, {tensor.name, tensor.name},
                                  {stack_.first_position, stack_.n_positions})
                           .at(1)};
      planned.shape[0] = stack_.n_positions;
    }
    if (stack_.norm_weight_offset != 0 && first.ends_with("norm.weight")) {
      planned.offset = stack_.norm_weight_offset;
    }
  }

  static std::string with_number(std::string pattern, uint32_t number) {
    return pattern.replace(pattern.find('*'), 1, std::to_string(number));
  }

  void add_values(const char* name, std::vector<float> values) {
    const std::vector<float>& kept = plan_.computed.emplace_back(std::move(values));
    PlannedTensor& planned = plan_.tensors.emplace_back();
    planned.name = name;
    planned.shape = {kept.size()};
    TensorView& part = planned.parts.emplace_back();
    part.name = part.file_name = name;
    part.shape = planned.shape;
    part.data = kept.data();
    part.bytes = kept.size() * sizeof(float);
  }

  // Scalings that GGUF states as divisors of the frequencies.
  void add_rope() {
    if (stack_.ropes.empty()) return;
    const RopeSettings& rope = stack_.ropes[0];
    if (rope.scaling == RopeScaling::kLlama3) {
      RopeSettings plain;
      plain.theta = rope.theta;
      plain.n_pairs = rope.n_pairs;
      std::vector<float> factors = rope_frequencies(plain, stack_.n_positions);
      const std::vector<float> scaled = rope_frequencies(rope, stack_.n_positions);
      for (size_t i = 0; i < factors.size(); ++i) factors[i] /= scaled[i];
      add_values("rope_freqs.weight", std::move(factors));
    }
    if (!rope.long_freq_factors.empty()) {
      add_values("rope_factors_long.weight", rope.long_freq_factors);
      add_values("rope_factors_short.weight", rope.freq_factors);
    }
  }

  const WeightProvider& weights_;
  const ModelFamily& family_;
  const ModelConfig& model_;
  const StackConfig& stack_;
  ConversionPlan& plan_;
  GgufWriter& writer_;
};

}  // namespace

uint64_t PlannedTensor::n_rows() const {
  uint64_t n = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) n *= shape[i];
  return shape.size() == 1 ? shape[0] : n;
}

uint64_t PlannedTensor::bytes() const { return dtype_bytes(dtype, n_rows() * n_columns()); }

bool PlannedTensor::is_copy() const {
  return parts.size() == 1 && parts[0].dtype == dtype && parts[0].scale.empty() &&
         order.head_dim == 0 && offset == 0;
}

void PlannedTensor::read_rows(uint64_t first, uint64_t n, float* out) const {
  const uint64_t columns = n_columns();
  uint64_t begin = 0;  // of the part
  size_t index = 0;
  uint64_t rows_of_part = parts[0].n_elements() / columns;
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t row = order.source_of(first + i);
    if (row < begin) index = 0, begin = 0, rows_of_part = parts[0].n_elements() / columns;
    while (row >= begin + rows_of_part) {
      begin += rows_of_part;
      rows_of_part = parts.at(++index).n_elements() / columns;
    }
    read_f32(parts[index], (row - begin) * columns, columns, out + i * columns);
  }
  if (offset == 0) return;
  for (uint64_t i = 0; i < n * columns; ++i) out[i] += offset;
}

uint64_t ConversionPlan::bytes() const {
  uint64_t n = head.size();
  for (const PlannedTensor& tensor : tensors) {
    n += tensor.before.size() + tensor.bytes() + padding(tensor);
  }
  return n;
}

uint64_t ConversionPlan::padding(const PlannedTensor& tensor) const {
  return (alignment - tensor.bytes() % alignment) % alignment;
}

ConversionPlan plan_gguf(const WeightProvider& weights, const Mixture& mixture,
                         uint32_t pooling_type) {
  ConversionPlan plan;
  plan.alignment = kGgufAlignment;
  GgufWriter writer;
  if (weights.gguf() != nullptr) {
    copy_gguf(weights, plan, writer);
  } else if (weights.type() == ModelType::kLanguageModel ||
             weights.type() == ModelType::kTextEncoder) {
    ModelPlanner(weights, plan, writer).run(pooling_type);
  } else {
    throw Error(ErrorKind::kModel,
                weights.path().string() +
                    ": expected a language model, a text encoder or a model in GGUF, found " +
                    std::string(weights.family().empty() ? weights.format() : weights.family()));
  }
  writer.add("general.file_type", mixture.file_type);
  writer.add("general.quantization_version", uint32_t{2});
  MixtureModel facts;
  for (const PlannedTensor& tensor : plan.tensors) facts.add(tensor.name);
  for (PlannedTensor& tensor : plan.tensors) {
    const DType source = tensor.parts[0].dtype;
    tensor.wanted =
        is_integer(source) ? source : wanted_format(mixture, facts, tensor.name, tensor.shape);
    tensor.dtype = fitting_format(tensor.wanted, tensor.shape.empty() ? 1 : tensor.shape.back());
    const DTypeDescriptor& format = dtype_descriptor(tensor.dtype);
    writer.add_tensor(tensor.name, tensor.shape, static_cast<uint32_t>(format.ggml_type),
                      tensor.bytes());
  }
  plan.head = writer.head();
  return plan;
}

}  // namespace vesper
