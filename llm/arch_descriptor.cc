#include "llm/arch_descriptor.h"

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
};

}  // namespace

const ArchDescriptor& arch_descriptor(std::string_view name) {
  for (const ArchDescriptor& row : kArchitectures) {
    if (row.name == name) return row;
  }
  throw Error(ErrorKind::kModel, "no architecture '" + std::string(name) + "' is known");
}

}  // namespace vesper
