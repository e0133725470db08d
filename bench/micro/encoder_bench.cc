// The encoder's kernels on this CPU: products and attention in the shapes of Whisper tiny.en and
// base on one thread, then the commands of a whole encoder on two. Begins with the peak rates of
// instructions in registers. A multiply-add counts 2 FLOP.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "llm/cpu/amx_tile.h"
#include "llm/cpu/cpu_device.h"
#include "llm/cpu/cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vesper {
namespace {

constexpr uint32_t kFrames = 1500;  // rows of Whisper's encoder per window

void set_rate(benchmark::State& state, double flop) {
  state.counters["FLOP/s"] = benchmark::Counter(flop * static_cast<double>(state.iterations()),
                                                benchmark::Counter::kIsRate);
}

#if defined(__x86_64__)
__attribute__((target("amx-tile,amx-bf16"))) void peak_amx_bf16(benchmark::State& state) {
  if (!cpu_features().amx) return state.SkipWithError("no AMX");
  _tile_loadconfig(&kTileConfig);
  for (auto _ : state) {
    for (int i = 0; i < 1000; ++i) {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_release();
  set_rate(state, 1000.0 * 4 * 16 * 16 * 32 * 2);
}
BENCHMARK(peak_amx_bf16);

__attribute__((target("avx512f"))) void peak_avx512_f32(benchmark::State& state) {
  if (!__builtin_cpu_supports("avx512f")) return state.SkipWithError("no AVX-512");
  __m512 sums[16];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const __m512 x = _mm512_set1_ps(0.5f);
  for (auto _ : state) {
    for (int i = 0; i < 1000; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j) sums[j] = _mm512_fmadd_ps(sums[j], x, x);
      asm volatile("");
    }
  }
  for (int j = 1; j < 16; ++j) sums[0] = _mm512_add_ps(sums[0], sums[j]);
  float result[16];
  _mm512_storeu_ps(result, sums[0]);
  benchmark::DoNotOptimize(result);
  set_rate(state, 1000.0 * 16 * 16 * 2);
}
BENCHMARK(peak_avx512_f32);

void peak_avx512_bf16(benchmark::State& state) {
  if (!cpu_features().avx512_bf16) return state.SkipWithError("no AVX512-BF16");
  for (auto _ : state) {
    for (int i = 0; i < 1000; ++i) {
      asm volatile(
          ".irp sum, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
          "vdpbf16ps %%zmm16, %%zmm16, %%zmm\\sum\n"
          ".endr" ::
              : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    }
  }
  set_rate(state, 1000.0 * 16 * 16 * 4);
}
BENCHMARK(peak_avx512_bf16);
#endif

DType activations(Compute compute) { return compute == Compute::kF32 ? DType::kF32 : DType::kBF16; }
uint64_t bytes_of(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

// Replays the commands of an encoder on a device.
class EncoderTable {
 public:
  EncoderTable(Compute compute, uint32_t n_threads) : compute_(compute) {
    DeviceOptions options;
    options.n_threads = n_threads;
    device_ = open_cpu_device(options);
  }

  void product(uint32_t n_rows, uint32_t n_out, uint32_t n_in, uint32_t in_row_stride,
               bool with_gelu, bool with_residual, DType out_dtype) {
    std::vector<float> numbers(size_t{n_out} * n_in);
    std::mt19937 random(2);
    std::uniform_real_distribution<float> uniform(-0.05f, 0.05f);
    for (float& w : numbers) w = uniform(random);
    TensorView view;
    view.file_name = "weight";
    view.dtype = DType::kF32;
    view.shape = {n_out, n_in};
    view.data = numbers.data();
    view.bytes = numbers.size() * sizeof(float);
    const Weight weight = device_->upload({{&view}}, WeightUse::kManyRows, compute_);
    MatmulParams params{};
    params.n_rows = params.rows_per_batch = n_rows;
    params.n_out = params.out_row_stride = n_out;
    params.n_in = n_in;
    params.in_row_stride = in_row_stride;
    params.in_dtype = static_cast<uint32_t>(activations(compute_));
    params.out_dtype = static_cast<uint32_t>(out_dtype);
    params.weight_format = weight.format;
    params.activation = with_gelu ? kActivationGelu : kActivationNone;
    const Operand in = numbers_of(activations(compute_), uint64_t{n_rows} * in_row_stride + n_in);
    const Operand out = numbers_of(out_dtype, uint64_t{n_rows} * n_out);
    emit::matmul(table_, "product", params, out, in, weight.data, numbers_of(DType::kF32, n_out),
                 with_residual ? out : Operand{}, weight.scale);
    flop_ += 2.0 * n_rows * n_out * n_in;
  }

  void attention(uint32_t n_heads, uint32_t head_dim) {
    const DType dtype = activations(compute_);
    const uint32_t d = n_heads * head_dim;
    AttentionParams params{};
    params.n_sequences = 1;
    params.rows_per_sequence = kFrames;
    params.n_heads = params.n_kv_heads = n_heads;
    params.head_dim = head_dim;
    params.q_row_stride = params.k_row_stride = params.v_row_stride = 3 * d;
    params.out_row_stride = d;
    params.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    params.in_dtype = params.out_dtype = static_cast<uint32_t>(dtype);
    const Operand qkv = numbers_of(dtype, uint64_t{kFrames} * 3 * d);
    const uint64_t part = d * bytes_of(dtype);
    emit::attention(table_, "attention", params, numbers_of(dtype, uint64_t{kFrames} * d), qkv,
                    qkv.from(part), qkv.from(2 * part));
    flop_ += 4.0 * kFrames * kFrames * d;
  }

  void replay(benchmark::State& state) {
    const ProgramId program = device_->record(table_);
    for (auto _ : state) device_->run(program);
    set_rate(state, flop_);
  }

 private:
  // A buffer of values near 1.
  Operand numbers_of(DType dtype, uint64_t n) {
    const Operand buffer = device_->allocate(n * bytes_of(dtype), "numbers");
    const std::vector<uint16_t> halves(buffer.bytes / 2, 0x3f80);  // bf16 1; f32 1.0014
    device_->write(buffer, halves.data());
    return buffer;
  }

  Compute compute_;
  std::unique_ptr<Device> device_;
  DispatchTable table_;
  double flop_ = 0;
};

constexpr Compute kComputes[] = {Compute::kF32, Compute::kBF16, Compute::kI8};
const char* name_of(Compute compute) {
  return compute == Compute::kF32 ? "f32" : compute == Compute::kBF16 ? "bf16" : "int8";
}

struct Model {
  const char* name;
  uint32_t d, ffn, heads, layers;
};
constexpr Model kModels[] = {{"tiny.en", 384, 1536, 6, 4}, {"base", 512, 2048, 8, 6}};

// The commands of a whole encoder without its norms, in order.
void add_encoder(EncoderTable& table, const Model& m, Compute compute, bool products,
                 bool attention) {
  const DType a = activations(compute);
  const auto product = [&](auto... arguments) {
    if (products) table.product(arguments...);
  };
  product(2 * kFrames, m.d, 240u, 80u, true, false, a);
  product(kFrames, m.d, 3 * m.d, 2 * m.d, true, false, DType::kF32);
  for (uint32_t layer = 0; layer < m.layers; ++layer) {
    product(kFrames, 3 * m.d, m.d, m.d, false, false, a);
    if (attention) table.attention(m.heads, m.d / m.heads);
    product(kFrames, m.d, m.d, m.d, false, true, DType::kF32);
    product(kFrames, m.ffn, m.d, m.d, true, false, a);
    product(kFrames, m.d, m.ffn, m.ffn, false, true, DType::kF32);
  }
}

void register_all() {
  for (const Model& m : kModels) {
    for (Compute compute : kComputes) {
      const DType a = activations(compute);
      const auto add = [&](const char* what, uint32_t n_threads, auto fill) {
        benchmark::RegisterBenchmark(
            (std::string(m.name) + "/" + what + "/" + name_of(compute)).c_str(),
            [=](benchmark::State& state) {
              EncoderTable table(compute, n_threads);
              fill(table);
              table.replay(state);
            })
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
      };
      const auto product = [&](const char* what, uint32_t rows, uint32_t n_out, uint32_t n_in,
                               uint32_t stride, bool gelu, bool residual, DType out) {
        add(what, 1, [=](EncoderTable& table) {
          table.product(rows, n_out, n_in, stride, gelu, residual, out);
        });
      };
      product("conv1", 2 * kFrames, m.d, 240, 80, true, false, a);
      product("conv2", kFrames, m.d, 3 * m.d, 2 * m.d, true, false, DType::kF32);
      product("qkv", kFrames, 3 * m.d, m.d, m.d, false, false, a);
      product("attn_out", kFrames, m.d, m.d, m.d, false, true, DType::kF32);
      product("ffn_up", kFrames, m.ffn, m.d, m.d, true, false, a);
      product("ffn_down", kFrames, m.d, m.ffn, m.ffn, false, true, DType::kF32);
      if (compute != Compute::kI8) {
        add("attention", 1, [m](EncoderTable& table) { table.attention(m.heads, m.d / m.heads); });
      }
      for (int parts : {1, 2, 3}) {
        const char* what = parts == 1   ? "products_2_threads"
                           : parts == 2 ? "attentions_2_threads"
                                        : "encoder_2_threads";
        add(what, 2,
            [=](EncoderTable& table) { add_encoder(table, m, compute, parts & 1, parts & 2); });
      }
    }
  }
}

}  // namespace
}  // namespace vesper

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  vesper::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
