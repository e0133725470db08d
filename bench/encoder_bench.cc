// The encoder's kernels on this CPU: single products and attention at the shapes of Whisper tiny.en
// and base, then the commands of a whole encoder on two threads. The rates to compare with, those
// of instructions that touch registers only, come first.
//
// Times are of the thread's own CPU clock; FLOP/s counts 2 per multiply-add.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "hwy/aligned_allocator.h"
#include "llm/cpu/attention/encoder_attention.h"
#include "llm/cpu/cpu_features.h"
#include "llm/cpu/matmul/encoder_matmul.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vesper {
namespace {

constexpr uint32_t kFrames = 1500;  // rows of Whisper's encoder, a window

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void set_rate(benchmark::State& state, double flop) {
  state.counters["FLOP/s"] = benchmark::Counter(flop * static_cast<double>(state.iterations()),
                                                benchmark::Counter::kIsRate);
}

#if defined(__x86_64__)
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

__attribute__((target("amx-tile,amx-bf16"))) void peak_amx_bf16(benchmark::State& state) {
  if (!cpu_features().amx) return state.SkipWithError("no AMX");
  const TileConfig config;
  _tile_loadconfig(&config);
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
size_t bytes_of(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

// A buffer with numbers around 1 in either format.
struct Activations {
  std::vector<float> f32;
  std::vector<uint16_t> bf16;
  Activations(DType dtype, size_t n) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> block(4096);
    for (float& x : block) x = normal(random);
    if (dtype == DType::kF32) {
      f32.resize(n);
      for (size_t i = 0; i < n; ++i) f32[i] = block[i % 4096];
    } else {
      bf16.resize(n);
      for (size_t i = 0; i < n; ++i) {
        uint32_t bits;
        std::memcpy(&bits, &block[i % 4096], 4);
        bf16[i] = static_cast<uint16_t>(bits >> 16);
      }
    }
  }
  void* data() { return f32.empty() ? static_cast<void*>(bf16.data()) : f32.data(); }
};

// One command of an encoder, with its operands, split for some threads.
class Step {
 public:
  virtual ~Step() = default;
  virtual uint32_t n_tasks() const = 0;
  virtual size_t scratch_bytes() const = 0;
  virtual void run(uint32_t task, void* scratch) = 0;
  virtual double flop() const = 0;
};

class ProductStep : public Step {
 public:
  ProductStep(uint32_t n_rows, uint32_t n_out, uint32_t n_in, uint32_t in_row_stride,
              bool with_gelu, bool with_residual, DType in, DType out, Compute compute,
              uint32_t n_threads)
      : matrix_(n_out, n_in, compute),
        in_(in, size_t{n_rows} * in_row_stride + n_in),
        out_(out, size_t{n_rows} * n_out),
        bias_(n_out, 0.1f),
        with_residual_(with_residual) {
    params_.n_rows = params_.rows_per_batch = n_rows;
    params_.n_out = params_.out_row_stride = n_out;
    params_.n_in = n_in;
    params_.in_row_stride = in_row_stride;
    params_.in_dtype = static_cast<uint32_t>(in);
    params_.out_dtype = static_cast<uint32_t>(out);
    params_.activation = with_gelu ? kActivationGelu : kActivationNone;
    matrix_.set_rows(0, n_out, weight(n_out, n_in).data());
    tasks_ = matrix_.prepare(params_, n_threads);
  }
  uint32_t n_tasks() const override { return tasks_.n_tasks; }
  size_t scratch_bytes() const override { return tasks_.scratch_bytes; }
  void run(uint32_t task, void* scratch) override {
    matrix_.run_task(params_, tasks_,
                     {out_.data(), in_.data(), bias_.data(),
                      with_residual_ ? static_cast<const float*>(out_.data()) : nullptr},
                     task, scratch);
  }
  double flop() const override { return 2.0 * params_.n_rows * params_.n_out * params_.n_in; }

 private:
  static std::vector<float> weight(uint32_t n_out, uint32_t n_in) {
    std::vector<float> all(size_t{n_out} * n_in);
    std::mt19937 random(2);
    std::uniform_real_distribution<float> uniform(-0.05f, 0.05f);
    for (float& w : all) w = uniform(random);
    return all;
  }
  PackedMatrix matrix_;
  MatmulParams params_{};
  MatmulTasks tasks_;
  Activations in_, out_;
  std::vector<float> bias_;
  bool with_residual_;
};

class AttentionStep : public Step {
 public:
  AttentionStep(uint32_t n_heads, uint32_t head_dim, DType dtype, uint32_t n_threads)
      : qkv_(dtype, size_t{kFrames} * 3 * n_heads * head_dim),
        out_(dtype, size_t{kFrames} * n_heads * head_dim),
        element_(bytes_of(dtype)) {
    params_.n_sequences = 1;
    params_.rows_per_sequence = kFrames;
    params_.n_heads = params_.n_kv_heads = n_heads;
    params_.head_dim = head_dim;
    params_.q_row_stride = params_.k_row_stride = params_.v_row_stride = 3 * n_heads * head_dim;
    params_.out_row_stride = n_heads * head_dim;
    params_.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    params_.in_dtype = params_.out_dtype = static_cast<uint32_t>(dtype);
    tasks_ = prepare_attention(params_, false, n_threads);
  }
  uint32_t n_tasks() const override { return tasks_.n_tasks; }
  size_t scratch_bytes() const override { return tasks_.scratch_bytes; }
  void run(uint32_t task, void* scratch) override {
    const size_t part = size_t{params_.n_heads} * params_.head_dim * element_;
    char* qkv = static_cast<char*>(qkv_.data());
    run_attention_task(params_, tasks_, {out_.data(), qkv, qkv + part, qkv + 2 * part}, task,
                       scratch);
  }
  double flop() const override {
    return 4.0 * kFrames * kFrames * params_.n_heads * params_.head_dim;
  }

 private:
  AttentionParams params_{};
  AttentionTasks tasks_;
  Activations qkv_, out_;
  size_t element_;
};

void run_all(benchmark::State& state, Step& step) {
  auto scratch = hwy::AllocateAligned<uint8_t>(step.scratch_bytes());
  for (auto _ : state) {
    for (uint32_t t = 0; t < step.n_tasks(); ++t) step.run(t, scratch.get());
  }
  set_rate(state, step.flop());
}

constexpr Compute kComputes[] = {Compute::kF32, Compute::kBF16, Compute::kI8};
const char* name_of(Compute compute) {
  return compute == Compute::kF32 ? "f32" : compute == Compute::kBF16 ? "bf16" : "int8";
}

struct Model {
  const char* name;
  uint32_t d, ffn, heads, layers;
};
constexpr Model kModels[] = {{"tiny.en", 384, 1536, 6, 4}, {"base", 512, 2048, 8, 6}};

// The commands of a whole encoder, without its norms, in order.
std::vector<std::unique_ptr<Step>> encoder_steps(const Model& m, Compute compute,
                                                 uint32_t n_threads, bool products,
                                                 bool attention) {
  const DType a = activations(compute);
  std::vector<std::unique_ptr<Step>> steps;
  const auto product = [&](uint32_t rows, uint32_t n_out, uint32_t n_in, uint32_t stride, bool gelu,
                           bool residual, DType out) {
    if (!products) return;
    steps.push_back(std::make_unique<ProductStep>(rows, n_out, n_in, stride, gelu, residual, a, out,
                                                  compute, n_threads));
  };
  product(2 * kFrames, m.d, 240, 80, true, false, a);
  product(kFrames, m.d, 3 * m.d, 2 * m.d, true, false, DType::kF32);
  for (uint32_t layer = 0; layer < m.layers; ++layer) {
    product(kFrames, 3 * m.d, m.d, m.d, false, false, a);
    if (attention) {
      steps.push_back(std::make_unique<AttentionStep>(m.heads, m.d / m.heads, a, n_threads));
    }
    product(kFrames, m.d, m.d, m.d, false, true, DType::kF32);
    product(kFrames, m.ffn, m.d, m.d, true, false, a);
    product(kFrames, m.d, m.ffn, m.ffn, false, true, DType::kF32);
  }
  return steps;
}

// Each command's tasks dealt to two threads in turn; the time is that of the busier thread.
void encoder(benchmark::State& state, const Model& model, Compute compute, bool products,
             bool attention) {
  const auto steps = encoder_steps(model, compute, 2, products, attention);
  size_t scratch_bytes = 0;
  double flop = 0.0;
  for (const auto& step : steps) {
    scratch_bytes = std::max(scratch_bytes, step->scratch_bytes());
    flop += step->flop();
  }
  auto scratch = hwy::AllocateAligned<uint8_t>(2 * (scratch_bytes + 64));
  for (auto _ : state) {
    double seconds[2];
    std::vector<std::thread> threads;
    for (uint32_t thread : {0u, 1u}) {
      threads.emplace_back([&, thread] {
        uint8_t* mine = scratch.get() + thread * ((scratch_bytes + 63) / 64 * 64);
        const double start = thread_seconds();
        for (const auto& step : steps) {
          for (uint32_t t = thread; t < step->n_tasks(); t += 2) step->run(t, mine);
        }
        seconds[thread] = thread_seconds() - start;
      });
    }
    for (std::thread& thread : threads) thread.join();
    state.SetIterationTime(std::max(seconds[0], seconds[1]));
  }
  set_rate(state, flop);
}

void register_all() {
  for (const Model& m : kModels) {
    for (Compute compute : kComputes) {
      const DType a = activations(compute);
      const auto add = [&](const char* what, auto make) {
        benchmark::RegisterBenchmark(
            (std::string(m.name) + "/" + what + "/" + name_of(compute)).c_str(),
            [make](benchmark::State& state) {
              const auto step = make();
              run_all(state, *step);
            })
            ->Unit(benchmark::kMillisecond);
      };
      const auto product = [&](uint32_t rows, uint32_t n_out, uint32_t n_in, uint32_t stride,
                               bool gelu, bool residual, DType out) {
        return [=] {
          return std::make_unique<ProductStep>(rows, n_out, n_in, stride, gelu, residual, a, out,
                                               compute, 2);
        };
      };
      add("conv1", product(2 * kFrames, m.d, 240, 80, true, false, a));
      add("conv2", product(kFrames, m.d, 3 * m.d, 2 * m.d, true, false, DType::kF32));
      add("qkv", product(kFrames, 3 * m.d, m.d, m.d, false, false, a));
      add("attn_out", product(kFrames, m.d, m.d, m.d, false, true, DType::kF32));
      add("ffn_up", product(kFrames, m.ffn, m.d, m.d, true, false, a));
      add("ffn_down", product(kFrames, m.d, m.ffn, m.ffn, false, true, DType::kF32));
      if (compute != Compute::kI8) {
        add("attention",
            [=] { return std::make_unique<AttentionStep>(m.heads, m.d / m.heads, a, 2); });
      }
      for (int parts : {1, 2, 3}) {
        const char* what = parts == 1 ? "products" : parts == 2 ? "attentions" : "encoder";
        benchmark::RegisterBenchmark(
            (std::string(m.name) + "/" + what + "_2_threads/" + name_of(compute)).c_str(),
            [&m, compute, parts](benchmark::State& state) {
              encoder(state, m, compute, parts & 1, parts & 2);
            })
            ->Unit(benchmark::kMillisecond)
            ->UseManualTime();
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
