#include "tests/embedder/tiny_bert.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

namespace vesper {
namespace {

using nlohmann::json;

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TinyBert::TinyBert(bool as_xlm_roberta) : xlm_roberta(as_xlm_roberta) {
  vocabulary = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "budget", "cat",   "sat",
                "year",  "next",  "for",   "##s",   ",",   ".",      "money", "plan"};
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    vocabulary.emplace_back(1, letter);
    vocabulary.push_back(std::string("##") + letter);
  }
  std::mt19937 random(7);
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape, float spread,
                       float around = 0.0f) {
    std::normal_distribution<float> normal(around, spread);
    uint64_t n = 1;
    for (const uint64_t size : shape) n *= size;
    std::vector<float> values(n);
    for (float& value : values) value = normal(random);
    tensors[name] = std::move(values);
    shapes[name] = std::move(shape);
  };
  const auto add_linear = [&](const std::string& stem, uint64_t out, uint64_t in) {
    add(stem + ".weight", {out, in}, 0.15f);
    add(stem + ".bias", {out}, 0.1f);
  };
  const auto add_norm = [&](const std::string& stem) {
    add(stem + ".weight", {kWidth}, 0.1f, 1.0f);
    add(stem + ".bias", {kWidth}, 0.1f);
  };
  add("embeddings.word_embeddings.weight", {vocabulary.size(), kWidth}, 1.0f);
  add("embeddings.position_embeddings.weight", {kPositions, kWidth}, 0.5f);
  add("embeddings.token_type_embeddings.weight", {kTypes, kWidth}, 0.5f);
  add_norm("embeddings.LayerNorm");
  for (uint32_t n = 0; n < kLayers; ++n) {
    const std::string layer = "encoder.layer." + std::to_string(n) + ".";
    add_linear(layer + "attention.self.query", kWidth, kWidth);
    add_linear(layer + "attention.self.key", kWidth, kWidth);
    add_linear(layer + "attention.self.value", kWidth, kWidth);
    add_linear(layer + "attention.output.dense", kWidth, kWidth);
    add_norm(layer + "attention.output.LayerNorm");
    add_linear(layer + "intermediate.dense", kFfn, kWidth);
    add_linear(layer + "output.dense", kWidth, kFfn);
    add_norm(layer + "output.LayerNorm");
  }
}

void TinyBert::write(const std::filesystem::path& folder, const std::string& mode) const {
  write_text(folder / "config.json", json{{"model_type", xlm_roberta ? "xlm-roberta" : "bert"},
                                          {"pad_token_id", kRobertaFirstPosition - 1},
                                          {"vocab_size", vocabulary.size()},
                                          {"hidden_size", kWidth},
                                          {"num_hidden_layers", kLayers},
                                          {"num_attention_heads", kHeads},
                                          {"intermediate_size", kFfn},
                                          {"max_position_embeddings", kPositions},
                                          {"layer_norm_eps", kEpsilon},
                                          {"hidden_act", "gelu"}}
                                         .dump());
  std::string lines;
  for (const std::string& token : vocabulary) lines += token + "\n";
  write_text(folder / "vocab.txt", lines);
  write_text(folder / "modules.json",
             json::array({{{"type", "sentence_transformers.models.Transformer"}, {"path", ""}},
                          {{"type", "sentence_transformers.models.Pooling"}, {"path", "1_Pooling"}},
                          {{"type", "sentence_transformers.models.Normalize"}, {"path", "2_N"}}})
                 .dump());
  write_text(folder / "1_Pooling/config.json", json{{"pooling_mode_" + mode, true}}.dump());
  json header = json::object();
  std::string data;
  for (const auto& [name, values] : tensors) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    header[(xlm_roberta ? "roberta." : "") + name] = {
        {"dtype", "F32"}, {"shape", shapes.at(name)}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t n = text.size();
  write_text(folder / "model.safetensors",
             std::string(reinterpret_cast<const char*>(&n), sizeof n) + text + data);
}

std::vector<double> TinyBert::rows(const std::vector<int32_t>& ids) const {
  const size_t n = ids.size();
  using Rows = std::vector<double>;
  const auto linear = [&](const std::string& stem, const Rows& in) {
    const std::vector<float>& weight = tensors.at(stem + ".weight");
    const std::vector<float>& bias = tensors.at(stem + ".bias");
    const size_t n_in = weight.size() / bias.size();
    Rows out;
    for (size_t r = 0; r < n; ++r) {
      for (size_t o = 0; o < bias.size(); ++o) {
        double sum = bias[o];
        for (size_t i = 0; i < n_in; ++i) sum += weight[o * n_in + i] * in[r * n_in + i];
        out.push_back(sum);
      }
    }
    return out;
  };
  const auto norm = [&](const std::string& stem, Rows& x) {
    const std::vector<float>& norm_weight = tensors.at(stem + ".weight");
    const std::vector<float>& bias = tensors.at(stem + ".bias");
    for (size_t r = 0; r < n; ++r) {
      double mean = 0, squares = 0;
      for (size_t i = 0; i < kWidth; ++i) mean += x[r * kWidth + i] / kWidth;
      for (size_t i = 0; i < kWidth; ++i) squares += std::pow(x[r * kWidth + i] - mean, 2);
      const double factor = 1 / std::sqrt(squares / kWidth + kEpsilon);
      for (size_t i = 0; i < kWidth; ++i) {
        double& value = x[r * kWidth + i];
        value = (value - mean) * factor * norm_weight[i] + bias[i];
      }
    }
  };
  const auto add = [](Rows& x, const Rows& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  };
  const std::vector<float>& words = tensors.at("embeddings.word_embeddings.weight");
  const std::vector<float>& positions = tensors.at("embeddings.position_embeddings.weight");
  const std::vector<float>& types = tensors.at("embeddings.token_type_embeddings.weight");
  const size_t first = xlm_roberta ? kRobertaFirstPosition : 0;
  Rows x;
  for (size_t r = 0; r < n; ++r) {
    for (size_t i = 0; i < kWidth; ++i) {
      x.push_back(words[static_cast<size_t>(ids[r]) * kWidth + i] +
                  positions[(r + first) * kWidth + i] + types[i]);
    }
  }
  norm("embeddings.LayerNorm", x);
  constexpr size_t kHeadDim = kWidth / kHeads;
  for (uint32_t l = 0; l < kLayers; ++l) {
    const std::string layer = "encoder.layer." + std::to_string(l) + ".";
    const Rows q = linear(layer + "attention.self.query", x);
    const Rows k = linear(layer + "attention.self.key", x);
    const Rows v = linear(layer + "attention.self.value", x);
    Rows attended(n * kWidth, 0.0);
    for (size_t head = 0; head < kHeads; ++head) {
      for (size_t r = 0; r < n; ++r) {
        Rows weight(n);
        double total = 0;
        for (size_t j = 0; j < n; ++j) {
          double score = 0;
          for (size_t i = head * kHeadDim; i < (head + 1) * kHeadDim; ++i) {
            score += q[r * kWidth + i] * k[j * kWidth + i];
          }
          total += weight[j] = std::exp(score / std::sqrt(double{kHeadDim}));
        }
        for (size_t j = 0; j < n; ++j) {
          for (size_t i = head * kHeadDim; i < (head + 1) * kHeadDim; ++i) {
            attended[r * kWidth + i] += weight[j] / total * v[j * kWidth + i];
          }
        }
      }
    }
    add(x, linear(layer + "attention.output.dense", attended));
    norm(layer + "attention.output.LayerNorm", x);
    Rows hidden = linear(layer + "intermediate.dense", x);
    for (double& value : hidden) value *= (1 + std::erf(value / std::sqrt(2.0))) / 2;
    add(x, linear(layer + "output.dense", hidden));
    norm(layer + "output.LayerNorm", x);
  }
  return x;
}

}  // namespace vesper
