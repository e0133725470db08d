// embed: gathers rows of a packed weight. A row's pairs are 16 pairs apart in a panel, or
// consecutive in a row-major weight.
#include <algorithm>

#include "llm/cpu/matmul/packed_blocks.h"
#include "llm/cpu/prepared_command.h"
#include "llm/dtype/number_conversion.h"

namespace vesper {
namespace {

// Row `output` of a panel times `scale`. `to_f32` converts a stored element.
template <class Stored, class ToF32>
void gather_pairs(const PackedLayout& layout, const std::byte* panel, uint32_t output, float scale,
                  float* out, ToF32 to_f32) {
  const Stored* const from = reinterpret_cast<const Stored*>(panel) + output * 2;
  if (layout.panel_outputs == 1) {
    for (uint32_t i = 0; i < layout.n_in; ++i) out[i] = to_f32(from[i]) * scale;
    return;
  }
  for (uint32_t i = 0; i < layout.n_in; ++i) {
    out[i] = to_f32(from[(i / 2) * 2 * kPanelOutputs + i % 2]) * scale;
  }
}

void gather(const PackedLayout& layout, const std::byte* panel, uint32_t output, float scale,
            float* out) {
  switch (layout.format.storage) {
    case Storage::kF32:
      return gather_pairs<float>(layout, panel, output, scale, out, [](float x) { return x; });
    case Storage::kF16:
      return gather_pairs<uint16_t>(layout, panel, output, scale, out, f16_to_f32);
    case Storage::kBF16:
      return gather_pairs<uint16_t>(layout, panel, output, scale, out, bf16_to_f32);
    default: {
      const auto* const from = reinterpret_cast<const int8_t*>(panel) + output * 4;
      for (uint32_t i = 0; i < layout.n_in; ++i) {
        out[i] = static_cast<float>(from[(i / 4) * 4 * kPanelOutputs + i % 4]) * scale;
      }
    }
  }
}

void run_embed(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<EmbedParams>();
  const auto& layout = *static_cast<const PackedLayout*>(command.plan.get());
  const Row& row = command.operand<const Row>(1)[task];
  float* const out = command.operand<float>(0) + size_t{task} * params.d_model;
  const auto token = static_cast<uint32_t>(row.token);
  // Unused rows may have any token.
  if (row.sequence < 0 || token >= layout.n_out) {
    std::fill_n(out, params.d_model, 0.0f);
    return;
  }
  const std::byte* panel =
      command.operand<const std::byte>(2) + token / layout.panel_outputs * layout.panel_bytes;
  const float* const positions = command.operand<const float>(3);
  const float* position =
      positions == nullptr ? nullptr
                           : positions + size_t{static_cast<uint32_t>(row.position)} * layout.n_in;
  float scale = params.scale;
  if (layout.is_quantized()) {
    for (uint32_t i = 0; i < params.d_model; i += kBlockInputs) {
      read_block(layout, panel, token % kPanelOutputs, i, out + i);
      for (uint32_t j = i; j < i + kBlockInputs; ++j) {
        out[j] = out[j] * scale + (position == nullptr ? 0.0f : position[j]);
      }
    }
    return;
  }
  if (layout.has_row_scales()) scale *= command.operand<const float>(4)[token];
  gather(layout, panel, token % layout.panel_outputs, scale, out);
  if (position == nullptr) return;
  for (uint32_t i = 0; i < params.d_model; ++i) out[i] += position[i];
}

}  // namespace

void prepare_embed(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<EmbedParams>();
  command.require(params.n_rows > 0 && params.d_model > 0, "a size is zero");
  const std::optional<PackedFormat> format = PackedFormat::from_word(params.weight_format);
  command.require(format && format->storage != Storage::kThreeBF16,
                  "no kernel for this weight_format");
  // The number of rows follows from the size of the weight: panels are complete.
  PackedLayout layout = packed_layout(*format, kPanelOutputs, params.d_model);
  const Operand& weight = command.command().operands[2];
  layout.n_panels = static_cast<uint32_t>(weight.bytes / layout.panel_bytes);
  layout.n_out = layout.n_panels * layout.panel_outputs;
  command.require(layout.n_panels > 0, "the embedding is empty");
  command.require_bytes(0, uint64_t{params.n_rows} * params.d_model * 4);
  command.require_bytes(1, uint64_t{params.n_rows} * sizeof(Row));
  if (layout.is_quantized()) {
    command.require(params.d_model % kBlockInputs == 0,
                    "rows of a quantized weight are whole blocks of 32");
  } else if (layout.has_row_scales()) {
    command.require_bytes(4, 4);
    layout.n_out = std::min<uint64_t>(layout.n_out, command.command().operands[4].bytes / 4);
  }
  prepared.plan = std::make_shared<PackedLayout>(layout);
  prepared.run = run_embed;
  prepared.n_tasks = params.n_rows;
}

}  // namespace vesper
