#include "audio/mel/power_spectrum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "tests/audio/made_recordings.h"

namespace vesper::power_spectrum_test {
namespace {

std::vector<float> power_of(const std::vector<float>& samples) {
  std::vector<float> power(kSpectrumBins * kFramesPerBatch, NAN);
  PowerSpectrum().compute(samples.data(), power.data());
  return power;
}

// By the definition of the DFT in double precision, [kSpectrumBins].
std::vector<double> direct_power(const float* samples) {
  std::vector<double> power;
  for (size_t k = 0; k < kSpectrumBins; ++k) {
    std::complex<double> sum = 0.0;
    for (size_t i = 0; i < kDftSize; ++i) {
      const double turn = 2.0 * std::numbers::pi * static_cast<double>(i) / kDftSize;
      const double hann = 0.5 - 0.5 * std::cos(turn);
      sum += hann * samples[i] * std::polar(1.0, -turn * static_cast<double>(k));
    }
    power.push_back(std::norm(sum));
  }
  return power;
}

// A bound of a few roundings relative to the frame: FFTW 3.3.10 in f32 has 1.8e-7 on these samples,
// this transform 1.5e-7.
TEST(PowerSpectrum, EqualsADirectDftInEveryBinOfEveryFrame) {
  const std::vector<float> samples = noise(0.3f, kBatchSamples, 11);
  const std::vector<float> power = power_of(samples);
  double worst = 0.0;
  for (size_t frame = 0; frame < kFramesPerBatch; ++frame) {
    const std::vector<double> expected = direct_power(samples.data() + frame * kMelHop);
    const double largest = std::sqrt(*std::max_element(expected.begin(), expected.end()));
    for (size_t k = 0; k < kSpectrumBins; ++k) {
      const double found = power[k * kFramesPerBatch + frame];
      ASSERT_FALSE(std::isnan(found)) << "frame " << frame << ", bin " << k;
      worst = std::max(worst, std::abs(std::sqrt(found) - std::sqrt(expected[k])) / largest);
    }
  }
  EXPECT_LT(worst, 3e-7);
}

TEST(PowerSpectrum, OfAFrameDoesNotDependOnTheOtherFrames) {
  std::vector<float> samples = noise(1e-3f, kBatchSamples, 5);
  const std::vector<float> alone = power_of(samples);
  std::fill(samples.begin() + kDftSize, samples.end(), 1e6f);
  const std::vector<float> beside_loud_ones = power_of(samples);
  for (size_t k = 0; k < kSpectrumBins; ++k) {
    ASSERT_EQ(alone[k * kFramesPerBatch], beside_loud_ones[k * kFramesPerBatch]) << "bin " << k;
  }
}

}  // namespace
}  // namespace vesper::power_spectrum_test
