#include "llm/cpu/attention/blocked_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "llm/cpu/cpu_features.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/cpu/attention/blocked_attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "hwy/highway.h"
#include "llm/cpu/attention/attention_block-inl.h"
#include "llm/cpu/attention/transpose-inl.h"
#include "llm/cpu/kv_rows-inl.h"
#include "llm/cpu/numbers-inl.h"

#ifndef VESPER_LLM_CPU_BLOCKED_ATTENTION_SCRATCH_
#define VESPER_LLM_CPU_BLOCKED_ATTENTION_SCRATCH_
namespace vesper {

// Queries per group on the widest vectors.
inline constexpr uint32_t kMaxGroup = 32;

// Layout of a pass's scratch, in units of 32 bits: one f32 or two bf16. `dims` is head_dim rounded
// up to complete tiles.
struct BlockedScratch {
  size_t keys = 0;    // [kKeyBlock, dims in units]
  size_t values;      // [kKeyBlock in units, dims]
  size_t transposed;  // values [dims, kKeyBlock / 2]
  size_t rows;        // queries [kMaxGroup, dims in units]
  size_t scores;      // f32 [kKeyBlock, group], then probabilities
  size_t queries;     // [groups][dims in units, group]
  size_t sums;        // f32 [groups][dims, group]
  size_t running;     // f32 [groups][2][group]: largest score, sum of probabilities
  size_t end;

  explicit BlockedScratch(uint32_t head_dim) {
    const size_t dims = (head_dim + 31) / 32 * 32;
    values = keys + kKeyBlock * dims;
    transposed = values + kKeyBlock * dims;
    rows = transposed + kKeyBlock / 2 * dims;
    scores = rows + kMaxGroup * dims;
    queries = scores + kKeyBlock * kMaxGroup;
    sums = queries + kMaxPassQueries * dims;
    running = sums + kMaxPassQueries * dims;
    end = running + 2 * kMaxPassQueries;
  }
};

// Offsets of positions [from, to).
inline void find_rows(const KeysAndValues& kv, size_t first, size_t stride, size_t page_stride,
                      uint32_t from, uint32_t to, size_t* at) {
  uint32_t page = 0, row = from;
  if (kv.pages != nullptr) {
    page = from / kv.page_rows;
    row = from % kv.page_rows;
  }
  while (from < to) {
    size_t start = first + row * stride;
    uint32_t n = to - from;
    if (kv.pages != nullptr) {
      start += static_cast<size_t>(kv.pages[page]) * page_stride;
      n = std::min(n, kv.page_rows - row);
    }
    for (uint32_t i = 0; i < n; ++i, start += stride) *at++ = start;
    from += n;
    ++page;
    row = 0;
  }
}

}  // namespace vesper
#endif

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

inline constexpr uint32_t kGroup = 2 * kLanes;  // queries per group
static_assert(kGroup <= kMaxGroup);

// A row of n elements (even) as units: f32, or bf16 pairs.
template <size_t kPerUnit, class From>
HWY_INLINE void to_units(From from, size_t n, uint32_t* out) {
  if constexpr (kPerUnit == 1) {
    convert(from, n, reinterpret_cast<float*>(out));
  } else if constexpr (std::is_same_v<From, const BF16*>) {
    const hn::RebindToUnsigned<F32> du;
    const auto* pairs = reinterpret_cast<const uint32_t*>(from);
    size_t i = 0;
    for (; i + kLanes <= n / 2; i += kLanes) hn::StoreU(hn::LoadU(du, pairs + i), du, out + i);
    std::memcpy(out + i, pairs + i, (n / 2 - i) * sizeof(uint32_t));
  } else {
    convert(from, n, reinterpret_cast<BF16*>(out));
  }
}

// The values of two positions as bf16 pairs, n units; `second` null: zeros.
template <class From>
HWY_INLINE void pair_rows(From first, const From* second, size_t n, uint32_t* out) {
  const hn::RebindToUnsigned<F32> du;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto rounded = [&](From row) HWY_ATTR {
      return hn::Add(hn::BitCast(du, load_f32(row + i)), hn::Set(du, 0x8000));
    };
    auto units = hn::ShiftRight<16>(rounded(first));
    if (second != nullptr) {
      units = hn::Or(units, hn::And(rounded(*second), hn::Set(du, 0xFFFF0000u)));
    }
    hn::StoreU(units, du, out + i);
  }
  for (; i < n; ++i) {
    out[i] = f32_to_bf16(to_f32(first[i]));
    if (second != nullptr) out[i] |= uint32_t{f32_to_bf16(to_f32((*second)[i]))} << 16;
  }
}

// Calls body(row) with a function from an index to the row of position from + index, below `to`.
template <class Body>
HWY_INLINE void with_rows(const KeysAndValues& kv, const HeadRows& of, uint32_t from, uint32_t to,
                          const Body& body) {
  size_t at[kKeyBlock];
  find_rows(kv, of.first, of.stride, of.page_stride, from, to, at);
  if (!kv_is_quantized(of.dtype)) {
    with_type(of.dtype, of.data, [&](const auto* data) HWY_ATTR {
      body([&](uint32_t j) HWY_ATTR { return data + at[j]; });
    });
    return;
  }
  size_t scales[kKeyBlock];
  find_rows(kv, of.first_scale, of.scale_stride, of.page_stride, from, to, scales);
  const auto* const bytes = static_cast<const uint8_t*>(of.data);
  const auto rows_of = [&](auto empty) HWY_ATTR {
    using Row = decltype(empty);
    body([&](uint32_t j) HWY_ATTR {
      return Row{reinterpret_cast<decltype(Row::codes)>(bytes + at[j]),
                 reinterpret_cast<const uint16_t*>(bytes + scales[j])};
    });
  };
  if (of.dtype == kDTypeQ8_0) {
    rows_of(Q8Row{});
  } else {
    rows_of(Q4Row{});
  }
}

// Keys and values of positions [from, to) in the product's units: keys [to - from, key units],
// values [(to - from) in units, head_dim], or [dims, kKeyBlock / 2] if the product needs them
// transposed.
template <class Product>
HWY_NOINLINE void load_block(const AttentionPass& pass, uint32_t from, uint32_t to,
                             const BlockedScratch& at, uint32_t* scratch) {
  constexpr size_t kPerUnit = Product::kPerUnit;
  const KeysAndValues& kv = pass.kv;
  const uint32_t n = to - from, dims = pass.head_dim;
  const size_t n_units = Product::key_units(dims);
  uint32_t *keys = scratch + at.keys, *values = scratch + at.values;
  with_rows(kv, kv.keys, from, to, [&](const auto& row) HWY_ATTR {
    for (uint32_t j = 0; j < n; ++j, keys += n_units) {
      to_units<kPerUnit>(row(j), dims, keys);
      std::fill(keys + dims / kPerUnit, keys + n_units, 0u);
    }
  });
  with_rows(kv, kv.values, from, to, [&](const auto& row) HWY_ATTR {
    for (uint32_t j = 0; j < n; j += kPerUnit, values += dims) {
      if constexpr (kPerUnit == 1) {
        to_units<1>(row(j), dims, values);
      } else {
        const auto second = row(std::min(j + 1, n - 1));
        pair_rows(row(j), j + 1 < n ? &second : nullptr, dims, values);
      }
    }
  });
  if constexpr (Product::kTransposesValues) {
    transpose({scratch + at.values, dims}, (n + 1) / 2, (n + 31) / 32 * 16, dims,
              scratch + at.transposed, kKeyBlock / 2);
  }
}

// Whether queries are scaled (to powers of 2) when they are read. Not for bf16, to avoid a second
// rounding.
HWY_INLINE bool scales_queries(const AttentionPass& pass) { return pass.q_dtype != kDTypeBF16; }

// The factor of a product of a query and a key, to a power of 2.
HWY_INLINE float product_factor(const AttentionPass& pass) {
  return scales_queries(pass) ? 1.0f : pass.scale * kLog2E;
}

template <class From>
HWY_INLINE void scale_numbers(const From* from, size_t n, float factor, float* to) {
  const F32 d;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    hn::StoreU(hn::Mul(load_f32(from + i), hn::Set(d, factor)), d, to + i);
  }
  for (; i < n; ++i) to[i] = to_f32(from[i]) * factor;
}

// Reads a group's queries, up to kGroup, and stores them as columns.
template <class Product>
HWY_NOINLINE void load_queries(const AttentionPass& pass, std::span<const AttentionQuery> queries,
                               uint32_t* rows, uint32_t* columns) {
  const uint32_t dims = pass.head_dim;
  const size_t n_units = Product::key_units(dims);
  uint32_t* row = rows;
  with_type(pass.q_dtype, pass.q, [&](const auto* q) HWY_ATTR {
    for (const AttentionQuery& query : queries) {
      if (scales_queries(pass)) {
        float* const scaled = reinterpret_cast<float*>(columns);
        scale_numbers(q + query.q, dims, pass.scale * kLog2E, scaled);
        to_units<Product::kPerUnit>(scaled, dims, row);
      } else {
        to_units<Product::kPerUnit>(q + query.q, dims, row);
      }
      std::fill(row + dims / Product::kPerUnit, row + n_units, 0u);
      row += n_units;
    }
  });
  transpose({rows, n_units}, queries.size(), kGroup, n_units, columns, kGroup);
}

// Adds `factor` times the bias to scores [n_keys][kGroup] from position `key` on.
HWY_NOINLINE void add_bias(std::span<const AttentionQuery> queries, const float* bias, float factor,
                           uint32_t key, uint32_t n_keys, float* scores) {
  const F32 d;
  alignas(64) float partial[kLanes] = {};  // for the last queries
  for (uint32_t h = 0; h < kGroup && h < queries.size(); h += kLanes) {
    const size_t n = std::min<size_t>(kLanes, queries.size() - h);
    const float* const of_first = bias + (ptrdiff_t{queries[h].position} - ptrdiff_t{key});
    for (uint32_t j = 0; j < n_keys; ++j) {
      const float* of_key = of_first - j;
      if (n < kLanes) {
        std::copy_n(of_key, n, partial);
        of_key = partial;
      }
      float* const at = scores + j * kGroup + h;
      hn::StoreU(hn::MulAdd(hn::Set(d, factor), hn::LoadU(d, of_key), hn::LoadU(d, at)), d, at);
    }
  }
}

// Masks scores [n_keys][kGroup] from position `key` on: -inf for positions that a query does not
// see.
HWY_NOINLINE void hide_unseen(std::span<const AttentionQuery> queries, uint32_t key,
                              uint32_t n_keys, float* scores) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  alignas(64) int32_t begin[kGroup] = {}, end[kGroup] = {};
  for (size_t i = 0; i < queries.size(); ++i) {
    begin[i] = static_cast<int32_t>(queries[i].begin);
    end[i] = static_cast<int32_t>(queries[i].end);
  }
  for (uint32_t h = 0; h < kGroup; h += kLanes) {
    const auto from = hn::LoadU(di, begin + h), to = hn::LoadU(di, end + h);
    for (uint32_t j = 0; j < n_keys; ++j) {
      const auto position = hn::Set(di, static_cast<int32_t>(key + j));
      const auto seen = hn::AndNot(hn::Lt(position, from), hn::Lt(position, to));
      float* at = scores + j * kGroup + h;
      hn::StoreU(hn::IfThenElse(hn::RebindMask(d, seen), hn::LoadU(d, at), hn::Set(d, -INFINITY)),
                 d, at);
    }
  }
}

// Queries that are computed together, one per lane.
struct Group {
  std::span<const AttentionQuery> queries;
  uint32_t begin, end;  // positions that at least one query sees
  uint32_t* columns;    // the queries, transposed
  float* running;       // [2][kGroup]: the largest score, the sum of probabilities
  float* sums;          // [head_dim][kGroup]
  bool has_sums;        // false: no keys yet
};

// Processes the keys [first, last) of the block at position `from` for a group of queries.
template <class Product, size_t kVectors>
HWY_NOINLINE void meet_keys(const AttentionPass& pass, Group& group, uint32_t from, uint32_t first,
                            uint32_t last, const BlockedScratch& at, uint32_t* scratch) {
  const F32 d;
  const std::span<const AttentionQuery> queries = group.queries;
  const uint32_t dims = pass.head_dim, n_keys = last - first, offset = first - from;
  const size_t n_units = Product::key_units(dims);
  float* const scores = reinterpret_cast<float*>(scratch + at.scores);
  Product::template multiply<kVectors>(scratch + at.keys + offset * n_units, n_units, 1, n_keys,
                                       group.columns, n_units, nullptr, scores);
  float factor = product_factor(pass);  // of scores, to powers of 2
  if (pass.soft_cap > 0) {
    const VF32 cap = hn::Set(d, pass.soft_cap * kLog2E);
    const VF32 inverse = hn::Set(d, factor / (pass.soft_cap * kLog2E));
    for (uint32_t i = 0; i < n_keys * kGroup; i += kLanes) {
      const VF32 capped = hn::Tanh(d, hn::Mul(hn::LoadU(d, scores + i), inverse));
      hn::StoreU(hn::Mul(cap, capped), d, scores + i);
    }
    factor = 1.0f;
  }
  if (pass.bias != nullptr) {
    add_bias(queries, pass.bias, kLog2E / factor, first, n_keys, scores);
  }
  const bool all_seen = std::ranges::all_of(
      queries, [&](const AttentionQuery& q) { return q.begin <= first && q.end >= last; });
  if (!all_seen) hide_unseen(queries, first, n_keys, scores);
  VF32 corrections[kVectors];
  const VF32* const factors = group.has_sums ? corrections : nullptr;
  group.has_sums = true;
  const uint32_t n_padded =
      (n_keys + Product::kKeyStep - 1) / Product::kKeyStep * Product::kKeyStep;
  for (size_t h = 0; h < kVectors; ++h) {
    float* const of_vector = group.running + h * kLanes;
    RunningSoftmax<F32> softmax{hn::LoadU(d, of_vector), hn::LoadU(d, of_vector + kGroup)};
    corrections[h] = to_probabilities<Product::kPerUnit == 1>(d, scores + h * kLanes, first, n_keys,
                                                              n_padded, factor, softmax);
    hn::StoreU(softmax.largest, d, of_vector);
    hn::StoreU(softmax.sum, d, of_vector + kGroup);
  }
  const auto* probabilities = reinterpret_cast<const uint32_t*>(scores);
  constexpr size_t kPerUnit = Product::kPerUnit;
  if constexpr (Product::kTransposesValues) {
    Product::template multiply<kVectors>(scratch + at.transposed + offset / kPerUnit, kKeyBlock / 2,
                                         1, dims, probabilities, n_padded / kPerUnit, factors,
                                         group.sums);
  } else {
    Product::template multiply<kVectors>(scratch + at.values + offset / kPerUnit * dims, 1, dims,
                                         dims, probabilities, n_padded / kPerUnit, factors,
                                         group.sums);
  }
}

// Adds the sinks to a group's sums of probabilities.
HWY_NOINLINE void add_sinks(const AttentionPass& pass, const Group& group) {
  const float factor = pass.soft_cap > 0 ? 1.0f : product_factor(pass);
  for (size_t i = 0; i < group.queries.size(); ++i) {
    const float sink = pass.sinks[group.queries[i].head] * kLog2E;
    group.running[kGroup + i] += std::exp2(sink - group.running[i] * factor);
  }
}

// Stores a group's sums [head_dim][kGroup], divided by the sums of probabilities.
HWY_NOINLINE void store_results(const AttentionPass& pass, const Group& group, float* rows) {
  const F32 d;
  const uint32_t dims = pass.head_dim;
  const std::span<const AttentionQuery> queries = group.queries;
  for (uint32_t h = 0; h < kGroup && h < queries.size(); h += kLanes) {
    const VF32 total = hn::LoadU(d, group.running + kGroup + h);
    for (uint32_t i = 0; i < dims; ++i) {
      float* const at = group.sums + i * kGroup + h;
      hn::StoreU(hn::Div(hn::LoadU(d, at), total), d, at);
    }
  }
  transpose({reinterpret_cast<const uint32_t*>(group.sums), kGroup}, dims, dims, queries.size(),
            reinterpret_cast<uint32_t*>(rows), dims);
  with_type(pass.out_dtype, pass.out, [&](auto* out) HWY_ATTR {
    for (const AttentionQuery& query : queries) {
      convert(rows, dims, out + query.out);
      rows += dims;
    }
  });
}

template <class Product>
void attend(const AttentionPass& pass, std::byte* memory) {
  const BlockedScratch at(pass.head_dim);
  auto* const scratch = reinterpret_cast<uint32_t*>(memory);
  const size_t column_size = Product::key_units(pass.head_dim) * kGroup;
  const size_t sums_size = (pass.head_dim + 31) / 32 * 32 * kGroup;
  const size_t n_queries = pass.queries.size();
  Group groups[kMaxPassQueries / kGroup];
  uint32_t n_groups = 0, begin = UINT32_MAX, end = 0;
  for (size_t q = 0; q < n_queries; q += kGroup, ++n_groups) {
    Group& group = groups[n_groups];
    group = {.queries = pass.queries.subspan(q, std::min<size_t>(kGroup, n_queries - q)),
             .begin = UINT32_MAX,
             .end = 0,
             .columns = scratch + at.queries + n_groups * column_size,
             .running = reinterpret_cast<float*>(scratch + at.running) + n_groups * 2 * kGroup,
             .sums = reinterpret_cast<float*>(scratch + at.sums) + n_groups * sums_size,
             .has_sums = false};
    for (const AttentionQuery& query : group.queries) {
      group.begin = std::min(group.begin, query.begin);
      group.end = std::max(group.end, query.end);
    }
    begin = std::min(begin, group.begin);
    end = std::max(end, group.end);
    load_queries<Product>(pass, group.queries, scratch + at.rows, group.columns);
    std::fill_n(group.running, kGroup, kNoScore);
    std::fill_n(group.running + kGroup, kGroup, 0.0f);
  }
  Product::begin();
  constexpr uint32_t kStep = Product::kKeyStep;
  for (uint32_t block = begin / kKeyBlock * kKeyBlock; block < end; block += kKeyBlock) {
    const uint32_t from = std::max(block, begin / kStep * kStep);
    const uint32_t to = std::min(block + kKeyBlock, end);
    load_block<Product>(pass, from, to, at, scratch);
    for (Group& group : std::span(groups, n_groups)) {
      const uint32_t first = std::max(from, group.begin / kStep * kStep);
      const uint32_t last = std::min(to, group.end);
      if (first >= last) continue;
      const auto meet =
          group.queries.size() <= kLanes ? meet_keys<Product, 1> : meet_keys<Product, 2>;
      meet(pass, group, from, first, last, at, scratch);
    }
  }
  Product::end();
  for (const Group& group : std::span(groups, n_groups)) {
    if (pass.sinks != nullptr) add_sinks(pass, group);
    store_results(pass, group, reinterpret_cast<float*>(scratch + at.rows));
  }
}

void attend_in_f32(const AttentionPass& pass, std::byte* scratch) {
  attend<VectorProduct<MultiplyF32>>(pass, scratch);
}
void attend_in_bf16_pairs(const AttentionPass& pass, std::byte* scratch) {
  attend<VectorProduct<MultiplyBf16Pair>>(pass, scratch);
}
void attend_on_tiles(const AttentionPass& pass, std::byte* scratch) {
  attend<TileProduct>(pass, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(attend_in_f32);
HWY_EXPORT(attend_in_bf16_pairs);
HWY_EXPORT(attend_on_tiles);

namespace {

struct RegistryRow {
  bool in_bf16;
  bool CpuFeatures::*needs;  // null: any CPU
  AttentionVariant variant;
};

// The first matching row is taken; the fastest is first.
constexpr RegistryRow kRegistry[] = {
    {true,
     &CpuFeatures::amx,
     {"AMX tiles",
      [](const AttentionPass& pass, std::byte* scratch) {
        HWY_DYNAMIC_DISPATCH(attend_on_tiles)(pass, scratch);
      }}},
    {true,
     &CpuFeatures::avx512_bf16,
     {"AVX512-BF16",
      [](const AttentionPass& pass, std::byte* scratch) {
        HWY_DYNAMIC_DISPATCH(attend_in_bf16_pairs)(pass, scratch);
      }}},
    {false,
     nullptr,
     {"vectors",
      [](const AttentionPass& pass, std::byte* scratch) {
        HWY_DYNAMIC_DISPATCH(attend_in_f32)
        (pass, scratch);
      }}},
};

}  // namespace

const AttentionVariant& choose_attention_variant(bool in_bf16) {
  return std::ranges::find_if(kRegistry,
                              [&](const RegistryRow& row) {
                                return (!row.in_bf16 || in_bf16) &&
                                       (row.needs == nullptr || cpu_features().*row.needs);
                              })
      ->variant;
}

size_t blocked_attention_scratch_bytes(uint32_t head_dim) {
  return BlockedScratch(head_dim).end * sizeof(uint32_t);
}

}  // namespace vesper
#endif
