#include "embedder/score_head.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "error/error.h"
#include "llm/files/gguf_file.h"
#include "llm/files/json_file.h"
#include "llm/weights/name_tensors.h"

namespace vesper {
namespace {

using nlohmann::json;

// The classifiers of transformers and llama.cpp, by names of tensors.
struct Classifier {
  std::vector<std::string_view> dense;  // stems of a layer before the classifier, the first one
                                        // that a file has; empty: none
  bool is_tanh = true;                  // its activation; otherwise GELU
  std::string_view norm = {};           // stem of a norm behind it; empty: none
  std::string_view out;
};
const Classifier kClassifiers[] = {
    // XLM-R, and every kind in GGUF.
    {.dense = {"classifier.dense"}, .out = "classifier.out_proj"},
    {.dense = {"cls"}, .out = "cls.output"},
    // ModernBERT.
    {.dense = {"head.dense"}, .is_tanh = false, .norm = "head.norm", .out = "classifier"},
    // BERT, and models derived from it: with the pooler of its pre-training.
    {.dense = {"bert.pooler.dense", "new.pooler.dense", "pooler.dense"}, .out = "classifier"},
    // Language models with a classifier.
    {.dense = {}, .out = "score"},
};

bool has(const WeightProvider& weights, std::string_view stem) {
  return weights.find(std::string(stem) + ".weight") != nullptr;
}

[[noreturn]] void fail(const WeightProvider& weights, const std::string& message) {
  throw Error(ErrorKind::kModel, weights.path().string() + ": " + message);
}

void require_one_label(const WeightProvider& weights, const std::string& stem) {
  const TensorView& tensor = weights.require(stem + ".weight");
  if (tensor.shape.size() == 2 && tensor.shape[0] == 1) return;
  fail(weights, "tensor " + tensor.file_name +
                    ": expected a classifier of one label, found shape " +
                    shape_text(tensor.shape));
}

std::vector<DenseLayer> read_classifier(const WeightProvider& weights,
                                        const Classifier& classifier) {
  const StackConfig& stack = weights.config().encoder();
  std::vector<DenseLayer> layers;
  for (const std::string_view stem : classifier.dense) {
    if (!has(weights, stem)) continue;
    DenseLayer& dense = layers.emplace_back(
        read_dense_layer(weights, std::string(stem), stack.d_model, stack.d_model));
    dense.activation = classifier.is_tanh ? kActivationSoftCap : kActivationGelu;
    dense.activation_limit = 1;
    if (classifier.norm.empty()) break;
    const std::string norm(classifier.norm);
    const auto vector = [&](const TensorView& tensor) {
      check_tensor(weights.path().string(), tensor, {stack.d_model});
      return weights.read(tensor);
    };
    dense.norm_weight = vector(weights.require(norm + ".weight"));
    if (const TensorView* bias = weights.find(norm + ".bias")) dense.norm_bias = vector(*bias);
    dense.norm_epsilon = stack.norm_epsilon;
    break;
  }
  const std::string out(classifier.out);
  require_one_label(weights, out);
  layers.push_back(read_dense_layer(weights, out, 1, stack.d_model));
  return layers;
}

// Row `yes` minus row `no`: the probability of "yes" among the two is the sigmoid of its product.
DenseLayer difference_of_rows(const WeightProvider& weights, const TensorView& matrix, uint64_t yes,
                              uint64_t no) {
  const uint32_t d = weights.config().decoder().d_model;
  DenseLayer layer{matrix.file_name, 1, d, std::vector<float>(d)};
  std::vector<float> other(d);
  const LoadedTensor loaded = weights.load(matrix);
  read_f32({{&loaded.view}}, yes, layer.weight.data());
  read_f32({{&loaded.view}}, no, other.data());
  std::transform(layer.weight.begin(), layer.weight.end(), other.begin(), layer.weight.begin(),
                 std::minus<>());
  return layer;
}

std::vector<DenseLayer> read_judge(const WeightProvider& weights, const TextTokenizer& tokenizer) {
  // GGUF files of rerankers may have only the rows of "yes" and "no".
  if (const TensorView* rows = weights.find("cls.output.weight")) {
    check_tensor(weights.path().string(), *rows, {2, weights.config().decoder().d_model});
    return {difference_of_rows(weights, *rows, 0, 1)};
  }
  const int32_t yes = tokenizer.find("yes"), no = tokenizer.find("no");
  if (yes < 0 || no < 0) fail(weights, "expected tokens \"yes\" and \"no\", found none");
  const TensorView* output = weights.find("decoder.output.weight");
  const TensorView& matrix = output ? *output : weights.require("decoder.embed.weight");
  for (const int32_t id : {yes, no}) {
    if (static_cast<uint32_t>(id) < weights.config().n_vocab) continue;
    fail(weights, "expected tokens below " + std::to_string(weights.config().n_vocab) + ", found " +
                      std::to_string(id));
  }
  return {
      difference_of_rows(weights, matrix, static_cast<uint64_t>(yes), static_cast<uint64_t>(no))};
}

// The settings of a folder: sentence-transformers' activation of the output (a sigmoid if it names
// none), and the pooling of ModernBERT.
void read_settings(const ModelFiles& files, ScoreHead& head) {
  for (const char* name : {"config.json", "config_sentence_transformers.json"}) {
    if (!files.has(name)) continue;
    const auto file = files.open(name);
    const json config = parse_json(*file);
    std::string activation =
        text_member(file->name(), config, "sbert_ce_default_activation_function", "");
    if (const json* inner = find_member(config, "sentence_transformers")) {
      activation = text_member(file->name(), *inner, "activation_fn", activation);
    }
    activation = text_member(file->name(), config, "activation_fn", activation);
    const std::string kind = activation.substr(activation.rfind('.') + 1);
    if (kind == "Identity") {
      head.is_probability = false;
    } else if (!kind.empty() && kind != "Sigmoid") {
      fail_in_file(file->name(), "expected activation_fn Identity or Sigmoid, found \"" +
                                     kind.substr(0, 60) + "\"");
    }
    const std::string pooling = text_member(file->name(), config, "classifier_pooling", "");
    if (pooling == "mean") head.pooling = Pooling::kMean;
    if (!pooling.empty() && pooling != "mean" && pooling != "cls") {
      fail_in_file(file->name(), "expected classifier_pooling mean or cls, found \"" +
                                     pooling.substr(0, 60) + "\"");
    }
    const std::string inner = text_member(file->name(), config, "classifier_activation", "gelu");
    if (inner != "gelu") {
      fail_in_file(file->name(),
                   "expected classifier_activation gelu, found \"" + inner.substr(0, 60) + "\"");
    }
  }
}

}  // namespace

ScoreHead read_score_head(const WeightProvider& weights, const TextTokenizer& tokenizer) {
  ScoreHead head;
  const bool is_language_model = weights.type() == ModelType::kLanguageModel;
  const StackConfig& stack = weights.config().encoder();
  if (weights.gguf() == nullptr) {
    std::error_code error;
    const bool is_folder = std::filesystem::is_directory(weights.path(), error);
    read_settings(ModelFiles(is_folder ? weights.path() : weights.path().parent_path()), head);
  }
  if (is_language_model) {
    head.pooling = Pooling::kLast;
    head.judges = true;
    for (const char* token : {"<|im_start|>", "<|im_end|>", "<think>", "</think>"}) {
      if (stack.attention == AttentionKind::kCausal && tokenizer.find(token) >= 0) continue;
      fail(weights,
           "expected a cross-encoder, or a language model that judges as Qwen3-Reranker does");
    }
    head.layers = has(weights, "score") ? read_classifier(weights, kClassifiers[4])
                                        : read_judge(weights, tokenizer);
    return head;
  }
  for (const Classifier& classifier : kClassifiers) {
    if (!has(weights, classifier.out)) continue;
    if (!classifier.dense.empty() &&
        std::none_of(classifier.dense.begin(), classifier.dense.end(),
                     [&](std::string_view stem) { return has(weights, stem); })) {
      continue;
    }
    head.layers = read_classifier(weights, classifier);
    return head;
  }
  fail(weights,
       "expected a reranker (a cross-encoder with a classifier of one label, or Qwen3-Reranker), "
       "found an embedding model");
}

}  // namespace vesper
