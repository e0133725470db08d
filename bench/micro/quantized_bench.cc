// Products of quantized weights on the CPU device: GB/s of stored weights for few rows, GFLOP/s for
// many, in the shapes of a language model (SmolLM2-135M by default). cpu_bench prints the peaks of
// the machine.
//
//   quantized_bench [threads [format]]
//
// Whole steps are timed, layer after layer, so that weights are read from the same memory or cache
// as in a step. Prints the best of several runs, because of other load.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "llm/cpu/cpu_device.h"
#include "llm/dtype/dtype.h"
#include "llm/dtype/number_conversion.h"
#include "llm/table/device.h"

namespace vesper {
namespace {

struct Shape {
  uint32_t n_out, n_in;
};

// A random matrix in a ggml format. Every f16 of a block becomes a small number; codes do not
// affect the time.
std::vector<uint8_t> random_file(DType dtype, const Shape& shape, std::mt19937& random) {
  std::vector<uint8_t> bytes(dtype_bytes(dtype, uint64_t{shape.n_out} * shape.n_in));
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const uint32_t word = static_cast<uint32_t>(random()) & 0xbfffbfffu;  // no infinity
    std::memcpy(&bytes[i], &word, 4);
  }
  return bytes;
}

struct Result {
  double bytes = 0, flops = 0, seconds = 0;
};

Result measure(Device& device, DType dtype, Compute compute, uint32_t n_rows,
               const std::vector<Shape>& shapes) {
  std::mt19937 random(1);
  uint32_t widest = 0, highest = 0;
  for (const Shape& shape : shapes) {
    widest = std::max(widest, shape.n_in);
    highest = std::max(highest, shape.n_out);
  }
  const Operand in = device.allocate(uint64_t{n_rows} * widest * 4, "in");
  const Operand out = device.allocate(uint64_t{n_rows} * highest * 4, "out");
  std::vector<float> numbers(in.bytes / 4);
  for (float& x : numbers) x = static_cast<float>(random() % 1000) / 1000 - 0.5f;
  device.write(in, numbers.data());
  DispatchTable table;
  Result result;
  for (const Shape& shape : shapes) {
    const std::vector<uint8_t> file = random_file(dtype, shape, random);
    TensorView view;
    view.dtype = dtype;
    view.shape = {shape.n_out, shape.n_in};
    view.data = file.data();
    view.bytes = file.size();
    const Weight weight = device.upload({{&view}}, WeightUse::kAnyRows, compute);
    MatmulParams params{};
    params.n_rows = params.rows_per_batch = n_rows;
    params.n_out = params.out_row_stride = shape.n_out;
    params.n_in = params.in_row_stride = shape.n_in;
    params.weight_format = weight.format;
    emit::matmul(table, "product", params, out, in, weight.data, {}, {}, weight.scale);
    result.bytes += static_cast<double>(weight.data.bytes);
    result.flops += 2.0 * n_rows * shape.n_out * shape.n_in;
  }
  const ProgramId program = device.record(table);
  const auto now = [] { return std::chrono::steady_clock::now(); };
  result.seconds = 1e9;
  const auto end = now() + std::chrono::milliseconds(400);
  for (int run = 0; run < 4 || now() < end; ++run) {
    const auto start = now();
    device.run(program);
    result.seconds = std::min(result.seconds, std::chrono::duration<double>(now() - start).count());
  }
  return result;
}

// The products of one step of SmolLM2-135M: qkv, attention output, gate and up, down. Few layers if
// there are many rows, which do not wait for weights.
std::vector<Shape> layers(uint32_t n_layers) {
  std::vector<Shape> shapes;
  for (uint32_t layer = 0; layer < n_layers; ++layer) {
    shapes.insert(shapes.end(), {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}});
  }
  return shapes;
}

int run(uint32_t n_threads, const std::string& only) {
  DeviceOptions options;
  options.n_threads = n_threads;
  const DType dtypes[] = {DType::kF16,  DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
                          DType::kQ5_1, DType::kQ8_0, DType::kQ2_K, DType::kQ3_K,
                          DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};
  std::printf("%-6s %-8s %6s %10s %10s %10s\n", "format", "compute", "rows", "ms", "GB/s",
              "GFLOP/s");
  for (const DType dtype : dtypes) {
    if (!only.empty() && only != dtype_descriptor(dtype).name) continue;
    // Rows of K-quants are multiples of 256, so they use a wider model of the same size.
    const bool wide = dtype_descriptor(dtype).block == 256;
    for (const Compute compute : {Compute::kF32, Compute::kI8, Compute::kBF16}) {
      for (const uint32_t n_rows : {1u, 4u, 16u, 512u}) {
        const auto device = open_cpu_device(options);
        std::vector<Shape> shapes = layers(n_rows > 16 ? 6 : 30);
        if (wide) {
          for (Shape& shape : shapes) shape.n_in = shape.n_in == 576 ? 512 : 1536;
        }
        const Result result = measure(*device, dtype, compute, n_rows, shapes);
        std::printf("%-6s %-8s %6u %10.3f %10.1f %10.0f\n", dtype_descriptor(dtype).name,
                    std::string(compute_name(compute)).c_str(), n_rows, result.seconds * 1e3,
                    result.bytes / result.seconds / 1e9, result.flops / result.seconds / 1e9);
        std::fflush(stdout);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace vesper

int main(int argc, char** argv) {
  return vesper::run(argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 0,
                     argc > 2 ? argv[2] : "");
}
