#include "llm/inspect/tensor_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "error/tasks.h"

namespace vesper {
namespace {

constexpr uint64_t kChunk = 1u << 17;  // elements per task

struct Chunk {
  size_t tensor;
  uint64_t begin, n;
};

// Chunks of tensor i, of n elements. A computed one is a chunk.
void add_chunks(size_t i, uint64_t n, bool is_computed, std::vector<Chunk>& chunks) {
  const uint64_t at_once = is_computed ? n : kChunk;
  for (uint64_t begin = 0; begin < n; begin += at_once) {
    chunks.push_back({i, begin, std::min(at_once, n - begin)});
  }
}

std::vector<float> values_of(const TensorView& tensor, const WeightProvider* provider,
                             const Chunk& chunk) {
  std::vector<float> values;
  if (tensor.data == nullptr) {
    values = provider->read(tensor);
  } else {
    values.resize(chunk.n);
    read_f32(tensor, chunk.begin, chunk.n, values.data());
  }
  return values;
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

bool has_values(const TensorView& tensor, const WeightProvider* provider) {
  if (tensor.data != nullptr) return true;
  return provider != nullptr && provider->contents().compute && provider->find(tensor.name);
}

std::vector<TensorStatistics> tensor_statistics(const std::vector<const TensorView*>& tensors,
                                                uint32_t n_threads,
                                                const WeightProvider* provider) {
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!has_values(*tensors[i], provider)) continue;
    add_chunks(i, tensors[i]->n_elements(), tensors[i]->data == nullptr, chunks);
  }
  std::vector<Sums> sums(chunks.size());
  run_tasks(chunks.size(), n_threads, [&](size_t i) {
    sums[i] = sums_of(values_of(*tensors[chunks[i].tensor], provider, chunks[i]));
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
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const bool is_computed = pairs[i].a->data == nullptr || pairs[i].b->data == nullptr;
    add_chunks(i, pairs[i].a->n_elements(), is_computed, chunks);
  }
  std::vector<double> of_chunk(chunks.size(), 0.0);
  run_tasks(chunks.size(), n_threads, [&](size_t i) {
    const Chunk& chunk = chunks[i];
    const TensorPair& pair = pairs[chunk.tensor];
    const std::vector<float> a = values_of(*pair.a, pair.provider_of_a, chunk);
    const std::vector<float> b = values_of(*pair.b, pair.provider_of_b, chunk);
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
