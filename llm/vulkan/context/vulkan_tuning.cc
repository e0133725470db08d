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
constexpr MatmulTile kSmallTile = {64, 64, 32, 32, 32, 4, 650, 300};

template <size_t n>
constexpr std::array<MatmulTile, n> small_tiles() {
  std::array<MatmulTile, n> tiles;
  tiles.fill(kSmallTile);
  return tiles;
}

// Measured on an H200. Vector rows, 8 of them: 10 us instead of 13 on matrix units for 1280 x 1280,
// 11 instead of 21 for 5120 x 1280, but 26 instead of 16 for 1280 x 5120, which has few, long
// workgroups.
constexpr VulkanTuning kGpu = {
    .n_processors = 64,
    .threads = 256,
    .sampling_threads = 1024,
    .lstm_threads = 512,
    .long_attention_threads = 1024,
    .vector_subgroups = 4,
    .vector_split = 0,
    .vector_outs = 2,
    .vector_outs_of_many = 4,
    .vector_outs_minimums = 2,
    .vector_rows_of_many = 2,
    .vector_rows_of_long = 8,
    .vector_rows_of_small = 5,
    .vector_rows = 3,
    .vector_gate_rows = 4,
    .vector_norm_rows = 2,
    .vector_layer_norm_columns = 3072,
    .vector_ahead = 4,
    .int8_rows = 8,
    .int8_norm_rows = 1,
    .int8_row = {2, 8, 2, 1},
    .int8_row_to_int8 = {4, 16, 1, 1},
    .int8_long_row = {2, 16, 2, 1},
    .int8_long_row_to_int8 = {4, 16, 1, 2},
    .int8_rows_of_short = {2, 8, 2, 1},
    .int8_rows_of_long = {4, 4, 2, 1},
    .order_groups = 4,
    .large_tile_groups = 128,
    // Fitted to products of 16 to 128 rows on an H100, by Q4_0 weights of 4,096 x 4,096 to 28,672 x
    // 4,096 and f16 weights of 2,048 x 2,048 to 16,384 x 2,048, and adjusted by hand so that
    // encoders have the tiles that were fastest for them. For products of Llama-3.1-8B by Q4_0
    // weights on an H200, the tile and the number of splits that these numbers choose take 1.9%
    // longer than the best ones on average, 7.7% at most.
    .tiles = {{{16, 64, 128, 16, 16, 4, 753, 446},
               {16, 128, 64, 16, 32, 3, 750, 330},
               {16, 32, 256, 16, 16, 4, 1424, 501},
               {32, 128, 128, 32, 32, 2, 1307, 685},
               {32, 64, 64, 32, 16, 5, 649, 240},
               {32, 128, 64, 32, 16, 2, 611, 433},
               {32, 32, 256, 16, 16, 3, 1434, 599},
               {64, 64, 64, 32, 32, 4, 780, 290},
               {64, 128, 64, 32, 32, 2, 950, 430},
               {128, 128, 64, 64, 64, 2, 1900, 330},
               {128, 128, 64, 64, 32, 1, 830, 750},
               kSmallTile}},
    // Fitted to the encoders of base and large-v3-turbo, one window and eight, on an H200. The
    // times of the first tile, which is for few rows, are not measured.
    .matrix_tiles = {{{16, 64, 128, 16, 16, 4, 600, 300},
                      {32, 64, 64, 32, 16, 5, 300, 110},
                      {32, 128, 64, 32, 32, 4, 400, 150},
                      {48, 128, 64, 48, 32, 3, 600, 100},
                      {64, 128, 64, 64, 32, 3, 350, 300},
                      {64, 192, 64, 64, 48, 2, 1000, 60},
                      {64, 256, 64, 64, 64, 2, 1108, 236},
                      {80, 192, 64, 80, 48, 2, 1255, 60},
                      {80, 256, 64, 80, 64, 2, 1150, 320},
                      {128, 128, 64, 128, 32, 2, 792, 354},
                      kSmallTile}},
    .split_ns = 5000,
    .written_per_ns = 300,
    .grouped_weight_bytes = 16 << 20,
    .matmul_splits = 0,
    .attention_splits = 0,
    .step_attention = {2, 4, 256},
    .step_attention_of_few = {1, 4, 256},
    .step_attention_of_many = {4, 4, 128},
    .step_attention_of_codes = {4, 2, 256},
    .attention_tile = {4, 2, 64, 2},
    .attention_tile_of_wide_heads = {4, 1, 32, 1},
    .attention_shared = 0,
    .polls = true,
    .runs_in_order = false,
};

// Measured on lavapipe, which runs the subgroups of a workgroup one after another on a CPU.
constexpr VulkanTuning kSoftware = {
    .n_processors = 4,
    .threads = 64,
    .sampling_threads = 64,
    .lstm_threads = 64,
    .long_attention_threads = 64,
    .vector_subgroups = 1,
    .vector_split = 1,
    .vector_outs = 8,
    .vector_outs_of_many = 8,
    .vector_outs_minimums = 8,
    .vector_rows_of_many = 2,
    .vector_rows_of_long = 8,
    .vector_rows_of_small = 5,
    .vector_rows = 3,
    .vector_gate_rows = 4,
    .vector_norm_rows = 2,
    .vector_layer_norm_columns = 3072,
    .vector_ahead = 1,
    .int8_rows = 0,
    .int8_norm_rows = 1,
    .int8_row = {8, 2, 1, 1},
    .int8_row_to_int8 = {8, 2, 1, 8},
    .int8_long_row = {8, 2, 1, 2},
    .int8_long_row_to_int8 = {8, 2, 1, 8},
    .int8_rows_of_short = {8, 2, 1, 1},
    .int8_rows_of_long = {8, 2, 1, 2},
    .order_groups = 4,
    .large_tile_groups = UINT32_MAX,
    .tiles = small_tiles<kMatmulTiles>(),
    .matrix_tiles = small_tiles<kMatrixTiles>(),
    .split_ns = 5000,
    .written_per_ns = 300,
    .grouped_weight_bytes = 1 << 16,
    .matmul_splits = 0,
    .attention_splits = 0,
    .step_attention = {1, 1, 64},
    .step_attention_of_few = {1, 1, 64},
    .step_attention_of_many = {1, 1, 64},
    .step_attention_of_codes = {1, 1, 64},
    .attention_tile = {4, 2, 64, 2},
    .attention_tile_of_wide_heads = {4, 1, 32, 1},
    .attention_shared = 0,
    .polls = false,
    .runs_in_order = true,
};

// An entry of VESPER_TUNING sets its numbers, in order, in each list of fields.
struct Setting {
  std::string_view name;
  std::vector<std::vector<uint32_t*>> fields;
  bool may_be_zero = false;
};

std::vector<Setting> settings_of(VulkanTuning& t) {
  Setting tile{"matmul_tile", {}}, matrix_tile{"matrix_tile", {}};
  const auto add_tiles = [](Setting& setting, auto& tiles) {
    for (MatmulTile& m : tiles) {
      setting.fields.push_back({&m.rows, &m.outs, &m.depth, &m.subgroup_rows, &m.subgroup_outs});
    }
  };
  add_tiles(tile, t.tiles);
  add_tiles(matrix_tile, t.matrix_tiles);
  Setting shape{"int8_shape", {}};
  for (Int8Shape* m : {&t.int8_row, &t.int8_row_to_int8, &t.int8_long_row, &t.int8_long_row_to_int8,
                       &t.int8_rows_of_short, &t.int8_rows_of_long}) {
    shape.fields.push_back({&m->outs, &m->subgroups, &m->split, &m->turns});
  }
  Setting step{"step_attention", {}};
  for (StepAttention* m : {&t.step_attention, &t.step_attention_of_few, &t.step_attention_of_many,
                           &t.step_attention_of_codes}) {
    step.fields.push_back({&m->heads, &m->keys, &m->threads});
  }
  AttentionTile &a = t.attention_tile, &wide = t.attention_tile_of_wide_heads;
  return {tile,
          matrix_tile,
          {"matmul_splits", {{&t.matmul_splits}}},
          {"attention_tile",
           {{&a.subgroups, &a.down, &a.keys, &a.buffers},
            {&wide.subgroups, &wide.down, &wide.keys, &wide.buffers}}},
          {"attention_shared", {{&t.attention_shared}}},
          {"attention_splits", {{&t.attention_splits}}},
          step,
          {"int8_rows", {{&t.int8_rows, &t.int8_norm_rows}}},
          shape,
          {"vector_rows",
           {{&t.vector_rows_of_many, &t.vector_norm_rows},
            {&t.vector_rows_of_long, &t.vector_norm_rows},
            {&t.vector_rows_of_small, &t.vector_norm_rows},
            {&t.vector_rows, &t.vector_norm_rows},
            {&t.vector_gate_rows, &t.vector_norm_rows}}},
          {"vector_ahead", {{&t.vector_ahead}}},
          {"vector_shape",
           {{&t.vector_outs, &t.vector_split},
            {&t.vector_outs_of_many, &t.vector_split},
            {&t.vector_outs_minimums, &t.vector_split}}},
          {"order_groups", {{&t.order_groups}}, true}};
}

// "1x2x3"; empty unless all parts are numbers.
std::vector<uint32_t> numbers_of(std::string_view text) {
  std::vector<uint32_t> numbers;
  for (const char *at = text.data(), *const end = at + text.size();; ++at) {
    uint32_t number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    if (error != std::errc()) return {};
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
    const bool has_zero = std::find(numbers.begin(), numbers.end(), 0u) != numbers.end();
    if (setting == settings.end() || numbers.size() != setting->fields[0].size() ||
        (has_zero && !setting->may_be_zero)) {
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
