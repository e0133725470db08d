#include "audio/mel/mel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <filesystem>
#include <numbers>
#include <random>

#include "audio/samples.h"
#include "error/error.h"
#include "tests/audio/made_recordings.h"

namespace vesper::mel_test {
namespace {

constexpr int kPaddingSamples = 480000;  // 30 s at 16 kHz

// log10 mel energies [n_frames, n_mels] of the first frames of `samples` followed by 30 s of
// silence, in double precision by the definition of the DFT: no FFT, no sparse filters.
std::vector<double> direct_log_mel(const std::vector<float>& samples, int n_mels, size_t n_frames) {
  const auto n_padded = static_cast<long>(samples.size()) + kPaddingSamples;
  const auto sample = [&](long i) -> double {
    if (i < 0) i = -i;  // reflect padding
    if (i >= n_padded) i = 2 * (n_padded - 1) - i;
    return i < static_cast<long>(samples.size()) ? samples[static_cast<size_t>(i)] : 0.0;
  };
  std::array<std::complex<double>, 400> turn;
  for (size_t i = 0; i < 400; ++i) {
    turn[i] = std::polar(1.0, -2.0 * std::numbers::pi * static_cast<double>(i) / 400.0);
  }
  const std::vector<float> filters = slaney_mel_filters(n_mels);
  std::vector<double> rows;
  for (size_t t = 0; t < n_frames; ++t) {
    std::array<double, 201> power;
    for (size_t k = 0; k < 201; ++k) {
      std::complex<double> sum = 0.0;
      for (size_t i = 0; i < 400; ++i) {
        const double hann =
            0.5 - 0.5 * std::cos(2.0 * std::numbers::pi * static_cast<double>(i) / 400.0);
        sum += hann * sample(static_cast<long>(t * 160 + i) - 200) * turn[k * i % 400];
      }
      power[k] = std::norm(sum);
    }
    for (size_t m = 0; m < static_cast<size_t>(n_mels); ++m) {
      double energy = 0.0;
      for (size_t k = 0; k < 201; ++k) energy += double{filters[m * 201 + k]} * power[k];
      rows.push_back(std::log10(std::max(energy, 1e-10)));
    }
  }
  return rows;
}

MelSpectrogram finished_mel(const std::vector<float>& samples, int n_mels = 80) {
  MelSpectrogram mel(n_mels);
  mel.push(samples.data(), samples.size());
  mel.finish();
  return mel;
}

// Unclamped log10 mel energies, [n_frames, n_mels].
std::vector<float> rows_of(const MelSpectrogram& mel, size_t first, size_t n_frames) {
  std::vector<float> rows(n_frames * static_cast<size_t>(mel.n_mels()), NAN);
  mel.log_mel(first, n_frames, rows.data());
  return rows;
}

// A chirp with some noise: all bands have energy.
std::vector<float> chirp(size_t n) {
  std::vector<float> samples = noise(0.01f, n, 7);
  for (size_t i = 0; i < n; ++i) {
    const double t = static_cast<double>(i) / 16000.0;
    samples[i] +=
        static_cast<float>(0.4 * std::sin(2.0 * std::numbers::pi * (100.0 + 4000.0 * t) * t));
  }
  return samples;
}

TEST(Mel, EqualsADirectDftInDoublePrecision) {
  for (const int n_mels : {80, 128}) {
    for (const size_t n_samples : {16000u, 15999u, 6555u}) {
      const std::vector<float> samples = chirp(n_samples);
      const size_t n_frames = n_samples / 160 + 5;
      const std::vector<double> expected = direct_log_mel(samples, n_mels, n_frames);
      const double lowest = *std::max_element(expected.begin(), expected.end()) - 8.0;

      const MelSpectrogram mel = finished_mel(samples, n_mels);
      EXPECT_EQ(mel.content_frames(), n_samples / 160);
      MelFrames window;
      window.n_frames = n_frames;
      window.beyond = MelFrames::Beyond::kSilence;
      std::vector<float> rows(n_frames * static_cast<size_t>(n_mels), NAN);
      mel.window(window, rows.data());
      double worst = 0.0;
      for (size_t i = 0; i < rows.size(); ++i) {
        const double scaled = (std::max(expected[i], lowest) + 4.0) / 4.0;
        worst = std::max(worst, std::isnan(rows[i]) ? INFINITY : std::fabs(rows[i] - scaled));
      }
      EXPECT_LT(worst, 1e-4) << n_mels << " mels, " << n_samples << " samples";
    }
  }
}

TEST(Mel, PadsShortRecordings) {
  for (const size_t n_samples : {1u, 2u, 159u, 160u, 200u, 201u, 399u, 400u}) {
    const std::vector<float> samples = chirp(n_samples);
    const std::vector<double> expected = direct_log_mel(samples, 80, 4);
    const double maximum = *std::max_element(expected.begin(), expected.end());
    const MelSpectrogram mel = finished_mel(samples);
    EXPECT_EQ(mel.content_frames(), n_samples / 160);
    EXPECT_NEAR(mel.maximum(), maximum, 1e-4) << n_samples;
    MelFrames window;
    window.n_frames = 4;
    window.beyond = MelFrames::Beyond::kSilence;
    std::vector<float> rows(4 * 80);
    mel.window(window, rows.data());
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_NEAR(rows[i], (std::max(expected[i], maximum - 8.0) + 4.0) / 4.0, 1e-4)
          << n_samples << " samples, value " << i;
    }
  }
}

TEST(Mel, HasItsMaximumInTheBandOfATone) {
  // Bands of openai-whisper's 80-band filters, from its definition (librosa, Slaney scale).
  const std::pair<double, size_t> bands[] = {
      {500, 13}, {1000, 26}, {2000, 44}, {4000, 62}, {6000, 72}};
  for (const auto& [hz, band] : bands) {
    const MelSpectrogram mel = finished_mel(tone(hz, 0.5, 16000, 16000));
    const std::vector<float> row = rows_of(mel, 50, 1);
    EXPECT_EQ(static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin()), band)
        << hz << " Hz";
  }
}

// openai-whisper 20250625, log_mel_spectrogram(pad_or_trim(audio)) in f32 of
// sense_and_sensibility_01_austen_64kb-0870.wav of Debian's pocketsphinx-testdata (7.1 s).
TEST(Mel, EqualsTheReferenceForARealRecording) {
  const std::string path =
      "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0870.wav";
  struct Fact {
    size_t frame, mel;
    float value;
  };
  const Fact facts[] = {
      {0, 0, 0.055343f},     {0, 19, -0.230835f},   {0, 46, -0.189432f},   {0, 79, -0.720116f},
      {1, 0, 0.254975f},     {1, 19, -0.167991f},   {1, 46, -0.226308f},   {50, 0, 0.507462f},
      {50, 19, -0.146869f},  {50, 46, 0.036713f},   {50, 79, -0.695307f},  {150, 0, 0.430549f},
      {150, 19, 0.506009f},  {150, 46, 0.291854f},  {333, 0, 0.678820f},   {333, 19, 0.287508f},
      {333, 46, 0.225318f},  {600, 0, 0.601797f},   {600, 19, 0.517364f},  {600, 46, -0.327629f},
      {708, 0, 0.496984f},   {708, 19, -0.460604f}, {708, 46, -0.559009f}, {709, 0, 0.313014f},
      {709, 19, -0.522809f}, {709, 46, -0.483452f}, {710, 0, 0.317361f},   {710, 19, -0.517944f},
      {710, 46, -0.599694f}, {711, 0, -0.706440f},  {711, 19, -0.720116f}, {712, 0, -0.720116f},
      {1000, 46, -0.720116f}};
  const MelSpectrogram mel = read_log_mel(AudioReader(path), 80);
  EXPECT_EQ(mel.content_frames(), 710u);
  MelFrames window;
  window.beyond = MelFrames::Beyond::kSilence;
  std::vector<float> rows(3000 * 80);
  mel.window(window, rows.data());
  for (const Fact& fact : facts) {
    EXPECT_NEAR(rows[fact.frame * 80 + fact.mel], fact.value, 1e-4)
        << "frame " << fact.frame << ", band " << fact.mel;
  }
}

TEST(Mel, DoesNotDependOnBlockSizes) {
  const std::vector<float> samples = chirp(40000);
  const MelSpectrogram whole = finished_mel(samples);
  MelSpectrogram pieces(80);
  uint32_t seed = 1;
  for (size_t at = 0; at < samples.size();) {
    seed = seed * 1664525u + 1013904223u;
    const size_t n = std::min<size_t>(samples.size() - at, (seed >> 16) % 1000);
    pieces.push(samples.data() + at, n);
    at += n;
  }
  pieces.finish();
  ASSERT_EQ(pieces.content_frames(), whole.content_frames());
  EXPECT_EQ(pieces.maximum(), whole.maximum());
  EXPECT_EQ(rows_of(pieces, 0, whole.content_frames()), rows_of(whole, 0, whole.content_frames()));
}

// A block of 10 s is computed in tasks of 2.6 s and less.
TEST(Mel, HasItsMaximumAnywhereInABlock) {
  for (const size_t loud_s : {0, 4, 9}) {
    std::vector<float> samples = noise(0.01f, 10 * 16000, 1);
    for (size_t i = 0; i < 8000; ++i) samples[loud_s * 16000 + i] *= 50;
    MelSpectrogram whole(80), pieces(80);
    whole.push(samples.data(), samples.size());
    for (size_t i = 0; i < samples.size(); i += 1600) pieces.push(&samples[i], 1600);
    whole.finish();
    pieces.finish();
    EXPECT_EQ(whole.maximum(), pieces.maximum()) << loud_s;
    EXPECT_GT(whole.maximum(), -2) << loud_s;
  }
}

TEST(MelFrames, ClampsByTheMaximumOfRecordingOrWindow) {
  std::vector<float> samples = tone(1000, 0.9, 32000, 16000);
  const std::vector<float> quiet = noise(1e-4f, 32000, 3);
  samples.insert(samples.end(), quiet.begin(), quiet.end());
  const MelSpectrogram mel = finished_mel(samples);

  MelFrames window;
  window.first_frame = 250;
  window.n_frames = 100;
  std::vector<float> by_whole(100 * 80), by_itself(100 * 80);
  mel.window(window, by_whole.data());
  window.maximum = MelFrames::Maximum::kWindow;
  mel.window(window, by_itself.data());

  const float lowest = (mel.maximum() - 8.0f + 4.0f) / 4.0f;
  const std::vector<float> rows = rows_of(mel, 250, 100);
  const float own_maximum = *std::max_element(rows.begin(), rows.end());
  EXPECT_LT(own_maximum, mel.maximum() - 3.0f);
  EXPECT_FLOAT_EQ(*std::min_element(by_whole.begin(), by_whole.end()), lowest);
  for (size_t i = 0; i < by_itself.size(); ++i) {
    const float value = rows[i];
    ASSERT_FLOAT_EQ(by_whole[i], (std::max(value, mel.maximum() - 8.0f) + 4.0f) / 4.0f);
    ASSERT_FLOAT_EQ(by_itself[i], (std::max(value, own_maximum - 8.0f) + 4.0f) / 4.0f);
  }
}

TEST(MelFrames, IsZeroAfterTheContent) {
  const MelSpectrogram mel = finished_mel(chirp(16000 * 2 + 100));  // 200 frames
  MelFrames window;
  window.first_frame = 150;
  std::vector<float> rows(3000 * 80, NAN);
  mel.window(window, rows.data());
  EXPECT_NE(rows[49 * 80], 0.0f);
  EXPECT_TRUE(std::all_of(rows.begin() + 50 * 80, rows.end(), [](float x) { return x == 0.0f; }));

  window.end_frame = 160;  // a clip that ends before the recording does
  std::fill(rows.begin(), rows.end(), NAN);
  mel.window(window, rows.data());
  EXPECT_NE(rows[9 * 80], 0.0f);
  EXPECT_TRUE(std::all_of(rows.begin() + 10 * 80, rows.end(), [](float x) { return x == 0.0f; }));

  window.first_frame = 5000;
  std::fill(rows.begin(), rows.end(), NAN);
  mel.window(window, rows.data());
  EXPECT_THAT(rows, testing::Each(0.0f));
}

TEST(MelFrames, IsSilenceAfterTheContentIfRequested) {
  const MelSpectrogram mel = finished_mel(chirp(32000));
  MelFrames window;
  window.beyond = MelFrames::Beyond::kSilence;
  std::vector<float> rows(3000 * 80, NAN);
  mel.window(window, rows.data());
  const float silence = (mel.maximum() - 8.0f + 4.0f) / 4.0f;
  EXPECT_GT(rows[200 * 80], silence);  // half of this frame is in the content
  for (size_t i = 202 * 80; i < rows.size(); ++i) ASSERT_FLOAT_EQ(rows[i], silence) << i;
}

TEST(Mel, HasOnlyFloorValuesForSilence) {
  const MelSpectrogram mel = finished_mel(std::vector<float>(48000, 0.0f));
  EXPECT_EQ(mel.maximum(), -10.0f);
  std::vector<float> rows(300 * 80);
  MelFrames window;
  window.n_frames = 300;
  mel.window(window, rows.data());
  EXPECT_THAT(rows, testing::Each(-1.5f));
}

TEST(Mel, HasNoFramesWithoutSamples) {
  const MelSpectrogram mel = finished_mel({});
  EXPECT_EQ(mel.content_frames(), 0u);
  EXPECT_EQ(mel.maximum(), -10.0f);
}

TEST(Mel, IsAvailableBeforeTheEndOfAStream) {
  const std::vector<float> samples = chirp(32000);
  const MelSpectrogram whole = finished_mel(samples);
  MelSpectrogram live(80);
  for (size_t at = 0; at < samples.size(); at += 1600) {
    live.push(samples.data() + at, 1600);
    EXPECT_GE(live.content_frames() + 20, (at + 1600) / 160);
  }
  ASSERT_LE(live.content_frames(), whole.content_frames());
  EXPECT_EQ(rows_of(live, 0, live.content_frames()), rows_of(whole, 0, live.content_frames()));
}

TEST(Mel, RefusesSamplesAfterItsEnd) {
  MelSpectrogram mel = finished_mel(chirp(1000));
  const float sample = 0.0f;
  EXPECT_THROW(mel.push(&sample, 1), Error);
}

TEST(MelFilters, OfAModelReplaceTheDefault) {
  // Band 0 has only 1 kHz, band 1 nothing.
  std::vector<float> filters(2 * 201, 0.0f);
  filters[25] = 2.0f;
  MelSpectrogram mel(2, filters);
  const std::vector<float> samples = tone(1000, 0.5, 16000, 16000);
  mel.push(samples.data(), samples.size());
  mel.finish();
  // A tone of amplitude a in the middle of a bin has power (a / 2 * sum of the window)^2.
  const std::vector<float> row = rows_of(mel, 50, 1);
  EXPECT_NEAR(row[0], std::log10(2.0 * 50.0 * 50.0), 1e-4);
  EXPECT_EQ(row[1], -10.0f);
}

TEST(MelFilters, OfAnotherShapeAreRefused) {
  try {
    const std::vector<float> filters(80 * 200, 0.0f);
    MelSpectrogram mel(80, filters);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kModel);
    EXPECT_THAT(e.what(), testing::HasSubstr("16080"));
    EXPECT_THAT(e.what(), testing::HasSubstr("16000"));
  }
  EXPECT_THROW(MelSpectrogram(0), Error);
  EXPECT_THROW(MelSpectrogram(-5), Error);
  EXPECT_THROW(MelSpectrogram(100000), Error);
  std::vector<float> broken(80 * 201, 0.0f);
  broken[17] = NAN;
  EXPECT_THROW(MelSpectrogram(80, broken), Error);
}

TEST(MelFilters, OfSlaneyAreTrianglesOfEqualArea) {
  for (const int n_mels : {80, 128}) {
    const std::vector<float> filters = slaney_mel_filters(n_mels);
    ASSERT_EQ(filters.size(), static_cast<size_t>(n_mels) * 201);
    // Only wide bands are sampled by enough bins for the sum to be near the integral.
    for (size_t m = static_cast<size_t>(n_mels) * 3 / 4; m < static_cast<size_t>(n_mels); ++m) {
      double area = 0.0;
      for (size_t k = 0; k < 201; ++k) area += 40.0 * filters[m * 201 + k];
      EXPECT_NEAR(area, 1.0, 0.05) << "band " << m;
    }
  }
}

TEST(MelKeep, JoinsTheKeptFrames) {
  std::vector<float> samples(16000 * 90);
  std::mt19937 random(7);
  std::normal_distribution<float> noise(0.0f, 0.1f);
  for (float& sample : samples) sample = noise(random);
  samples[16000] = 30.0f;  // a click that is not kept
  const auto whole_and_kept = [&] {
    MelSpectrogram mel(80);
    mel.push(samples.data(), samples.size());
    mel.finish();
    return mel;
  };
  const MelSpectrogram whole = whole_and_kept();
  MelSpectrogram kept = whole_and_kept();
  const std::vector<std::pair<size_t, size_t>> ranges = {{10, 20}, {2990, 6010}, {8999, 9000}};
  kept.keep(ranges);
  ASSERT_EQ(kept.content_frames(), 10u + 3020u + 1u);
  size_t at = 0;
  for (const auto& [begin, end] : ranges) {
    EXPECT_EQ(rows_of(kept, at, end - begin), rows_of(whole, begin, end - begin)) << begin;
    at += end - begin;
  }
  const std::vector<float> all = rows_of(kept, 0, at);
  const float maximum = *std::max_element(all.begin(), all.end());
  EXPECT_EQ(kept.maximum(), maximum);
  EXPECT_LT(maximum, whole.maximum());
  // Keeps ranges of the kept frames again.
  const std::vector<std::pair<size_t, size_t>> of_those = {{5, 15}, {3025, 3031}};
  kept.keep(of_those);
  EXPECT_EQ(rows_of(kept, 3, 4), std::vector<float>(all.begin() + 8 * 80, all.begin() + 12 * 80));
  EXPECT_EQ(rows_of(kept, 10, 6), std::vector<float>(all.begin() + 3025 * 80, all.end()));
  const std::vector<float> rest = rows_of(kept, 0, 16);
  EXPECT_EQ(kept.maximum(), *std::max_element(rest.begin(), rest.end()));
  kept.keep({});
  EXPECT_EQ(kept.content_frames(), 0u);
  const std::vector<std::pair<size_t, size_t>> beyond = {{0, 1}};
  EXPECT_THROW(kept.keep(beyond), Error);
}

}  // namespace
}  // namespace vesper::mel_test
