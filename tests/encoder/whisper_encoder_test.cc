// The encoder of real models on real speech: f32 compared with openai-whisper 20250625 (f32, CPU),
// other formats of products with f32.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "audio/samples.h"
#include "decoder/whisper_model.h"
#include "llm/cpu/cpu_features.h"
#include "llm/devices/open_device.h"
#include "tests/fetched_model.h"

namespace vesper::whisper_encoder_test {
namespace {

constexpr char kRecording[] =
    "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0870.wav";

// Encoder output, [n_audio_ctx, d_model], for the recording padded with 30 s of silence.
struct Encoded {
  std::vector<float> rows;
  size_t d_model;
  std::vector<float> row(size_t i) const {
    return {rows.begin() + static_cast<std::ptrdiff_t>(i * d_model),
            rows.begin() + static_cast<std::ptrdiff_t>((i + 1) * d_model)};
  }
};

Encoded encode(const std::string& name, const char* device, Compute compute) {
  WhisperModel model(fetched_model(name), open_device(device), compute);
  const MelSpectrogram mel =
      read_log_mel(AudioReader(kRecording), static_cast<int>(model.n_mels()), model.mel_filters());
  std::vector<float> window(size_t{model.n_frames()} * model.n_mels());
  MelFrames cut;
  cut.n_frames = model.n_frames();
  cut.beyond = MelFrames::Beyond::kSilence;
  mel.window(cut, window.data());
  model.encode(window.data());
  const WhisperEncoder& encoder = model.encoder();
  const size_t n = size_t{encoder.n_audio_ctx()} * encoder.d_model();
  std::vector<std::byte> bytes(dtype_bytes(encoder.output_dtype(), n));
  model.device().read(encoder.output(), bytes.data());
  Encoded encoded{std::vector<float>(n), encoder.d_model()};
  dtype_descriptor(encoder.output_dtype()).to_f32(bytes.data(), encoded.rows.data(), n);
  return encoded;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

double worst_row_cosine(const Encoded& a, const Encoded& b) {
  double worst = 1;
  for (size_t i = 0; i < a.rows.size() / a.d_model; ++i) {
    worst = std::min(worst, cosine(a.row(i), b.row(i)));
  }
  return worst;
}

struct GoldenRow {
  size_t row;
  std::vector<float> first;  // of its values
  double norm;
};

void expect_golden(const Encoded& encoded, const std::vector<GoldenRow>& golden) {
  for (const GoldenRow& expected : golden) {
    const std::vector<float> row = encoded.row(expected.row);
    double square = 0;
    for (float value : row) square += double{value} * value;
    EXPECT_NEAR(std::sqrt(square), expected.norm, 2e-3) << expected.row;
    for (size_t i = 0; i < expected.first.size(); ++i) {
      EXPECT_NEAR(row[i], expected.first[i], 1e-3) << expected.row << ", " << i;
    }
  }
}

TEST(WhisperEncoder, TinyEnInF32EqualsTheReference) {
  expect_golden(encode("tiny.en", "cpu", Compute::kF32),
                {{0, {-1.0789f, -0.7001f, 1.9865f, 0.2059f, -0.3849f, -1.6374f}, 18.758},
                 {200, {-0.4498f, 1.2267f, -2.6795f, -0.256f, -0.7276f, -0.2011f}, 24.878},
                 {500, {-0.36f, 0.7398f, -2.4074f, -0.1361f, 0.1151f, -0.3048f}, 20.652},
                 {1250, {0.3358f, -0.349f, -3.5295f, -0.1315f, 0.2065f, 0.1362f}, 20.549}});
}

TEST(WhisperEncoder, BaseInF32EqualsTheReference) {
  expect_golden(encode("base", "cpu", Compute::kF32),
                {{0, {-1.4538f, -0.2753f, -0.6616f, 0.5277f, 0.087f, -2.7106f}, 27.493},
                 {200, {-1.015f, -0.5574f, 0.0102f, 1.5039f, 0.3257f, 0.5055f}, 32.285},
                 {500, {-0.3852f, -0.3094f, 0.0092f, -1.844f, 0.2507f, 2.5006f}, 34.461},
                 {1250, {0.022f, -0.1157f, 0.1962f, 0.5443f, 0.3101f, -0.1835f}, 17.563}});
}

class WhisperEncoderFormats : public testing::TestWithParam<const char*> {};

// Checks the cosine of all rows with f32, and that of the worst row (in int8, nearly silent rows
// may be far off).
void expect_close_to_f32(const char* model, Compute compute, double least, double least_of_a_row) {
  const Encoded exact = encode(model, "cpu", Compute::kF32),
                rounded = encode(model, "cpu", compute);
  EXPECT_GT(cosine(rounded.rows, exact.rows), least);
  EXPECT_GT(worst_row_cosine(rounded, exact), least_of_a_row);
  std::printf("%s: cosine with f32 %.6f, worst row %.6f\n", model, cosine(rounded.rows, exact.rows),
              worst_row_cosine(rounded, exact));
}

TEST_P(WhisperEncoderFormats, Bf16StaysCloseToF32) {
  if (!cpu_features().avx512_bf16) GTEST_SKIP() << "this CPU lacks AVX512-BF16";
  expect_close_to_f32(GetParam(), Compute::kBF16, 0.999, 0.97);
}

TEST_P(WhisperEncoderFormats, Int8StaysCloseToF32) {
  expect_close_to_f32(GetParam(), Compute::kI8, 0.997, 0.0);
}

INSTANTIATE_TEST_SUITE_P(Models, WhisperEncoderFormats, testing::Values("tiny.en", "base"));

#ifdef VESPER_HAS_VULKAN
TEST(WhisperEncoder, LavapipeInF32AgreesWithTheCpu) {
  const Encoded cpu = encode("tiny.en", "cpu", Compute::kF32);
  const Encoded lavapipe = encode("tiny.en", "vulkan", Compute::kF32);
  EXPECT_GT(cosine(cpu.rows, lavapipe.rows), 0.9999);
  EXPECT_GT(worst_row_cosine(cpu, lavapipe), 0.999);
}
#endif

}  // namespace
}  // namespace vesper::whisper_encoder_test
