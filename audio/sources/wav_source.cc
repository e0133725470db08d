#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "audio/sources/sample_source.h"

namespace vesper {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kUnknownSizeFrom = 0x7FFF0000;  // sox, arecord and espeak use rounded values
constexpr size_t kMaxHeaderBytes = size_t{1} << 20;
constexpr size_t kMaxFmtBytes = 4096;
constexpr uint16_t kPcm = 1, kFloat = 3, kExtensible = 0xFFFE;

uint32_t u16(const uint8_t* p) { return p[0] | static_cast<uint32_t>(p[1]) << 8; }
uint32_t u32(const uint8_t* p) { return u16(p) | u16(p + 2) << 16; }
uint64_t u64(const uint8_t* p) { return u32(p) | static_cast<uint64_t>(u32(p + 4)) << 32; }
bool tag_is(const uint8_t* p, const char* tag) { return std::memcmp(p, tag, 4) == 0; }

struct WavFormat {
  bool is_float = false;
  uint32_t bytes_per_sample = 0;
  uint32_t channels = 0;
  uint32_t sample_rate_hz = 0;
};

// The fmt chunk, if open_wav_stream decodes its encoding.
std::optional<WavFormat> parse_fmt(const std::vector<uint8_t>& fmt) {
  if (fmt.size() < 16) return std::nullopt;
  uint32_t encoding = u16(&fmt[0]);
  if (encoding == kExtensible) {
    if (fmt.size() < 26) return std::nullopt;
    encoding = u16(&fmt[24]);  // the first two bytes of the sub-format GUID
  }
  const uint32_t block_align = u16(&fmt[12]);
  const uint32_t bits = u16(&fmt[14]);
  WavFormat format;
  format.is_float = encoding == kFloat;
  format.channels = u16(&fmt[2]);
  format.sample_rate_hz = u32(&fmt[4]);
  format.bytes_per_sample = bits / 8;
  const bool known = encoding == kPcm ? bits == 8 || bits == 16 || bits == 24 || bits == 32
                                      : encoding == kFloat && (bits == 32 || bits == 64);
  if (!known || format.channels == 0 || block_align != format.channels * format.bytes_per_sample) {
    return std::nullopt;
  }
  return format;
}

float decode_sample(const uint8_t* p, const WavFormat& format) {
  if (format.is_float) {
    if (format.bytes_per_sample == 4) return std::bit_cast<float>(u32(p));
    return static_cast<float>(std::bit_cast<double>(u64(p)));
  }
  switch (format.bytes_per_sample) {
    case 1:
      return static_cast<float>(p[0] - 128) / 128.0f;
    case 2:
      return static_cast<float>(static_cast<int16_t>(u16(p))) / 32768.0f;
    case 3:  // shifted up, so that the sign is the top bit
      return static_cast<float>(static_cast<int32_t>(u16(p) << 8 | uint32_t{p[2]} << 24)) /
             2147483648.0f;
    default:
      return static_cast<float>(static_cast<int32_t>(u32(p))) / 2147483648.0f;
  }
}

class WavStream : public SampleSource {
 public:
  WavStream(ByteStream& stream, const WavFormat& format, uint64_t data_bytes)
      : stream_(stream), format_(format), bytes_left_(data_bytes) {
    sample_rate_hz = format.sample_rate_hz;
    channels = format.channels;
    is_16_bit = !format.is_float && format.bytes_per_sample == 2;
    if (data_bytes == kUnlimited) return;
    frames = data_bytes / frame_bytes();
    frames_are_promised = true;
  }

  size_t read(float* interleaved, size_t n_frames) override {
    return read_all(interleaved, n_frames,
                    [this](const uint8_t* bytes) { return decode_sample(bytes, format_); });
  }
  size_t read_16_bit(int16_t* interleaved, size_t n_frames) override {
    return read_all(interleaved, n_frames,
                    [](const uint8_t* bytes) { return static_cast<int16_t>(u16(bytes)); });
  }

 private:
  template <class Sample, class DecodeSample>
  size_t read_all(Sample* interleaved, size_t n_frames, const DecodeSample& decode) {
    constexpr size_t kBlockFrames = 4096;
    size_t done = 0;
    while (done < n_frames) {
      const size_t wanted = static_cast<size_t>(
          std::min<uint64_t>(std::min(kBlockFrames, n_frames - done), bytes_left_ / frame_bytes()));
      if (wanted == 0) break;
      bytes_.resize(wanted * frame_bytes());
      const size_t got_bytes = stream_.read(bytes_.data(), bytes_.size());
      const size_t got = got_bytes / frame_bytes();
      if (bytes_left_ != kUnlimited) bytes_left_ -= got_bytes;
      const size_t n_samples = got * format_.channels;
      for (size_t i = 0; i < n_samples; ++i) {
        interleaved[done * format_.channels + i] = decode(&bytes_[i * format_.bytes_per_sample]);
      }
      done += got;
      if (got < wanted) {
        bytes_left_ = 0;
        break;
      }
    }
    return done;
  }

  size_t frame_bytes() const { return size_t{format_.channels} * format_.bytes_per_sample; }

  ByteStream& stream_;
  WavFormat format_;
  uint64_t bytes_left_;  // of the data chunk
  std::vector<uint8_t> bytes_;
};

// The body of open_wav_stream; leaves the stream at any position.
std::unique_ptr<SampleSource> parse_header(ByteStream& stream) {
  uint8_t riff[12];
  if (stream.read(riff, sizeof riff) != sizeof riff) return nullptr;
  if (!(tag_is(riff, "RIFF") || tag_is(riff, "RF64")) || !tag_is(riff + 8, "WAVE")) return nullptr;

  std::optional<WavFormat> format;
  std::optional<uint64_t> ds64_data_bytes;
  std::vector<uint8_t> body;
  while (true) {
    uint8_t chunk[8];
    if (stream.read(chunk, sizeof chunk) != sizeof chunk) return nullptr;
    const uint32_t size = u32(chunk + 4);
    if (tag_is(chunk, "data")) {
      if (!format) return nullptr;
      uint64_t data_bytes = size;
      if (size == 0 || size >= kUnknownSizeFrom) data_bytes = ds64_data_bytes.value_or(kUnlimited);
      stream.forget_head();
      return std::make_unique<WavStream>(stream, *format, data_bytes);
    }
    const size_t padded = size_t{size} + size % 2;  // chunks begin at even offsets
    if (padded > kMaxHeaderBytes - std::min(kMaxHeaderBytes, stream.head_size())) return nullptr;
    body.resize(padded);
    if (stream.read(body.data(), padded) != padded) return nullptr;
    if (tag_is(chunk, "fmt ")) {
      if (size > kMaxFmtBytes) return nullptr;
      body.resize(size);
      format = parse_fmt(body);
      if (!format) return nullptr;
    } else if (tag_is(chunk, "ds64") && size >= 16) {
      const uint64_t bytes = u64(&body[8]);
      if (bytes != 0 && bytes < kUnlimited / 2) ds64_data_bytes = bytes;
    }
  }
}

}  // namespace

std::unique_ptr<SampleSource> open_wav_stream(ByteStream& stream) {
  auto source = parse_header(stream);
  if (!source) stream.rewind();
  return source;
}

std::unique_ptr<SampleSource> open_raw_stream(ByteStream& stream, const RawPcm& raw,
                                              std::optional<uint64_t> n_bytes) {
  WavFormat format;
  format.is_float = raw.encoding == RawPcm::Encoding::kF32Le;
  format.bytes_per_sample = format.is_float ? 4 : 2;
  format.channels = raw.channels;
  format.sample_rate_hz = raw.sample_rate_hz;
  stream.forget_head();
  auto source = std::make_unique<WavStream>(stream, format, kUnlimited);
  const uint64_t frame_bytes = uint64_t{format.channels} * format.bytes_per_sample;
  if (n_bytes && frame_bytes > 0) source->frames = *n_bytes / frame_bytes;
  return source;
}

}  // namespace vesper
