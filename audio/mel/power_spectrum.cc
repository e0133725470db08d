#include "audio/mel/power_spectrum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

namespace vesper {
namespace {

constexpr size_t kFramesPerVector = 4;
using Vec = float __attribute__((vector_size(kFramesPerVector * sizeof(float))));
constexpr double kPi = std::numbers::pi;

struct Complex {
  Vec re, im;
};

Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
Complex minus_i_times(Complex a) { return {a.im, -a.re}; }

// e^(-2 pi i n / size)
struct Root {
  float re, im;
};
Root root(size_t n, size_t size) {
  const double angle = -2.0 * kPi * static_cast<double>(n) / static_cast<double>(size);
  return {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
}
Complex operator*(Root w, Complex a) {
  return {w.re * a.re - w.im * a.im, w.re * a.im + w.im * a.re};
}

struct Roots {
  Roots() {
    for (size_t n = 0; n < 16; ++n) of_16[n] = root(n, 16);
    for (size_t n = 0; n < 25; ++n) of_25[n] = root(n, 25);
  }
  Root of_16[16], of_25[25];
};
const Roots kRoots;

// DFT of 4 complex points.
std::array<Complex, 4> dft_4(Complex a, Complex b, Complex c, Complex d) {
  const Complex even = a + c, even_difference = a - c;
  const Complex odd = b + d, odd_difference = minus_i_times(b - d);
  return {even + odd, even_difference + odd_difference, even - odd,
          even_difference - odd_difference};
}

// DFT of 16 real points: bins 0 to 8. Points are 4 a + b, bins c + 4 d.
std::array<Complex, 9> real_dft_16(const std::array<Vec, 16>& x) {
  const Root(&w)[16] = kRoots.of_16;
  // Over a, for each b: bins c = 0 and 2 are real.
  Vec bin_0[4], bin_2[4];
  Complex bin_1[4];
  for (size_t b = 0; b < 4; ++b) {
    const Vec even = x[b] + x[b + 8], odd = x[b + 4] + x[b + 12];
    bin_0[b] = even + odd;
    bin_1[b] = {x[b] - x[b + 8], x[b + 12] - x[b + 4]};
    bin_2[b] = even - odd;
  }
  std::array<Complex, 9> out;
  // c = 0: bins 0, 4, 8.
  const Vec even = bin_0[0] + bin_0[2], odd = bin_0[1] + bin_0[3];
  out[0] = {even + odd, Vec{}};
  out[4] = {bin_0[0] - bin_0[2], bin_0[3] - bin_0[1]};
  out[8] = {even - odd, Vec{}};
  // c = 2: bins 2 and 6; 10 and 14 are their conjugates.
  const Vec difference = w[2].re * (bin_2[1] - bin_2[3]), sum = w[2].re * (bin_2[1] + bin_2[3]);
  out[2] = {bin_2[0] + difference, -bin_2[2] - sum};
  out[6] = {bin_2[0] - difference, bin_2[2] - sum};
  // c = 1: bins 1, 5, 9 and 13; the last two are conjugates of 7 and 3.
  const auto odd_bins = dft_4(bin_1[0], w[1] * bin_1[1], w[2] * bin_1[2], w[3] * bin_1[3]);
  out[1] = odd_bins[0];
  out[5] = odd_bins[1];
  out[7] = {odd_bins[2].re, -odd_bins[2].im};
  out[3] = {odd_bins[3].re, -odd_bins[3].im};
  return out;
}

// DFT of 5 complex points.
std::array<Complex, 5> dft_5(Complex a, Complex b, Complex c, Complex d, Complex e) {
  const Root w1 = kRoots.of_25[5], w2 = kRoots.of_25[10];
  const Complex outer = b + e, inner = c + d;
  const Complex outer_difference = minus_i_times(b - e), inner_difference = minus_i_times(c - d);
  const auto mix = [](float p, Complex x, float q, Complex y) {
    return Complex{p * x.re + q * y.re, p * x.im + q * y.im};
  };
  const Complex even_1 = a + mix(w1.re, outer, w2.re, inner);
  const Complex even_2 = a + mix(w2.re, outer, w1.re, inner);
  const Complex odd_1 = mix(-w1.im, outer_difference, -w2.im, inner_difference);
  const Complex odd_2 = mix(-w2.im, outer_difference, w1.im, inner_difference);
  return {a + outer + inner, even_1 + odd_1, even_2 + odd_2, even_2 - odd_2, even_1 - odd_1};
}

// DFT of 25 complex points, in place. Points are 5 a + b, bins c + 5 d.
void dft_25(std::array<Complex, 25>& x) {
  for (size_t b = 0; b < 5; ++b) {
    const auto bins = dft_5(x[b], x[b + 5], x[b + 10], x[b + 15], x[b + 20]);
    x[b] = bins[0];
    for (size_t c = 1; c < 5; ++c) x[b + 5 * c] = kRoots.of_25[b * c] * bins[c];
  }
  std::array<Complex, 25> out;
  for (size_t c = 0; c < 5; ++c) {
    const Complex* row = &x[5 * c];
    const auto bins = dft_5(row[0], row[1], row[2], row[3], row[4]);
    for (size_t d = 0; d < 5; ++d) out[c + 5 * d] = bins[d];
  }
  x = out;
}

// Writes the power of kFramesPerVector frames to power[bin * kFramesPerBatch].
void power_of_frames(const float* samples, const float* hann, float* power) {
  std::array<Vec, kDftSize> frames;
  for (size_t i = 0; i < kDftSize; ++i) {
    const float* s = samples + i;
    frames[i] = hann[i] * Vec{s[0], s[kMelHop], s[2 * kMelHop], s[3 * kMelHop]};
  }
  // Sample (25 p + 16 q) mod 400 is point p of column q.
  std::array<std::array<Complex, 25>, 9> rows;
  for (size_t q = 0; q < 25; ++q) {
    std::array<Vec, 16> column;
    for (size_t p = 0; p < 16; ++p) column[p] = frames[(25 * p + 16 * q) % kDftSize];
    const auto bins = real_dft_16(column);
    for (size_t k = 0; k < 9; ++k) rows[k][q] = bins[k];
  }
  // Bin k of the frame is bin k mod 16 of the columns, bin k mod 25 of the row. 225 = 1 mod 16 and
  // 0 mod 25, 176 the reverse. Bins above 200 are conjugates.
  for (size_t row = 0; row < 9; ++row) {
    dft_25(rows[row]);
    for (size_t i = 0; i < 25; ++i) {
      const size_t bin = (225 * row + 176 * i) % kDftSize;
      const Complex value = rows[row][i];
      const Vec squared = value.re * value.re + value.im * value.im;
      std::memcpy(power + std::min(bin, kDftSize - bin) * kFramesPerBatch, &squared,
                  sizeof(squared));
    }
  }
}

}  // namespace

PowerSpectrum::PowerSpectrum() {
  for (size_t i = 0; i < kDftSize; ++i) {
    hann_[i] = static_cast<float>(
        0.5 - 0.5 * std::cos(2.0 * kPi * static_cast<double>(i) / static_cast<double>(kDftSize)));
  }
}

void PowerSpectrum::compute(const float* samples, float* power) const {
  for (size_t frame = 0; frame < kFramesPerBatch; frame += kFramesPerVector) {
    power_of_frames(samples + frame * kMelHop, hann_, power + frame);
  }
}

}  // namespace vesper
