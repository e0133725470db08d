#include "llm/weights/model_families.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "llm/weights/hugging_face/config_json.h"
#include "llm/weights/model_check.h"

namespace vesper {
namespace {

// What the rows of language models share.
constexpr ModelFamily language_model(
    ModelFamily row, const TensorNaming& hugging_face_names = kHuggingFaceLanguageModelNaming) {
  row.type = ModelType::kLanguageModel;
  if (!row.gguf.empty() && row.gguf_names == nullptr) row.gguf_names = &kGgufLanguageModelNaming;
  row.hugging_face_names = &hugging_face_names;
  row.read_config_json = read_language_model;
  row.norm = NormKind::kRms;
  row.ffn = FfnKind::kGated;
  row.positions = PositionKind::kRope;
  return row;
}

constexpr ModelFamily text_encoder(ModelFamily row) {
  row.type = ModelType::kTextEncoder;
  row.ffn = FfnKind::kAsInFile;
  return row;
}

// Text encoders whose layers are BERT's.
constexpr ModelFamily bert_encoder(ModelFamily row) {
  row.norm_placement = NormPlacement::kAfter;
  row.norm_epsilon = 1e-12f;
  return text_encoder(row);
}

constexpr ModelFamily kFamilies[] = {
    // Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision" (2022).
    {.name = "whisper",
     .type = ModelType::kWhisper,
     .hugging_face = {"whisper"},
     .hugging_face_names = &kHuggingFaceWhisperNaming,
     .ctranslate2_names = &kCTranslate2WhisperNaming,
     .ggml_names = &kGgmlWhisperNaming},
    // Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2018). In GGUF also
    // RoBERTa, without the unused position embeddings.
    bert_encoder({.name = "bert",
                  .gguf = "bert",
                  .hugging_face = {"bert"},
                  .gguf_names = &kGgufTextEncoderNaming,
                  .hugging_face_names = &kHuggingFaceBertNaming,
                  .read_config_json = read_bert}),
    // Liu et al., "RoBERTa" (2019), and XLM-R.
    bert_encoder({.name = "roberta",
                  .gguf = "bert",
                  .hugging_face = {"roberta", "xlm-roberta", "camembert"},
                  .hugging_face_names = &kHuggingFaceRobertaNaming,
                  .read_config_json = read_roberta}),
    // Song et al., "MPNet" (2020).
    bert_encoder({.name = "mpnet",
                  .hugging_face = {"mpnet"},
                  .hugging_face_names = &kHuggingFaceMpnetNaming,
                  .read_config_json = read_mpnet}),
    // Guenther et al., "Jina Embeddings 2" (2023).
    bert_encoder({.name = "jina-bert",
                  .hugging_face = {"bert"},
                  .hugging_face_positions = "alibi",
                  .hugging_face_names = &kHuggingFaceJinaBertNaming,
                  .read_config_json = read_jina_bert,
                  .positions = PositionKind::kAlibi}),
    // Zhang et al., "mGTE" (2024): Alibaba's encoders from 2024 on.
    bert_encoder({.name = "new",
                  .hugging_face = {"new"},
                  .hugging_face_names = &kHuggingFaceNewNaming,
                  .read_config_json = read_new,
                  .positions = PositionKind::kRope}),
    // Nussbaum et al., "Nomic Embed" (2024).
    bert_encoder({.name = "nomic-bert",
                  .gguf = "nomic-bert",
                  .hugging_face = {"nomic_bert"},
                  .gguf_names = &kGgufTextEncoderNaming,
                  .hugging_face_names = &kHuggingFaceNomicBertNaming,
                  .read_config_json = read_nomic_bert,
                  .activation = Activation::kSilu,
                  .positions = PositionKind::kRope,
                  .rope_theta = 1000}),
    // Warner et al., "Smarter, Better, Faster, Longer" (2024).
    text_encoder({.name = "modernbert",
                  .gguf = "modern-bert",
                  .hugging_face = {"modernbert"},
                  .gguf_names = &kGgufModernBertNaming,
                  .hugging_face_names = &kHuggingFaceModernBertNaming,
                  .read_config_json = read_modern_bert,
                  .positions = PositionKind::kRope,
                  .rope_theta = 160000,
                  .window_rope_theta = 10000,
                  .window_period = 3,
                  .full_layer_first = true}),
    // Touvron et al., "LLaMA" (2023); also LLaMA 2 and 3, SmolLM2 and many others.
    language_model({.name = "llama",
                    .gguf = "llama",
                    .hugging_face = {"llama"},
                    .activation = Activation::kSilu,
                    .has_experts = true,
                    .gguf_interleaved_rope = true}),
    // Jiang et al., "Mistral 7B" (2023). llama in GGUF.
    language_model({.name = "mistral",
                    .gguf = "llama",
                    .hugging_face = {"mistral"},
                    .activation = Activation::kSilu,
                    .window_period = 1}),
    // Yang et al., "Qwen2 Technical Report" (2024); also Qwen2.5.
    language_model({.name = "qwen2",
                    .gguf = "qwen2",
                    .hugging_face = {"qwen2"},
                    .norm_epsilon = 1e-6f,
                    .activation = Activation::kSilu}),
    // Yang et al., "Qwen3 Technical Report" (2025).
    language_model({.name = "qwen3",
                    .gguf = "qwen3",
                    .hugging_face = {"qwen3"},
                    .norm_epsilon = 1e-6f,
                    .activation = Activation::kSilu}),
    // Qwen Team, "Qwen1.5-MoE" (2024), and the mixture of experts of Qwen2's report.
    language_model({.name = "qwen2-moe",
                    .gguf = "qwen2moe",
                    .hugging_face = {"qwen2_moe"},
                    .norm_epsilon = 1e-6f,
                    .activation = Activation::kSilu,
                    .has_experts = true,
                    .normalizes_experts = false}),
    // The mixtures of experts of Qwen3's report.
    language_model({.name = "qwen3-moe",
                    .gguf = "qwen3moe",
                    .hugging_face = {"qwen3_moe"},
                    .norm_epsilon = 1e-6f,
                    .activation = Activation::kSilu,
                    .has_experts = true}),
    // Jiang et al., "Mixtral of Experts" (2024). llama in GGUF.
    language_model({.name = "mixtral",
                    .gguf = "llama",
                    .hugging_face = {"mixtral"},
                    .activation = Activation::kSilu,
                    .has_experts = true,
                    .window_period = 1}),
    // Muennighoff et al., "OLMoE" (2024).
    language_model({.name = "olmoe",
                    .gguf = "olmoe",
                    .hugging_face = {"olmoe"},
                    .activation = Activation::kSilu,
                    .has_experts = true,
                    .normalizes_experts = false}),
    // OLMo Team, "2 OLMo 2 Furious" (2025), and OLMo 3, which has windows.
    language_model({.name = "olmo2",
                    .gguf = "olmo2",
                    .hugging_face = {"olmo2", "olmo3"},
                    .norm_placement = NormPlacement::kOutput,
                    .norm_epsilon = 1e-6f,
                    .activation = Activation::kSilu,
                    .rope_theta = 500000,
                    .unscaled_window_rope = true,
                    .window_period = 4},
                   kHuggingFacePostNormNaming),
    // Granite Team, "Granite 3.0 Language Models" (2024).
    language_model({.name = "granite",
                    .gguf = "granite",
                    .hugging_face = {"granite"},
                    .norm_epsilon = 1e-6f,
                    .activation = Activation::kSilu,
                    .has_multipliers = true,
                    .gguf_interleaved_rope = true}),
    // The mixtures of experts of the same report.
    language_model({.name = "granite-moe",
                    .gguf = "granitemoe",
                    .hugging_face = {"granitemoe"},
                    .norm_epsilon = 1e-6f,
                    .activation = Activation::kSilu,
                    .has_multipliers = true,
                    .has_experts = true,
                    .gguf_interleaved_rope = true}),
    // GLM Team, "ChatGLM" (2024): GLM-4-9B.
    language_model({.name = "glm",
                    .gguf = "chatglm",
                    .hugging_face = {"glm"},
                    .gguf_names = &kGgufPhi3Naming,
                    .activation = Activation::kSilu,
                    .interleaved_rope = true}),
    // GLM-4-0414 (2025).
    language_model({.name = "glm4",
                    .gguf = "glm4",
                    .hugging_face = {"glm4"},
                    .gguf_names = &kGgufPhi3Naming,
                    .activation = Activation::kSilu,
                    .interleaved_rope = true},
                   kHuggingFaceGlm4Naming),
    // Gemma Team, "Gemma" (2024).
    language_model({.name = "gemma",
                    .gguf = "gemma",
                    .hugging_face = {"gemma"},
                    .norm_epsilon = 1e-6f,
                    .activation = Activation::kGeluTanh,
                    .scales_embedding = true,
                    .hugging_face_norm_weight_offset = 1}),
    // Gemma Team, "Gemma 2" (2024).
    language_model({.name = "gemma2",
                    .gguf = "gemma2",
                    .hugging_face = {"gemma2"},
                    .norm_epsilon = 1e-6f,
                    .activation = Activation::kGeluTanh,
                    .scales_embedding = true,
                    .window_period = 2,
                    .gguf_width_scaled_layers = 46,
                    .hugging_face_norm_weight_offset = 1},
                   kHuggingFacePostNormNaming),
    // Gemma Team, "Gemma 3 Technical Report" (2025).
    language_model({.name = "gemma3",
                    .gguf = "gemma3",
                    .hugging_face = {"gemma3_text", "gemma3"},
                    .norm_epsilon = 1e-6f,
                    .activation = Activation::kGeluTanh,
                    .scales_embedding = true,
                    .window_rope_theta = 10000,
                    .window_period = 6,
                    .gguf_width_scaled_layers = 62,
                    .hugging_face_norm_weight_offset = 1},
                   kHuggingFacePostNormNaming),
    // Vera et al., "EmbeddingGemma" (2025). gemma3_text in config.json.
    language_model({.name = "embedding-gemma",
                    .gguf = "gemma-embedding",
                    .norm_epsilon = 1e-6f,
                    .activation = Activation::kGeluTanh,
                    .is_bidirectional = true,
                    .scales_embedding = true,
                    .window_rope_theta = 10000,
                    .window_period = 6},
                   kHuggingFacePostNormNaming),
    // Abdin et al., "Phi-3 Technical Report" (2024); also Phi-4.
    language_model({.name = "phi3",
                    .gguf = "phi3",
                    .hugging_face = {"phi3"},
                    .gguf_names = &kGgufPhi3Naming,
                    .activation = Activation::kSilu,
                    .window_period = 1}),
    // OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card" (2025). GGUF does not state that the ends of
    // YaRN's blend are not integers.
    language_model({.name = "gpt-oss",
                    .gguf = "gpt-oss",
                    .hugging_face = {"gpt_oss"},
                    .gguf_names = &kGgufGptOssNaming,
                    .activation = Activation::kClampedSwiGlu,
                    .has_experts = true,
                    .rope_theta = 150000,
                    .truncates_yarn = false,
                    .window_period = 2,
                    .hugging_face_alternates_gates = true}),
    // Bakouch et al., "SmolLM3: smol, multilingual, long-context reasoner" (2025).
    language_model({.name = "smollm3",
                    .gguf = "smollm3",
                    .hugging_face = {"smollm3"},
                    .norm_epsilon = 1e-6f,
                    .activation = Activation::kSilu,
                    .rope_free_period = 4,
                    .gguf_interleaved_rope = true}),
};

bool is_model_type(const ModelFamily& family, std::string_view model_type) {
  return !model_type.empty() && std::find(family.hugging_face.begin(), family.hugging_face.end(),
                                          model_type) != family.hugging_face.end();
}

StackConfig start_stack(const ModelFamily& family, std::string_view name) {
  const bool is_decoder = name == "decoder";
  StackConfig stack;
  stack.name = name;
  stack.attention = is_decoder && !family.is_bidirectional ? AttentionKind::kCausal
                                                           : AttentionKind::kBidirectional;
  stack.cross_attention = is_decoder && family.type == ModelType::kWhisper;
  stack.positions = family.positions;
  stack.interleaved_rope = family.interleaved_rope;
  stack.norm = family.norm;
  stack.norm_placement = family.norm_placement;
  stack.norm_epsilon = family.norm_epsilon;
  stack.activation = family.activation;
  stack.gated_ffn = family.ffn == FfnKind::kGated;
  stack.experts.normalizes = family.normalizes_experts;
  return stack;
}

}  // namespace

const ModelFamily* find_gguf_family(std::string_view architecture) {
  for (const ModelFamily& family : kFamilies) {
    if (!architecture.empty() && family.gguf == architecture) return &family;
  }
  return nullptr;
}

const ModelFamily* find_hugging_face_family(std::string_view model_type,
                                            std::string_view position_embedding_type) {
  const ModelFamily* found = nullptr;
  for (const ModelFamily& family : kFamilies) {
    if (!is_model_type(family, model_type)) continue;
    if (family.hugging_face_positions == position_embedding_type) return &family;
    if (family.hugging_face_positions.empty()) found = &family;
  }
  return found;
}

bool is_family(std::string_view name) {
  return std::any_of(std::begin(kFamilies), std::end(kFamilies), [&](const ModelFamily& family) {
    return name == family.name || is_model_type(family, name) ||
           (!name.empty() && family.gguf == name);
  });
}

const ModelFamily& whisper_family() { return kFamilies[0]; }

ModelConfig start_config(const ModelFamily& family) {
  ModelConfig model;
  model.type = family.type;
  if (family.type != ModelType::kLanguageModel) {
    model.stacks.push_back(start_stack(family, "encoder"));
  }
  if (family.type != ModelType::kTextEncoder) {
    model.stacks.push_back(start_stack(family, "decoder"));
  }
  return model;
}

void complete_sizes(const ModelFamily& family, StackConfig& stack) {
  if (stack.n_kv_heads == 0) stack.n_kv_heads = stack.n_heads;
  if (stack.head_dim == 0 && stack.n_heads != 0) stack.head_dim = stack.d_model / stack.n_heads;
  if (family.scales_embedding) {
    stack.embedding_scale = std::sqrt(static_cast<float>(stack.d_model));
  }
}

void set_multipliers(const Multipliers& multipliers, StackConfig& stack) {
  stack.embedding_scale *= multipliers.embedding / multipliers.residual;
  stack.norm_epsilon /= multipliers.residual * multipliers.residual;
  if (multipliers.attention > 0) stack.attention_scale = multipliers.attention;
  stack.logit_scale = multipliers.logits;
}

void set_layers(const ModelFamily& family, const LayerFacts& facts, StackConfig& stack,
                ModelConfig& model) {
  stack.layers.clear();
  if (stack.n_layers > kMostLayers) return;  // reported by check_model
  const auto is_list = [&](const char* what, size_t length) {
    if (length != 0 && length != stack.n_layers && model.unsupported.empty()) {
      model.unsupported = std::string("expected ") + what + " for " +
                          std::to_string(stack.n_layers) + ", found " + std::to_string(length);
    }
    return length == stack.n_layers;
  };
  const bool lists_windows = is_list("window of layers", facts.has_window.size());
  const bool lists_ropes = is_list("rope of layers", facts.has_rope.size());
  float window_theta =
      facts.window_rope_theta > 0 ? facts.window_rope_theta : family.window_rope_theta;
  if (window_theta == 0 && family.unscaled_window_rope && facts.sliding_window > 0) {
    window_theta = stack.ropes[0].theta;
  }
  if (!stack.ropes.empty() && window_theta > 0) {
    RopeSettings rope;
    rope.theta = window_theta;
    rope.n_pairs = stack.ropes[0].n_pairs;
    stack.ropes.push_back(std::move(rope));
  }
  const uint32_t period = facts.window_period != 0 ? facts.window_period : family.window_period;
  const uint32_t full_layer = family.full_layer_first ? 0 : period - 1;
  for (uint32_t i = 0; i < stack.n_layers; ++i) {
    const bool has_window = lists_windows ? facts.has_window[i]
                                          : period == 1 || (period > 1 && i % period != full_layer);
    const bool has_rope = lists_ropes
                              ? facts.has_rope[i]
                              : family.rope_free_period == 0 ||
                                    i % family.rope_free_period != family.rope_free_period - 1;
    LayerConfig& layer = stack.layers.emplace_back();
    if (has_window) layer.sliding_window = facts.sliding_window;
    if (has_rope && !stack.ropes.empty()) layer.rope = has_window && window_theta > 0 ? 1 : 0;
  }
}

}  // namespace vesper
