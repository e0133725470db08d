#include "audio/mel/mel_filters.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "error/error.h"

namespace vesper {
namespace {

constexpr int kMaxMels = 512;
constexpr double kMaxHz = 8000.0;
constexpr double kHzPerBin = 40.0;

// Slaney's scale: 3 mels per 200 Hz up to 1 kHz, then 27 mels per factor of 6.4.
constexpr double kHzPerMel = 200.0 / 3.0;
constexpr double kBreakHz = 1000.0;
constexpr double kBreakMel = kBreakHz / kHzPerMel;

double log_step() { return std::log(6.4) / 27.0; }

double mel_of_hz(double hz) {
  return hz < kBreakHz ? hz / kHzPerMel : kBreakMel + std::log(hz / kBreakHz) / log_step();
}

double hz_of_mel(double mel) {
  return mel < kBreakMel ? mel * kHzPerMel : kBreakHz * std::exp((mel - kBreakMel) * log_step());
}

void check_n_mels(int n_mels) {
  if (n_mels < 1 || n_mels > kMaxMels) {
    throw Error(ErrorKind::kModel, "mel filters: expected 1 to " + std::to_string(kMaxMels) +
                                       " bands, found " + std::to_string(n_mels));
  }
}

}  // namespace

std::vector<float> slaney_mel_filters(int n_mels) {
  check_n_mels(n_mels);
  // Corners of the triangles: band m rises from corner m to m + 1 and falls to m + 2.
  std::vector<double> corner_hz(static_cast<size_t>(n_mels) + 2);
  const double step = mel_of_hz(kMaxHz) / (n_mels + 1);
  for (size_t i = 0; i < corner_hz.size(); ++i) {
    corner_hz[i] = hz_of_mel(step * static_cast<double>(i));
  }
  std::vector<float> filters(static_cast<size_t>(n_mels) * kSpectrumBins);
  for (size_t m = 0; m < static_cast<size_t>(n_mels); ++m) {
    const double low = corner_hz[m], middle = corner_hz[m + 1], high = corner_hz[m + 2];
    const double height = 2.0 / (high - low);
    for (size_t bin = 0; bin < kSpectrumBins; ++bin) {
      const double hz = kHzPerBin * static_cast<double>(bin);
      const double rising = (hz - low) / (middle - low);
      const double falling = (high - hz) / (high - middle);
      filters[m * kSpectrumBins + bin] =
          static_cast<float>(height * std::max(0.0, std::min(rising, falling)));
    }
  }
  return filters;
}

SparseFilters sparse_filters(int n_mels, std::span<const float> filters) {
  check_n_mels(n_mels);
  const size_t expected = static_cast<size_t>(n_mels) * kSpectrumBins;
  if (filters.size() != expected) {
    throw Error(ErrorKind::kModel, "mel filters: expected [" + std::to_string(n_mels) + ", 201], " +
                                       std::to_string(expected) + " values, found " +
                                       std::to_string(filters.size()));
  }
  SparseFilters sparse;
  for (size_t m = 0; m < static_cast<size_t>(n_mels); ++m) {
    const auto row = filters.subspan(m * kSpectrumBins, kSpectrumBins);
    if (!std::all_of(row.begin(), row.end(), [](float w) { return std::isfinite(w); })) {
      throw Error(ErrorKind::kModel,
                  "mel filters: band " + std::to_string(m) + " holds a value that is not finite");
    }
    size_t begin = 0, end = row.size();
    while (begin < end && row[begin] == 0.0f) ++begin;
    while (end > begin && row[end - 1] == 0.0f) --end;
    sparse.bands.push_back({begin, end - begin, sparse.weights.size()});
    sparse.weights.insert(sparse.weights.end(), row.begin() + static_cast<std::ptrdiff_t>(begin),
                          row.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return sparse;
}

}  // namespace vesper
