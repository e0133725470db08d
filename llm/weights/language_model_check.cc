#include <algorithm>

#include "error/error.h"
#include "llm/weights/language_model_files.h"

namespace vesper {
namespace {

// Far above every published model, low enough that sizes computed from them fit 64 bits with room.
constexpr uint64_t kMaxLanguageModelVocabulary = 4'000'000;
constexpr uint64_t kMaxLanguageModelPositions = 100'000'000;
constexpr uint64_t kMaxLanguageModelWidth = 262'144;
constexpr uint64_t kMaxLanguageModelHeadDim = 1024;
constexpr uint64_t kMaxLanguageModelLayers = 1024;

class LanguageModelChecker {
 public:
  explicit LanguageModelChecker(const WeightProvider& provider)
      : provider_(provider), facts_(provider.language_model()) {}

  void run() const {
    if (!facts_.problem.empty()) fail("expected what the engine knows, found " + facts_.problem);
    check_range("vocabulary", facts_.n_vocab, kMaxLanguageModelVocabulary);
    check_range("width", facts_.d_model, kMaxLanguageModelWidth);
    check_range("feed-forward width", facts_.d_ffn, kMaxLanguageModelWidth);
    check_range("number of layers", facts_.n_layers, kMaxLanguageModelLayers);
    check_range("number of heads", facts_.n_heads, kMaxLanguageModelWidth);
    check_range("number of key-value heads", facts_.n_kv_heads, facts_.n_heads);
    check_range("head width", facts_.head_dim, kMaxLanguageModelHeadDim);
    check_range("context length", facts_.n_positions, kMaxLanguageModelPositions);
    check_range("number of rotary pairs", facts_.rope.n_pairs, facts_.head_dim / 2);
    if (facts_.n_heads % facts_.n_kv_heads != 0) {
      fail("expected key-value heads that divide " + std::to_string(facts_.n_heads) +
           " heads, found " + std::to_string(facts_.n_kv_heads));
    }
    check_list("window of layers", facts_.layer_has_window.size(), facts_.n_layers);
    check_list("rope of layers", facts_.layer_has_rope.size(), facts_.n_layers);
    check_list("rotary freq_factors", facts_.rope.freq_factors.size(), facts_.rope.n_pairs);
    check_list("rotary freq_factors", facts_.short_freq_factors.size(), facts_.rope.n_pairs);
    check_list("rotary freq_factors", facts_.long_freq_factors.size(), facts_.rope.n_pairs);
    check_tensors();
  }

 private:
  void check_tensors() const {
    const uint64_t d = facts_.d_model, q = uint64_t{facts_.n_heads} * facts_.head_dim,
                   kv = uint64_t{facts_.n_kv_heads} * facts_.head_dim;
    check("decoder.embed.weight", {facts_.n_vocab, d});
    if (provider_.find("decoder.output.weight") != nullptr) {
      check("decoder.output.weight", {facts_.n_vocab, d});
    }
    check("decoder.norm.weight", {d});
    for (uint32_t n = 0; n < facts_.n_layers; ++n) {
      const std::string layer = "decoder.layers." + std::to_string(n);
      check_linear(layer + ".attn.q", q, d);
      check_linear(layer + ".attn.k", kv, d);
      check_linear(layer + ".attn.v", kv, d);
      check_linear(layer + ".attn.out", d, q);
      check_linear(layer + ".ffn.gate", facts_.d_ffn, d);
      check_linear(layer + ".ffn.up", facts_.d_ffn, d);
      check_linear(layer + ".ffn.down", d, facts_.d_ffn);
      check(layer + ".attn_norm.weight", {d});
      check(layer + ".ffn_norm.weight", {d});
      check_if_there(layer + ".attn.q_norm.weight", {facts_.head_dim});
      check_if_there(layer + ".attn.k_norm.weight", {facts_.head_dim});
      check_if_there(layer + ".attn_post_norm.weight", {d});
      check_if_there(layer + ".ffn_post_norm.weight", {d});
    }
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::kModel, provider_.path().string() + ": " + message);
  }

  void check_range(const char* fact, uint64_t value, uint64_t limit) const {
    if (value >= 1 && value <= limit) return;
    fail(std::string("expected a ") + fact + " between 1 and " + std::to_string(limit) +
         ", found " + std::to_string(value));
  }

  void check_list(const char* what, uint64_t found, uint64_t wanted) const {
    if (found == 0 || found == wanted) return;
    fail(std::string("expected ") + what + " for " + std::to_string(wanted) + ", found " +
         std::to_string(found));
  }

  void check(const std::string& name, const std::vector<uint64_t>& shape) const {
    check_tensor(provider_.path().string(), provider_.require(name), shape);
  }

  void check_if_there(const std::string& name, const std::vector<uint64_t>& shape) const {
    if (provider_.find(name) != nullptr) check(name, shape);
  }

  void check_linear(const std::string& stem, uint64_t out, uint64_t in) const {
    check(stem + ".weight", {out, in});
    check_if_there(stem + ".bias", {out});
  }

  const WeightProvider& provider_;
  const LanguageModelFacts& facts_;
};

}  // namespace

void check_language_model(const WeightProvider& provider) { LanguageModelChecker(provider).run(); }

}  // namespace vesper
