#include "llm/weights/model_check.h"

#include <algorithm>
#include <unordered_map>

#include "error/error.h"
#include "llm/weights/model_families.h"
#include "shaders/kernel_params.h"

namespace vesper {
namespace {

class ModelChecker {
 public:
  ModelChecker(const std::string& where, const ModelContents& contents)
      : where_(where), contents_(contents), model_(*contents.config) {
    for (const TensorView& tensor : contents.tensors) tensors_.emplace(tensor.name, &tensor);
  }

  void run() const {
    if (!model_.unsupported.empty()) fail(model_.unsupported);
    check_range("vocabulary", model_.n_vocab, kMostVocabulary);
    for (const StackConfig& stack : model_.stacks) {
      check_sizes(stack);
      check_ropes(stack);
    }
    check_embeddings();
    for (const StackConfig& stack : model_.stacks) check_layers(stack);
    if (model_.type == ModelType::kWhisper) check_whisper();
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::kModel, where_ + ": " + message);
  }

  void check_range(const char* fact, uint64_t value, uint64_t limit) const {
    if (value >= 1 && value <= limit) return;
    fail(std::string("expected a ") + fact + " between 1 and " + std::to_string(limit) +
         ", found " + std::to_string(value));
  }

  void check_sizes(const StackConfig& stack) const {
    check_range("width", stack.d_model, kMostWidth);
    check_range("feed-forward width", stack.d_ffn, kMostWidth);
    check_range("number of layers", stack.n_layers, kMostLayers);
    check_range("number of heads", stack.n_heads, kMostWidth);
    check_range("number of key-value heads", stack.n_kv_heads, stack.n_heads);
    check_range("head width", stack.head_dim, kMostHeadDim);
    check_range("context length", stack.n_positions, kMostPositions);
    if (stack.experts.any()) check_expert_sizes(stack);
    if (stack.n_heads % stack.n_kv_heads != 0) {
      fail("expected key-value heads that divide " + std::to_string(stack.n_heads) +
           " heads, found " + std::to_string(stack.n_kv_heads));
    }
    // Language models may have any head width.
    if (model_.type != ModelType::kLanguageModel && stack.q_width() != stack.d_model) {
      fail("expected n_" + std::string(stack.name) + "_heads that divide the width " +
           std::to_string(stack.d_model) + ", found " + std::to_string(stack.n_heads));
    }
  }

  void check_expert_sizes(const StackConfig& stack) const {
    const ExpertsConfig& experts = stack.experts;
    check_range("number of experts", experts.n, kMostExperts);
    check_range("number of experts of a token", experts.n_used,
                std::min(experts.n, kMostUsedExperts));
    check_range("width of an expert", experts.d_ffn, kMostWidth);
    if (experts.d_shared != 0) {
      check_range("width of the shared expert", experts.d_shared, kMostWidth);
    }
    // Experts are stored in panels of 16 outputs.
    for (const uint32_t width : {experts.d_ffn, stack.d_model}) {
      if (width % 16 == 0) continue;
      fail("expected experts whose widths are multiples of 16, found " + std::to_string(width));
    }
  }

  void check_ropes(const StackConfig& stack) const {
    if ((stack.positions == PositionKind::kRope) != !stack.ropes.empty()) {
      throw Error(ErrorKind::kInternal, where_ + ": the configuration has no kind of positions");
    }
    for (const RopeSettings& rope : stack.ropes) {
      check_range("number of rotary pairs", rope.n_pairs, stack.head_dim / 2);
      for (const auto* factors : {&rope.freq_factors, &rope.long_freq_factors}) {
        if (factors->empty() || factors->size() == rope.n_pairs) continue;
        fail("expected rotary freq_factors for " + std::to_string(rope.n_pairs) + ", found " +
             std::to_string(factors->size()));
      }
    }
  }

  bool has(const std::string& name) const { return tensors_.count(name) > 0; }

  void check(const std::string& name, const std::vector<uint64_t>& shape) const {
    const auto found = tensors_.find(name);
    check_tensor(where_,
                 found != tensors_.end() ? *found->second : require_tensor(where_, contents_, name),
                 shape);
  }

  void check_if_there(const std::string& name, const std::vector<uint64_t>& shape) const {
    if (has(name)) check(name, shape);
  }

  // Whisper has every bias except that of keys; other families may lack any.
  void check_bias(const std::string& stem, uint64_t n) const {
    const bool is_needed = model_.type == ModelType::kWhisper && !stem.ends_with(".k");
    if (is_needed || has(stem + ".bias")) check(stem + ".bias", {n});
  }

  void check_linear(const std::string& stem, uint64_t n_out, uint64_t n_in) const {
    check(stem + ".weight", {n_out, n_in});
    check_bias(stem, n_out);
  }

  void check_norm(const std::string& stem, uint64_t d) const {
    check(stem + ".weight", {d});
    check_bias(stem, d);
  }

  void check_embeddings() const {
    const StackConfig& with_tokens = model_.decoder();
    const std::string tokens(with_tokens.name);
    const uint64_t d = with_tokens.d_model;
    check(tokens + ".embed.weight", {model_.n_vocab, d});
    check_if_there(tokens + ".output.weight", {model_.n_vocab, d});
    for (const StackConfig& stack : model_.stacks) {
      if (stack.positions != PositionKind::kVectors) continue;
      check(std::string(stack.name) + ".position.weight",
            {uint64_t{stack.first_position} + stack.n_positions, stack.d_model});
    }
    if (with_tokens.n_bias_buckets != 0) {
      check(tokens + ".position_bias.weight", {with_tokens.n_bias_buckets, with_tokens.n_heads});
    }
    if (model_.type != ModelType::kTextEncoder) return;
    check_norm(tokens + ".embed_norm", d);
    if (const auto types = tensors_.find(tokens + ".token_type.weight"); types != tensors_.end()) {
      const std::vector<uint64_t>& shape = types->second->shape;
      check(types->first, {shape.empty() ? 1 : std::max<uint64_t>(shape[0], 1), d});
    }
  }

  void check_attention(const std::string& stem, const StackConfig& stack) const {
    const uint64_t d = stack.d_model, q = stack.q_width(), kv = stack.kv_width();
    check_linear(stem + ".q", q, d);
    check_linear(stem + ".k", kv, d);
    check_linear(stem + ".v", kv, d);
    check_linear(stem + ".out", d, q);
  }

  void check_experts(const std::string& layer, const StackConfig& stack) const {
    const ExpertsConfig& experts = stack.experts;
    check_linear(layer + ".ffn.router", experts.n, stack.d_model);
    for (uint32_t e = 0; e < experts.n; ++e) {
      const std::string expert = layer + ".experts." + std::to_string(e);
      check_linear(expert + ".gate", experts.d_ffn, stack.d_model);
      check_linear(expert + ".up", experts.d_ffn, stack.d_model);
      check_linear(expert + ".down", stack.d_model, experts.d_ffn);
    }
    if (experts.d_shared != 0) {
      check_linear(layer + ".shared.router", 1, stack.d_model);
      check_linear(layer + ".shared.gate", experts.d_shared, stack.d_model);
      check_linear(layer + ".shared.up", experts.d_shared, stack.d_model);
      check_linear(layer + ".shared.down", stack.d_model, experts.d_shared);
    }
    if (stack.norm_placement == NormPlacement::kOutput) fail("expected no experts, found " + layer);
    if (has(layer + ".ffn_post_norm.weight")) {
      fail("expected no norm after the experts of " + layer + ", found ffn_post_norm");
    }
  }

  // A norm of each head, or of all together.
  void check_head_norm(const std::string& name, uint64_t head_dim, uint64_t width) const {
    const auto norm = tensors_.find(name);
    if (norm == tensors_.end()) return;
    check(name, {norm->second->n_elements() == width ? width : head_dim});
  }

  void check_layers(const StackConfig& stack) const {
    const bool norms_before = stack.norm_placement == NormPlacement::kBefore;
    const bool norms_output = stack.norm_placement == NormPlacement::kOutput;
    const uint64_t d = stack.d_model;
    const std::string name(stack.name);
    bool has_sinks = false;  // all layers or none
    for (uint32_t n = 0; n < stack.n_layers; ++n) {
      has_sinks |= has(name + ".layers." + std::to_string(n) + ".attn.sinks.weight");
    }
    for (uint32_t n = 0; n < stack.n_layers; ++n) {
      const std::string layer = name + ".layers." + std::to_string(n);
      check_attention(layer + ".attn", stack);
      if (has_sinks) {
        check(layer + ".attn.sinks.weight", {stack.n_heads});
      }
      check_head_norm(layer + ".attn.q_norm.weight", stack.head_dim, stack.q_width());
      check_head_norm(layer + ".attn.k_norm.weight", stack.head_dim, stack.kv_width());
      if (norms_output) {
        check_norm(layer + ".attn_post_norm", d);
        check_norm(layer + ".ffn_post_norm", d);
      } else {
        // The first block of ModernBERT has no norm of its own; it follows the embedding norm.
        if (n > 0 || !norms_before || !has(name + ".embed_norm.weight")) {
          check_norm(layer + ".attn_norm", d);
        }
        check_norm(layer + ".ffn_norm", d);
      }
      if (stack.cross_attention) {
        check_norm(layer + ".cross_norm", d);
        check_attention(layer + ".cross", stack);
      }
      if (stack.experts.any() && has(layer + ".ffn.router.weight")) {
        check_experts(layer, stack);
      } else {
        if (stack.gated_ffn) check_linear(layer + ".ffn.gate", stack.d_ffn, d);
        check_linear(layer + ".ffn.up", stack.d_ffn, d);
        check_linear(layer + ".ffn.down", d, stack.d_ffn);
      }
      check_if_there(layer + ".attn_post_norm.weight", {d});
      check_if_there(layer + ".ffn_post_norm.weight", {d});
    }
    if (norms_before || norms_output) check_norm(name + ".norm", d);
  }

  void check_ids(const char* list, const std::vector<int32_t>& ids) const {
    for (const int32_t id : ids) {
      if (id < 0 || static_cast<uint32_t>(id) >= model_.n_vocab) {
        fail(std::string("expected token ids below ") + std::to_string(model_.n_vocab) + " in " +
             list + ", found " + std::to_string(id));
      }
    }
  }

  void check_whisper() const {
    const uint64_t d = model_.encoder().d_model;
    check_range("number of mels", model_.n_mels, kMostMels);
    check("encoder.conv1.weight", {d, model_.n_mels, 3});
    check("encoder.conv1.bias", {d});
    check("encoder.conv2.weight", {d, d, 3});
    check("encoder.conv2.bias", {d});
    if (!model_.mel_filters.empty() &&
        model_.mel_filters.size() != model_.n_mels * kMelFilterBins) {
      fail("expected mel filters of " + std::to_string(model_.n_mels) + " x 201 numbers, found " +
           std::to_string(model_.mel_filters.size()) + " numbers");
    }
    const StackConfig& decoder = model_.decoder();
    for (const auto& [layer, head] : model_.alignment_heads) {
      if (layer >= decoder.n_layers || head >= decoder.n_heads) {
        fail("expected alignment heads within " + std::to_string(decoder.n_layers) + " layers of " +
             std::to_string(decoder.n_heads) + " heads, found layer " + std::to_string(layer) +
             ", head " + std::to_string(head));
      }
    }
    check_ids("the suppressed tokens", model_.suppress_tokens);
    check_ids("the tokens suppressed at the beginning", model_.suppress_tokens_at_begin);
    if (contents_.vocabulary.size() > model_.n_vocab) {
      fail("expected a vocabulary of at most " + std::to_string(model_.n_vocab) +
           " tokens, found " + std::to_string(contents_.vocabulary.size()));
    }
  }

  const std::string& where_;
  const ModelContents& contents_;
  const ModelConfig& model_;
  std::unordered_map<std::string, const TensorView*> tensors_;
};

}  // namespace

void check_model(const std::string& where, ModelContents& contents) {
  try {
    ModelChecker(where, contents).run();
  } catch (const Error& error) {
    if (contents.config->type == ModelType::kWhisper) throw;
    contents.config->problem = error.what();
  }
}

const TensorView& require_tensor(const std::string& where, const ModelContents& contents,
                                 const std::string& name) {
  for (const TensorView& tensor : contents.tensors) {
    if (tensor.name == name) return tensor;
  }
  for (const UnreadableTensor& other : contents.unreadable) {
    if (other.name == name) {
      throw Error(ErrorKind::kModel, where + ": tensor " + name + " is in format " + other.format +
                                         ", which has no reader");
    }
  }
  throw Error(ErrorKind::kModel,
              where + ": expected a tensor " + name + ", found none of that name");
}

}  // namespace vesper
