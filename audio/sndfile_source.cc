#include <fcntl.h>
#include <sndfile.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "audio/sample_source.h"
#include "error/error.h"

namespace vesper {
namespace {

// A recording in memory, as a file for libsndfile.
struct MemoryFile {
  std::span<const uint8_t> bytes;
  sf_count_t position = 0;

  sf_count_t size() const { return static_cast<sf_count_t>(bytes.size()); }
};

sf_count_t memory_size(void* user) { return static_cast<MemoryFile*>(user)->size(); }

sf_count_t memory_tell(void* user) { return static_cast<MemoryFile*>(user)->position; }

sf_count_t memory_seek(sf_count_t offset, int whence, void* user) {
  auto* file = static_cast<MemoryFile*>(user);
  const sf_count_t base = whence == SEEK_CUR   ? file->position
                          : whence == SEEK_END ? file->size()
                                               : 0;
  // A damaged header may ask for any offset, including one that overflows.
  sf_count_t target = 0;
  if (__builtin_add_overflow(base, offset, &target) || target < 0) return -1;
  file->position = std::min(target, file->size());
  return file->position;
}

sf_count_t memory_read(void* to, sf_count_t count, void* user) {
  auto* file = static_cast<MemoryFile*>(user);
  const sf_count_t n = std::clamp<sf_count_t>(count, 0, file->size() - file->position);
  if (n > 0) std::memcpy(to, file->bytes.data() + file->position, static_cast<size_t>(n));
  file->position += n;
  return n;
}

sf_count_t memory_write(const void*, sf_count_t, void*) { return 0; }

// libsndfile's message without prefix and full stop.
std::string reason(std::string message) {
  const std::string prefix = "Error : ";
  if (message.starts_with(prefix)) message.erase(0, prefix.size());
  while (!message.empty() && (message.back() == '.' || message.back() == '\n')) message.pop_back();
  return message;
}

class SndfileSource : public SampleSource {
 public:
  explicit SndfileSource(const std::string& name) : name_(name) {}
  ~SndfileSource() override {
    if (file_ != nullptr) sf_close(file_);
  }

  bool adopt(SNDFILE* file, const SF_INFO& info, std::string& why) {
    file_ = file;
    if (file_ == nullptr) {
      why = reason(sf_strerror(nullptr));
      return false;
    }
    sample_rate_hz = info.samplerate;
    channels = info.channels;
    if (info.frames > 0 && info.frames < SF_COUNT_MAX) frames = static_cast<uint64_t>(info.frames);
    // libsndfile limits the length of most formats to the file, but not that of FLAC.
    frames_are_promised = (info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC;
    return true;
  }

  size_t read(float* interleaved, size_t n_frames) override {
    size_t done = 0;
    while (done < n_frames) {
      const sf_count_t got =
          sf_readf_float(file_, interleaved + done * static_cast<size_t>(channels),
                         static_cast<sf_count_t>(n_frames - done));
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    n_read_ += done;
    if (done < n_frames) check_end();
    return done;
  }

  MemoryFile memory;

 private:
  void check_end() const {
    const auto at_s = std::to_string(static_cast<double>(n_read_) / double(sample_rate_hz));
    if (sf_error(file_) == SF_ERR_NO_ERROR) return;
    throw Error(ErrorKind::kInput, name_ + " is damaged after " + at_s +
                                       " s: libsndfile: " + reason(sf_strerror(file_)));
  }

  std::string name_;
  SNDFILE* file_ = nullptr;
  uint64_t n_read_ = 0;  // frames so far
};

}  // namespace

std::unique_ptr<SampleSource> open_with_sndfile(const std::string& path, const std::string& name,
                                                std::string& why) {
  auto source = std::make_unique<SndfileSource>(name);
  SF_INFO info = {};
  SNDFILE* file = sf_open(path.c_str(), SFM_READ, &info);
  if (!source->adopt(file, info, why)) return nullptr;
  return source;
}

std::unique_ptr<SampleSource> open_with_sndfile(int fd, const std::string& name, std::string& why) {
  auto source = std::make_unique<SndfileSource>(name);
  SF_INFO info = {};
  // A duplicate, because libsndfile closes the descriptor of an unknown file even if told not to.
  SNDFILE* file = sf_open_fd(::fcntl(fd, F_DUPFD_CLOEXEC, 3), SFM_READ, &info, SF_TRUE);
  if (!source->adopt(file, info, why)) return nullptr;
  return source;
}

std::unique_ptr<SampleSource> open_with_sndfile(std::span<const uint8_t> bytes,
                                                const std::string& name, std::string& why) {
  auto source = std::make_unique<SndfileSource>(name);
  source->memory.bytes = bytes;
  SF_VIRTUAL_IO io = {memory_size, memory_seek, memory_read, memory_write, memory_tell};
  SF_INFO info = {};
  SNDFILE* file = sf_open_virtual(&io, SFM_READ, &info, &source->memory);
  if (!source->adopt(file, info, why)) return nullptr;
  return source;
}

}  // namespace vesper
