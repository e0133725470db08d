#include "audio/sources/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "audio/sources/byte_stream.h"
#include "audio/sources/sample_source.h"
#include "error/error.h"
#include "error/number_text.h"

namespace vesper {
namespace {

// Extensions of audio formats, without headerless samples (.raw, .gsm, .vox), whose rate and
// encoding are unknown.
constexpr std::string_view kAudioExtensions[] = {
    // libsndfile
    "aif", "aifc", "aiff", "au", "avr", "caf", "flac", "iff", "mp1", "mp2", "mp3", "mpga", "nist",
    "oga", "ogg", "opus", "paf", "rf64", "sd2", "snd", "sph", "svx", "voc", "w64", "wav", "wave",
    "wve",
    // ffmpeg: audio
    "3ga", "aac", "ac3", "amr", "ape", "awb", "dts", "eac3", "m4a", "m4b", "m4r", "mka", "mpc",
    "ra", "spx", "tta", "weba", "wma", "wv",
    // ffmpeg: video
    "3gp", "asf", "avi", "flv", "m2ts", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "mts", "ogv",
    "vob", "webm", "wmv"};

constexpr float kScaleOf16Bit = 1.0f / 32768.0f;

}  // namespace

size_t SampleSource::read_16_bit(int16_t*, size_t) {
  throw Error(ErrorKind::kInternal, "the source has no samples of 16 bits");
}

void throw_too_slow(const std::string& name, double max_s) {
  throw Error(ErrorKind::kInput,
              "cannot read " + name + ": " +
                  formatted("decoding takes longer than the limit of %.7g s", max_s));
}

struct AudioReader::State {
  std::string name;
  ReaderOptions options;
  UniqueFd file;                         // spool file, or a duplicate of a seekable stream
  std::unique_ptr<ByteStream> stream;    // source of a WAV stream
  std::unique_ptr<SampleSource> source;  // last: destroyed before the members that it reads from
  std::vector<float> interleaved;        // [frames of a block, channels]
  std::vector<int16_t> integers;         // the same of a source of 16 bits
  std::vector<float> first;              // [frames read while opening, channels]
  size_t n_first_taken = 0;              // frames of `first` already returned
  uint64_t n_frames_read = 0;
  double decoding_s = 0;  // in decode()

  Error error(const std::string& what) const { return Error(ErrorKind::kInput, what); }

  [[noreturn]] void fail_unread(const std::string& why) const {
    throw error("cannot read " + name + ": " + why);
  }

  // Tries ffmpeg after libsndfile has failed with `why`. Reads `path`, or `file` if it is empty.
  void open_with_ffmpeg_after(const std::string& why, const std::string& path) {
    const std::string tried = "libsndfile: " + why;
    if (!options.use_ffmpeg) fail_unread(tried);
    if (!ffmpeg_is_on_path()) {
      fail_unread(tried + "; ffmpeg, which reads more formats, is not on the PATH");
    }
    try {
      source = open_with_ffmpeg(path, file.get(), name, options.max_decoding_s);
    } catch (const Error& e) {
      throw Error(e.kind(), std::string(e.what()) + " (tried before: " + tried + ")");
    }
  }

  // Corrects a WAV length that libsndfile reports wrongly: `bytes` is the file.
  void compare_with_wav_header(ByteStream bytes) {
    auto header = std::make_unique<ByteStream>(std::move(bytes));
    auto wav = open_wav_stream(*header);
    if (!wav) return;
    if (!source->frames) {
      // A killed recorder leaves a length of 0, and libsndfile trusts it.
      source = std::move(wav);
      stream = std::move(header);
    } else if (wav->frames_are_promised) {
      // libsndfile limits the length to the file, which hides a cut-off file.
      source->frames = wav->frames;
      source->frames_are_promised = true;
    }
  }

  void open_seekable_file() {
    struct stat info {};
    if (::fstat(file.get(), &info) == 0 && info.st_size == 0) fail_unread("it is empty");
    if (options.raw) return open_raw(stream_of_file(std::move(file), name), info.st_size);
    std::string why;
    source = open_with_sndfile(file.get(), "", name, why);
    if (!source) return open_with_ffmpeg_after(why, "");
    UniqueFd duplicate(::fcntl(file.get(), F_DUPFD_CLOEXEC, 3));
    compare_with_wav_header(stream_of_file(std::move(duplicate), name));
  }

  // `n_bytes`: absent for a stream.
  void open_raw(ByteStream bytes, std::optional<uint64_t> n_bytes = {}) {
    stream = std::make_unique<ByteStream>(std::move(bytes));
    source = open_raw_stream(*stream, *options.raw, n_bytes);
  }

  void open_stream(UniqueFd fd) {
    if (options.raw) return open_raw(stream_of(std::move(fd), name));
    if (options.is_live_container) {
      if (!ffmpeg_is_on_path()) fail_unread("ffmpeg, which decodes live audio, is not on the PATH");
      file = std::move(fd);
      source = open_with_ffmpeg("", file.get(), name);
      return;
    }
    stream = std::make_unique<ByteStream>(stream_of(std::move(fd), name));
    source = open_wav_stream(*stream);
    if (source) return;
    file = spool_to_unlinked_file(*stream, name);
    stream.reset();
    open_seekable_file();
  }

  // A regular file at its beginning needs no spooling.
  void open_fd(int fd) {
    UniqueFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    struct stat info;
    if (!own.is_open() || ::fstat(own.get(), &info) != 0) fail_unread(std::strerror(errno));
    if (S_ISDIR(info.st_mode)) fail_unread("it is a directory");
    if (S_ISREG(info.st_mode) && ::lseek(own.get(), 0, SEEK_CUR) == 0) {
      file = std::move(own);
      open_seekable_file();
    } else {
      open_stream(std::move(own));
    }
  }

  void open_path(const std::string& path) {
    if (path.find('\0') != std::string::npos) fail_unread("its name holds a zero byte");
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info;
    if (!fd.is_open() || ::fstat(fd.get(), &info) != 0) fail_unread(std::strerror(errno));
    if (!S_ISREG(info.st_mode)) return open_fd(fd.get());
    if (info.st_size == 0) fail_unread("it is empty");
    if (options.raw) return open_raw(stream_of_file(std::move(fd), name), info.st_size);
    std::string why;
    source = open_with_sndfile(fd.get(), path, name, why);
    if (!source) return open_with_ffmpeg_after(why, path);
    compare_with_wav_header(stream_of_file(std::move(fd), name));
  }

  void open_memory(std::span<const uint8_t> bytes) {
    if (bytes.empty()) fail_unread("it is empty");
    if (options.raw) return open_raw(stream_of(bytes), bytes.size());
    std::string why;
    source = open_with_sndfile(bytes, name, why);
    if (source) return compare_with_wav_header(stream_of(bytes));
    if (options.use_ffmpeg && ffmpeg_is_on_path()) {
      ByteStream all = stream_of(bytes);
      file = spool_to_unlinked_file(all, name);
    }
    open_with_ffmpeg_after(why, "");
  }

  // Checks the header's values, and that there is at least one sample.
  void check_opened() {
    if (source->channels < 1 || source->channels > kMaxChannels) {
      throw error(name + " has " + std::to_string(source->channels) + " channels, expected 1 to " +
                  std::to_string(kMaxChannels));
    }
    if (source->sample_rate_hz < kMinSampleRateHz || source->sample_rate_hz > kMaxSampleRateHz) {
      throw error(name + " has " + std::to_string(source->sample_rate_hz) +
                  " samples a second, expected " + std::to_string(kMinSampleRateHz) + " to " +
                  std::to_string(kMaxSampleRateHz));
    }
    if (options.channel && (*options.channel < 0 || *options.channel >= source->channels)) {
      throw error(name + " has " + std::to_string(source->channels) +
                  (source->channels == 1 ? " channel" : " channels") + ", expected channel " +
                  std::to_string(*options.channel + 1));
    }
    if (source->frames) check_length(*source->frames);
    constexpr size_t kFirstFrames = 64;
    first.resize(kFirstFrames * n_channels());
    first.resize(decode(first.data(), kFirstFrames) * n_channels());
    if (first.empty()) throw error(name + " has no audio sample");
  }

  size_t n_channels() const { return static_cast<size_t>(source->channels); }

  size_t read_source(float* frames, size_t n) const { return source->read(frames, n); }
  size_t read_source(int16_t* frames, size_t n) const { return source->read_16_bit(frames, n); }

  // Writes the next frames, [n, channels]. Fewer only at the end, which is then checked. Integers:
  // only of a source of 16 bits.
  template <class Sample>
  size_t decode_as(Sample* frames, size_t n) {
    const auto start = std::chrono::steady_clock::now();
    const size_t got = read_source(frames, n);
    decoding_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (options.max_decoding_s && decoding_s > *options.max_decoding_s) {
      throw_too_slow(name, *options.max_decoding_s);
    }
    if constexpr (std::is_same_v<Sample, float>) check_samples(frames, got);
    n_frames_read += got;
    check_length(n_frames_read);
    if (got < n) check_end();
    return got;
  }

  size_t decode(float* frames, size_t n) {
    if (!source->is_16_bit) return decode_as(frames, n);
    integers.resize(n * n_channels());
    const size_t got = decode_as(integers.data(), n);
    std::transform(integers.data(), integers.data() + got * n_channels(), frames,
                   [](int16_t sample) { return static_cast<float>(sample) * kScaleOf16Bit; });
    return got;
  }

  // The same, beginning with the frames read while opening.
  size_t read_frames(float* frames, size_t n) {
    const size_t n_first = std::min(n, first.size() / n_channels() - n_first_taken);
    std::copy_n(first.data() + n_first_taken * n_channels(), n_first * n_channels(), frames);
    n_first_taken += n_first;
    if (n_first == n) return n;
    return n_first + decode(frames + n_first * n_channels(), n - n_first);
  }

  void check_length(uint64_t n_frames) const {
    if (!options.max_s) return;
    if (static_cast<double>(n_frames) <=
        *options.max_s * static_cast<double>(source->sample_rate_hz))
      return;
    throw error(name + " is too long: expected at most " + formatted("%.7g s", *options.max_s));
  }

  void check_end() const {
    if (!source->frames_are_promised || n_frames_read >= source->frames) return;
    const double rate = static_cast<double>(source->sample_rate_hz);
    throw error(name + formatted(" is cut off: its header promises %.7g s, %.7g s are there",
                                 static_cast<double>(*source->frames) / rate,
                                 static_cast<double>(n_frames_read) / rate));
  }

  void check_samples(const float* frames, size_t n) const {
    constexpr float kMaxSample = 1e6f;
    const auto is_bad = [](float sample) { return !(std::fabs(sample) <= kMaxSample); };  // or NaN
    const size_t n_samples = n * n_channels();
    // The bits of magnitudes are in the order of their values, infinity and NaN last. A difference
    // is negative for a bad sample; the compiler makes vector instructions of this.
    int32_t signs = 0;
    for (size_t i = 0; i < n_samples; ++i) {
      const int32_t magnitude = std::bit_cast<int32_t>(frames[i]) & 0x7FFFFFFF;
      signs |= std::bit_cast<int32_t>(kMaxSample) - magnitude;
    }
    if (signs >= 0) return;
    const auto bad = static_cast<size_t>(std::find_if(frames, frames + n_samples, is_bad) - frames);
    throw error(name + formatted(" has a sample that is not a number or beyond +-1e6, at %.7g s",
                                 static_cast<double>(n_frames_read + bad / n_channels()) /
                                     static_cast<double>(source->sample_rate_hz)));
  }

  // Writes the next samples, [n], of one channel or the mean of all. Fewer only at the end.
  size_t read_mono(float* mono, size_t n) {
    const bool has_first = n_first_taken * n_channels() < first.size();
    if (source->is_16_bit && !has_first) {
      integers.resize(n * n_channels());
      const size_t got = decode_as(integers.data(), n);
      downmix(integers.data(), kScaleOf16Bit, mono, got);
      return got;
    }
    interleaved.resize(n * n_channels());
    const size_t got = read_frames(interleaved.data(), n);
    downmix(interleaved.data(), 1.0f, mono, got);
    return got;
  }

  // Writes one channel or the mean of all, multiplied by `scale`. That is a power of two, so
  // integers give the same bits as their values as floats.
  template <class Sample>
  void downmix(const Sample* frames, float scale, float* mono, size_t n) const {
    const size_t stride = n_channels();
    if (options.channel || stride == 1) {
      const Sample* const sample = frames + options.channel.value_or(0);
      for (size_t i = 0; i < n; ++i) mono[i] = static_cast<float>(sample[i * stride]) * scale;
    } else if (stride == 2) {
      average(frames, std::integral_constant<size_t, 2>(), scale, mono, n);
    } else {
      average(frames, stride, scale, mono, n);
    }
  }

  // A constant number of channels becomes vector instructions.
  template <class Sample, class Channels>
  static void average(const Sample* frames, Channels n_channels, float scale, float* mono,
                      size_t n) {
    const float factor = scale / static_cast<float>(n_channels);
    for (size_t i = 0; i < n; ++i) {
      // Sums of integers are exact as float, too: at most 256 * 32768.
      std::conditional_t<std::is_integral_v<Sample>, int32_t, float> sum = 0;
      for (size_t c = 0; c < n_channels; ++c) sum += frames[i * n_channels + c];
      mono[i] = static_cast<float>(sum) * factor;
    }
  }
};

AudioReader::AudioReader(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->check_opened();
}

AudioReader::AudioReader(const std::string& path, ReaderOptions options)
    : state_(std::make_unique<State>()) {
  state_->options = options;
  if (path == "-") {
    state_->name = "standard input";
    state_->open_fd(STDIN_FILENO);
  } else {
    state_->name = std::string("'") + path.c_str() + "'";
    state_->open_path(path);
  }
  state_->check_opened();
}

AudioReader AudioReader::from_stream(int fd, const std::string& name, ReaderOptions options) {
  auto state = std::make_unique<State>();
  state->name = name;
  state->options = options;
  state->open_fd(fd);
  return AudioReader(std::move(state));
}

AudioReader AudioReader::from_memory(std::span<const uint8_t> bytes, const std::string& name,
                                     ReaderOptions options) {
  auto state = std::make_unique<State>();
  state->name = name;
  state->options = options;
  state->open_memory(bytes);
  return AudioReader(std::move(state));
}

AudioReader::AudioReader(AudioReader&&) noexcept = default;
AudioReader& AudioReader::operator=(AudioReader&&) noexcept = default;
AudioReader::~AudioReader() = default;

size_t AudioReader::read(float* mono, size_t n) {
  constexpr size_t kBlockFrames = 4096;
  size_t done = 0;
  while (done < n) {
    const size_t wanted = std::min(n - done, kBlockFrames);
    const size_t got = state_->read_mono(mono + done, wanted);
    done += got;
    if (got < wanted) break;
  }
  return done;
}

size_t AudioReader::read_interleaved(float* frames, size_t n) {
  return state_->read_frames(frames, n);
}

int AudioReader::sample_rate_hz() const { return static_cast<int>(state_->source->sample_rate_hz); }

int AudioReader::channels() const { return static_cast<int>(state_->source->channels); }

std::optional<uint64_t> AudioReader::frames_if_known() const { return state_->source->frames; }

const std::string& AudioReader::name() const { return state_->name; }

bool has_audio_extension(std::string_view file_name) {
  const size_t dot = file_name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  std::string extension(file_name.substr(dot + 1));
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::ranges::find(kAudioExtensions, extension) != std::end(kAudioExtensions);
}

}  // namespace vesper
