// What a family of models does, as data: one row a stack of layers.
//
// The builder (llm/models/transformer.h) reads a row and the tensors that are there; it never
// branches on a family's name. What a file can tell (biases, tied embeddings) is decided by the
// file.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "llm/config/rope.h"

namespace vesper {

enum class NormKind : uint32_t { kLayer, kRms };
enum class Activation : uint32_t { kGelu, kGeluTanh, kSilu, kRelu };  // kGelu: exact, with erf

// Where the norms of a layer stand: before each block, and one after the last layer; or after each
// block and its residual, whose sum they replace.
enum class NormPlacement : uint32_t { kBefore, kAfter };

// Where a row looks: at every row of its own sequence, or at the positions up to its own.
enum class AttentionKind : uint32_t { kBidirectional, kCausal };

struct ArchDescriptor {
  std::string_view name;    // "whisper.encoder"
  std::string_view prefix;  // its canonical tensor names start with it: "encoder"
  AttentionKind attention;
  bool cross_attention;  // a second attention, to what another stack gave, in each layer
  NormKind norm;
  NormPlacement norm_placement;
  float norm_epsilon;  // where the file states none
  Activation activation;
  // What follows is for language models, where the file does not say otherwise.
  bool scales_embedding = false;  // by the root of d_model
  // Of each so many layers the last one sees everything, the others a window; 0: none has a window;
  // 1: all have.
  uint32_t window_period = 0;
  float window_rope_theta = 0;    // the base of the angles in layers with a window; 0: the same
  uint32_t rope_free_period = 0;  // of each so many layers the last one rotates nothing; 0: none
};

// The row of that name. Throws Error(kModel) naming it if there is none.
const ArchDescriptor& arch_descriptor(std::string_view name);

// How one layer differs from others of its stack.
struct LayerShape {
  // Positions that a row sees, its own among them: up to it, or, without an order, so far to both
  // sides. 0: all.
  uint32_t window = 0;
  std::optional<uint32_t> rope = std::nullopt;  // which of StackShape::ropes turns its heads
};

// The sizes of one model's stack.
struct StackShape {
  uint32_t n_layers = 0;
  uint32_t d_model = 0;
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t d_ffn = 0;
  float norm_epsilon = 0;  // that the file states; 0: the family's
  // Rotary positions (llm/config/rope.h), where there are any.
  std::vector<RopeSettings> ropes = {};
  bool interleaved_rope = false;  // a pair is two neighbours; else a number of each half
  uint32_t n_positions = 0;       // that can be rotated
  std::vector<LayerShape> layers =
      {};                        // [n_layers]; empty: all alike, turned by the first of `ropes`
  float attention_scale = 0;     // on q . k; 0: 1 / sqrt(head_dim)
  float attention_soft_cap = 0;  // 0: none
  bool alibi = false;            // scores fall with the distance, which tells positions
  float norm_weight_offset = 0;  // to be added to every weight that the file has
  uint32_t kv_width() const { return n_kv_heads * head_dim; }
  uint32_t q_width() const { return n_heads * head_dim; }
};

}  // namespace vesper
