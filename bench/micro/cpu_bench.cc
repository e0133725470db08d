// The CPU device's kernels compared with the machine: bytes/s of a read loop for products of few
// rows, FLOP/s of multiply-adds in registers for products of many.
//
// Programs run through the device with their barriers, as in a decoder step. Rates are per second
// of processor time of all threads, waiting included, so that they are valid on a machine with
// other load. VESPER_BENCH_THREADS is the number of threads of the device, one by default.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "llm/cpu/buffer_memory.h"
#include "llm/cpu/cpu_device.h"
#include "llm/cpu/thread_pool.h"
#include "llm/dtype/number_conversion.h"
#include "llm/table/device.h"

namespace vesper {
namespace {

uint32_t device_threads() {
  const char* wanted = std::getenv("VESPER_BENCH_THREADS");
  return wanted == nullptr ? 1 : static_cast<uint32_t>(std::atoi(wanted));
}

// The sum of a block of memory, with the widest loads of the compiler's clones.
__attribute__((target_clones("avx512f", "avx2", "default"))) uint64_t sum_words(
    const uint64_t* from, size_t n) {
  uint64_t sums[32] = {};
  for (size_t i = 0; i + 32 <= n; i += 32) {
    for (size_t j = 0; j < 32; ++j) sums[j] += from[i + j];
  }
  uint64_t sum = 0;
  for (const uint64_t s : sums) sum += s;
  return sum;
}

void read_memory(benchmark::State& state) {
  const auto bytes = static_cast<uint64_t>(state.range(0)) << 20;
  ThreadPool pool(static_cast<uint32_t>(state.range(1)));
  const BufferMemory memory(bytes, "benchmark");
  std::memset(memory.data(), 1, bytes);
  constexpr uint64_t kBlock = 64 << 10;
  const auto n_tasks = static_cast<uint32_t>(bytes / kBlock);
  for (auto _ : state) {
    pool.for_each(n_tasks, [&](uint32_t task, uint32_t) {
      benchmark::DoNotOptimize(
          sum_words(reinterpret_cast<const uint64_t*>(memory.data() + task * kBlock), kBlock / 8));
    });
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes * state.iterations()));
}
BENCHMARK(read_memory)
    ->ArgNames({"MiB", "threads"})
    ->ArgsProduct({{1, 20, 48, 256}, {1, 2}})
    ->MeasureProcessCPUTime();

// f32 multiply-adds in registers.
__attribute__((target_clones("avx512f", "arch=haswell", "default"))) float multiply_add(uint32_t n,
                                                                                        float x) {
  constexpr uint32_t kWidth = 16, kChains = 12;
  float sums[kChains][kWidth] = {};
  for (uint32_t i = 0; i < n; ++i) {
    for (uint32_t c = 0; c < kChains; ++c) {
      for (uint32_t j = 0; j < kWidth; ++j) sums[c][j] = sums[c][j] * x + x;
    }
  }
  float sum = 0;
  for (const auto& chain : sums) {
    for (const float s : chain) sum += s;
  }
  return sum;
}

void f32_peak(benchmark::State& state) {
  ThreadPool pool(static_cast<uint32_t>(state.range(0)));
  const uint32_t n = 100000, n_tasks = pool.n_threads() * 4;
  for (auto _ : state) {
    pool.for_each(n_tasks,
                  [&](uint32_t, uint32_t) { benchmark::DoNotOptimize(multiply_add(n, 0.5f)); });
  }
  state.counters["FLOP/s"] =
      benchmark::Counter(2.0 * 16 * 12 * n * n_tasks * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}
BENCHMARK(f32_peak)->ArgName("threads")->Arg(1)->Arg(2)->MeasureProcessCPUTime();

// An empty table: the overhead of stages.
void stages(benchmark::State& state) {
  ThreadPool pool(static_cast<uint32_t>(state.range(0)));
  const std::vector<uint32_t> n_tasks(100, 2);
  TaskStages table;
  table.run_task = [](const void*, uint32_t, uint32_t, uint32_t, uint32_t) {};
  table.n_tasks = n_tasks.data();
  table.n_stages = 100;
  for (auto _ : state) pool.run(table, 1, nullptr);
  state.SetItemsProcessed(state.iterations() * 100);
}
BENCHMARK(stages)->ArgName("threads")->Arg(1)->Arg(2)->MeasureProcessCPUTime();

struct Shape {
  uint32_t n_out, n_in;
};

// All products of a Whisper decoder step of this width except the last, or only the last.
std::vector<Shape> decoder_products(uint32_t d, uint32_t n_layers, bool last) {
  std::vector<Shape> shapes;
  if (last) return {{51865, d}};
  for (uint32_t layer = 0; layer < n_layers; ++layer) {
    shapes.insert(shapes.end(), {{3 * d, d}, {d, d}, {d, d}, {d, d}, {4 * d, d}, {d, 4 * d}});
  }
  return shapes;
}

void matmul(benchmark::State& state) {
  const auto n_rows = static_cast<uint32_t>(state.range(0));
  const auto d = static_cast<uint32_t>(state.range(1));
  const auto compute = static_cast<Compute>(state.range(2));
  const std::vector<Shape> shapes = decoder_products(d, d == 384 ? 4 : 6, state.range(3));
  DeviceOptions options;
  options.n_threads = device_threads();
  const auto device = open_cpu_device(options);
  std::mt19937 random(1);
  const Operand in = device->allocate(uint64_t{n_rows} * 4 * d * 4, "in");
  const Operand out = device->allocate(uint64_t{n_rows} * 51865 * 4, "out");
  std::vector<float> numbers(in.bytes / 4);
  for (float& x : numbers) x = static_cast<float>(random() % 1000) / 1000 - 0.5f;
  device->write(in, numbers.data());
  DispatchTable table;
  double bytes = 0, flops = 0;
  for (const Shape& shape : shapes) {
    std::vector<uint16_t> file(size_t{shape.n_out} * shape.n_in);
    for (uint16_t& x : file) x = f32_to_f16(static_cast<float>(random() % 1000) / 1000 - 0.5f);
    TensorView view;
    view.dtype = DType::kF16;
    view.shape = {shape.n_out, shape.n_in};
    view.data = file.data();
    view.bytes = file.size() * 2;
    const Weight weight = device->upload({{&view}}, WeightUse::kAnyRows, compute);
    MatmulParams params{};
    params.n_rows = params.rows_per_batch = n_rows;
    params.n_out = params.out_row_stride = shape.n_out;
    params.n_in = params.in_row_stride = shape.n_in;
    params.weight_format = weight.format;
    emit::matmul(table, "product", params, out, in, weight.data, {}, {}, weight.scale);
    bytes += static_cast<double>(weight.data.bytes);
    flops += 2.0 * n_rows * shape.n_out * shape.n_in;
  }
  const ProgramId program = device->record(table);
  for (auto _ : state) device->run(program);
  state.SetBytesProcessed(static_cast<int64_t>(bytes * static_cast<double>(state.iterations())));
  state.counters["FLOP/s"] = benchmark::Counter(flops * static_cast<double>(state.iterations()),
                                                benchmark::Counter::kIsRate);
}
constexpr auto kF32 = static_cast<int64_t>(Compute::kF32);
constexpr auto kBF16 = static_cast<int64_t>(Compute::kBF16);
constexpr auto kI8 = static_cast<int64_t>(Compute::kI8);
BENCHMARK(matmul)
    ->ArgNames({"rows", "d", "compute", "logits"})
    ->ArgsProduct({{1, 2, 4, 8, 16, 64, 224}, {512}, {kF32, kBF16, kI8}, {0}})
    ->ArgsProduct({{1, 5, 8, 40}, {384, 512}, {kF32, kBF16, kI8}, {1}})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

// Attention of one step over an audio window (1500 positions), or of a prompt.
void paged_attention(benchmark::State& state) {
  const auto n_rows = static_cast<uint32_t>(state.range(0));
  const uint32_t n_heads = 8, head_dim = 64, page_rows = 32, length = 1500, n_layers = 6;
  DeviceOptions options;
  options.n_threads = device_threads();
  const auto device = open_cpu_device(options);
  PagedAttentionParams params{};
  params.n_rows = n_rows;
  params.n_heads = params.n_kv_heads = n_heads;
  params.head_dim = head_dim;
  params.q_row_stride = params.out_row_stride = n_heads * head_dim;
  params.page_rows = page_rows;
  params.pages_per_sequence = (length + page_rows - 1) / page_rows;
  params.kv_length = length;
  params.scale = 0.125f;
  params.kv_dtypes = kv_dtypes_of(kDTypeF16, kDTypeF16);
  std::vector<int32_t> pages(params.pages_per_sequence);
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int32_t>(i);
  const Operand table_buffer = device->allocate(pages.size() * 4, "page table");
  device->write(table_buffer, pages.data());
  const uint64_t bytes = uint64_t{params.pages_per_sequence} * page_rows * n_heads * head_dim * 2;
  const Operand q = device->allocate(uint64_t{n_rows} * n_heads * head_dim * 4, "q");
  const Operand out = device->allocate(q.bytes, "out");
  const Operand rows = device->allocate(uint64_t{n_rows} * sizeof(Row), "rows");
  DispatchTable table;
  for (uint32_t layer = 0; layer < n_layers; ++layer) {
    emit::paged_attention(table, "attention", params, out, q, device->allocate(bytes, "k"),
                          device->allocate(bytes, "v"), rows, table_buffer);
  }
  const ProgramId program = device->record(table);
  for (auto _ : state) device->run(program);
  state.SetBytesProcessed(static_cast<int64_t>(2 * bytes * n_layers) * state.iterations());
  state.counters["FLOP/s"] =
      benchmark::Counter(4.0 * n_rows * n_heads * head_dim * length * n_layers *
                             static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}
BENCHMARK(paged_attention)
    ->ArgName("rows")
    ->Arg(1)
    ->Arg(5)
    ->Arg(64)
    ->Arg(224)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

// Attention of one step of SmolLM2-135M at position 4095, by formats of keys and values.
void kv_format_attention(benchmark::State& state) {
  const uint32_t n_heads = 9, n_kv_heads = 3, head_dim = 64, page_rows = 32, n_layers = 30;
  const uint32_t length = 4096, n_pages = length / page_rows;
  DeviceOptions options;
  options.n_threads = device_threads();
  const auto device = open_cpu_device(options);
  PagedAttentionParams params{};
  params.n_rows = 1;
  params.n_heads = n_heads;
  params.n_kv_heads = n_kv_heads;
  params.head_dim = head_dim;
  params.q_row_stride = params.out_row_stride = n_heads * head_dim;
  params.page_rows = page_rows;
  params.pages_per_sequence = n_pages;
  params.scale = 0.125f;
  const auto keys = static_cast<uint32_t>(state.range(0));
  const auto values = static_cast<uint32_t>(state.range(1));
  params.kv_dtypes = kv_dtypes_of(keys, values);
  std::vector<int32_t> pages(n_pages);
  for (uint32_t i = 0; i < n_pages; ++i) pages[i] = static_cast<int32_t>(i);
  const Operand page_table = device->allocate(pages.size() * 4, "page table");
  device->write(page_table, pages.data());
  const Row row{0, 0, static_cast<int>(length) - 1, 0};
  const Operand rows = device->allocate(sizeof row, "rows");
  device->write(rows, &row);
  const Operand q = device->allocate(n_heads * head_dim * sizeof(float), "q");
  const Operand out = device->allocate(q.bytes, "out");
  const auto bytes_of = [&](uint32_t dtype) {
    return uint64_t{n_pages} * n_kv_heads * kv_head_bytes(dtype, page_rows, head_dim);
  };
  DispatchTable table;
  for (uint32_t layer = 0; layer < n_layers; ++layer) {
    emit::paged_attention(table, "attention", params, out, q, device->allocate(bytes_of(keys), "k"),
                          device->allocate(bytes_of(values), "v"), rows, page_table);
  }
  const ProgramId program = device->record(table);
  for (auto _ : state) device->run(program);
  state.SetBytesProcessed(static_cast<int64_t>((bytes_of(keys) + bytes_of(values)) * n_layers) *
                          state.iterations());
}
BENCHMARK(kv_format_attention)
    ->ArgNames({"keys", "values"})
    ->Args({kDTypeF16, kDTypeF16})
    ->Args({kDTypeQ8_0, kDTypeQ8_0})
    ->Args({kDTypeQ8_0, kDTypeQ4_0})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace vesper

BENCHMARK_MAIN();
