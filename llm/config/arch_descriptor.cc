#include "llm/config/arch_descriptor.h"

#include <array>
#include <string>

#include "error/error.h"

namespace vesper {
namespace {

// Whisper: Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision" (2022);
// epsilon is that of the published model code.
constexpr std::array kArchitectures{
    ArchDescriptor{.name = "whisper.encoder",
                   .prefix = "encoder",
                   .attention = AttentionKind::kBidirectional,
                   .cross_attention = false,
                   .norm = NormKind::kLayer,
                   .norm_placement = NormPlacement::kBefore,
                   .norm_epsilon = 1e-5f,
                   .activation = Activation::kGelu},
    ArchDescriptor{.name = "whisper.decoder",
                   .prefix = "decoder",
                   .attention = AttentionKind::kCausal,
                   .cross_attention = true,
                   .norm = NormKind::kLayer,
                   .norm_placement = NormPlacement::kBefore,
                   .norm_epsilon = 1e-5f,
                   .activation = Activation::kGelu},
    // Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2018).
    ArchDescriptor{.name = "bert",
                   .prefix = "encoder",
                   .attention = AttentionKind::kBidirectional,
                   .cross_attention = false,
                   .norm = NormKind::kLayer,
                   .norm_placement = NormPlacement::kAfter,
                   .norm_epsilon = 1e-12f,
                   .activation = Activation::kGelu},
    // Nussbaum et al., "Nomic Embed" (2024). Gates and rotary angles are in the file.
    ArchDescriptor{.name = "nomic-bert",
                   .prefix = "encoder",
                   .attention = AttentionKind::kBidirectional,
                   .cross_attention = false,
                   .norm = NormKind::kLayer,
                   .norm_placement = NormPlacement::kAfter,
                   .norm_epsilon = 1e-12f,
                   .activation = Activation::kSilu},
    // Warner et al., "Smarter, Better, Faster, Longer" (2024), ModernBERT.
    ArchDescriptor{.name = "modernbert",
                   .prefix = "encoder",
                   .attention = AttentionKind::kBidirectional,
                   .cross_attention = false,
                   .norm = NormKind::kLayer,
                   .norm_placement = NormPlacement::kBefore,
                   .norm_epsilon = 1e-5f,
                   .activation = Activation::kGelu},
    // Touvron et al., "LLaMA" (2023); so are LLaMA 2 and 3, SmolLM2 and many others.
    ArchDescriptor{.name = "llama",
                   .prefix = "decoder",
                   .attention = AttentionKind::kCausal,
                   .cross_attention = false,
                   .norm = NormKind::kRms,
                   .norm_placement = NormPlacement::kBefore,
                   .norm_epsilon = 1e-5f,
                   .activation = Activation::kSilu},
    // Jiang et al., "Mistral 7B" (2023).
    ArchDescriptor{.name = "mistral",
                   .prefix = "decoder",
                   .attention = AttentionKind::kCausal,
                   .cross_attention = false,
                   .norm = NormKind::kRms,
                   .norm_placement = NormPlacement::kBefore,
                   .norm_epsilon = 1e-5f,
                   .activation = Activation::kSilu,
                   .window_period = 1},
    // Yang et al., "Qwen2 Technical Report" (2024); so is Qwen2.5. Biases are in the file.
    ArchDescriptor{.name = "qwen2",
                   .prefix = "decoder",
                   .attention = AttentionKind::kCausal,
                   .cross_attention = false,
                   .norm = NormKind::kRms,
                   .norm_placement = NormPlacement::kBefore,
                   .norm_epsilon = 1e-6f,
                   .activation = Activation::kSilu},
    // Yang et al., "Qwen3 Technical Report" (2025). Norms of heads are in the file.
    ArchDescriptor{.name = "qwen3",
                   .prefix = "decoder",
                   .attention = AttentionKind::kCausal,
                   .cross_attention = false,
                   .norm = NormKind::kRms,
                   .norm_placement = NormPlacement::kBefore,
                   .norm_epsilon = 1e-6f,
                   .activation = Activation::kSilu},
    // Gemma Team, "Gemma" (2024).
    ArchDescriptor{.name = "gemma",
                   .prefix = "decoder",
                   .attention = AttentionKind::kCausal,
                   .cross_attention = false,
                   .norm = NormKind::kRms,
                   .norm_placement = NormPlacement::kBefore,
                   .norm_epsilon = 1e-6f,
                   .activation = Activation::kGeluTanh,
                   .scales_embedding = true},
    // Gemma Team, "Gemma 2" (2024). Norms behind blocks are in the file.
    ArchDescriptor{.name = "gemma2",
                   .prefix = "decoder",
                   .attention = AttentionKind::kCausal,
                   .cross_attention = false,
                   .norm = NormKind::kRms,
                   .norm_placement = NormPlacement::kBefore,
                   .norm_epsilon = 1e-6f,
                   .activation = Activation::kGeluTanh,
                   .scales_embedding = true,
                   .window_period = 2},
    // Gemma Team, "Gemma 3 Technical Report" (2025).
    ArchDescriptor{.name = "gemma3",
                   .prefix = "decoder",
                   .attention = AttentionKind::kCausal,
                   .cross_attention = false,
                   .norm = NormKind::kRms,
                   .norm_placement = NormPlacement::kBefore,
                   .norm_epsilon = 1e-6f,
                   .activation = Activation::kGeluTanh,
                   .scales_embedding = true,
                   .window_period = 6,
                   .window_rope_theta = 10000},
    // Abdin et al., "Phi-3 Technical Report" (2024).
    ArchDescriptor{.name = "phi3",
                   .prefix = "decoder",
                   .attention = AttentionKind::kCausal,
                   .cross_attention = false,
                   .norm = NormKind::kRms,
                   .norm_placement = NormPlacement::kBefore,
                   .norm_epsilon = 1e-5f,
                   .activation = Activation::kSilu,
                   .window_period = 1},
    // Bakouch et al., "SmolLM3: smol, multilingual, long-context reasoner" (2025).
    ArchDescriptor{.name = "smollm3",
                   .prefix = "decoder",
                   .attention = AttentionKind::kCausal,
                   .cross_attention = false,
                   .norm = NormKind::kRms,
                   .norm_placement = NormPlacement::kBefore,
                   .norm_epsilon = 1e-6f,
                   .activation = Activation::kSilu,
                   .rope_free_period = 4},
};

}  // namespace

const ArchDescriptor& arch_descriptor(std::string_view name) {
  for (const ArchDescriptor& row : kArchitectures) {
    if (row.name == name) return row;
  }
  throw Error(ErrorKind::kModel, "no architecture '" + std::string(name) + "' is known");
}

}  // namespace vesper
