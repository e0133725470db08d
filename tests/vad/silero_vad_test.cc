// Voice activity on every device: random weights compared with plain formulas, real weights with
// the package's ONNX model.
#include "vad/silero_vad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "audio/samples.h"
#include "error/error.h"
#include "llm/devices/open_device.h"
#include "tests/fetched_model.h"
#include "tests/llm/kernels/plain_lstm.h"
#include "tests/llm/test_devices.h"

namespace vesper::silero_vad_test {
namespace {

using ::testing::HasSubstr;

struct Tensor {
  std::vector<uint64_t> shape;
  std::vector<float> values;
};
using Model = std::map<std::string, Tensor>;

// Weights in the real shapes, with probabilities that differ between chunks.
Model made_model() {
  Model model = {{"stft_conv.weight", {{258, 1, 256}, {}}},
                 {"conv1.weight", {{128, 129, 3}, {}}},
                 {"conv1.bias", {{128}, {}}},
                 {"conv2.weight", {{64, 128, 3}, {}}},
                 {"conv2.bias", {{64}, {}}},
                 {"conv3.weight", {{64, 64, 3}, {}}},
                 {"conv3.bias", {{64}, {}}},
                 {"conv4.weight", {{128, 64, 3}, {}}},
                 {"conv4.bias", {{128}, {}}},
                 {"lstm_cell.weight_ih", {{512, 128}, {}}},
                 {"lstm_cell.weight_hh", {{512, 128}, {}}},
                 {"lstm_cell.bias_ih", {{512}, {}}},
                 {"lstm_cell.bias_hh", {{512}, {}}},
                 {"final_conv.weight", {{1, 128, 1}, {}}},
                 {"final_conv.bias", {{1}, {}}}};
  std::mt19937 random(4);
  for (auto& [name, tensor] : model) {
    uint64_t n = 1, n_in = 1;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      n *= tensor.shape[i];
      if (i > 0) n_in *= tensor.shape[i];
    }
    const float spread = 1.7f / std::sqrt(static_cast<float>(n_in));
    std::uniform_real_distribution<float> distribution(-spread, spread);
    tensor.values.resize(n);
    for (float& value : tensor.values) value = distribution(random);
  }
  return model;
}

std::filesystem::path write_model(const Model& model, const std::string& name) {
  std::string header = "{";
  uint64_t at = 0;
  for (const auto& [tensor_name, tensor] : model) {
    std::string shape;
    for (const uint64_t n : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(n);
    const uint64_t end = at + tensor.values.size() * sizeof(float);
    header += (header.size() > 1 ? ",\"" : "\"") + tensor_name +
              "\":{\"dtype\":\"F32\",\"shape\":[" + shape + "],\"data_offsets\":[" +
              std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  header += "}";
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / name;
  std::ofstream file(path, std::ios::binary);
  const uint64_t size = header.size();
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header;
  for (const auto& [tensor_name, tensor] : model) {
    file.write(reinterpret_cast<const char*>(tensor.values.data()),
               static_cast<std::streamsize>(tensor.values.size() * sizeof(float)));
  }
  return path;
}

// A buzz with varying loudness and pitch: [n], 16 kHz.
std::vector<float> made_sound(size_t n) {
  std::vector<float> samples(n);
  double phase = 0;
  for (size_t i = 0; i < n; ++i) {
    const double t = static_cast<double>(i) / 16000;
    phase += 2 * M_PI * (140 + 40 * std::sin(2 * M_PI * 0.7 * t)) / 16000;
    double x = 0;
    for (int k = 1; k <= 12; ++k) x += std::sin(k * phase) / k;
    samples[i] = static_cast<float>(0.2 * x * std::max(0.0, std::sin(2 * M_PI * 1.5 * t)));
  }
  return samples;
}

// relu(convolution), in [n_in, frames], width 3 with zero padding.
std::vector<double> convolve(const Model& model, const std::string& name,
                             const std::vector<double>& in, size_t frames, size_t stride) {
  const Tensor& weight = model.at(name + ".weight");
  const size_t n_out = weight.shape[0], n_in = weight.shape[1];
  const size_t out_frames = (frames - 1) / stride + 1;
  std::vector<double> out(n_out * out_frames);
  for (size_t o = 0; o < n_out; ++o) {
    for (size_t f = 0; f < out_frames; ++f) {
      double sum = double{model.at(name + ".bias").values[o]};
      for (size_t i = 0; i < n_in; ++i) {
        for (size_t tap = 0; tap < 3; ++tap) {
          const size_t from = f * stride + tap;  // of the padded frames
          if (from < 1 || from > frames) continue;
          sum += double{weight.values[(o * n_in + i) * 3 + tap]} * in[i * frames + from - 1];
        }
      }
      out[o * out_frames + f] = std::max(sum, 0.0);
    }
  }
  return out;
}

// The probabilities by the definition, chunk after chunk.
std::vector<double> plain_probabilities(const Model& model, std::vector<float> samples) {
  samples.resize((samples.size() + 511) / 512 * 512);
  samples.insert(samples.begin(), 64, 0.0f);
  const PlainLstm lstm(128, model.at("lstm_cell.weight_hh").values);
  std::vector<double> state(256), probabilities;
  for (size_t at = 0; at + 576 <= samples.size(); at += 512) {
    std::vector<double> seen(samples.begin() + static_cast<std::ptrdiff_t>(at),
                             samples.begin() + static_cast<std::ptrdiff_t>(at + 576));
    for (size_t i = 0; i < 64; ++i) seen.push_back(seen[574 - i]);
    std::vector<double> x(129 * 4);
    for (size_t bin = 0; bin < 129; ++bin) {
      for (size_t f = 0; f < 4; ++f) {
        double real = 0, imaginary = 0;
        for (size_t i = 0; i < 256; ++i) {
          const auto& weight = model.at("stft_conv.weight").values;
          real += double{weight[bin * 256 + i]} * seen[f * 128 + i];
          imaginary += double{weight[(129 + bin) * 256 + i]} * seen[f * 128 + i];
        }
        x[bin * 4 + f] = std::hypot(real, imaginary);
      }
    }
    x = convolve(model, "conv1", x, 4, 1);
    x = convolve(model, "conv2", x, 4, 2);
    x = convolve(model, "conv3", x, 2, 2);
    x = convolve(model, "conv4", x, 1, 1);
    std::vector<float> gates(512);
    for (size_t j = 0; j < 512; ++j) {
      double sum = double{model.at("lstm_cell.bias_ih").values[j]} +
                   double{model.at("lstm_cell.bias_hh").values[j]};
      for (size_t k = 0; k < 128; ++k) {
        sum += double{model.at("lstm_cell.weight_ih").values[j * 128 + k]} * x[k];
      }
      gates[j] = static_cast<float>(sum);
    }
    const std::vector<double> h = lstm.run(gates, 1, state);
    double sum = double{model.at("final_conv.bias").values[0]};
    for (size_t k = 0; k < 128; ++k) {
      sum += double{model.at("final_conv.weight").values[k]} * std::max(h[k], 0.0);
    }
    probabilities.push_back(1 / (1 + std::exp(-sum)));
  }
  return probabilities;
}

std::vector<float> probabilities(SileroVad& vad, const std::vector<float>& samples) {
  vad.push(samples.data(), samples.size());
  return vad.finish();
}

class SileroVadOn : public ::testing::TestWithParam<const char*> {};

TEST_P(SileroVadOn, EqualsPlainFormulas) {
  const Model model = made_model();
  const auto device = open_device(GetParam());
  SileroVad vad(*device, write_model(model, std::string("plain-") + GetParam() + ".safetensors"));
  const std::vector<float> samples = made_sound(19 * 512 + 100);
  const std::vector<double> wanted = plain_probabilities(model, samples);
  const std::vector<float> found = probabilities(vad, samples);
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-5) << i;
  const auto [least, most] = std::minmax_element(wanted.begin(), wanted.end());
  EXPECT_GT(*most - *least, 0.01);
  // A recording leaves no state for the next, and the sizes of pushes do not matter.
  for (const size_t piece : {1000u, 7u}) {
    for (size_t at = 0; at < samples.size(); at += piece) {
      vad.push(samples.data() + at, std::min(piece, samples.size() - at));
    }
    EXPECT_EQ(vad.finish(), found);
  }
  EXPECT_TRUE(vad.finish().empty());
  // As they come.
  std::vector<float> taken;
  for (size_t at = 0; at < samples.size(); at += 1000) {
    vad.push(samples.data() + at, std::min<size_t>(1000, samples.size() - at));
    std::ranges::copy(vad.take(), std::back_inserter(taken));
    EXPECT_EQ(taken.size(), std::min(at + 1000, samples.size()) / SileroVad::kChunkSamples);
  }
  std::ranges::copy(vad.finish(), std::back_inserter(taken));
  ASSERT_EQ(taken.size(), found.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(taken[i], found[i], 1e-6) << i;
}

TEST_P(SileroVadOn, RecordingsSideBySideEqualEachAlone) {
  const auto device = open_device(GetParam());
  SileroVad vad(*device, write_model(made_model(), std::string("side-") + GetParam()));
  const std::vector<float> all = made_sound(300000);
  // Passes of 8 s, 2 s and 0.5 s; the second recording ends in the first pass.
  std::vector<std::vector<float>> recordings = {{all.begin(), all.begin() + 170000},
                                                {all.begin() + 200000, all.begin() + 250300}};
  recordings.resize(std::min(recordings.size(), vad.n_together()));
  std::vector<std::vector<float>> wanted;
  for (const std::vector<float>& recording : recordings) {
    wanted.push_back(probabilities(vad, recording));
  }
  for (int i = 0; i < 2; ++i) {
    vad.push(all.data(), 20000);  // is dropped
    const std::vector<std::vector<float>> found = vad.of_recordings(recordings);
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t r = 0; r < wanted.size(); ++r) {
      ASSERT_EQ(found[r].size(), wanted[r].size());
      for (size_t chunk = 0; chunk < wanted[r].size(); ++chunk) {
        ASSERT_NEAR(found[r][chunk], wanted[r][chunk], 1e-6) << r << ", " << chunk;
      }
    }
  }
  EXPECT_EQ(probabilities(vad, recordings[0]), wanted[0]);
  EXPECT_THROW(vad.of_recordings(std::vector<std::vector<float>>(vad.n_together() + 1)), Error);
}

// From silero-vad 6.2.3, data/silero_vad.onnx in onnxruntime on the CPU, chunk by chunk.
TEST_P(SileroVadOn, EqualsTheOnnxModelOnSpeech) {
  const auto device = open_device(GetParam());
  SileroVad vad(*device, fetched_model("silero-vad"));
  const std::vector<float> found =
      probabilities(vad, read_samples("/usr/share/pocketsphinx/test/data/librivox/"
                                      "sense_and_sensibility_01_austen_64kb-0870.wav"));
  ASSERT_EQ(found.size(), 222u);
  const std::map<size_t, float> wanted = {
      {0, 0.0467f},   {1, 0.0307f},   {2, 0.0320f},   {5, 0.0443f},   {10, 0.3919f},
      {20, 1.0000f},  {100, 1.0000f}, {150, 0.9928f}, {180, 0.9991f}, {210, 0.9979f},
      {215, 0.1782f}, {218, 0.0220f}, {220, 0.0177f}, {221, 0.0132f}};
  for (const auto& [chunk, probability] : wanted) EXPECT_NEAR(found[chunk], probability, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Devices, SileroVadOn,
                         ::testing::Values("cpu"
#ifdef VESPER_HAS_VULKAN
                                           ,
                                           "vulkan"
#endif
                                           ));

TEST(SileroVad, AccessesOnlyDeclaredMemoryInAnyOrder) {
  const std::filesystem::path model = write_model(made_model(), "declared.safetensors");
  const std::vector<float> samples = made_sound(75 * 512 + 100);
  for (const std::string& name : plain_test_devices()) {
    const auto device = open_test_device(name), checked = open_test_device("checked " + name);
    SileroVad plain(*device, model), vad(*checked, model);
    const std::vector<float> wanted = probabilities(plain, samples);
    EXPECT_EQ(probabilities(vad, samples), wanted);
    EXPECT_EQ(probabilities(vad, samples), wanted);
  }
}

#ifdef VESPER_HAS_VULKAN
TEST(SileroVad, IsCleanUnderTheValidationLayers) {
  const std::filesystem::path model = write_model(made_model(), "validated.safetensors");
  const std::vector<float> samples = made_sound(19 * 512);
  const auto device = open_device("vulkan"), validated = open_test_device("validated vulkan");
  SileroVad plain(*device, model), vad(*validated, model);
  EXPECT_EQ(probabilities(vad, samples), probabilities(plain, samples));
}
#endif

TEST(SileroVad, RefusesATensorOfWrongShape) {
  const auto device = open_device("cpu");
  Model model = made_model();
  model["conv2.weight"].shape = {64, 3, 128};
  try {
    SileroVad vad(*device, write_model(model, "shape.safetensors"));
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("conv2.weight of Silero VAD: expected [64, 128, 3], "
                                        "found [64, 3, 128]"));
  }
  model.erase("conv2.weight");
  EXPECT_THROW(SileroVad(*device, write_model(model, "missing.safetensors")), Error);
}

}  // namespace
}  // namespace vesper::silero_vad_test
