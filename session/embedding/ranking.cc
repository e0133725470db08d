#include "session/embedding/ranking.h"

#include <algorithm>
#include <cmath>

namespace vesper {

double cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0, a_squares = 0, b_squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += double{a[i]} * b[i];
    a_squares += double{a[i]} * a[i];
    b_squares += double{b[i]} * b[i];
  }
  return std::clamp(product / std::max(std::sqrt(a_squares * b_squares), 1e-30), -1.0, 1.0);
}

namespace {

bool is_better(const RankedLine& a, const RankedLine& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.first != b.first ? a.first < b.first : a.second < b.second;
}

}  // namespace

void Ranking::offer(const RankedLine& line) {
  if (heap_.size() == n_best_) {
    if (!is_better(line, heap_.front())) return;
    std::pop_heap(heap_.begin(), heap_.end(), is_better);
    heap_.back() = line;
  } else {
    heap_.push_back(line);
  }
  std::push_heap(heap_.begin(), heap_.end(), is_better);
}

std::vector<RankedLine> Ranking::best() const {
  std::vector<RankedLine> lines = heap_;
  std::sort(lines.begin(), lines.end(), is_better);
  return lines;
}

}  // namespace vesper
