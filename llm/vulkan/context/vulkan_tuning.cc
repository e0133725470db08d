#include "llm/vulkan/context/vulkan_tuning.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <vector>

#include "error/error.h"

namespace vesper {
namespace {

// Fits in 10 KiB of shared memory.
constexpr MatmulTile kSmallTile = {64, 64, 32, 32, 32};

// Measured on an H200. Vector rows, 8 of them: 10 us instead of 13 on matrix units for 1280 x 1280,
// 11 instead of 21 for 5120 x 1280, but 26 instead of 16 for 1280 x 5120, which has few, long
// workgroups.
constexpr VulkanTuning kGpu = {
    .n_processors = 64,
    .threads = 256,
    .filter_threads = 1024,
    .lstm_threads = 512,
    .long_attention_threads = 1024,
    .vector_subgroups = 4,
    .vector_split = 0,
    .vector_outs = 2,
    .vector_outs_of_many = 4,
    .vector_outs_minimums = 2,
    .vector_rows = 4,
    .vector_rows_of_long = 8,
    .vector_norm_rows = 2,
    .int8_rows = 8,
    .int8_norm_rows = 1,
    .int8_row = {2, 8, 2},
    .int8_row_to_int8 = {4, 16, 1},
    .int8_rows_of_short = {2, 8, 2},
    .int8_rows_of_long = {4, 4, 2},
    .large_tile_groups = 128,
    .tile_of_16_rows = {16, 32, 256, 16, 16},
    .tile_of_32_rows = {32, 32, 256, 16, 16},
    .tile_of_few = {64, 64, 64, 32, 32},
    .tile = {128, 128, 64, 64, 32},
    .tile_of_full_rounds = {128, 128, 64, 64, 64},
    .tile_of_small_memory = kSmallTile,
    .attention_splits = 0,
    .step_attention = {2, 4},
    .step_attention_of_codes = {4, 2},
    .attention_tile = {4, 2, 64, 2},
    .attention_tile_of_wide_heads = {4, 1, 64, 2},
    .attention_shared = 0,
    .polls = true,
    .runs_in_order = false,
};

// Measured on lavapipe, which runs the subgroups of a workgroup one after another on a CPU.
constexpr VulkanTuning kSoftware = {
    .n_processors = 4,
    .threads = 64,
    .filter_threads = 64,
    .lstm_threads = 64,
    .long_attention_threads = 64,
    .vector_subgroups = 1,
    .vector_split = 1,
    .vector_outs = 8,
    .vector_outs_of_many = 8,
    .vector_outs_minimums = 8,
    .vector_rows = 4,
    .vector_rows_of_long = 8,
    .vector_norm_rows = 2,
    .int8_rows = 0,
    .int8_norm_rows = 1,
    .int8_row = {8, 2, 1},
    .int8_row_to_int8 = {8, 2, 1},
    .int8_rows_of_short = {8, 2, 1},
    .int8_rows_of_long = {8, 2, 1},
    .large_tile_groups = UINT32_MAX,
    .tile_of_16_rows = kSmallTile,
    .tile_of_32_rows = kSmallTile,
    .tile_of_few = kSmallTile,
    .tile = kSmallTile,
    .tile_of_full_rounds = kSmallTile,
    .tile_of_small_memory = kSmallTile,
    .attention_splits = 0,
    .step_attention = {1, 1},
    .step_attention_of_codes = {1, 1},
    .attention_tile = {4, 2, 64, 2},
    .attention_tile_of_wide_heads = {4, 1, 64, 2},
    .attention_shared = 0,
    .polls = false,
    .runs_in_order = true,
};

// An entry of VESPER_TUNING sets its numbers, in order, in each list of fields.
struct Setting {
  std::string_view name;
  std::vector<std::vector<uint32_t*>> fields;
};

std::vector<Setting> settings_of(VulkanTuning& t) {
  Setting tile{"matmul_tile", {}};
  for (MatmulTile* m : {&t.tile_of_16_rows, &t.tile_of_32_rows, &t.tile_of_few, &t.tile,
                        &t.tile_of_full_rounds, &t.tile_of_small_memory}) {
    tile.fields.push_back({&m->rows, &m->outs, &m->depth, &m->subgroup_rows, &m->subgroup_outs});
  }
  Setting shape{"int8_shape", {}};
  for (Int8Shape* m :
       {&t.int8_row, &t.int8_row_to_int8, &t.int8_rows_of_short, &t.int8_rows_of_long}) {
    shape.fields.push_back({&m->outs, &m->subgroups, &m->split});
  }
  AttentionTile &a = t.attention_tile, &wide = t.attention_tile_of_wide_heads;
  return {tile,
          {"attention_tile",
           {{&a.subgroups, &a.down, &a.keys, &a.buffers},
            {&wide.subgroups, &wide.down, &wide.keys, &wide.buffers}}},
          {"attention_shared", {{&t.attention_shared}}},
          {"attention_splits", {{&t.attention_splits}}},
          {"step_attention",
           {{&t.step_attention.heads, &t.step_attention.keys},
            {&t.step_attention_of_codes.heads, &t.step_attention_of_codes.keys}}},
          {"int8_rows", {{&t.int8_rows, &t.int8_norm_rows}}},
          shape,
          {"vector_rows",
           {{&t.vector_rows, &t.vector_norm_rows}, {&t.vector_rows_of_long, &t.vector_norm_rows}}},
          {"vector_shape",
           {{&t.vector_outs, &t.vector_split},
            {&t.vector_outs_of_many, &t.vector_split},
            {&t.vector_outs_minimums, &t.vector_split}}}};
}

// "1x2x3"; empty unless all parts are positive numbers.
std::vector<uint32_t> numbers_of(std::string_view text) {
  std::vector<uint32_t> numbers;
  for (const char *at = text.data(), *const end = at + text.size();; ++at) {
    uint32_t number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number == 0) return {};
    numbers.push_back(number);
    if (after == end) return numbers;
    if (*after != 'x') return {};
    at = after;
  }
}

// "a=N, b=NxN or c=N"
std::string expected_entries(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) {
    if (!text.empty()) text += &setting == &settings.back() ? " or " : ", ";
    text += setting.name;
    for (size_t i = 0; i < setting.fields[0].size(); ++i) text += i == 0 ? "=N" : "xN";
  }
  return text;
}

}  // namespace

VulkanTuning vulkan_tuning(bool is_hardware_gpu, std::string_view changes) {
  VulkanTuning tuning = is_hardware_gpu ? kGpu : kSoftware;
  const std::vector<Setting> settings = settings_of(tuning);
  while (!changes.empty()) {
    const std::string_view entry = changes.substr(0, changes.find(','));
    changes.remove_prefix(std::min(changes.size(), entry.size() + 1));
    const size_t equals = std::min(entry.find('='), entry.size());
    const std::vector<uint32_t> numbers =
        numbers_of(entry.substr(std::min(equals + 1, entry.size())));
    const auto setting = std::find_if(settings.begin(), settings.end(), [&](const Setting& row) {
      return row.name == entry.substr(0, equals);
    });
    if (setting == settings.end() || numbers.size() != setting->fields[0].size()) {
      throw Error(ErrorKind::kUsage, "VESPER_TUNING: expected " + expected_entries(settings) +
                                         ", found '" + std::string(entry) + "'");
    }
    for (const std::vector<uint32_t*>& fields : setting->fields) {
      for (size_t i = 0; i < fields.size(); ++i) *fields[i] = numbers[i];
    }
  }
  return tuning;
}

VulkanTuning vulkan_tuning(bool is_hardware_gpu) {
  const char* const changes = std::getenv("VESPER_TUNING");
  return vulkan_tuning(is_hardware_gpu, changes == nullptr ? "" : changes);
}

}  // namespace vesper
