// Language models whose feed-forward block has no gate, with each activation, compared with a plain
// computation in double precision. No family in the table has such a block, so the weights are
// random ones made here, with biases everywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "llm/devices/open_device.h"
#include "llm/generation/generator.h"
#include "llm/weights/model_check.h"
#include "llm/weights/weight_provider.h"

namespace vesper::ungated_models_test {
namespace {

using Row = std::vector<double>;

constexpr uint32_t kWidth = 32, kHeads = 4, kKvHeads = 2, kHeadDim = 8, kFfn = 56, kLayers = 2;
constexpr uint32_t kVocabulary = 48, kPositions = 32;
constexpr double kEpsilon = 1e-5, kTheta = 10000;

const std::vector<int32_t> kText = {3, 41, 0, 17, 17, 29, 5, 47, 11, 2, 36};

class RandomModel {
 public:
  explicit RandomModel(Activation activation) : activation_(activation) {
    const uint32_t q = kHeads * kHeadDim, kv = kKvHeads * kHeadDim;
    add("decoder.embed.weight", {kVocabulary, kWidth}, 1);
    add("decoder.output.weight", {kVocabulary, kWidth}, 0.3f);
    for (uint32_t i = 0; i < kLayers; ++i) {
      const std::string layer = layer_name(i);
      for (const char* norm : {"attn_norm", "ffn_norm"}) add_norm(layer + norm);
      add_linear(layer + "attn.q", q, kWidth);
      add_linear(layer + "attn.k", kv, kWidth);
      add_linear(layer + "attn.v", kv, kWidth);
      add_linear(layer + "attn.out", kWidth, q);
      // Large enough that hidden values lie on both sides of the activation's bend.
      add_linear(layer + "ffn.up", kFfn, kWidth, 0.4f);
      add_linear(layer + "ffn.down", kWidth, kFfn);
    }
    add_norm("decoder.norm");
  }

  // Valid as long as this object.
  std::unique_ptr<WeightProvider> provider() const {
    StackConfig stack;
    stack.name = "decoder";
    stack.n_layers = kLayers;
    stack.d_model = kWidth;
    stack.n_heads = kHeads;
    stack.n_kv_heads = kKvHeads;
    stack.head_dim = kHeadDim;
    stack.d_ffn = kFfn;
    stack.n_positions = kPositions;
    stack.attention = AttentionKind::kCausal;
    stack.positions = PositionKind::kRope;
    stack.ropes.resize(1);
    stack.ropes[0].theta = static_cast<float>(kTheta);
    stack.ropes[0].n_pairs = kHeadDim / 2;
    LayerConfig layer;
    layer.rope = 0;
    stack.layers.assign(kLayers, layer);
    stack.norm_epsilon = static_cast<float>(kEpsilon);
    stack.activation = activation_;
    stack.gated_ffn = false;
    ModelContents contents;
    contents.config.emplace();
    contents.config->type = ModelType::kLanguageModel;
    contents.config->n_vocab = kVocabulary;
    contents.config->stacks.push_back(std::move(stack));
    for (const auto& [name, tensor] : tensors_) {
      TensorView view;
      view.name = view.file_name = name;
      view.shape = tensor.shape;
      view.data = tensor.values.data();
      view.bytes = tensor.values.size() * sizeof(float);
      contents.tensors.push_back(std::move(view));
    }
    check_model("random model", contents);
    return std::make_unique<WeightProvider>("random model", std::move(contents));
  }

  // The logits after each token of a text.
  std::vector<Row> logits(const std::vector<int32_t>& text) const {
    std::vector<Row> rows;
    for (const int32_t id : text) {
      const float* embedding =
          values("decoder.embed.weight") + static_cast<size_t>(id) * size_t{kWidth};
      rows.emplace_back(embedding, embedding + kWidth);
    }
    for (uint32_t i = 0; i < kLayers; ++i) {
      const std::string layer = layer_name(i);
      add_attention(layer, rows);
      for (Row& x : rows) {
        Row hidden = linear(layer + "ffn.up", norm(layer + "ffn_norm", x), kFfn);
        for (double& number : hidden) number = activate(number);
        add_to(x, linear(layer + "ffn.down", hidden, kWidth));
      }
    }
    for (Row& x : rows) {
      x = product("decoder.output.weight", norm("decoder.norm", x), kVocabulary);
    }
    return rows;
  }

 private:
  struct Tensor {
    std::vector<uint64_t> shape;
    std::vector<float> values;
  };

  static std::string layer_name(uint32_t i) { return "decoder.layers." + std::to_string(i) + "."; }

  void add(const std::string& name, const std::vector<uint64_t>& shape, float deviation,
           float mean = 0) {
    std::normal_distribution<float> normal(mean, deviation);
    Tensor tensor{shape, {}};
    uint64_t n = 1;
    for (const uint64_t size : shape) n *= size;
    for (uint64_t i = 0; i < n; ++i) tensor.values.push_back(normal(random_));
    tensors_.emplace(name, std::move(tensor));
  }
  void add_linear(const std::string& stem, uint64_t n_out, uint64_t n_in, float deviation = 0.2f) {
    add(stem + ".weight", {n_out, n_in}, deviation);
    add(stem + ".bias", {n_out}, 0.1f);
  }
  void add_norm(const std::string& stem) {
    add(stem + ".weight", {kWidth}, 0.1f, 1);
    add(stem + ".bias", {kWidth}, 0.1f);
  }

  const float* values(const std::string& name) const { return tensors_.at(name).values.data(); }

  double activate(double x) const {
    switch (activation_) {
      case Activation::kGelu:
        return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
      case Activation::kGeluTanh:
        return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      case Activation::kSilu:
        return x / (1 + std::exp(-x));
      case Activation::kRelu:
        return std::max(x, 0.0);
      case Activation::kClampedSwiGlu:
        break;  // of gated blocks only
    }
    return NAN;
  }

  static void add_to(Row& x, const Row& other) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += other[i];
  }

  Row product(const std::string& name, const Row& x, size_t n_out) const {
    const float* weight = values(name);
    Row out(n_out);
    for (size_t o = 0; o < n_out; ++o) {
      for (size_t i = 0; i < x.size(); ++i) out[o] += double{weight[o * x.size() + i]} * x[i];
    }
    return out;
  }
  Row linear(const std::string& stem, const Row& x, size_t n_out) const {
    Row out = product(stem + ".weight", x, n_out);
    const float* bias = values(stem + ".bias");
    for (size_t o = 0; o < n_out; ++o) out[o] += bias[o];
    return out;
  }

  Row norm(const std::string& stem, const Row& x) const {
    double mean = 0, variance = 0;
    for (const double number : x) mean += number / kWidth;
    for (const double number : x) variance += (number - mean) * (number - mean) / kWidth;
    Row out(kWidth);
    for (size_t i = 0; i < kWidth; ++i) {
      out[i] = (x[i] - mean) / std::sqrt(variance + kEpsilon) * values(stem + ".weight")[i] +
               values(stem + ".bias")[i];
    }
    return out;
  }

  // Rotates each head; element i of the first half and element i of the second half are a pair.
  static void rotate(Row& heads, size_t position) {
    for (size_t head = 0; head < heads.size(); head += kHeadDim) {
      for (size_t i = 0; i < kHeadDim / 2; ++i) {
        const double angle = static_cast<double>(position) *
                             std::pow(kTheta, -2.0 * static_cast<double>(i) / kHeadDim);
        double &a = heads[head + i], &b = heads[head + i + kHeadDim / 2];
        const double first = a;
        a = first * std::cos(angle) - b * std::sin(angle);
        b = first * std::sin(angle) + b * std::cos(angle);
      }
    }
  }

  void add_attention(const std::string& layer, std::vector<Row>& rows) const {
    std::vector<Row> keys, values_of;
    for (size_t row = 0; row < rows.size(); ++row) {
      const Row x = norm(layer + "attn_norm", rows[row]);
      Row query = linear(layer + "attn.q", x, kHeads * kHeadDim);
      keys.push_back(linear(layer + "attn.k", x, kKvHeads * kHeadDim));
      values_of.push_back(linear(layer + "attn.v", x, kKvHeads * kHeadDim));
      rotate(query, row);
      rotate(keys.back(), row);
      Row attended(kHeads * kHeadDim);
      for (size_t head = 0; head < kHeads; ++head) {
        const size_t of_query = head * kHeadDim, of_key = head / (kHeads / kKvHeads) * kHeadDim;
        Row weights;
        double sum = 0;
        for (const Row& key : keys) {
          double score = 0;
          for (size_t i = 0; i < kHeadDim; ++i) score += query[of_query + i] * key[of_key + i];
          weights.push_back(std::exp(score / std::sqrt(double{kHeadDim})));
          sum += weights.back();
        }
        for (size_t j = 0; j < keys.size(); ++j) {
          for (size_t i = 0; i < kHeadDim; ++i) {
            attended[of_query + i] += weights[j] / sum * values_of[j][of_key + i];
          }
        }
      }
      add_to(rows[row], linear(layer + "attn.out", attended, kWidth));
    }
  }

  Activation activation_;
  std::mt19937 random_{5};
  std::map<std::string, Tensor> tensors_;
};

struct Case {
  Activation activation;
  const char* name;
};

class UngatedModels : public testing::TestWithParam<Case> {
 protected:
  static void check(const char* device_name) {
    const RandomModel model(GetParam().activation);
    const std::vector<Row> expected = model.logits(kText);
    const auto provider = model.provider();
    const auto device = open_device(device_name, {});
    Generator generator(*device, *provider, Compute::kF32,
                        {.n_ctx = kPositions, .kv_types = DType::kF32});
    const auto error_of = [&](size_t row, const float* logits) {
      double worst = 0;
      for (size_t i = 0; i < kVocabulary; ++i) {
        const double off = std::abs(double{logits[i]} - expected[row][i]);
        worst = std::isnan(off) ? INFINITY : std::max(worst, off);
      }
      return worst;
    };
    // Many rows per product.
    generator.evaluate(kText, [&](uint32_t first, uint32_t n, const float* logits) {
      for (uint32_t r = 0; r < n; ++r) {
        EXPECT_LT(error_of(first + r, logits + size_t{r} * kVocabulary), kClose) << first + r;
      }
    });
    // One row per product: a step after each prefix of the text.
    std::vector<float> logits(kVocabulary);
    for (size_t n = 1; n <= kText.size(); ++n) {
      generator.start(0, std::span(kText).first(n), 1, {});
      generator.advance(1);
      generator.read_logits(0, logits.data());
      EXPECT_LT(error_of(n - 1, logits.data()), kClose) << n << " tokens";
    }
  }
  // Smaller than the difference between two activations (see DifferByTheirActivation).
  static constexpr double kClose = 1e-4;
};

TEST_P(UngatedModels, EqualAPlainComputationOnTheCpu) { check("cpu"); }

#ifdef VESPER_HAS_VULKAN
TEST_P(UngatedModels, EqualAPlainComputationOnVulkan) { check("vulkan"); }
#endif

// The test above would prove nothing if activations gave equal logits.
TEST(UngatedModelsThemselves, DifferByTheirActivation) {
  const std::vector<Activation> all = {Activation::kGelu, Activation::kGeluTanh, Activation::kSilu,
                                       Activation::kRelu};
  std::vector<Row> last;
  for (const Activation activation : all) {
    last.push_back(RandomModel(activation).logits(kText).back());
  }
  for (size_t a = 0; a < all.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      double worst = 0;
      for (size_t i = 0; i < kVocabulary; ++i) {
        worst = std::max(worst, std::abs(last[a][i] - last[b][i]));
      }
      EXPECT_GT(worst, 3e-4) << a << " and " << b;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Activations, UngatedModels,
    testing::Values(Case{Activation::kGelu, "Gelu"}, Case{Activation::kGeluTanh, "GeluTanh"},
                    Case{Activation::kSilu, "Silu"}, Case{Activation::kRelu, "Relu"}),
    [](const testing::TestParamInfo<Case>& activation) { return activation.param.name; });

}  // namespace
}  // namespace vesper::ungated_models_test
