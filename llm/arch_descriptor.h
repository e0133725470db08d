// What a family of models does, as data: one row a stack of layers.
//
// The builder (llm/transformer.h) reads a row and the tensors that are there; it never branches on
// a family's name. What a file can tell (biases, tied embeddings) is decided by the file.
#pragma once

#include <cstdint>
#include <string_view>

namespace vesper {

enum class NormKind : uint32_t { kLayer, kRms };
enum class Activation : uint32_t { kGelu };  // exact, with erf

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
};

// The row of that name. Throws Error(kModel) naming it if there is none.
const ArchDescriptor& arch_descriptor(std::string_view name);

// The sizes of one model's stack.
struct StackShape {
  uint32_t n_layers = 0;
  uint32_t d_model = 0;
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t d_ffn = 0;
  float norm_epsilon = 0;  // that the file states; 0: the family's
  uint32_t kv_width() const { return n_kv_heads * head_dim; }
  uint32_t q_width() const { return n_heads * head_dim; }
};

}  // namespace vesper
