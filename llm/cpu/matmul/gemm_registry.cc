#include <algorithm>
#include <string>

#include "error/error.h"
#include "llm/cpu/cpu_features.h"
#include "llm/cpu/matmul/gemm.h"

namespace vesper {
namespace {

// A kernel and its conditions.
struct RegistryRow {
  uint32_t storages;         // bit i: Storage i
  uint32_t inputs;           // bit i: InputFormat i
  bool CpuFeatures::*needs;  // null: any CPU
  uint32_t least_rows;       // of a command
  GemmKernel kernel;
};

constexpr uint32_t bits(auto... values) { return ((1u << static_cast<uint32_t>(values)) | ...); }

using enum Storage;
constexpr uint32_t kAnyInputs = ~0u;
constexpr auto kF32Rows = InputFormat::kF32, kBF16Rows = InputFormat::kBF16;
constexpr auto kI8Rows = InputFormat::kI8, kFastest = InputFormat::kFastest;
// Up to this number of rows, a call of a direct kernel keeps its sums in registers.
constexpr uint32_t kRegisterRows = 12;

// The first matching row is taken: for each storage the fastest kernel is first.
constexpr RegistryRow kRegistry[] = {
#if defined(__x86_64__)
    {bits(kBlocks),
     bits(kBF16Rows, kFastest),
     &CpuFeatures::amx,
     kFewRows + 1,
     {gemm_blocks_amx, RowLayout::kBF16Tiles, gemm_blocks_amx_scratch_bytes, "AMX tiles",
      kMaxGemmRows, GemmKernel::kStoresResult}},
    {bits(kBlocks),
     bits(kI8Rows, kFastest),
     &CpuFeatures::avx512_vnni,
     1,
     {gemm_blocks_vnni, RowLayout::kI8Blocks, expanded_scale_bytes, "int8, VNNI", kMaxGemmRows,
      GemmKernel::kStoresResult | GemmKernel::kAddsResidual}},
    {bits(kBlocks),
     bits(kI8Rows, kFastest),
     &CpuFeatures::avx_vnni,
     1,
     {gemm_blocks_avx_vnni, RowLayout::kI8Blocks, expanded_scale_bytes, "int8, AVX-VNNI",
      kMaxGemmRows, GemmKernel::kStoresResult | GemmKernel::kAddsResidual}},
    {bits(kBlocks),
     bits(kI8Rows, kFastest),
     &CpuFeatures::avx2,
     1,
     {gemm_blocks_avx2, RowLayout::kI8Blocks, expanded_scale_bytes, "int8, AVX2", kMaxGemmRows,
      GemmKernel::kStoresResult | GemmKernel::kAddsResidual}},

    {bits(kI8),
     bits(kI8Rows),
     &CpuFeatures::amx,
     kFewRows + 1,
     {gemm_amx_int8, RowLayout::kI8Tiles, gemm_amx_sums_scratch_bytes, "AMX tiles", kMaxGemmRows,
      GemmKernel::kIntegerSums | GemmKernel::kFinishesSums | GemmKernel::kPolynomialGelu}},
    {bits(kI8),
     bits(kI8Rows),
     &CpuFeatures::avx512_vnni,
     1,
     {gemm_int8_quads, RowLayout::kI8Unsigned, nullptr, "VNNI", kRegisterRows,
      GemmKernel::kIntegerSums | GemmKernel::kPolynomialGelu}},
    {bits(kI8),
     bits(kI8Rows),
     &CpuFeatures::avx_vnni,
     1,
     {gemm_int8_quads, RowLayout::kI8Unsigned, nullptr, "VNNI", kRegisterRows,
      GemmKernel::kIntegerSums | GemmKernel::kPolynomialGelu}},

    {bits(kThreeBF16),
     bits(kF32Rows),
     &CpuFeatures::amx,
     1,
     {gemm_amx_three_bf16, RowLayout::kThreeBF16Tiles, gemm_amx_sums_scratch_bytes, "AMX tiles",
      kMaxGemmRows, GemmKernel::kFinishesSums | GemmKernel::kPolynomialGelu}},
    {bits(kBF16),
     bits(kBF16Rows),
     &CpuFeatures::amx,
     1,
     {gemm_amx_bf16_rounded, RowLayout::kBF16Tiles, gemm_amx_sums_scratch_bytes, "AMX tiles",
      kMaxGemmRows, GemmKernel::kFinishesSums | GemmKernel::kPolynomialGelu}},
    {bits(kBF16),
     bits(kBF16Rows),
     &CpuFeatures::avx512_bf16,
     1,
     {gemm_bf16_pairs, RowLayout::kBF16, nullptr, "AVX512-BF16", kRegisterRows,
      GemmKernel::kPolynomialGelu}},
    {bits(kF16),
     bits(kFastest),
     &CpuFeatures::amx,
     kFewRows + 1,
     {gemm_amx_f16, RowLayout::kTwoBF16Tiles, gemm_amx_f16_scratch_bytes, "AMX tiles"}},
    {bits(kBF16),
     bits(kFastest),
     &CpuFeatures::amx,
     kFewRows + 1,
     {gemm_amx_bf16, RowLayout::kTwoBF16Tiles, nullptr, "AMX tiles"}},
    {bits(kF16, kBF16),
     bits(kFastest),
     &CpuFeatures::avx512_vnni,
     kFewRows + 1,
     {gemm_i16, RowLayout::kI16Blocks, gemm_i16_scratch_bytes, "16-bit integers, VNNI",
      kMaxGemmRows, GemmKernel::kStoresResult | GemmKernel::kStoresAnyRows}},
#endif
    {bits(kBlocks),
     kAnyInputs,
     nullptr,
     1,
     {gemm_blocks_f32, RowLayout::kF32, gemm_blocks_f32_scratch_bytes}},
    {bits(kI8),
     bits(kI8Rows),
     nullptr,
     1,
     {gemm_int8, RowLayout::kI8, nullptr, "vectors", kRegisterRows,
      GemmKernel::kIntegerSums | GemmKernel::kPolynomialGelu}},
    {bits(kF32),
     kAnyInputs,
     nullptr,
     1,
     {gemm_f32, RowLayout::kF32, nullptr, "vectors", kRegisterRows,
      GemmKernel::kStoresResult | GemmKernel::kStoresAnyRows | GemmKernel::kPolynomialGelu}},
    {bits(kF16),
     kAnyInputs,
     nullptr,
     1,
     {gemm_f16, RowLayout::kF32, nullptr, "vectors", kRegisterRows,
      GemmKernel::kStoresResult | GemmKernel::kStoresAnyRows}},
    {bits(kBF16),
     kAnyInputs,
     nullptr,
     1,
     {gemm_bf16, RowLayout::kF32, nullptr, "vectors", kRegisterRows,
      GemmKernel::kStoresResult | GemmKernel::kStoresAnyRows}},
};

bool fits(const RegistryRow& row, const PackedFormat& format, uint32_t n_rows) {
  return (row.storages & bits(format.storage)) != 0 && (row.inputs & bits(format.inputs)) != 0 &&
         n_rows >= row.least_rows && (row.needs == nullptr || cpu_features().*row.needs);
}

}  // namespace

const GemmKernel& choose_gemm_kernel(const PackedFormat& format, uint32_t n_rows) {
  const auto* const row =
      std::find_if(std::begin(kRegistry), std::end(kRegistry),
                   [&](const RegistryRow& r) { return fits(r, format, n_rows); });
  if (format.row_major || row == std::end(kRegistry)) {
    throw Error(ErrorKind::kInternal,
                "cpu: no product for weight format " + std::to_string(format.word()));
  }
  return row->kernel;
}

size_t converted_row_bytes(RowLayout rows, const PackedLayout& layout) {
  const size_t padded = layout.padded_n_in;
  switch (rows) {
    case RowLayout::kF32:
    case RowLayout::kTwoBF16Tiles:
      return 4 * padded;
    case RowLayout::kBF16:
    case RowLayout::kBF16Tiles:
      return 2 * padded;
    case RowLayout::kThreeBF16Tiles:
      return 6 * padded;
    case RowLayout::kI8Blocks:
      return Int8BlockRow(layout).bytes;
    case RowLayout::kI16Blocks:
      return I16Row(layout).bytes;
    default:
      return padded;
  }
}

}  // namespace vesper
