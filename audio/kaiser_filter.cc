#include "audio/kaiser_filter.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace vesper {
namespace {

double sinc(double x) {
  return x == 0.0 ? 1.0 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

// Modified Bessel function of order 0 by its power series. x is at most 13 here, for which 50 terms
// exceed double precision. (std::cyl_bessel_i takes 50 times as long.)
double bessel_i0(double x) {
  const double quarter_square = x * x / 4.0;
  double term = 1.0, sum = 1.0;
  for (int k = 1; k < 50 && term > 1e-17 * sum; ++k) {
    term *= quarter_square / (k * k);
    sum += term;
  }
  return sum;
}

}  // namespace

double kaiser_length(double attenuation_db, double transition) {
  return (attenuation_db - 8.0) / (2.285 * 2.0 * std::numbers::pi * transition);
}

double kaiser_tap(double t, double cutoff, double reach, double attenuation_db) {
  const double beta = 0.1102 * (attenuation_db - 8.7);
  const double edge = t / reach;
  const double window = bessel_i0(beta * std::sqrt(std::max(0.0, 1.0 - edge * edge)));
  return sinc(2.0 * cutoff * t) * window;
}

}  // namespace vesper
