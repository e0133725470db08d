#include "llm/conversion/mixture.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "error/error.h"

namespace vesper {
namespace {

constexpr Mixture kMixtures[] = {
    {DType::kF32, 0, DType::kF32, DType::kF32, true},
    {DType::kF16, 1, DType::kF16, DType::kF16, true},
    {DType::kBF16, 32, DType::kBF16, DType::kBF16, true},
    {DType::kQ8_0, 7, DType::kQ8_0, DType::kQ8_0, true},
    {DType::kQ6_K, 18, DType::kQ6_K, DType::kQ6_K, true},
    {DType::kQ5_K, 17, DType::kQ6_K, DType::kQ6_K, false},
    {DType::kQ5_1, 9, DType::kQ6_K, DType::kQ5_1, true},
    {DType::kQ5_0, 8, DType::kQ6_K, DType::kQ5_0, true},
    {DType::kQ4_K, 15, DType::kQ6_K, DType::kQ6_K, false},
    {DType::kIQ4_NL, 25, DType::kQ6_K, DType::kQ5_K, false},
    {DType::kQ4_1, 3, DType::kQ6_K, DType::kQ4_1, true},
    {DType::kQ4_0, 2, DType::kQ6_K, DType::kQ4_0, true},
    {DType::kQ3_K, 12, DType::kQ6_K, DType::kQ4_K, true},
    {DType::kQ2_K, 10, DType::kQ6_K, DType::kQ3_K, true},
};

// Formats of blocks of 256, and the ones of 32 that llama.cpp takes in their place.
constexpr std::array<std::pair<DType, DType>, 5> kSmallerBlocks = {{{DType::kQ2_K, DType::kIQ4_NL},
                                                                    {DType::kQ3_K, DType::kIQ4_NL},
                                                                    {DType::kQ4_K, DType::kQ5_0},
                                                                    {DType::kQ5_K, DType::kQ5_1},
                                                                    {DType::kQ6_K, DType::kQ8_0}}};

// Parts of the names of small tensors, and of those that rows are taken from or added to.
constexpr std::array<std::string_view, 5> kExactNames = {"norm.", "ffn_gate_inp", "position_embd.",
                                                         "token_types.", "rope_f"};

bool stays_exact(const std::string& name, const std::vector<uint64_t>& shape) {
  return shape.size() < 2 || !name.ends_with(".weight") ||
         std::any_of(kExactNames.begin(), kExactNames.end(),
                     [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

uint32_t layer_of(const std::string& name) {
  constexpr std::string_view kPrefix = "blk.";
  uint32_t layer = 0;
  if (name.starts_with(kPrefix)) {
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  }
  return layer;
}

// The first and the last eighth of the layers, and every third one between them.
bool has_more_bits(uint32_t layer, uint32_t n_layers) {
  const uint32_t eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

}  // namespace

std::vector<std::string_view> mixture_names() {
  std::vector<std::string_view> names;
  for (const Mixture& mixture : kMixtures) names.push_back(dtype_descriptor(mixture.most).name);
  return names;
}

const Mixture& find_mixture(std::string_view name, const char* setting) {
  const auto found = std::find_if(
      std::begin(kMixtures), std::end(kMixtures),
      [&](const Mixture& mixture) { return dtype_descriptor(mixture.most).name == name; });
  if (found != std::end(kMixtures)) return *found;
  std::string names;
  for (const std::string_view known : mixture_names()) {
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  throw Error(ErrorKind::kUsage, setting,
              "expected one of " + names + ", found \"" + std::string(name) + "\"");
}

void MixtureModel::add(std::string_view tensor_name) {
  has_output |= tensor_name == "output.weight";
  n_layers += tensor_name.ends_with(".attn_output.weight");  // every layer has one
}

DType wanted_format(const Mixture& mixture, const MixtureModel& model, const std::string& name,
                    const std::vector<uint64_t>& shape) {
  if (stays_exact(name, shape)) return DType::kF32;
  if (name == (model.has_output ? "output.weight" : "token_embd.weight")) return mixture.output;
  const bool is_sensitive = name.find("attn_v.") != std::string::npos ||
                            name.find("attn_qkv.") != std::string::npos ||
                            name.find("ffn_down") != std::string::npos;
  const bool has_more = mixture.in_all_layers || has_more_bits(layer_of(name), model.n_layers);
  return is_sensitive && has_more ? mixture.sensitive : mixture.most;
}

DType fitting_format(DType wanted, uint64_t row_elements) {
  const auto fits = [&](DType dtype) { return row_elements % dtype_descriptor(dtype).block == 0; };
  if (fits(wanted)) return wanted;
  const auto found = std::find_if(kSmallerBlocks.begin(), kSmallerBlocks.end(),
                                  [&](const auto& row) { return row.first == wanted; });
  return found != kSmallerBlocks.end() && fits(found->second) ? found->second : DType::kF16;
}

DType wanted_whisper_format(const Mixture& mixture, std::string_view name,
                            const std::vector<uint64_t>& shape) {
  const bool is_convolution = shape.size() == 3;
  if (is_convolution) return mixture.most == DType::kF32 ? DType::kF32 : DType::kF16;
  const bool is_matrix = shape.size() == 2 && name.find("position") == std::string_view::npos;
  return is_matrix ? mixture.most : DType::kF32;
}

}  // namespace vesper
