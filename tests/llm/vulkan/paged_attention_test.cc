#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "llm/dtype/kv_types.h"
#include "tests/llm/kernels/shuffled_pages.h"
#include "tests/llm/vulkan/device_fixture.h"
#include "tests/llm/vulkan/plain_attention.h"

namespace vesper::paged_attention_test {
namespace {

struct PagedCase {
  uint32_t n_heads, n_kv_heads, head_dim, page_rows, n_positions;
  DType in, kv;
  uint32_t kv_length;
};

class PagedAttention : public VulkanTest, public testing::WithParamInterface<PagedCase> {};

TEST_P(PagedAttention, ReadsKeysAndValuesUpToThePosition) {
  const PagedCase c = GetParam();
  constexpr uint32_t kSequences = 3;
  const uint32_t pages = (c.n_positions + c.page_rows - 1) / c.page_rows;
  const uint32_t kv_width = c.n_kv_heads * c.head_dim, q_width = c.n_heads * c.head_dim;
  const uint32_t width = q_width + 2 * kv_width;
  const std::vector<int32_t> page_table = test::shuffled_pages(kSequences * pages, engine_);
  const size_t page_numbers = page_table.size() * c.n_kv_heads * c.page_rows * c.head_dim;
  const Operand k_pages = poisoned(page_numbers, c.kv), v_pages = poisoned(page_numbers, c.kv);
  const Operand table_buffer = store_structs(page_table);

  // Every position of every sequence, written without a row table, in the layout of a fused
  // product.
  const uint32_t n_rows = kSequences * c.n_positions;
  std::vector<float> qkv = random(size_t{n_rows} * width);
  const Operand qkv_buffer = store(qkv, c.in);
  const uint64_t element = c.in == DType::kF16 ? 2 : 4;
  WriteKvParams write{};
  write.n_rows = n_rows;
  write.n_kv_heads = c.n_kv_heads;
  write.head_dim = c.head_dim;
  write.in_row_stride = width;
  write.page_rows = c.page_rows;
  write.pages_per_sequence = pages;
  write.rows_per_sequence = c.n_positions;
  write.in_dtype = static_cast<uint32_t>(c.in);
  write.kv_dtypes = KvTypes(c.kv).codes();
  DispatchTable table;
  emit::write_kv(table, "write", write, k_pages, v_pages, qkv_buffer.from(q_width * element),
                 qkv_buffer.from((q_width + kv_width) * element), {}, table_buffer);
  // Four rows: three used, one unused.
  const std::vector<Row> rows = {{0, 2, static_cast<int>(c.n_positions) - 1, 0},
                                 {0, 0, 0, 0},
                                 {0, -1, 0, 0},
                                 {0, 1, static_cast<int>(c.n_positions) / 2, 0}};
  const Operand out = poisoned(rows.size() * q_width, DType::kF32);
  PagedAttentionParams p{};
  p.n_rows = 4;
  p.n_heads = c.n_heads;
  p.n_kv_heads = c.n_kv_heads;
  p.head_dim = c.head_dim;
  p.q_row_stride = width;
  p.out_row_stride = q_width;
  p.page_rows = c.page_rows;
  p.pages_per_sequence = pages;
  p.kv_length = c.kv_length;
  p.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  p.q_dtype = static_cast<uint32_t>(c.in);
  p.kv_dtypes = KvTypes(c.kv).codes();
  p.out_dtype = kDTypeF32;
  emit::paged_attention(table, "attend", p, out, qkv_buffer, k_pages, v_pages, store_structs(rows),
                        table_buffer);
  run(table);
  const std::vector<float> found = load(out, DType::kF32);
  const double tolerance = c.kv == DType::kF16 ? 2e-3 : 1e-5;
  std::vector<double> wanted, size;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].sequence < 0) continue;
    const uint32_t first = static_cast<uint32_t>(rows[r].sequence) * c.n_positions;
    const uint32_t n = c.kv_length ? c.kv_length : static_cast<uint32_t>(rows[r].position) + 1;
    for (uint32_t h = 0; h < c.n_heads; ++h) {
      const uint32_t kv = h / (c.n_heads / c.n_kv_heads) * c.head_dim;
      const auto row = [&](uint32_t t) { return &qkv[size_t{first + t} * width]; };
      plain_attention(
          &qkv[r * width + h * c.head_dim], c.head_dim, n, p.scale,
          [&](uint32_t t) { return row(t) + q_width + kv; },
          [&](uint32_t t) { return row(t) + q_width + kv_width + kv; }, wanted, size);
      ASSERT_TRUE(is_near(&found[r * q_width + h * c.head_dim], wanted, size, tolerance))
          << "row " << r << ", head " << h;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PagedAttention,
    testing::Values(PagedCase{6, 6, 64, 32, 448, DType::kF32, DType::kF16, 0},
                    PagedCase{6, 6, 64, 32, 448, DType::kF32, DType::kF32, 0},
                    PagedCase{2, 2, 64, 32, 1500, DType::kF32, DType::kF16, 1500},
                    PagedCase{2, 2, 64, 1500, 1500, DType::kF16, DType::kF32, 1500},
                    PagedCase{4, 2, 128, 16, 50, DType::kF16, DType::kF16, 0},
                    PagedCase{4, 1, 40, 32, 77, DType::kF32, DType::kF32, 0},
                    PagedCase{7, 1, 128, 32, 1700, DType::kF32, DType::kF16, 0},
                    PagedCase{1, 1, 64, 32, 3333, DType::kF32, DType::kF16, 0}),
    [](const auto& shape) { return "Case" + std::to_string(shape.index); });

// One row for each number of heads that share keys; 1 head and 1 part are compared with a plain
// attention above.
TEST_F(VulkanTest, PagedAttentionIsIndependentOfHeadsAndPartsOfAWorkgroup) {
  constexpr uint32_t kKvHeads = 2, kDim = 64, kPageRows = 32, kPages = 26;
  std::vector<float> k = random(size_t{kPages} * kPageRows * kKvHeads * kDim), v = random(k.size());
  std::vector<int32_t> pages(kPages);
  for (uint32_t i = 0; i < kPages; ++i) pages[i] = static_cast<int32_t>(kPages - 1 - i);
  const std::vector<Row> rows = {{0, 0, 800, 0}, {0, -1, 0, 0}, {0, 0, 90, 0}};
  for (const uint32_t sharing : {1u, 2u, 3u, 4u, 5u, 7u, 8u}) {
    const uint32_t n_heads = sharing * kKvHeads, width = n_heads * kDim;
    std::vector<float> q = random(rows.size() * width, 2.0f), sinks = random(n_heads, 3.0f);
    const auto attend = [&](const std::string& tuning, bool has_sinks, uint32_t kv_length) {
      tune(tuning);
      std::vector<float> unwritten(rows.size() * width, -1.0f);
      const Operand out = store(unwritten, DType::kF32);
      PagedAttentionParams p{};
      p.n_rows = static_cast<uint32_t>(rows.size());
      p.n_heads = n_heads;
      p.n_kv_heads = kKvHeads;
      p.head_dim = kDim;
      p.q_row_stride = p.out_row_stride = width;
      p.page_rows = kPageRows;
      p.pages_per_sequence = kPages;
      p.kv_length = kv_length;
      p.scale = 0.2f;
      DispatchTable table;
      emit::paged_attention(table, "attention", p, out, store(q, DType::kF32),
                            store(k, DType::kF32), store(v, DType::kF32), store_structs(rows),
                            store_structs(pages),
                            has_sinks ? store(sinks, DType::kF32) : Operand{});
      for (int i = 0; i < 2; ++i) run(table);  // counters start again
      return load(out, DType::kF32);
    };
    // 3 positions are too few for five workgroups.
    for (const auto& [has_sinks, kv_length] :
         {std::pair{false, 0u}, std::pair{true, 0u}, std::pair{true, 790u}, std::pair{false, 3u}}) {
      const std::vector<float> expected =
          attend("step_attention=1x1x64,attention_splits=1", has_sinks, kv_length);
      for (const char* tuning :
           {"step_attention=4x2x64,attention_splits=1", "step_attention=1x1x64,attention_splits=5",
            "step_attention=4x2x64,attention_splits=5",
            "step_attention=4x4x128,attention_splits=1"}) {
        SCOPED_TRACE(std::to_string(sharing) + " heads share, " + tuning + ", " +
                     std::to_string(kv_length) + " positions of a window");
        const std::vector<float> found = attend(tuning, has_sinks, kv_length);
        for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5) << i;
      }
    }
  }
}

struct NewKvCase {
  uint32_t n_heads, n_kv_heads, head_dim, n_pairs;
  bool is_interleaved, has_norms, has_sinks;
  uint32_t window;
  float soft_cap;
  DType in, kv;
};

class NewKv : public VulkanTest, public testing::WithParamInterface<NewKvCase> {};

// kAttentionWritesKv: the results and pages of `rope` and attention after it.
TEST_P(NewKv, AttentionWritesThemLikeRope) {
  const NewKvCase& c = GetParam();
  constexpr uint32_t kPageRows = 32, kPages = 26, kSequences = 5;
  const uint32_t q_width = c.n_heads * c.head_dim, kv_width = c.n_kv_heads * c.head_dim;
  const uint32_t width = q_width + 2 * kv_width, n_rows = 6;
  const std::vector<Row> rows = {{0, 2, 800, 0}, {0, 0, 0, 0},  {0, -1, 0, 0},
                                 {0, 4, 31, 0},  {0, 1, 32, 0}, {0, 3, 300, 0}};
  const std::vector<int32_t> page_table = test::shuffled_pages(kSequences * kPages, engine_);
  std::vector<float> qkv = random(size_t{n_rows} * width, 2.0f);
  std::vector<float> k = random(page_table.size() * kPageRows * kv_width), v = random(k.size());
  std::vector<float> q_norm = random(c.head_dim), k_norm = random(c.head_dim);
  std::vector<float> sinks = random(c.n_heads, 3.0f);
  std::vector<float> angles = random(size_t{kPageRows} * kPages * c.n_pairs * 2 + 8);
  struct Found {
    std::vector<float> out, k, v;
  };
  const auto attend = [&](bool at_once, const std::string& tuning) {
    tune(tuning);
    const auto numbers = [](std::vector<float>& values) { return store(values, DType::kF32); };
    const Operand k_pages = store(k, c.kv), v_pages = store(v, c.kv);
    const Operand row_buffer = store_structs(rows), pages = store_structs(page_table);
    std::vector<float> unwritten(size_t{n_rows} * q_width, -1.0f);
    const Operand out = numbers(unwritten);
    const Operand in = store(qkv, c.in);
    const Operand angle_buffer = c.n_pairs != 0 ? numbers(angles) : Operand{};
    const Operand q_weight = c.has_norms ? numbers(q_norm) : Operand{},
                  k_weight = c.has_norms ? numbers(k_norm) : Operand{};
    PagedAttentionParams p{};
    p.n_rows = n_rows;
    p.n_heads = c.n_heads;
    p.n_kv_heads = c.n_kv_heads;
    p.head_dim = c.head_dim;
    p.q_row_stride = width;
    p.out_row_stride = q_width;
    p.page_rows = kPageRows;
    p.pages_per_sequence = kPages;
    p.scale = 0.2f;
    p.window = c.window;
    p.soft_cap = c.soft_cap;
    p.q_dtype = static_cast<uint32_t>(c.in);
    p.kv_dtypes = KvTypes(c.kv).codes();
    DispatchTable table;
    if (at_once) {
      p.flags = kAttentionWritesKv;
      p.n_pairs = c.n_pairs;
      p.interleaved = c.is_interleaved;
      p.norm_epsilon = 1e-5f;
    } else {
      emit::rope(table, "rope",
                 {n_rows, c.n_heads, c.n_kv_heads, c.head_dim, width, c.n_pairs, c.is_interleaved,
                  1e-5f, p.q_dtype, p.kv_dtypes, kPageRows, kPages},
                 in, row_buffer, angle_buffer, q_weight, k_weight, k_pages, v_pages, pages);
    }
    emit::paged_attention(table, "attention", p, out, in, k_pages, v_pages, row_buffer, pages,
                          c.has_sinks ? numbers(sinks) : Operand{},
                          at_once ? angle_buffer : Operand{}, at_once ? q_weight : Operand{},
                          at_once ? k_weight : Operand{});
    // Twice: what the first run writes does not change the second.
    for (int i = 0; i < (at_once ? 2 : 1); ++i) run(table);
    return Found{load(out, DType::kF32), load(k_pages, c.kv), load(v_pages, c.kv)};
  };
  const Found wanted = attend(false, "step_attention=1x1x64,attention_splits=1");
  // After rope, attention reads rounded keys and values, and rounded queries of f16.
  const double tolerance = c.kv == DType::kF16 ? 5e-3 : 2e-5;
  for (const char* tuning :
       {"step_attention=2x4x64,attention_splits=1", "step_attention=1x2x64,attention_splits=5",
        "step_attention=4x4x128,attention_splits=1"}) {
    SCOPED_TRACE(tuning);
    const Found found = attend(true, tuning);
    for (size_t i = 0; i < found.out.size(); ++i) {
      ASSERT_NEAR(found.out[i], wanted.out[i], tolerance) << i;
    }
    const double step = c.kv == DType::kF16 || c.in == DType::kF16 ? 2e-3 : 1e-6;
    for (size_t i = 0; i < k.size(); ++i) {
      ASSERT_NEAR(found.k[i], wanted.k[i], step * (1 + std::abs(wanted.k[i]))) << i;
      ASSERT_NEAR(found.v[i], wanted.v[i], step * (1 + std::abs(wanted.v[i]))) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, NewKv,
    testing::Values(NewKvCase{8, 2, 64, 32, false, false, false, 0, 0, DType::kF32, DType::kF32},
                    NewKvCase{8, 2, 64, 32, false, false, false, 0, 0, DType::kF32, DType::kF16},
                    NewKvCase{4, 2, 128, 64, false, true, false, 0, 0, DType::kF32, DType::kF16},
                    NewKvCase{4, 2, 128, 64, false, true, false, 0, 0, DType::kF16, DType::kF16},
                    NewKvCase{6, 2, 64, 32, true, false, true, 0, 0, DType::kF32, DType::kF32},
                    NewKvCase{3, 3, 80, 16, false, true, false, 0, 0, DType::kF32, DType::kF32},
                    NewKvCase{5, 1, 96, 12, true, true, false, 0, 0, DType::kF32, DType::kF16},
                    NewKvCase{4, 1, 256, 128, false, true, false, 20, 30.0f, DType::kF32,
                              DType::kF32},
                    NewKvCase{4, 2, 64, 32, false, false, true, 1, 0, DType::kF32, DType::kF32},
                    NewKvCase{4, 4, 64, 0, false, false, false, 0, 0, DType::kF32, DType::kF16}),
    [](const auto& shape) { return "Case" + std::to_string(shape.index); });

struct PromptCase {
  uint32_t n_heads, n_kv_heads, head_dim, first_position, n_rows, n_absent, window;
  float soft_cap;
  DType dtype;
};

class PromptAttention : public VulkanTest, public testing::WithParamInterface<PromptCase> {};

TEST_P(PromptAttention, IsCausal) {
  const PromptCase& c = GetParam();
  constexpr uint32_t kPageRows = 32;
  const uint32_t n_present = c.n_rows - c.n_absent, n_positions = c.first_position + n_present;
  const uint32_t q_width = c.n_heads * c.head_dim, kv_width = c.n_kv_heads * c.head_dim;
  const uint32_t n_pages = (n_positions + kPageRows - 1) / kPageRows;
  const std::vector<int32_t> pages = test::shuffled_pages(n_pages, engine_);
  // The sequence is the third; the other sequences have no pages.
  std::vector<int32_t> page_table(2 * n_pages, 1 << 20);
  page_table.insert(page_table.end(), pages.begin(), pages.end());
  const auto place = [&](uint32_t t, uint32_t kv_head) {
    return ((static_cast<size_t>(pages[t / kPageRows]) * c.n_kv_heads + kv_head) * kPageRows +
            t % kPageRows) *
           c.head_dim;
  };
  std::vector<float> k = random(size_t{n_pages} * kPageRows * kv_width, 2.0f);
  std::vector<float> v = random(k.size());
  std::vector<float> q = random(size_t{c.n_rows} * q_width, 2.0f);
  // Positions after the last one may have any content.
  for (uint32_t t = n_positions; t < n_pages * kPageRows; ++t) {
    for (uint32_t h = 0; h < c.n_kv_heads; ++h) {
      std::fill_n(&k[place(t, h)], c.head_dim, NAN);
      std::fill_n(&v[place(t, h)], c.head_dim, NAN);
    }
  }
  std::vector<Row> rows(c.n_rows, Row{0, -1, 0, 0});
  for (uint32_t r = 0; r < n_present; ++r) {
    rows[r] = {0, 2, static_cast<int>(c.first_position + r), 0};
  }
  PagedAttentionParams p{};
  p.n_rows = c.n_rows;
  p.n_heads = c.n_heads;
  p.n_kv_heads = c.n_kv_heads;
  p.head_dim = c.head_dim;
  p.q_row_stride = p.out_row_stride = q_width;
  p.page_rows = kPageRows;
  p.pages_per_sequence = n_pages;
  p.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  p.window = c.window;
  p.soft_cap = c.soft_cap;
  p.q_dtype = p.out_dtype = static_cast<uint32_t>(c.dtype);
  p.kv_dtypes = KvTypes(c.dtype).codes();
  p.flags = kAttentionOneSequence;
  const Operand out = poisoned(size_t{c.n_rows} * q_width, c.dtype);
  const Operand q_buffer = store(q, c.dtype), k_buffer = store(k, c.dtype),
                v_buffer = store(v, c.dtype);
  DispatchTable table;
  emit::paged_attention(table, "attend", p, out, q_buffer, k_buffer, v_buffer, store_structs(rows),
                        store_structs(page_table));
  run(table);
  const std::vector<float> found = load(out, c.dtype);
  const double tolerance = c.dtype == DType::kF16 ? 3e-3 : 1e-5;
  std::vector<double> wanted, size;
  for (uint32_t r = 0; r<n_present; r += n_present> 40 ? 7 : 1) {
    const uint32_t end = c.first_position + r + 1;
    const uint32_t begin = c.window != 0 && c.window < end ? end - c.window : 0;
    for (uint32_t h = 0; h < c.n_heads; ++h) {
      const uint32_t kv = h / (c.n_heads / c.n_kv_heads);
      plain_attention(
          &q[size_t{r} * q_width + h * c.head_dim], c.head_dim, end - begin, p.scale,
          [&](uint32_t t) { return &k[place(begin + t, kv)]; },
          [&](uint32_t t) { return &v[place(begin + t, kv)]; }, wanted, size, c.soft_cap);
      ASSERT_TRUE(is_near(&found[size_t{r} * q_width + h * c.head_dim], wanted, size, tolerance))
          << "row " << r << ", head " << h;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PromptAttention,
                         testing::Values(PromptCase{4, 2, 64, 0, 512, 0, 0, 0, DType::kF16},
                                         PromptCase{4, 1, 64, 333, 192, 61, 0, 0, DType::kF16},
                                         PromptCase{2, 2, 128, 40, 128, 127, 0, 0, DType::kF16},
                                         PromptCase{2, 1, 128, 700, 96, 3, 100, 0, DType::kF16},
                                         PromptCase{2, 1, 256, 10, 64, 5, 24, 20.0f, DType::kF16},
                                         PromptCase{2, 1, 40, 10, 64, 5, 0, 0, DType::kF16},
                                         PromptCase{4, 2, 32, 77, 32, 0, 0, 3.0f, DType::kF32}),
                         [](const auto& shape) { return "Case" + std::to_string(shape.index); });

struct WeightsCase {
  uint32_t n_heads, n_kv_heads, head_dim, page_rows, kv_length;
  std::vector<uint32_t> heads;
  DType in, kv;
};

class AttentionWeights : public VulkanTest, public testing::WithParamInterface<WeightsCase> {};

TEST_P(AttentionWeights, AreTheSoftmaxOfTheSelectedHeads) {
  const WeightsCase& c = GetParam();
  constexpr uint32_t kSequences = 3;
  const uint32_t pages = (c.kv_length + c.page_rows - 1) / c.page_rows;
  const std::vector<int32_t> page_table = test::shuffled_pages(kSequences * pages, engine_);
  std::vector<float> keys = random(page_table.size() * c.n_kv_heads * c.page_rows * c.head_dim);
  const std::vector<uint32_t> lengths = {c.kv_length, 1, c.kv_length - 3};
  const std::vector<Row> rows = {{0, 2, 5, 0}, {0, -1, 0, 0}, {0, 0, 0, 0}, {0, 1, 3, 0}};
  const auto n_rows = static_cast<uint32_t>(rows.size());
  const auto n_selected = static_cast<uint32_t>(c.heads.size());
  const uint32_t q_stride = c.n_heads * c.head_dim + 3;
  std::vector<float> q = random(size_t{n_rows} * q_stride, 2.0f);
  const Operand out = poisoned(size_t{n_selected} * n_rows * c.kv_length, DType::kF32);
  AttentionWeightsParams p{};
  p.n_rows = n_rows;
  p.n_selected = n_selected;
  p.n_heads = c.n_heads;
  p.n_kv_heads = c.n_kv_heads;
  p.head_dim = c.head_dim;
  p.q_row_stride = q_stride;
  p.page_rows = c.page_rows;
  p.pages_per_sequence = pages;
  p.kv_length = c.kv_length;
  p.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  p.q_dtype = static_cast<uint32_t>(c.in);
  p.k_dtype = static_cast<uint32_t>(c.kv);
  DispatchTable table;
  emit::attention_weights(table, "weights", p, out, store(q, c.in), store(keys, c.kv),
                          store_structs(rows), store_structs(page_table), store_structs(c.heads),
                          store_structs(lengths));
  run(table);
  const std::vector<float> found = load(out, DType::kF32);
  for (uint32_t i = 0; i < n_selected; ++i) {
    const uint32_t kv_head = c.heads[i] / (c.n_heads / c.n_kv_heads);
    for (uint32_t r = 0; r < n_rows; ++r) {
      const float* row = &found[(size_t{i} * n_rows + r) * c.kv_length];
      const auto s = static_cast<uint32_t>(rows[r].sequence);
      const uint32_t length = rows[r].sequence < 0 ? 0 : lengths[s];
      std::vector<double> weights(length);
      double greatest = -1e300, sum = 0;
      for (uint32_t t = 0; t < length; ++t) {
        const auto page = static_cast<uint32_t>(page_table[s * pages + t / c.page_rows]);
        const float* key =
            &keys[((size_t{page} * c.n_kv_heads + kv_head) * c.page_rows + t % c.page_rows) *
                  c.head_dim];
        for (uint32_t d = 0; d < c.head_dim; ++d) {
          weights[t] += double{q[r * q_stride + c.heads[i] * c.head_dim + d]} * key[d] * p.scale;
        }
        greatest = std::max(greatest, weights[t]);
      }
      for (double& weight : weights) sum += weight = std::exp(weight - greatest);
      for (uint32_t t = 0; t < length; ++t) {
        ASSERT_NEAR(row[t], weights[t] / sum, 2e-5 * weights[t] / sum + 1e-9) << t;
      }
      // Other elements are not written.
      for (uint32_t t = length; t < c.kv_length; ++t) ASSERT_TRUE(std::isnan(row[t])) << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionWeights,
    testing::Values(WeightsCase{6, 6, 64, 1500, 1500, {0, 2, 5}, DType::kF32, DType::kF16},
                    WeightsCase{4, 2, 40, 32, 77, {3}, DType::kF16, DType::kF32},
                    WeightsCase{2, 1, 128, 9, 27, {0, 1}, DType::kF32, DType::kF32}),
    [](const auto& shape) { return "Case" + std::to_string(shape.index); });

}  // namespace
}  // namespace vesper::paged_attention_test
