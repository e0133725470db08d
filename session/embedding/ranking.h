// Similarity of vectors, and the most similar ones of many: semantic search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vesper {

// The cosine of the angle between two vectors of the same size, -1 to 1; 0 if one has no length.
double cosine(std::span<const float> a, std::span<const float> b);

// A line of a ranking: a text and the query, or two texts.
struct RankedLine {
  double score = 0;
  uint64_t first = 0, second = 0;  // texts, from 0
};

// The best lines by descending score, equal ones in input order.
class Ranking {
 public:
  explicit Ranking(size_t n_best) : n_best_(n_best) {}
  void offer(const RankedLine& line);
  std::vector<RankedLine> best() const;

 private:
  size_t n_best_;
  std::vector<RankedLine> heap_;  // min-heap
};

}  // namespace vesper
