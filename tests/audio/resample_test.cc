#include "audio/resample.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <samplerate.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "error/error.h"
#include "tests/audio/made_recordings.h"
#include "tests/upper_halves.h"

namespace vesper::resample_test {
namespace {

std::vector<float> resampled(const std::vector<float>& samples, int rate_hz, size_t block) {
  Resampler resampler(rate_hz);
  std::vector<float> out;
  for (size_t at = 0; at < samples.size(); at += block) {
    resampler.push(samples.data() + at, std::min(block, samples.size() - at), out);
  }
  resampler.finish(out);
  return out;
}

// A tone of amplitude 0.5 whose frequency rises evenly from `from_hz` to `to_hz` in `n_seconds`.
std::vector<float> chirp(double from_hz, double to_hz, int n_seconds, int rate_hz) {
  std::vector<float> samples(static_cast<size_t>(n_seconds) * static_cast<size_t>(rate_hz));
  for (size_t i = 0; i < samples.size(); ++i) {
    const double t = static_cast<double>(i) / rate_hz;
    const double n_cycles = t * (from_hz + (to_hz - from_hz) * t / (2.0 * n_seconds));
    samples[i] = static_cast<float>(0.5 * std::sin(2.0 * std::numbers::pi * n_cycles));
  }
  return samples;
}

TEST(Resampler, DoesNotChange16Kilohertz) {
  const std::vector<float> samples = noise(1.0f, 12345, 5);
  EXPECT_EQ(resampled(samples, 16000, 1000), samples);
}

TEST(Resampler, KeepsTheFrequencyAmplitudeAndPhaseOfATone) {
  for (const int rate : {8000, 11025, 22050, 24000, 32000, 44100, 48000, 96000, 192000, 44056}) {
    for (const double hz : {50.0, 440.0, 3500.0, 7000.0}) {
      if (hz > 0.45 * rate) continue;
      const std::vector<float> out =
          resampled(tone(hz, 0.5, static_cast<size_t>(rate), rate), rate, 4096);
      ASSERT_EQ(out.size(), 16000u);
      const std::vector<float> expected = tone(hz, 0.5, 16000, 16000);
      float worst = 0.0f;
      for (size_t i = 2000; i < 14000; ++i)
        worst = std::max(worst, std::fabs(out[i] - expected[i]));
      EXPECT_LT(worst, 5e-5f) << hz << " Hz at " << rate;
    }
  }
}

TEST(Resampler, DoesNotAlias) {
  for (const int rate : {22050, 24000, 44100, 48000, 96000}) {
    for (const double hz : {8500.0, 9000.0, 10000.0, 15000.0, 16100.0, 31900.0}) {
      if (hz >= rate / 2) continue;
      const std::vector<float> out =
          resampled(tone(hz, 0.5, static_cast<size_t>(rate), rate), rate, 4096);
      double power = 0.0;
      for (size_t i = 2000; i < 14000; ++i) power += double{out[i]} * out[i];
      const double rms = std::sqrt(power / 12000.0);
      EXPECT_LT(20.0 * std::log10(rms / (0.5 / std::sqrt(2.0)) + 1e-30), -100.0)
          << hz << " Hz at " << rate;
    }
  }
}

// Rates with no, one, two and three halvings.
constexpr int kSweptRates[] = {22050, 24000, 32000, 44100, 48000, 88200, 96000, 192000};

TEST(Resampler, KeepsEveryFrequencyOfThePassbandWithin100Decibels) {
  for (const int rate : kSweptRates) {
    const std::vector<float> out = resampled(chirp(20.0, 0.965 * 8000.0, 5, rate), rate, 4096);
    const std::vector<float> expected = chirp(20.0, 0.965 * 8000.0, 5, 16000);
    float worst = 0.0f;
    for (size_t i = 1000; i < out.size() - 1000; ++i) {
      worst = std::max(worst, std::fabs(out[i] - expected[i]));
    }
    EXPECT_LT(worst, 5.5e-6f) << rate;  // of 0.5: -99.2 dB
  }
}

TEST(Resampler, AttenuatesEveryFrequencyOfTheStopbandBy100Decibels) {
  for (const int rate : kSweptRates) {
    const std::vector<float> out =
        resampled(chirp(1.015 * 8000.0, rate / 2.0 - 20.0, 5, rate), rate, 4096);
    float worst = 0.0f;
    for (size_t i = 1000; i < out.size() - 1000; ++i) worst = std::max(worst, std::fabs(out[i]));
    EXPECT_LT(worst, 5e-6f) << rate;  // of 0.5: -100 dB
  }
}

TEST(Resampler, TreatsBothEndsAsSilence) {
  for (const int rate : {22050, 44100, 96000, 192000}) {
    const std::vector<float> samples = noise(0.5f, 30001, 13);
    const std::vector<float> out = resampled(samples, rate, 4096);
    // 0.1 s are a multiple of the period of the filters.
    const auto n_silent = static_cast<size_t>(rate / 10);
    std::vector<float> between(n_silent);
    between.insert(between.end(), samples.begin(), samples.end());
    between.resize(between.size() + n_silent);
    const std::vector<float> longer = resampled(between, rate, 4096);
    EXPECT_TRUE(std::equal(out.begin(), out.end(), longer.begin() + 1600)) << rate;
  }
}

TEST(Resampler, GivesTheSameBitsWithEveryInstructionSet) {
  const std::vector<float> samples = noise(0.5f, 30000, 14);
  for (const int rate : {8000, 32000, 44100, 96000}) {
    const std::vector<float> expected = resampled(samples, rate, 30000);
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      EXPECT_EQ(resampled(samples, rate, 30000), expected)
          << hwy::TargetName(target) << " " << rate;
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

#if defined(__x86_64__)
TEST(Resampler, LeavesNoUpperHalvesInUse) {
  if (!test::cpu_tells_registers_in_use()) {
    GTEST_SKIP() << "this CPU does not tell registers in use";
  }
  const std::vector<float> samples = noise(0.5f, 5000, 15);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const int rate : {22050, 44100}) {
      Resampler resampler(rate);
      std::vector<float> out;
      test::clear_upper_halves();
      resampler.push(samples.data(), samples.size(), out);
      EXPECT_FALSE(test::upper_halves_are_in_use()) << hwy::TargetName(target) << " " << rate;
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}
#endif

TEST(Resampler, GivesExactlyTheRoundedNumberOfSamples) {
  for (const int rate : {1000, 8000, 11025, 22050, 44100, 48000, 96000, 44056, 768000}) {
    for (const size_t n : {1u, 2u, 3u, 100u, 441u, 12345u, 50000u}) {
      const auto expected = static_cast<size_t>(std::floor(double(n) * 16000.0 / rate + 0.5));
      EXPECT_EQ(resampled(noise(0.5f, n, 9), rate, 777).size(), expected) << n << " at " << rate;
    }
  }
}

TEST(Resampler, AgreesWithLibsamplerate) {
  for (const int rate : {8000, 11025, 22050, 32000, 44100, 48000, 96000}) {
    // Noise below 90% of the Nyquist frequency, in both pass bands.
    std::vector<float> samples(static_cast<size_t>(rate));
    const double highest = 0.9 * std::min(rate, 16000) / 2.0;
    for (int i = 0; i < 40; ++i) {
      const std::vector<float> part =
          tone(highest * (i + 0.37 * (i % 3)) / 41.0, 0.02, samples.size(), rate);
      for (size_t n = 0; n < samples.size(); ++n) samples[n] += part[n];
    }
    SRC_DATA data = {};
    std::vector<float> expected(16000);
    data.data_in = samples.data();
    data.input_frames = rate;
    data.data_out = expected.data();
    data.output_frames = 16000;
    data.src_ratio = 16000.0 / rate;
    ASSERT_EQ(src_simple(&data, SRC_SINC_BEST_QUALITY, 1), 0);
    const std::vector<float> out = resampled(samples, rate, 5000);
    float worst = 0.0f;
    for (size_t i = 1000; i < 15000; ++i) worst = std::max(worst, std::fabs(out[i] - expected[i]));
    EXPECT_LT(worst, 5e-5f) << rate;
  }
}

TEST(Resampler, DoesNotDependOnBlockSizes) {
  const std::vector<float> samples = noise(0.5f, 30000, 11);
  for (const int rate : {44100, 48000, 96000, 24000, 8000, 44056}) {
    const std::vector<float> at_once = resampled(samples, rate, 30000);
    for (const size_t block : {1u, 2u, 313u, 8192u}) {
      EXPECT_EQ(resampled(samples, rate, block), at_once) << rate << ", " << block;
    }
  }
  // Blocks that several threads share.
  const std::vector<float> many = noise(0.5f, 400000, 12);
  for (const int rate : {44100, 24000}) {
    EXPECT_EQ(resampled(many, rate, 400000), resampled(many, rate, 313)) << rate;
  }
}

TEST(Resampler, KeepsAConstantInEveryPhase) {
  for (const int rate : {8000, 22050, 44100, 48000, 96000}) {
    const std::vector<float> out = resampled(std::vector<float>(40000, 0.5f), rate, 4096);
    for (size_t i = 1000; i < 6000; ++i) ASSERT_NEAR(out[i], 0.5f, 5e-7f) << rate << ", " << i;
  }
}

TEST(Resampler, GivesNothingWithoutSamples) { EXPECT_TRUE(resampled({}, 44100, 1).empty()); }

TEST(Resampler, RefusesInvalidRates) {
  EXPECT_THROW(Resampler(0), Error);
  EXPECT_THROW(Resampler(-44100), Error);
  EXPECT_THROW(Resampler(999), Error);
  EXPECT_THROW(Resampler(768001), Error);
}

}  // namespace
}  // namespace vesper::resample_test
