#include "embedder/dense_layers.h"

#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/files/json_file.h"
#include "llm/weights/hugging_face/safetensors.h"
#include "llm/weights/model_check.h"

namespace vesper {
namespace {

// A tensor as f32. Throws Error(kModel) unless it has this shape.
std::vector<float> read(const std::string& where, const TensorView& tensor,
                        const std::vector<uint64_t>& shape) {
  check_tensor(where, tensor, shape);
  return read_f32(tensor);
}

// The layer of a Dense module of sentence-transformers.
DenseLayer read_module(const ModelFiles& files, const std::string& folder, uint32_t n_in) {
  const auto settings = files.open(folder + "/config.json");
  const nlohmann::json config = parse_json(*settings);
  DenseLayer layer;
  layer.n_in = count_member(settings->name(), config, "in_features");
  layer.n_out = count_member(settings->name(), config, "out_features");
  if (layer.n_in != n_in || layer.n_out == 0 || layer.n_out > kMostWidth) {
    fail_in_file(settings->name(), "expected in_features " + std::to_string(n_in) +
                                       " and out_features up to " + std::to_string(kMostWidth) +
                                       ", found " + std::to_string(layer.n_in) + " and " +
                                       std::to_string(layer.n_out));
  }
  const std::string activation = text_member(settings->name(), config, "activation_function", "");
  const std::string kind = activation.substr(activation.rfind('.') + 1);
  if (kind == "Tanh" || kind.empty()) {
    layer.activation = kActivationSoftCap;
    layer.activation_limit = 1;
  } else if (kind != "Identity") {
    fail_in_file(settings->name(),
                 "expected activation_function Identity or Tanh, found " + kind.substr(0, 60));
  }
  const auto file = files.open(folder + "/model.safetensors");
  Safetensors tensors;
  read_safetensors(file, tensors);
  for (const TensorView& tensor : tensors.tensors) {
    if (tensor.name == "linear.weight") {
      layer.name = folder + "/linear.weight";
      layer.weight = read(file->name(), tensor, {layer.n_out, n_in});
    } else if (tensor.name == "linear.bias") {
      layer.bias = read(file->name(), tensor, {layer.n_out});
    }
  }
  if (layer.weight.empty()) {
    fail_in_file(file->name(), "expected a tensor linear.weight, found none");
  }
  return layer;
}

Operand stored(Device& device, const std::vector<float>& values, const std::string& name) {
  if (values.empty()) return {};
  const Operand buffer = device.allocate(values.size() * sizeof(float), name);
  device.write(buffer, values.data());
  return buffer;
}

}  // namespace

DenseLayer read_dense_layer(const WeightProvider& weights, const std::string& stem, uint32_t n_out,
                            uint32_t n_in) {
  const TensorView& weight = weights.require(stem + ".weight");
  if (n_out == 0 && weight.shape.size() == 2 && weight.shape[0] <= kMostWidth) {
    n_out = static_cast<uint32_t>(weight.shape[0]);
  }
  const std::string where = weights.path().string();
  DenseLayer layer{weight.file_name, n_out, n_in,
                   read(where, weights.load(weight).view, {n_out, n_in})};
  if (const TensorView* bias = weights.find(stem + ".bias")) {
    layer.bias = read(where, weights.load(*bias).view, {n_out});
  }
  return layer;
}

std::vector<DenseLayer> read_dense_layers(const WeightProvider& weights, const ModelFiles& files,
                                          const std::vector<std::string>& modules) {
  std::vector<DenseLayer> layers;
  uint32_t width = weights.config().encoder().d_model;
  for (const std::string& module : modules) {
    layers.push_back(read_module(files, module, width));
    width = layers.back().n_out;
  }
  // EmbeddingGemma in GGUF.
  for (const char* stem : {"dense_2", "dense_3"}) {
    if (!modules.empty() || weights.find(std::string(stem) + ".weight") == nullptr) continue;
    layers.push_back(read_dense_layer(weights, stem, 0, width));
    width = layers.back().n_out;
  }
  return layers;
}

DenseLayers::DenseLayers(Device& device, const std::vector<DenseLayer>& layers, uint32_t max_rows) {
  for (const DenseLayer& from : layers) {
    TensorView view;
    view.name = view.file_name = from.name;
    view.dtype = DType::kF32;
    view.shape = {from.n_out, from.n_in};
    view.data = from.weight.data();
    view.bytes = from.weight.size() * sizeof(float);
    const Weight weight = device.upload({{&view}}, WeightUse::kManyRows, Compute::kF32);
    layers_.push_back(
        {from.name,
         {weight, stored(device, from.bias, from.name + " bias")},
         from.activation,
         from.activation_limit,
         {stored(device, from.norm_weight, from.name + " norm"),
          stored(device, from.norm_bias, from.name + " norm bias")},
         from.norm_epsilon,
         device.allocate(uint64_t{max_rows} * from.n_out * sizeof(float), from.name + " rows")});
  }
}

void DenseLayers::emit(DispatchTable& table, uint32_t n_rows, const Operand& in) const {
  const Operand* from = &in;
  for (const Layer& layer : layers_) {
    const uint32_t n_out = layer.weight.weight.n_out;
    emit_linear(table, layer.name, layer.weight, n_rows, layer.out, DType::kF32, *from,
                DType::kF32);
    if (layer.activation != kActivationNone) {
      emit::activation(table, layer.name + " activation",
                       {n_rows * n_out, layer.activation, layer.activation_limit}, layer.out,
                       layer.out);
    }
    if (layer.norm.weight.present()) {
      emit::norm(table, layer.name + " norm",
                 {n_rows, n_out, layer.norm_epsilon, kNormLayer, kDTypeF32, kDTypeF32, n_out},
                 layer.out, layer.out, layer.norm.weight, layer.norm.bias, {}, {});
    }
    from = &layer.out;
  }
}

}  // namespace vesper
