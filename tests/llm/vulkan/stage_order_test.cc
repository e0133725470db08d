// Stages that wait by counters give the results of the same stages with barriers between them. On a
// GPU successive stages run side by side; lavapipe runs one dispatch after the other.
#include <cstdint>
#include <vector>

#include "tests/llm/kernels/quantized_matrix.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::stage_order_test {
namespace {

// As in Qwen3-0.6B.
constexpr uint32_t kWidth = 1024, kInner = 3072, kHeads = 16, kKvHeads = 8, kHeadDim = 128;
constexpr uint32_t kQkv = (kHeads + 2 * kKvHeads) * kHeadDim;
constexpr uint32_t kPageRows = 32, kPages = 20;
constexpr uint32_t kReplays = 3;
constexpr float kEpsilon = 1e-5f;

struct LayerCase {
  uint32_t n_rows;
  DType format;       // of weights
  uint32_t position;  // of the first row
  bool norms;         // as commands of their own
};

class StageOrder : public VulkanTest, public testing::WithParamInterface<LayerCase> {
 protected:
  // A language model's layer, repeated on its own result: what it leaves in the row and the pages.
  std::vector<float> run_layer(bool full_barriers) {
    VulkanOptions options;
    options.full_barriers = full_barriers;
    tune("order_groups=1000,vector_rows=8x8,attention_splits=3", options);
    engine_.seed(20261129);
    std::vector<float> x = random(size_t{GetParam().n_rows} * kWidth);
    std::vector<float> k = random(size_t{GetParam().n_rows} * kPages * kPageRows * kKvHeads *
                                  kHeadDim),
                       v = random(k.size());
    const Operand rows = store(x, DType::kF32);
    const Operand k_pages = store(k, DType::kF16), v_pages = store(v, DType::kF16);
    const DispatchTable table = layer(rows, k_pages, v_pages);
    device().run(device().record(table), kReplays, {});
    std::vector<float> results = load(rows, DType::kF32);
    for (const Operand& pages : {k_pages, v_pages}) {
      const std::vector<float> of_pages = load(pages, DType::kF16);
      results.insert(results.end(), of_pages.begin(), of_pages.end());
    }
    return results;
  }

 private:
  DispatchTable layer(const Operand& x, const Operand& k_pages, const Operand& v_pages) {
    const uint32_t n_rows = GetParam().n_rows;  // clang 14 cannot capture structured bindings
    const DType of_inner = GetParam().format == DType::kQ4_0 ? DType::kI8 : DType::kF32;
    const auto floats = [](uint64_t n) { return device().allocate(n * sizeof(float), "floats"); };
    const Operand qkv = floats(n_rows * kQkv), heads = floats(n_rows * kHeads * kHeadDim),
                  inner = floats(n_rows * kInner), normed = floats(n_rows * kWidth);
    std::vector<float> norm_weight = random(kWidth);
    const Operand norm = store(norm_weight, DType::kF32);
    std::vector<float> angles = random(size_t{kPageRows} * kPages * kHeadDim);
    const Operand angle_buffer = store(angles, DType::kF32);
    std::vector<Row> rows;
    std::vector<int32_t> page_table;
    for (uint32_t r = 0; r < n_rows; ++r) {
      rows.push_back(
          {0, static_cast<int32_t>(r), static_cast<int32_t>(GetParam().position + 31 * r), 0});
      for (uint32_t i = 0; i < kPages; ++i) {
        page_table.push_back(static_cast<int32_t>(r * kPages + i));
      }
    }
    PagedAttentionParams p{};
    p.n_rows = n_rows;
    p.n_heads = kHeads;
    p.n_kv_heads = kKvHeads;
    p.head_dim = kHeadDim;
    p.q_row_stride = kQkv;
    p.out_row_stride = kHeads * kHeadDim;
    p.page_rows = kPageRows;
    p.pages_per_sequence = kPages;
    p.scale = 0.09f;
    p.kv_dtypes = KvTypes(DType::kF16).codes();
    p.out_dtype = static_cast<uint32_t>(of_inner);
    p.flags = kAttentionWritesKv;
    p.n_pairs = kHeadDim / 2;
    DispatchTable table;
    const auto add_first = [&](uint32_t n_out, const Operand& out, DType out_dtype) {
      if (!GetParam().norms) {
        return add_product(table, n_out, kWidth, out, x, norm, {}, DType::kF32, out_dtype);
      }
      emit::norm(
          table, "norm",
          {n_rows, kWidth, kEpsilon, kNormRms, static_cast<uint32_t>(of_inner), kDTypeF32, kWidth},
          normed, x, norm, {}, {});
      add_product(table, n_out, kWidth, out, normed, {}, {}, of_inner, out_dtype);
    };
    add_first(kQkv, qkv, DType::kF32);
    emit::paged_attention(table, "attention", p, heads, qkv, k_pages, v_pages, store_structs(rows),
                          store_structs(page_table), {}, angle_buffer);
    add_product(table, kWidth, kHeads * kHeadDim, x, heads, {}, x, of_inner, DType::kF32);
    add_first(kInner, inner, of_inner);
    add_product(table, kWidth, kInner, x, inner, {}, x, of_inner, DType::kF32);
    return table;
  }

  // Gated if its result is `inner`.
  void add_product(DispatchTable& table, uint32_t n_out, uint32_t n_in, const Operand& out,
                   const Operand& in, const Operand& norm, const Operand& residual, DType in_dtype,
                   DType out_dtype) {
    const bool gated = n_out == kInner;
    const uint32_t n_sums = gated ? 2 * n_out : n_out;
    Weight weight;
    if (GetParam().format == DType::kQ4_0) {
      const QuantizedMatrix matrix({DType::kQ4_0}, n_sums, n_in, static_cast<uint32_t>(engine_()));
      weight = device().upload(matrix.source(), WeightUse::kAnyRows, Compute::kAuto);
    } else {
      std::vector<float> values = random(size_t{n_sums} * n_in, 0.03f);
      weight = upload(values, n_sums, n_in, GetParam().format, Compute::kAuto);
    }
    MatmulParams p = product(GetParam().n_rows, n_out, weight, in_dtype, out_dtype);
    p.flags = gated ? kMatmulGated : 0;
    p.activation = gated ? kActivationSilu : kActivationNone;
    p.norm_epsilon = kEpsilon;
    emit::matmul(table, "product", p, out, in, weight.data, {}, residual, weight.scale, {}, norm);
  }
};

TEST_P(StageOrder, GivesTheResultsOfBarriers) {
  const std::vector<float> wanted = run_layer(true), found = run_layer(false);
  ASSERT_EQ(found.size(), wanted.size());
  size_t n_different = 0;
  for (size_t i = 0; i < wanted.size(); ++i) n_different += !(found[i] == wanted[i]);
  EXPECT_EQ(n_different, 0u);
}

INSTANTIATE_TEST_SUITE_P(Layers, StageOrder,
                         // Of the workgroups for the positions, one, two or three have any.
                         testing::Values(LayerCase{1, DType::kQ4_0, 40, false},
                                         LayerCase{3, DType::kQ4_0, 520, true},
                                         LayerCase{1, DType::kF16, 630, false},
                                         LayerCase{4, DType::kF16, 0, true}),
                         [](const auto& layer) { return "Case" + std::to_string(layer.index); });

}  // namespace
}  // namespace vesper::stage_order_test
