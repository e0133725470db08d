#include "serve/live/input_audio.h"

#include <openssl/evp.h>

#include <cstdint>
#include <string>

#include "serve/api/api_error.h"

namespace vesper {
namespace {

constexpr float kFullScale = 32768;

std::vector<unsigned char> bytes_of_base64(std::string_view text) {
  const std::string_view digits = text.substr(0, text.find_last_not_of('=') + 1);
  const size_t n_padding = text.size() - digits.size();
  std::vector<unsigned char> bytes(text.size() / 4 * 3);
  // EVP_DecodeBlock takes "=" for a digit, and leaves out spaces at both ends.
  const bool is_whole =
      text.size() % 4 == 0 && n_padding <= 2 && digits.find('=') == digits.npos &&
      EVP_DecodeBlock(bytes.data(), reinterpret_cast<const unsigned char*>(text.data()),
                      static_cast<int>(text.size())) == static_cast<int>(bytes.size());
  if (!is_whole) throw_field("audio", "text in base64", "another text");
  bytes.resize(bytes.size() - n_padding);
  return bytes;
}

int rate_of(InputFormat format) { return format == InputFormat::kPcm16 ? 24000 : 8000; }

}  // namespace

// Sections 3 and 4 of ITU-T G.711: a sign, an exponent (segment) of 3 bits and 4 further bits.
float mu_law_sample(unsigned char code) {
  constexpr int kBias = 132;
  const int bits = code ^ 0xff;
  const int magnitude = ((((bits & 15) << 3) + kBias) << (bits >> 4 & 7)) - kBias;
  return static_cast<float>((bits & 128) != 0 ? -magnitude : magnitude) / kFullScale;
}

float a_law_sample(unsigned char code) {
  const int bits = code ^ 0x55;
  const int segment = bits >> 4 & 7;
  const int step = (bits & 15) * 16 + 8;
  const int magnitude = segment == 0 ? step : (step + 256) << (segment - 1);
  return static_cast<float>((bits & 128) != 0 ? magnitude : -magnitude) / kFullScale;
}

InputAudio::InputAudio(InputFormat format) : format_(format), resampler_(rate_of(format)) {}

std::vector<float> InputAudio::samples(std::string_view base64) {
  const std::vector<unsigned char> bytes = bytes_of_base64(base64);
  std::vector<float> given, samples;
  given.reserve(bytes.size());
  for (const unsigned char byte : bytes) {
    if (format_ != InputFormat::kPcm16) {
      given.push_back(format_ == InputFormat::kMuLaw ? mu_law_sample(byte) : a_law_sample(byte));
    } else if (half_) {
      given.push_back(static_cast<float>(static_cast<int16_t>(byte << 8 | *half_)) / kFullScale);
      half_.reset();
    } else {
      half_ = byte;
    }
  }
  resampler_.push(given.data(), given.size(), samples);
  return samples;
}

}  // namespace vesper
