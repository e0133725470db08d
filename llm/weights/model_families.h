// The model families that the engine runs: one row each.
//
// A row has the names of a family in each file format, and the properties that its files do not
// state. Properties that files state (sizes, biases, head norms, tied embeddings) are not in the
// table. docs/adding-a-model.md explains how to add a row.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "llm/config/model_config.h"
#include "llm/weights/tensor_names.h"

namespace vesper {

class ConfigJson;
struct ModelFamily;
// Reads the properties in a family's config.json besides the sizes.
using ReadConfigJson = void (*)(const ConfigJson&, const ModelFamily&, ModelConfig&);

// kAsInFile: gated if the file has gate tensors.
enum class FfnKind : uint32_t { kPlain, kGated, kAsInFile };

struct ModelFamily {
  std::string_view name;
  ModelType type = ModelType::kNone;

  // Names in the file formats; empty or null if the format does not have the family.
  // general.architecture. Of several families with one name, the first describes the files.
  std::string_view gguf = {};
  std::array<std::string_view, 3> hugging_face = {};  // config.json's model_type
  std::string_view hugging_face_positions = {};  // config.json's position_embedding_type; empty:
                                                 // any
  const TensorNaming* gguf_names = nullptr;
  const TensorNaming* hugging_face_names = nullptr;
  const TensorNaming* ctranslate2_names = nullptr;
  const TensorNaming* ggml_names = nullptr;
  ReadConfigJson read_config_json = nullptr;

  // As in StackConfig, for every stack of the model.
  NormKind norm = NormKind::kLayer;
  NormPlacement norm_placement = NormPlacement::kBefore;
  float norm_epsilon = 1e-5f;  // if the file has none
  Activation activation = Activation::kGelu;
  FfnKind ffn = FfnKind::kPlain;
  PositionKind positions = PositionKind::kVectors;
  bool is_bidirectional = false;   // a language model that embeds texts
  bool interleaved_rope = false;   // as StackConfig, in every file format
  bool scales_embedding = false;   // by sqrt(d_model)
  bool has_multipliers = false;    // files state them
  bool has_experts = false;        // in layers with a router; files state their number
  bool normalizes_experts = true;  // as ExpertsConfig, if the file does not state it

  // Rotary base if the file has none, and that of layers with a sliding window (0: the same).
  float rope_theta = 10000;
  float window_rope_theta = 0;
  bool unscaled_window_rope = false;  // layers with a window have the base of the others, unscaled
  bool truncates_yarn = true;         // as RopeSettings::truncates, if the file does not state it
  uint32_t rope_free_period = 0;  // every rope_free_period-th layer has no rotation; 0: all have

  // Every window_period-th layer has full attention; the others have a sliding window. 0: all have
  // full attention; 1: all have a window.
  uint32_t window_period = 0;
  bool full_layer_first = false;  // the first layer of a period has full attention, not the last

  // Properties of single file formats.
  bool gguf_interleaved_rope = false;     // llama.cpp's converter reorders queries and keys
  uint32_t gguf_width_scaled_layers = 0;  // the model with this number of layers scales attention
                                          // by sqrt(n_heads / d_model), which GGUF does not state
  bool hugging_face_alternates_gates = false;  // experts as in alternating_experts.h
  float hugging_face_norm_weight_offset = 0;   // included in GGUF norm weights by llama.cpp's
                                               // converter
};

// By the file's name; null if unknown.
const ModelFamily* find_gguf_family(std::string_view architecture);
const ModelFamily* find_hugging_face_family(std::string_view model_type,
                                            std::string_view position_embedding_type);
// Whether a family has this name, in the table or in a file format.
bool is_family(std::string_view name);
const ModelFamily& whisper_family();

// The family's row as a configuration without sizes.
ModelConfig start_config(const ModelFamily& family);

// Sets what follows from the sizes that a file states: n_kv_heads and head_dim where it has none,
// and embedding_scale.
void complete_sizes(const ModelFamily& family, StackConfig& stack);

// Factors of some families, such as Granite.
struct Multipliers {
  float embedding = 1;
  float residual = 1;   // of the output of each block, before the residual is added
  float attention = 0;  // on q . k; 0: 1 / sqrt(head_dim)
  float logits = 1;
};

// Sets the scales of the stack, and norm_epsilon: a residual stream that is divided by the factor
// of the blocks' outputs needs no such factor, and its norms are the same with another epsilon.
void set_multipliers(const Multipliers& multipliers, StackConfig& stack);

// Properties of single layers in a file.
struct LayerFacts {
  uint32_t sliding_window = 0;        // of layers that have one
  float window_rope_theta = 0;        // 0: the family's
  uint32_t window_period = 0;         // 0: the family's
  std::vector<bool> has_window = {};  // [n_layers]; empty: by the period
  std::vector<bool> has_rope = {};    // [n_layers]; empty: by the family
};

// Fills stack.layers. stack.ropes has the rope of layers without a window; adds that of layers with
// one. Lists of another length set model.unsupported.
void set_layers(const ModelFamily& family, const LayerFacts& facts, StackConfig& stack,
                ModelConfig& model);

}  // namespace vesper
