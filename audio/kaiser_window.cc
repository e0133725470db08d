#include "audio/kaiser_window.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace vesper {
namespace {

// Modified Bessel function of order 0 by its power series. x is at most 12 here, for which 40 terms
// exceed double precision. (std::cyl_bessel_i takes 50 times as long.)
double bessel_i0(double x) {
  const double quarter_square = x * x / 4.0;
  double term = 1.0, sum = 1.0;
  for (int k = 1; k < 40 && term > 1e-17 * sum; ++k) {
    term *= quarter_square / (k * k);
    sum += term;
  }
  return sum;
}

}  // namespace

double sinc(double x) {
  return x == 0.0 ? 1.0 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

double kaiser_window(double x, double attenuation_db) {
  const double beta = 0.1102 * (attenuation_db - 8.7);
  return bessel_i0(beta * std::sqrt(std::max(0.0, 1.0 - x * x)));
}

double kaiser_length(double attenuation_db, double transition) {
  return (attenuation_db - 8.0) / (2.285 * 2.0 * std::numbers::pi * transition);
}

}  // namespace vesper
