// norm, write_kv, paged_attention and range_probabilities of the CPU device compared with plain
// loops in double precision.
#include <algorithm>

#include "llm/cpu/cpu_features.h"
#include "llm/dtype/kv_types.h"
#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/kernels/kv_pages_check.h"
#include "tests/llm/kernels/plain_pool.h"

namespace vesper::testing::cpu_rows_test {
namespace {

TEST(CpuNorm, EqualsAPlainFormulaForEachWidthKindAndFormat) {
  const auto device = cpu();
  for (const uint32_t d : {1u, 7u, 16u, 384u, 1500u}) {
    for (const uint32_t kind : {kNormLayer, kNormRms}) {
      for (const DType out_dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
        for (const bool with_bias : {false, true}) {
          const uint32_t n_rows = 53, n_in_rows = 60;
          constexpr float kEpsilon = 0.25f;  // so large that its place in the formula shows
          // A mean far above the spread.
          std::vector<float> in = random_numbers(n_in_rows * d, d);
          for (float& x : in) x += 30;
          const std::vector<float> norm_weight = random_numbers(d, 2), bias = random_numbers(d, 3);
          std::vector<uint32_t> index(n_rows);
          for (uint32_t r = 0; r < n_rows; ++r) index[r] = (r * 7 + 3) % n_in_rows;
          const Operand out = nan_buffer(*device, n_rows * d, out_dtype);
          const NormParams params{n_rows, d, kEpsilon, kind, code(out_dtype), kDTypeF32, d};
          DispatchTable table;
          emit::norm(table, "norm", params, out, store(*device, in), store(*device, norm_weight),
                     with_bias ? store(*device, bias) : Operand{}, store(*device, index));
          run_once(*device, table);
          const std::vector<float> found = decode(fetch<uint8_t>(*device, out), out_dtype);
          for (uint32_t r = 0; r < n_rows; ++r) {
            const float* row = &in[index[r] * d];
            double mean = 0, squares = 0;
            for (uint32_t i = 0; i < d; ++i) mean += row[i];
            mean = kind == kNormLayer ? mean / d : 0;
            for (uint32_t i = 0; i < d; ++i) squares += (row[i] - mean) * (row[i] - mean);
            const double factor = 1 / std::sqrt(squares / d + double{kEpsilon});
            for (uint32_t i = 0; i < d; ++i) {
              const double wanted =
                  (row[i] - mean) * factor * norm_weight[i] + (with_bias ? bias[i] : 0.0f);
              const double tolerance = out_dtype == DType::kF32 ? 2e-5 : 5e-3;
              ASSERT_NEAR(found[r * d + i], wanted, tolerance * (1 + std::abs(wanted)))
                  << "d " << d << ", row " << r << ", kind " << kind;
            }
          }
        }
      }
    }
  }
}

TEST(CpuNorm, MayReplaceItsInput) {
  const auto device = cpu();
  const uint32_t d = 37, n_rows = 300;
  const std::vector<float> in = random_numbers(n_rows * d, 5);
  const Operand norm_weight = store(*device, random_numbers(d, 6)), x = store(*device, in);
  const Operand out = nan_buffer(*device, n_rows * d, DType::kF32);
  const NormParams params{n_rows, d, 1e-12f, kNormLayer, kDTypeF32, kDTypeF32, d};
  DispatchTable table;
  emit::norm(table, "norm", params, out, x, norm_weight, {}, {});
  emit::norm(table, "in place", params, x, x, norm_weight, {}, {});
  run_once(*device, table);
  EXPECT_EQ(fetch<float>(*device, x), fetch<float>(*device, out));
}

TEST(CpuPool, MakesOneVectorPerSequence) {
  const auto device = cpu();
  const std::vector<uint32_t> starts = {0, 3, 3, 4, 60, 61};
  const uint32_t n_sequences = 5, d = 39;
  const std::vector<float> in = random_numbers(70 * d, 7);
  for (const uint32_t kind : {kPoolMean, kPoolFirst, kPoolLast}) {
    for (const uint32_t normalize : {0u, 1u}) {
      for (const uint32_t n_out : {d, 16u, 1u}) {
        const Operand out = nan_buffer(*device, n_sequences * n_out, DType::kF32);
        DispatchTable table;
        emit::pool(table, "pool", {n_sequences, d, n_out, kind, normalize, kDTypeF32}, out,
                   store(*device, in), store(*device, starts));
        run_once(*device, table);
        const std::vector<float> found = fetch<float>(*device, out);
        const std::vector<double> wanted = plain_pool(in, starts, d, n_out, kind, normalize != 0);
        for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-6) << i;
      }
    }
  }
}

TEST(CpuPool, CopiesOneRowOfEachSequenceInItsFormat) {
  const auto device = cpu();
  const std::vector<uint32_t> starts = {0, 3, 3, 4, 60, 61}, each = {0, 1, 2, 3, 4, 5};
  const uint32_t n_sequences = 5, d = 39;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const std::vector<uint8_t> in = encode(random_numbers(70 * d, 7), dtype);
    for (const uint32_t kind : {kPoolFirst, kPoolLast}) {
      for (const bool has_starts : {true, false}) {
        const Operand out = nan_buffer(*device, n_sequences * d, dtype);
        DispatchTable table;
        emit::pool(table, "pool", {n_sequences, d, d, kind, 0, code(dtype)}, out,
                   store(*device, in), has_starts ? store(*device, starts) : Operand{});
        run_once(*device, table);
        const std::vector<float> found = decode(fetch<uint8_t>(*device, out), dtype);
        const std::vector<double> wanted =
            plain_pool(decode(in, dtype), has_starts ? starts : each, d, d, kind, false);
        for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], wanted[i]) << i;
      }
    }
  }
}

// Keys and values of a few sequences in unordered pages.
struct Pages {
  uint32_t n_kv_heads, head_dim, page_rows, pages_per_sequence, n_sequences;
  std::vector<int32_t> table;  // [n_sequences, pages_per_sequence]

  Pages(uint32_t heads, uint32_t dim, uint32_t rows, uint32_t per_sequence, uint32_t sequences)
      : n_kv_heads(heads),
        head_dim(dim),
        page_rows(rows),
        pages_per_sequence(per_sequence),
        n_sequences(sequences) {
    std::mt19937 random(4);
    table = test::shuffled_pages(size_t{per_sequence} * sequences, random);
  }
  size_t n_elements() const { return table.size() * n_kv_heads * page_rows * head_dim; }
  size_t at(uint32_t sequence, uint32_t position, uint32_t head) const {
    const auto page =
        static_cast<size_t>(table[sequence * pages_per_sequence + position / page_rows]);
    return ((page * n_kv_heads + head) * page_rows + position % page_rows) * head_dim;
  }
};

TEST(CpuWriteKv, WritesEachRowToThePageOfItsPosition) {
  const auto device = cpu();
  for (const DType kv : {DType::kF32, DType::kF16}) {
    for (const DType in_dtype : {DType::kF32, DType::kBF16}) {
      for (const uint32_t rows_per_sequence : {0u, 5u}) {
        const Pages pages(3, 12, 4, 2, 3);
        const uint32_t n_rows = 15, width = 36, stride = 80;
        std::vector<Row> rows(n_rows);
        for (uint32_t r = 0; r < n_rows; ++r) {
          rows[r] = {0, static_cast<int>(r % 3), static_cast<int>(r / 3), 0};
        }
        rows[4].sequence = -1;
        const std::vector<float> k = random_numbers(n_rows * stride, 1),
                                 v = random_numbers(n_rows * stride, 2);
        const Operand k_pages = nan_buffer(*device, pages.n_elements(), kv);
        const Operand v_pages = nan_buffer(*device, pages.n_elements(), kv);
        WriteKvParams params{};
        params.n_rows = n_rows;
        params.n_kv_heads = pages.n_kv_heads;
        params.head_dim = pages.head_dim;
        params.in_row_stride = stride;
        params.page_rows = pages.page_rows;
        params.pages_per_sequence = pages.pages_per_sequence;
        params.rows_per_sequence = rows_per_sequence;
        params.in_dtype = code(in_dtype);
        params.kv_dtypes = KvTypes(kv).codes();
        DispatchTable table;
        emit::write_kv(table, "write", params, k_pages, v_pages,
                       store(*device, encode(k, in_dtype)), store(*device, encode(v, in_dtype)),
                       rows_per_sequence == 0 ? store(*device, rows) : Operand{},
                       store(*device, pages.table));
        run_once(*device, table);
        std::vector<float> wanted_k(pages.n_elements(), kNaN), wanted_v = wanted_k;
        const std::vector<float> k_in = rounded(rounded(k, in_dtype), kv),
                                 v_in = rounded(rounded(v, in_dtype), kv);
        for (uint32_t r = 0; r < n_rows; ++r) {
          const bool by_table = rows_per_sequence == 0;
          if (by_table && rows[r].sequence < 0) continue;
          const uint32_t sequence =
              by_table ? static_cast<uint32_t>(rows[r].sequence) : r / rows_per_sequence;
          const uint32_t position =
              by_table ? static_cast<uint32_t>(rows[r].position) : r % rows_per_sequence;
          for (uint32_t i = 0; i < width; ++i) {
            const size_t to = pages.at(sequence, position, i / pages.head_dim) + i % pages.head_dim;
            wanted_k[to] = k_in[r * stride + i];
            wanted_v[to] = v_in[r * stride + i];
          }
        }
        const std::vector<float> found_k = decode(fetch<uint8_t>(*device, k_pages), kv);
        const std::vector<float> found_v = decode(fetch<uint8_t>(*device, v_pages), kv);
        for (size_t i = 0; i < wanted_k.size(); ++i) {
          // Unwritten elements stay NaN.
          ASSERT_EQ(std::isnan(found_k[i]), std::isnan(wanted_k[i])) << i;
          if (std::isnan(wanted_k[i])) continue;
          ASSERT_EQ(found_k[i], wanted_k[i]);
          ASSERT_EQ(found_v[i], wanted_v[i]);
        }
      }
    }
  }
}

struct AttentionCase {
  uint32_t n_heads, n_kv_heads, head_dim, page_rows, kv_length, n_rows;
  DType kv = DType::kF16, in = DType::kF32, out = DType::kF32;
  uint32_t longest = 61, window = 0, flags = 0;  // if kv_length is 0
};

// Returns the device's result.
std::vector<float> check_attention(Device& device, const AttentionCase& c) {
  SCOPED_TRACE("head_dim " + std::to_string(c.head_dim) + ", " + std::to_string(c.n_rows) +
               " rows, kv_length " + std::to_string(c.kv_length) + ", pages of " +
               std::to_string(c.page_rows));
  const uint32_t n_sequences = 3, longest = c.kv_length != 0 ? c.kv_length : c.longest;
  const Pages pages(c.n_kv_heads, c.head_dim, c.page_rows,
                    (longest + c.page_rows - 1) / c.page_rows, n_sequences);
  std::vector<Row> rows(c.n_rows);
  std::mt19937 random(c.n_rows);
  for (uint32_t r = 0; r < c.n_rows; ++r) {
    rows[r] = {0, static_cast<int>(r * n_sequences / c.n_rows),
               static_cast<int>(random() % longest), 0};
  }
  if (c.n_rows > 2) rows[1].sequence = -1;
  // Invisible positions hold NaN.
  std::vector<uint32_t> used(n_sequences, 0);
  for (const Row& row : rows) {
    if (row.sequence < 0) continue;
    auto& most = used[static_cast<size_t>(row.sequence)];
    most = std::max(most, c.kv_length != 0 ? c.kv_length : static_cast<uint32_t>(row.position) + 1);
  }
  const std::vector<float> numbers = random_numbers(pages.n_elements() * 2, 3);
  std::vector<float> k(pages.n_elements(), kNaN), v = k;
  for (uint32_t s = 0; s < n_sequences; ++s) {
    for (uint32_t p = 0; p < used[s]; ++p) {
      for (uint32_t h = 0; h < c.n_kv_heads; ++h) {
        const size_t at = pages.at(s, p, h);
        std::copy_n(&numbers[at], c.head_dim, &k[at]);
        std::copy_n(&numbers[pages.n_elements() + at], c.head_dim, &v[at]);
      }
    }
  }
  const uint32_t width = c.n_heads * c.head_dim, q_stride = width + 3, out_stride = width + 1;
  const std::vector<float> q = random_numbers(size_t{c.n_rows} * q_stride, 8, 3.0f);
  const Operand out = nan_buffer(device, size_t{c.n_rows} * out_stride, c.out);
  PagedAttentionParams params{};
  params.n_rows = c.n_rows;
  params.n_heads = c.n_heads;
  params.n_kv_heads = c.n_kv_heads;
  params.head_dim = c.head_dim;
  params.q_row_stride = q_stride;
  params.out_row_stride = out_stride;
  params.page_rows = c.page_rows;
  params.pages_per_sequence = pages.pages_per_sequence;
  params.kv_length = c.kv_length;
  params.window = c.window;
  params.flags = c.flags;
  params.scale = 1 / std::sqrt(static_cast<float>(c.head_dim));
  params.q_dtype = code(c.in);
  params.kv_dtypes = KvTypes(c.kv).codes();
  params.out_dtype = code(c.out);
  DispatchTable table;
  emit::paged_attention(table, "attention", params, out, store(device, encode(q, c.in)),
                        store(device, encode(k, c.kv)), store(device, encode(v, c.kv)),
                        store(device, rows), store(device, pages.table));
  device.run(device.record(table), 2);  // the second run reuses the memory of the first
  const std::vector<float> found = decode(fetch<uint8_t>(device, out), c.out);
  const std::vector<float> q_in = rounded(q, c.in), k_in = rounded(k, c.kv),
                           v_in = rounded(v, c.kv);
  double worst = 0;
  for (uint32_t r = 0; r < c.n_rows; ++r) {
    if (rows[r].sequence < 0) continue;
    const auto s = static_cast<uint32_t>(rows[r].sequence);
    const uint32_t length =
        c.kv_length != 0 ? c.kv_length : static_cast<uint32_t>(rows[r].position) + 1;
    const uint32_t begin = c.window != 0 && c.window < length ? length - c.window : 0;
    for (uint32_t h = 0; h < c.n_heads; ++h) {
      const uint32_t kv_head = h / (c.n_heads / c.n_kv_heads);
      std::vector<double> weights(length);
      double largest = -INFINITY, sum = 0;
      for (uint32_t p = begin; p < length; ++p) {
        for (uint32_t i = 0; i < c.head_dim; ++i) {
          weights[p] += double{q_in[r * q_stride + h * c.head_dim + i]} *
                        k_in[pages.at(s, p, kv_head) + i] * params.scale;
        }
        largest = std::max(largest, weights[p]);
      }
      for (uint32_t p = begin; p < length; ++p) {
        sum += weights[p] = std::exp(weights[p] - largest);
      }
      for (uint32_t i = 0; i < c.head_dim; ++i) {
        double wanted = 0, size = 1e-3;
        for (uint32_t p = begin; p < length; ++p) {
          const double term = weights[p] / sum * v_in[pages.at(s, p, kv_head) + i];
          wanted += term;
          size += std::abs(term);
        }
        const double error =
            std::abs(found[size_t{r} * out_stride + h * c.head_dim + i] - wanted) / size;
        worst = std::isnan(error) ? INFINITY : std::max(worst, error);
      }
    }
  }
  const bool rounds = (c.flags & kAttentionRounds) != 0 && cpu_features().avx512_bf16;
  EXPECT_LE(worst, rounds ? 2e-2 : c.out == DType::kF32 ? 1e-5 : 4e-3);
  EXPECT_GT(worst, rounds ? 1e-4 : -1.0);  // it does
  return found;
}

TEST(CpuPagedAttention, EqualsThePlainLoopForOneRowOverALongSource) {
  const auto device = cpu();
  check_attention(*device, {6, 6, 64, 32, 1500, 1});
  check_attention(*device, {6, 6, 64, 32, 1500, 5});
  check_attention(*device, {2, 2, 64, 1500, 1500, 3});
}

TEST(CpuPagedAttention, EqualsThePlainLoopForCausalRowsOfSeveralSequences) {
  const auto device = cpu();
  for (const uint32_t n_rows : {1u, 2u, 3u, 7u, 40u}) {
    for (const uint32_t head_dim : {7u, 32u, 64u, 80u}) {
      for (const uint32_t page_rows : {1u, 7u, 32u}) {
        check_attention(*device, {4, 4, head_dim, page_rows, 0, n_rows});
        check_attention(*device, {4, 2, head_dim, page_rows, 0, n_rows, DType::kF32});
        check_attention(*device, {4, 1, head_dim, page_rows, 17, n_rows, DType::kF16, DType::kBF16,
                                  DType::kF16});
      }
    }
  }
}

// Pairs of keys begin at even positions, for any page and window. The sharing of rows among threads
// does not change the result.
TEST(CpuPagedAttention, EqualsAPlainLoopInBf16) {
  const std::unique_ptr<Device> one = cpu(1), many = cpu(7);
  const auto check = [&](const AttentionCase& c) {
    const std::vector<float> found = check_attention(*one, c), again = check_attention(*many, c);
    EXPECT_EQ(0, std::memcmp(found.data(), again.data(), found.size() * sizeof(float)));
  };
  for (const uint32_t window : {0u, 1u, 37u}) {
    for (const auto& [head_dim, page_rows] : {std::pair(32u, 32u), {40u, 7u}, {64u, 16u}}) {
      for (const uint32_t n_rows : {17u, 100u}) {
        AttentionCase c{6, 2, head_dim, page_rows, 0, n_rows};
        c.longest = 401;
        c.window = window;
        c.flags = kAttentionRounds;
        check(c);
        c.kv = DType::kF32;
        check(c);
      }
    }
  }
}

TEST(CpuPagedAttention, ReadsQuantizedPagesInBf16) {
  const auto device = cpu();
  constexpr uint32_t kFlags = kAttentionOneSequence | kAttentionRounds;
  for (const KvTypes& types : {KvTypes(DType::kQ8_0), KvTypes(DType::kQ8_0, DType::kQ4_0)}) {
    test::KvPagesCheck(*device).attends(types, {4, 2, 64, 32, 0, 40, 70, 37, kFlags});
    test::KvPagesCheck(*device).attends(types, {2, 1, 96, 16, 0, 17, 61, 0, kFlags});
  }
}

TEST(CpuPagedAttention, GivesEachBeamTheSameAsAlone) {
  const auto device = cpu();
  constexpr uint32_t kHeads = 3, kHeadDim = 64, kPageRows = 30, kLength = 47, kPages = 2;
  constexpr uint32_t kWidth = kHeads * kHeadDim;
  // Sequences on one window; 0: an idle row.
  const std::vector<uint32_t> groups = {5, 1, 0, 7, 3, 5, 0, 5, 2, 4, 6, 1};
  std::vector<Row> rows;
  std::vector<int32_t> table_of_pages;
  int32_t window = 0;
  for (const uint32_t n : groups) {
    for (uint32_t i = 0; i < std::max(n, 1u); ++i) {
      const auto sequence = static_cast<int>(rows.size());
      rows.push_back({0, n == 0 ? -1 : sequence, 0, 0});
      for (uint32_t page = 0; page < kPages; ++page) {
        table_of_pages.push_back(window * static_cast<int32_t>(kPages) +
                                 static_cast<int32_t>(page));
      }
    }
    window += n != 0;
  }
  const auto n_rows = static_cast<uint32_t>(rows.size());
  const size_t n_elements = size_t{static_cast<uint32_t>(window)} * kPages * kPageRows * kWidth;
  const Operand keys = store(*device, encode(random_numbers(n_elements, 1), DType::kF16)),
                values = store(*device, encode(random_numbers(n_elements, 2), DType::kF16)),
                q = store(*device, random_numbers(size_t{n_rows} * kWidth, 3, 3.0f)),
                page_table = store(*device, table_of_pages);
  const auto attend = [&](uint32_t first, uint32_t n) {
    PagedAttentionParams params{};
    params.n_rows = n;
    params.n_heads = params.n_kv_heads = kHeads;
    params.head_dim = kHeadDim;
    params.q_row_stride = params.out_row_stride = kWidth;
    params.page_rows = kPageRows;
    params.pages_per_sequence = kPages;
    params.kv_length = kLength;
    params.scale = 0.125f;
    params.kv_dtypes = kv_dtypes_of(kDTypeF16, kDTypeF16);
    const Operand out = nan_buffer(*device, size_t{n} * kWidth, DType::kF32);
    DispatchTable table;
    emit::paged_attention(
        table, "attention", params, out, q.from(size_t{first} * kWidth * sizeof(float)), keys,
        values, store(*device, std::vector<Row>(rows.begin() + first, rows.begin() + first + n)),
        page_table);
    run_once(*device, table);
    return fetch<float>(*device, out);
  };
  std::vector<float> alone;
  for (uint32_t r = 0; r < n_rows; ++r) {
    const std::vector<float> row = attend(r, 1);
    alone.insert(alone.end(), row.begin(), row.end());
  }
  // Fewer rows than a prompt's kernel takes, and more.
  for (const uint32_t n : {5u, 13u, n_rows}) {
    const std::vector<float> together = attend(0, n);
    for (size_t i = 0; i < together.size(); ++i) {
      ASSERT_EQ(std::isnan(together[i]), rows[i / kWidth].sequence < 0) << "row " << i / kWidth;
      if (std::isnan(together[i])) continue;
      ASSERT_EQ(together[i], alone[i]) << "row " << i / kWidth;
    }
  }
}

// Tasks share the positions of a row; their number does not change the result.
TEST(CpuPagedAttention, EqualsThePlainLoopOverLongContextsForAnyNumberOfThreads) {
  const std::unique_ptr<Device> devices[] = {cpu(1), cpu(2), cpu(7)};
  for (const uint32_t n_rows : {1u, 3u, 15u}) {
    for (const uint32_t window : {0u, 700u}) {
      for (const uint32_t flags : {0u, kAttentionOneSequence}) {
        const AttentionCase c{6,           2,           32,          32,   0,      n_rows,
                              DType::kF16, DType::kF32, DType::kF32, 3001, window, flags};
        const std::vector<float> found = check_attention(*devices[0], c);
        for (const auto& device : devices) {
          const std::vector<float> again = check_attention(*device, c);
          EXPECT_EQ(0, std::memcmp(found.data(), again.data(), found.size() * sizeof(float)));
        }
      }
    }
  }
}

TEST(CpuAttentionWeights, AreTheSoftmaxOfTheSelectedHeads) {
  const auto device = cpu();
  struct Case {
    uint32_t n_heads, n_kv_heads, head_dim, page_rows, kv_length, n_rows;
    std::vector<uint32_t> heads;
    DType kv, in;
  };
  const Case cases[] = {{6, 6, 64, 1500, 1500, 23, {0, 2, 5}, DType::kF16, DType::kF32},
                        {4, 2, 7, 5, 37, 1, {3}, DType::kF32, DType::kF32},
                        {8, 8, 80, 32, 100, 70, {7, 1}, DType::kF16, DType::kBF16},
                        {2, 1, 32, 9, 27, 5, {0, 1}, DType::kF32, DType::kF16}};
  for (const Case& c : cases) {
    SCOPED_TRACE("head_dim " + std::to_string(c.head_dim));
    const uint32_t n_sequences = 3;
    const Pages pages(c.n_kv_heads, c.head_dim, c.page_rows,
                      (c.kv_length + c.page_rows - 1) / c.page_rows, n_sequences);
    const std::vector<uint32_t> lengths = {c.kv_length, 1, c.kv_length - 3};
    std::vector<Row> rows(c.n_rows);
    for (uint32_t r = 0; r < c.n_rows; ++r) {
      rows[r] = {0, static_cast<int>(r * n_sequences / c.n_rows), static_cast<int>(r), 0};
    }
    if (c.n_rows > 2) rows[1].sequence = -1;
    const std::vector<float> k = random_numbers(pages.n_elements(), 3);
    const uint32_t q_stride = c.n_heads * c.head_dim + 3;
    const std::vector<float> q = random_numbers(size_t{c.n_rows} * q_stride, 8, 3.0f);
    const auto n_selected = static_cast<uint32_t>(c.heads.size());
    const Operand out =
        nan_buffer(*device, size_t{n_selected} * c.n_rows * c.kv_length, DType::kF32);
    AttentionWeightsParams params{};
    params.n_rows = c.n_rows;
    params.n_selected = n_selected;
    params.n_heads = c.n_heads;
    params.n_kv_heads = c.n_kv_heads;
    params.head_dim = c.head_dim;
    params.q_row_stride = q_stride;
    params.page_rows = c.page_rows;
    params.pages_per_sequence = pages.pages_per_sequence;
    params.kv_length = c.kv_length;
    params.scale = 1 / std::sqrt(static_cast<float>(c.head_dim));
    params.q_dtype = code(c.in);
    params.k_dtype = code(c.kv);
    DispatchTable table;
    emit::attention_weights(table, "weights", params, out, store(*device, encode(q, c.in)),
                            store(*device, encode(k, c.kv)), store(*device, rows),
                            store(*device, pages.table), store(*device, c.heads),
                            store(*device, lengths));
    run_once(*device, table);
    const std::vector<float> found = fetch<float>(*device, out);
    const std::vector<float> q_in = rounded(q, c.in), k_in = rounded(k, c.kv);
    for (uint32_t i = 0; i < n_selected; ++i) {
      const uint32_t kv_head = c.heads[i] / (c.n_heads / c.n_kv_heads);
      for (uint32_t r = 0; r < c.n_rows; ++r) {
        const float* row = &found[(size_t{i} * c.n_rows + r) * c.kv_length];
        const auto s = static_cast<uint32_t>(rows[r].sequence);
        const uint32_t length = rows[r].sequence < 0 ? 0 : lengths[s];
        std::vector<double> weights(length);
        double largest = -INFINITY, sum = 0;
        for (uint32_t p = 0; p < length; ++p) {
          for (uint32_t d = 0; d < c.head_dim; ++d) {
            weights[p] += double{q_in[r * q_stride + c.heads[i] * c.head_dim + d]} *
                          k_in[pages.at(s, p, kv_head) + d] * params.scale;
          }
          largest = std::max(largest, weights[p]);
        }
        for (double& weight : weights) sum += weight = std::exp(weight - largest);
        for (uint32_t p = 0; p < length; ++p) {
          ASSERT_NEAR(row[p], weights[p] / sum, 2e-5 * weights[p] / sum + 1e-9) << p;
        }
        // Other elements are not written.
        for (uint32_t p = length; p < c.kv_length; ++p) ASSERT_TRUE(std::isnan(row[p])) << p;
      }
    }
  }
}

TEST(CpuRangeProbabilities, AreOfListedIds) {
  const auto device = cpu();
  const uint32_t n_rows = 5, stride = 1000;
  const std::vector<float> logits = random_numbers(size_t{n_rows} * stride, 6, 5.0f);
  const std::vector<uint32_t> ids = {0, 7, 899, 3, 500};
  const RangeProbabilitiesParams params{n_rows, stride, 0, 900, 77, 1};
  const Operand out = nan_buffer(*device, n_rows, DType::kF32);
  DispatchTable table;
  emit::range_probabilities(table, "probabilities", params, out, store(*device, logits),
                            store(*device, ids));
  run_once(*device, table);
  const std::vector<float> found = fetch<float>(*device, out);
  for (uint32_t r = 0; r < n_rows; ++r) {
    double sum = 0;
    for (uint32_t i = 0; i < 900; ++i) sum += std::exp(double{logits[r * stride + i]});
    const double wanted = std::exp(double{logits[r * stride + ids[r]]}) / sum;
    EXPECT_NEAR(found[r], wanted, 1e-5 * wanted);
  }
}

TEST(CpuRangeProbabilities, IsTheSoftmaxOverItsRange) {
  const auto device = cpu();
  const uint32_t n_rows = 3, stride = 51870;
  const std::vector<float> logits = random_numbers(size_t{n_rows} * stride, 6, 20.0f);
  const RangeProbabilitiesParams params{n_rows, stride, 7, 51865 - 7, 50259, 99};
  const Operand out = nan_buffer(*device, size_t{n_rows} * params.out_count, DType::kF32);
  DispatchTable table;
  emit::range_probabilities(table, "probabilities", params, out, store(*device, logits));
  run_once(*device, table);
  const std::vector<float> found = fetch<float>(*device, out);
  for (uint32_t r = 0; r < n_rows; ++r) {
    double sum = 0;
    for (uint32_t i = 0; i < params.softmax_count; ++i) {
      sum += std::exp(double{logits[size_t{r} * stride + params.softmax_first + i]});
    }
    for (uint32_t i = 0; i < params.out_count; ++i) {
      const double wanted =
          std::exp(double{logits[size_t{r} * stride + params.out_first + i]}) / sum;
      EXPECT_NEAR(found[r * params.out_count + i], wanted, 1e-5 * wanted + 1e-30);
    }
  }
}

}  // namespace
}  // namespace vesper::testing::cpu_rows_test
