// The sizes of a model and the choices of its family.
//
// A reader (llm/weights) starts from the family's row (llm/weights/model_families.h), adds the
// values of the files, and checks the result once (llm/weights/model_check.h). The builders
// (llm/models, encoder, decoder) read it and never branch on a family's name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/config/rope.h"

namespace vesper {

enum class ModelType : uint32_t { kNone, kWhisper, kTextEncoder, kLanguageModel };
enum class AttentionKind : uint32_t { kBidirectional, kCausal };
enum class PositionKind : uint32_t {
  kVectors,  // a position embedding is added to the token embedding
  kRope,     // rotary embedding of queries and keys
  kAlibi,    // ALiBi (Press et al., "Train Short, Test Long", 2021)
};
enum class NormKind : uint32_t { kLayer, kRms };
// kBefore: before each block and once after the last layer. kAfter: after each block, on the sum
// with the residual. kOutput: on the output of each block, before the residual is added, and once
// after the last layer.
enum class NormPlacement : uint32_t { kBefore, kAfter, kOutput };
// kGelu: exact, with erf. kClampedSwiGlu: of gated blocks, see shaders/kernel_params.h.
enum class Activation : uint32_t { kGelu, kGeluTanh, kSilu, kRelu, kClampedSwiGlu };
inline constexpr float kSwiGluLimit = 7;  // of kClampedSwiGlu

// A mixture of experts in the place of a feed-forward block: a router, a matrix [n, d_model],
// chooses n_used of the n experts for each row, and their outputs are added with its weights. A
// shared expert is computed for every row; its output has the sigmoid of its own router's logit, a
// matrix [1, d_model], as weight (Qwen2-MoE).
struct ExpertsConfig {
  uint32_t n = 0;  // 0: no layer has experts
  uint32_t n_used = 0;
  uint32_t d_ffn = 0;      // of one expert
  uint32_t d_shared = 0;   // of the shared expert; 0: there is none
  bool normalizes = true;  // divides the weights of the chosen by their sum
  bool any() const { return n != 0; }
};

struct LayerConfig {
  // Sliding window: keys visible to a query, its own position included; to each side if the
  // attention is bidirectional. 0: all.
  uint32_t sliding_window = 0;
  std::optional<uint32_t> rope =
      std::nullopt;  // index into StackConfig::ropes; absent: no rotation
};

// A stack of transformer layers.
struct StackConfig {
  std::string_view name = {};  // "encoder" or "decoder": the first part of canonical tensor names
  uint32_t n_layers = 0;
  uint32_t d_model = 0;     // width of the residual stream
  uint32_t n_heads = 0;     // of queries
  uint32_t n_kv_heads = 0;  // of keys and values; divides n_heads
  uint32_t head_dim = 0;
  uint32_t d_ffn = 0;                    // width of the feed-forward block
  ExpertsConfig experts = {};            // of layers with a router
  uint32_t n_positions = 0;              // the longest sequence
  std::vector<LayerConfig> layers = {};  // [n_layers]

  AttentionKind attention = AttentionKind::kBidirectional;
  bool cross_attention = false;  // each layer also attends to the output of the other stack
  float attention_scale = 0;     // on q . k; 0: 1 / sqrt(head_dim)
  float attention_soft_cap = 0;  // on scores: cap * tanh(score / cap); 0: none

  PositionKind positions = PositionKind::kVectors;
  uint32_t first_position = 0;           // of the first token, in the position embedding
  uint32_t n_bias_buckets = 0;           // of distances with a bias in attention; 0: none
  std::vector<RopeSettings> ropes = {};  // settings that layers refer to
  bool interleaved_rope = false;         // pairs are neighbours; otherwise one element of each half

  NormKind norm = NormKind::kLayer;
  NormPlacement norm_placement = NormPlacement::kBefore;
  float norm_epsilon = 0;
  float norm_weight_offset = 0;  // added to every norm weight

  Activation activation = Activation::kGelu;
  bool gated_ffn = false;     // down(activation(gate x) * up x); otherwise down(activation(up x))
  float embedding_scale = 1;  // of token embeddings
  float logit_scale = 1;      // of logits, before their soft cap
  float logit_soft_cap = 0;   // 0: none

  uint32_t q_width() const { return n_heads * head_dim; }
  uint32_t kv_width() const { return n_kv_heads * head_dim; }
};

struct ModelConfig {
  ModelType type = ModelType::kNone;
  uint32_t n_vocab = 0;
  // Whisper has an encoder and a decoder. Other models have one stack.
  std::vector<StackConfig> stacks = {};
  // Features of the files that the engine does not know; empty if none.
  std::string unsupported = {};
  // Why the engine cannot run the model, with the file name; empty if it can.
  std::string problem = {};

  // Whisper only.
  uint32_t n_mels = 0;
  std::vector<float> mel_filters = {};  // [n_mels, 201]; empty: not in the file
  std::vector<std::array<uint32_t, 2>> alignment_heads =
      {};                                     // decoder's [layer, head]; may be empty
  std::vector<int32_t> suppress_tokens = {};  // list of the file; may be empty
  std::vector<int32_t> suppress_tokens_at_begin = {};

  const StackConfig& encoder() const { return stacks.front(); }
  const StackConfig& decoder() const { return stacks.back(); }  // what has tokens
  StackConfig& encoder() { return stacks.front(); }
  StackConfig& decoder() { return stacks.back(); }
};

}  // namespace vesper
