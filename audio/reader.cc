#include "audio/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "audio/byte_stream.h"
#include "audio/ffmpeg_source.h"
#include "audio/sample_source.h"
#include "audio/sndfile_source.h"
#include "audio/unique_fd.h"
#include "audio/wav_stream.h"
#include "error/error.h"

namespace vesper {

struct AudioReader::State {
  std::string name;
  ReaderOptions options;
  UniqueFd file;                         // the spool file, or a duplicate of a seekable stream
  std::unique_ptr<ByteStream> stream;    // what a WAV stream reads from
  std::unique_ptr<SampleSource> source;  // last, so that it goes before what it reads from
  std::vector<float> interleaved;        // [frames of a block, channels]
  std::vector<float> first;              // samples read while opening and not handed out yet
  size_t n_first_taken = 0;
  uint64_t n_frames_read = 0;

  Error error(const std::string& what) const { return Error(ErrorKind::kInput, what); }

  [[noreturn]] void fail_unread(const std::string& why) const {
    throw error("cannot read " + name + ": " + why);
  }

  // ffmpeg's turn, after libsndfile has given up with `why`. `path` or, if empty, `file`.
  void open_with_ffmpeg_after(const std::string& why, const std::string& path) {
    const std::string tried = "libsndfile: " + why;
    if (!options.use_ffmpeg) fail_unread(tried);
    if (!ffmpeg_is_on_path()) {
      fail_unread(tried + "; ffmpeg, which reads more formats, is not on the PATH");
    }
    try {
      source = open_with_ffmpeg(path, file.get(), name);
    } catch (const Error& e) {
      throw Error(e.kind(), std::string(e.what()) + " (tried before: " + tried + ")");
    }
  }

  // What libsndfile, which has opened the recording, does not tell of a WAV: `bytes` are the file.
  void compare_with_wav_header(ByteStream bytes) {
    auto header = std::make_unique<ByteStream>(std::move(bytes));
    auto wav = open_wav_stream(*header);
    if (!wav) return;
    if (!source->frames) {
      // A recorder that was killed leaves a length of 0, which libsndfile believes.
      source = std::move(wav);
      stream = std::move(header);
    } else if (wav->frames_are_promised) {
      // libsndfile fits the length to the file, so a cut-off one would look whole.
      source->frames = wav->frames;
      source->frames_are_promised = true;
    }
  }

  void open_seekable_file() {
    struct stat info;
    if (::fstat(file.get(), &info) == 0 && info.st_size == 0) fail_unread("it is empty");
    std::string why;
    source = open_with_sndfile(file.get(), name, why);
    if (!source) return open_with_ffmpeg_after(why, "");
    UniqueFd duplicate(::fcntl(file.get(), F_DUPFD_CLOEXEC, 3));
    compare_with_wav_header(stream_of_file(std::move(duplicate), name));
  }

  void open_stream(UniqueFd fd) {
    stream = std::make_unique<ByteStream>(stream_of(std::move(fd), name));
    source = open_wav_stream(*stream);
    if (source) return;
    file = spool_to_unlinked_file(*stream, name);
    stream.reset();
    open_seekable_file();
  }

  // A regular file that stands at its beginning needs no spooling.
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
    // By its name and not by `fd`: libsndfile knows formats without a header by their ending.
    std::string why;
    source = open_with_sndfile(path, name, why);
    if (!source) return open_with_ffmpeg_after(why, path);
    compare_with_wav_header(stream_of_file(std::move(fd), name));
  }

  void open_memory(std::span<const uint8_t> bytes) {
    if (bytes.empty()) fail_unread("it is empty");
    std::string why;
    source = open_with_sndfile(bytes, name, why);
    if (source) return compare_with_wav_header(stream_of(bytes));
    if (options.use_ffmpeg && ffmpeg_is_on_path()) {
      ByteStream all = stream_of(bytes);
      file = spool_to_unlinked_file(all, name);
    }
    open_with_ffmpeg_after(why, "");
  }

  // Checks what the header says, and that there is a sample at all.
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
    constexpr size_t kFirstFrames = 64;
    first.resize(kFirstFrames);
    first.resize(decode(first.data(), kFirstFrames));
    if (first.empty()) throw error(name + " has no audio sample");
  }

  size_t decode(float* mono, size_t n) {
    constexpr size_t kBlockFrames = 4096;
    const size_t n_channels = static_cast<size_t>(source->channels);
    size_t done = 0;
    while (done < n) {
      const size_t wanted = std::min(n - done, kBlockFrames);
      interleaved.resize(wanted * n_channels);
      const size_t got = source->read(interleaved.data(), wanted);
      downmix(mono + done, got, n_channels);
      done += got;
      if (got < wanted) {
        check_end();
        break;
      }
    }
    return done;
  }

  void check_end() const {
    if (!source->frames_are_promised || n_frames_read >= source->frames) return;
    const double rate = static_cast<double>(source->sample_rate_hz);
    throw error(name + " is cut off: its header promises " +
                std::to_string(static_cast<double>(*source->frames) / rate) + " s, " +
                std::to_string(static_cast<double>(n_frames_read) / rate) + " s are there");
  }

  void downmix(float* mono, size_t n, size_t n_channels) {
    constexpr float kMaxSample = 1e6f;
    const float scale = 1.0f / static_cast<float>(n_channels);
    for (size_t i = 0; i < n; ++i) {
      const float* frame = &interleaved[i * n_channels];
      float sum = 0.0f;
      bool sound = true;
      for (size_t c = 0; c < n_channels; ++c) {
        sum += frame[c];
        sound &= std::fabs(frame[c]) <= kMaxSample;  // false for a NaN as well
      }
      if (!sound) {
        throw error(name + " has a sample that is not a number or beyond +-1e6, at " +
                    std::to_string(static_cast<double>(n_frames_read + i) /
                                   static_cast<double>(source->sample_rate_hz)) +
                    " s");
      }
      mono[i] = sum * scale;
    }
    n_frames_read += n;
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
  State& s = *state_;
  const size_t n_first = std::min(n, s.first.size() - s.n_first_taken);
  std::copy_n(s.first.data() + s.n_first_taken, n_first, mono);
  s.n_first_taken += n_first;
  return n_first + s.decode(mono + n_first, n - n_first);
}

int AudioReader::sample_rate_hz() const { return static_cast<int>(state_->source->sample_rate_hz); }

int AudioReader::channels() const { return static_cast<int>(state_->source->channels); }

std::optional<uint64_t> AudioReader::frames_if_known() const { return state_->source->frames; }

const std::string& AudioReader::name() const { return state_->name; }

}  // namespace vesper
