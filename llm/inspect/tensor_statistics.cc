#include "llm/inspect/tensor_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>

#include "error/tasks.h"

namespace vesper {
namespace {

constexpr uint64_t kChunk = 1u << 17;  // elements per task

struct Chunk {
  size_t tensor;
  uint64_t begin, n;
};

std::vector<Chunk> chunks_of(const std::vector<const TensorView*>& tensors) {
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t n = tensors[i]->data == nullptr ? 0 : tensors[i]->n_elements();
    for (uint64_t begin = 0; begin < n; begin += kChunk) {
      chunks.push_back({i, begin, std::min(kChunk, n - begin)});
    }
  }
  return chunks;
}

struct Sums {
  uint64_t n_nan = 0, n_infinite = 0, n_zero = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0, sum_of_squares = 0;
};

Sums sums_of(std::span<const float> values) {
  Sums sums;
  for (const double value : values) {
    if (std::isnan(value)) {
      ++sums.n_nan;
    } else if (std::isinf(value)) {
      ++sums.n_infinite;
    } else {
      sums.n_zero += value == 0;
      sums.min = std::min(sums.min, value);
      sums.max = std::max(sums.max, value);
      sums.sum += value;
      sums.sum_of_squares += value * value;
    }
  }
  return sums;
}

}  // namespace

std::vector<TensorStatistics> tensor_statistics(const std::vector<const TensorView*>& tensors,
                                                uint32_t n_threads) {
  const std::vector<Chunk> chunks = chunks_of(tensors);
  std::vector<Sums> sums(chunks.size());
  run_tasks(chunks.size(), n_threads, [&](size_t i) {
    const Chunk& chunk = chunks[i];
    const auto values = std::make_unique_for_overwrite<float[]>(chunk.n);
    read_f32(*tensors[chunk.tensor], chunk.begin, chunk.n, values.get());
    sums[i] = sums_of({values.get(), chunk.n});
  });
  std::vector<Sums> totals(tensors.size());
  std::vector<TensorStatistics> result(tensors.size());
  for (size_t i = 0; i < chunks.size(); ++i) {
    Sums& total = totals[chunks[i].tensor];
    result[chunks[i].tensor].n += chunks[i].n;
    total.n_nan += sums[i].n_nan;
    total.n_infinite += sums[i].n_infinite;
    total.n_zero += sums[i].n_zero;
    total.min = std::min(total.min, sums[i].min);
    total.max = std::max(total.max, sums[i].max);
    total.sum += sums[i].sum;
    total.sum_of_squares += sums[i].sum_of_squares;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorStatistics& row = result[i];
    row.n_nan = totals[i].n_nan;
    row.n_infinite = totals[i].n_infinite;
    row.n_zero = totals[i].n_zero;
    const uint64_t n_finite = row.n - row.n_nan - row.n_infinite;
    if (n_finite == 0) continue;
    row.min = totals[i].min;
    row.max = totals[i].max;
    row.mean = totals[i].sum / static_cast<double>(n_finite);
    const double variance =
        totals[i].sum_of_squares / static_cast<double>(n_finite) - row.mean * row.mean;
    row.standard_deviation = std::sqrt(std::max(variance, 0.0));
  }
  return result;
}

std::vector<double> largest_differences(const std::vector<TensorPair>& pairs, uint32_t n_threads) {
  std::vector<const TensorView*> first;
  for (const TensorPair& pair : pairs) first.push_back(pair.a);
  const std::vector<Chunk> chunks = chunks_of(first);
  std::vector<double> of_chunk(chunks.size(), 0.0);
  run_tasks(chunks.size(), n_threads, [&](size_t i) {
    const Chunk& chunk = chunks[i];
    const auto a = std::make_unique_for_overwrite<float[]>(chunk.n);
    const auto b = std::make_unique_for_overwrite<float[]>(chunk.n);
    read_f32(*pairs[chunk.tensor].a, chunk.begin, chunk.n, a.get());
    read_f32(*pairs[chunk.tensor].b, chunk.begin, chunk.n, b.get());
    double largest = 0;
    for (uint64_t j = 0; j < chunk.n; ++j) {
      if (a[j] == b[j] || (std::isnan(a[j]) && std::isnan(b[j]))) continue;
      const double difference = std::abs(static_cast<double>(a[j]) - static_cast<double>(b[j]));
      if (!(difference <= largest)) largest = difference;  // also for NaN, which then stays
      if (std::isnan(largest)) break;
    }
    of_chunk[i] = largest;
  });
  std::vector<double> result(pairs.size(), 0.0);
  for (size_t i = 0; i < chunks.size(); ++i) {
    double& largest = result[chunks[i].tensor];
    if (!std::isnan(largest) && !(of_chunk[i] <= largest)) largest = of_chunk[i];
  }
  return result;
}

}  // namespace vesper
