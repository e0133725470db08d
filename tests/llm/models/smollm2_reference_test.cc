// SmolLM2 (from scripts/fetch-models.sh) in f32 compared with a plain reference: weights as f32,
// then loops in double precision that implement the whole model.
#include <gtest/gtest.h>

#include <cmath>

#include "llm/devices/open_device.h"
#include "llm/generation/generator.h"
#include "llm/weights/weight_provider.h"
#include "tests/fetched_model.h"

namespace vesper::smollm2_reference_test {
namespace {

using Vector = std::vector<double>;

// The logits after each token. LLaMA in GGUF: neighbours of a head are rotated together.
class PlainLlama {
 public:
  explicit PlainLlama(const WeightProvider& weights) : weights_(weights) {}

  std::vector<Vector> logits(const std::vector<int32_t>& tokens) {
    const StackConfig& facts = weights_.config().decoder();
    const std::vector<float> embedding = read_f32(weights_.require("decoder.embed.weight"));
    const size_t d = facts.d_model, n = tokens.size();
    std::vector<Vector> x(n);
    for (size_t t = 0; t < n; ++t) {
      const float* row = &embedding[static_cast<size_t>(tokens[t]) * d];
      x[t].assign(row, row + d);
    }
    for (uint32_t l = 0; l < facts.n_layers; ++l) {
      const std::string layer = "decoder.layers." + std::to_string(l) + ".";
      const auto normed = norm(x, layer + "attn_norm");
      auto q = product(layer + "attn.q", normed), k = product(layer + "attn.k", normed);
      const auto v = product(layer + "attn.v", normed);
      for (size_t t = 0; t < n; ++t) {
        turn(q[t], t);
        turn(k[t], t);
      }
      add(x, product(layer + "attn.out", attend(q, k, v)));
      const auto before = norm(x, layer + "ffn_norm");
      auto gate = product(layer + "ffn.gate", before);
      const auto up = product(layer + "ffn.up", before);
      for (size_t t = 0; t < n; ++t) {
        for (size_t i = 0; i < up[t].size(); ++i) {
          gate[t][i] = gate[t][i] / (1 + std::exp(-gate[t][i])) * up[t][i];
        }
      }
      add(x, product(layer + "ffn.down", gate));
    }
    return product(weights_.find("decoder.output.weight") ? "decoder.output" : "decoder.embed",
                   norm(x, "decoder.norm"));
  }

 private:
  std::vector<Vector> norm(const std::vector<Vector>& x, const std::string& name) const {
    const std::vector<float> norm_weight = read_f32(weights_.require(name + ".weight"));
    std::vector<Vector> out = x;
    for (Vector& row : out) {
      double squares = 0;
      for (const double value : row) squares += value * value;
      const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) +
                                         double{weights_.config().decoder().norm_epsilon});
      for (size_t i = 0; i < row.size(); ++i) row[i] *= scale * norm_weight[i];
    }
    return out;
  }

  std::vector<Vector> product(const std::string& name, const std::vector<Vector>& x) const {
    const TensorView& tensor = weights_.require(name + ".weight");
    const std::vector<float> matrix = read_f32(tensor);
    const size_t n_out = tensor.shape[0], n_in = tensor.shape[1];
    std::vector<Vector> out(x.size(), Vector(n_out));
    for (size_t o = 0; o < n_out; ++o) {
      const float* row = &matrix[o * n_in];
      for (size_t t = 0; t < x.size(); ++t) {
        double sum = 0;
        for (size_t i = 0; i < n_in; ++i) sum += x[t][i] * row[i];
        out[t][o] = sum;
      }
    }
    return out;
  }

  void turn(Vector& heads, size_t position) const {
    const StackConfig& facts = weights_.config().decoder();
    const size_t dim = facts.head_dim;
    for (size_t i = 0; i < heads.size(); i += 2) {
      const double exponent = static_cast<double>(i % dim) / static_cast<double>(dim);
      const double angle =
          static_cast<double>(position) * std::pow(double{facts.ropes[0].theta}, -exponent);
      const double x = heads[i], y = heads[i + 1];
      heads[i] = x * std::cos(angle) - y * std::sin(angle);
      heads[i + 1] = x * std::sin(angle) + y * std::cos(angle);
    }
  }

  std::vector<Vector> attend(const std::vector<Vector>& q, const std::vector<Vector>& k,
                             const std::vector<Vector>& v) const {
    const StackConfig& facts = weights_.config().decoder();
    const size_t dim = facts.head_dim, group = facts.n_heads / facts.n_kv_heads;
    std::vector<Vector> out(q.size(), Vector(q[0].size()));
    for (size_t t = 0; t < q.size(); ++t) {
      for (size_t h = 0; h < facts.n_heads; ++h) {
        const size_t at = h * dim, kv = h / group * dim;
        Vector weights(t + 1);
        double sum = 0;
        for (size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (size_t i = 0; i < dim; ++i) score += q[t][at + i] * k[s][kv + i];
          sum += weights[s] = std::exp(score / std::sqrt(static_cast<double>(dim)));
        }
        for (size_t s = 0; s <= t; ++s) {
          for (size_t i = 0; i < dim; ++i) out[t][at + i] += weights[s] / sum * v[s][kv + i];
        }
      }
    }
    return out;
  }

  static void add(std::vector<Vector>& x, const std::vector<Vector>& more) {
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += more[t][i];
    }
  }

  const WeightProvider& weights_;
};

TEST(SmolLm2, EqualsPlainLoopsInF32) {
  const std::unique_ptr<WeightProvider> weights = open_weights(fetched_model("smollm2-135m"));
  ASSERT_TRUE(weights->config(ModelType::kLanguageModel).decoder().interleaved_rope);
  const auto device = open_device("cpu", {});
  Generator generator(*device, *weights, Compute::kF32, {.n_ctx = 64, .kv_types = DType::kF32});
  PlainLlama plain(*weights);
  // The prompts of smollm2_generation_test.cc.
  for (const std::vector<int32_t>& prompt :
       std::vector<std::vector<int32_t>>{{504, 3575, 282, 4649, 314},
                                         {1604, 3987, 46477, 24, 94, 727, 198},
                                         {6403, 1980, 253, 655, 28, 665, 436, 253, 1838},
                                         {65, 42, 1812, 314, 216, 34, 27, 34, 47, 198, 49, 42},
                                         {504, 1296, 3003, 4683, 359}}) {
    const std::vector<Vector> wanted = plain.logits(prompt);
    generator.evaluate(prompt, [&](uint32_t first, uint32_t n_rows, const float* logits) {
      double worst = 0;
      for (size_t r = 0; r < n_rows; ++r) {
        const Vector& row = wanted[first + r];
        for (size_t i = 0; i < row.size(); ++i) {
          worst = std::max(worst, std::abs(logits[r * row.size() + i] - row[i]));
        }
      }
      EXPECT_LT(worst, 1e-3) << "token " << prompt[0];
    });
  }
}

}  // namespace
}  // namespace vesper::smollm2_reference_test
