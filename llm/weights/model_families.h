// The families of models that the engine runs: one row each.
//
// A row says what each file format calls the family, and what the family does that its files do not
// state. What a file can tell (sizes, biases, norms of heads, tied embeddings) is not in the table.
// docs/adding-a-model.md explains how to add a row.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "llm/config/model_config.h"
#include "llm/weights/tensor_names.h"

namespace vesper {

class ConfigJson;
struct ModelFamily;
// Reads what a family's config.json states besides the sizes.
using ReadConfigJson = void (*)(const ConfigJson&, const ModelFamily&, ModelConfig&);

// kAsInFile: gated where the file has gates.
enum class FfnKind : uint32_t { kPlain, kGated, kAsInFile };

struct ModelFamily {
  std::string_view name;
  ModelType type;

  // What the formats call it; empty or null where the format does not have it.
  std::string_view gguf = {};                         // general.architecture
  std::array<std::string_view, 3> hugging_face = {};  // config.json's model_type
  std::string_view hugging_face_positions = {};       // its position_embedding_type; empty: any
  const TensorNaming* gguf_names = nullptr;
  const TensorNaming* hugging_face_names = nullptr;
  const TensorNaming* ctranslate2_names = nullptr;
  const TensorNaming* ggml_names = nullptr;
  ReadConfigJson read_config_json = nullptr;

  // As in StackConfig, for every stack of the model.
  NormKind norm = NormKind::kLayer;
  NormPlacement norm_placement = NormPlacement::kBefore;
  float norm_epsilon = 1e-5f;  // where the file states none
  Activation activation = Activation::kGelu;
  FfnKind ffn = FfnKind::kPlain;
  PositionKind positions = PositionKind::kVectors;
  bool scales_embedding = false;  // by sqrt(d_model)

  // Rotary positions: the base where the file states none, and that of layers with a sliding
  // window (0: the same).
  float rope_theta = 10000;
  float window_rope_theta = 0;
  uint32_t rope_free_period = 0;  // every so many layers the last one has no rotation; 0: none

  // One of every window_period layers has full attention, the others a sliding window. 0: no layer
  // has a window; 1: all have.
  uint32_t window_period = 0;
  bool full_layer_first = false;  // the first of the period is the full one; else the last

  // Of single formats.
  bool gguf_interleaved_rope = false;         // llama.cpp's converter reorders queries and keys
  uint32_t gguf_width_scaled_layers = 0;      // the model with so many layers scales attention by
                                              // sqrt(n_heads / d_model), which GGUF does not state
  float hugging_face_norm_weight_offset = 0;  // llama.cpp's converter adds it
};

// By the file's name for it; null if the engine does not know it.
const ModelFamily* find_gguf_family(std::string_view architecture);
const ModelFamily* find_hugging_face_family(std::string_view model_type,
                                            std::string_view position_embedding_type);
// Whether a family has that name, as ours or in one of the formats.
bool is_family(std::string_view name);
const ModelFamily& whisper_family();

// The family's row as a model whose sizes are not known yet.
ModelConfig start_config(const ModelFamily& family);

// Sets embedding_scale, once d_model is known.
void scale_embedding(const ModelFamily& family, StackConfig& stack);

// What a file states layer by layer.
struct LayerFacts {
  uint32_t sliding_window = 0;        // of the layers that have one
  float window_rope_theta = 0;        // 0: the family's
  uint32_t window_period = 0;         // 0: the family's
  std::vector<bool> has_window = {};  // [n_layers]; empty: by the period
  std::vector<bool> has_rope = {};    // [n_layers]; empty: by the family
};

// Fills stack.layers and adds the rope of layers with a window to stack.ropes, which holds that of
// the others. Lists of another length become model.unsupported.
void set_layers(const ModelFamily& family, const LayerFacts& facts, StackConfig& stack,
                ModelConfig& model);

}  // namespace vesper
