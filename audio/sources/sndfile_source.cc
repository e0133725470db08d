#include <fcntl.h>
#include <sndfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "audio/sources/sample_source.h"
#include "audio/sources/unlinked_file.h"
#include "error/error.h"
#include "error/number_text.h"

namespace vesper {
namespace {

// A file or a recording in memory, which libsndfile reads through the functions below: of its own
// reading it does not tell an error of the disk from the end of the file.
struct VirtualFile {
  UniqueFd fd;                     // not open: in memory
  std::span<const uint8_t> bytes;  // in memory
  sf_count_t size = 0, position = 0;
  int error = 0;  // errno of a read that failed
};

VirtualFile& virtual_file(void* user) { return *static_cast<VirtualFile*>(user); }

sf_count_t virtual_size(void* user) { return virtual_file(user).size; }

sf_count_t virtual_tell(void* user) { return virtual_file(user).position; }

sf_count_t virtual_seek(sf_count_t offset, int whence, void* user) {
  VirtualFile& file = virtual_file(user);
  const sf_count_t base = whence == SEEK_CUR ? file.position : whence == SEEK_END ? file.size : 0;
  // A damaged header may ask for any offset, including one that overflows.
  sf_count_t target = 0;
  if (__builtin_add_overflow(base, offset, &target) || target < 0) return -1;
  file.position = std::min(target, file.size);
  return file.position;
}

sf_count_t virtual_read(void* to, sf_count_t count, void* user) {
  VirtualFile& file = virtual_file(user);
  const sf_count_t n = std::clamp<sf_count_t>(count, 0, file.size - file.position);
  if (n == 0) return 0;
  if (!file.fd.is_open()) {
    std::memcpy(to, file.bytes.data() + file.position, static_cast<size_t>(n));
  } else {
    errno = 0;
    const bool is_read = do_all(static_cast<size_t>(n), [&](size_t done, size_t left) {
      return ::pread(file.fd.get(), static_cast<char*>(to) + done, left,
                     file.position + static_cast<off_t>(done));
    });
    if (!is_read) {
      // Without an error the file became shorter.
      file.error = errno != 0 ? errno : EIO;
      return 0;
    }
  }
  file.position += n;
  return n;
}

sf_count_t virtual_write(const void*, sf_count_t, void*) { return 0; }

// libsndfile's message without prefix and full stop.
std::string reason(std::string message) {
  const std::string prefix = "Error : ";
  if (message.starts_with(prefix)) message.erase(0, prefix.size());
  while (!message.empty() && (message.back() == '.' || message.back() == '\n')) message.pop_back();
  return message;
}

class SndfileSource : public SampleSource {
 public:
  // A file without `virtual_file` is opened by libsndfile.
  explicit SndfileSource(const std::string& name, VirtualFile file = {})
      : name_(name), virtual_file_(std::move(file)) {}
  ~SndfileSource() override {
    if (file_ != nullptr) sf_close(file_);
  }

  bool open(std::string& why) {
    SF_VIRTUAL_IO io = {virtual_size, virtual_seek, virtual_read, virtual_write, virtual_tell};
    SF_INFO info = {};
    SNDFILE* file = sf_open_virtual(&io, SFM_READ, &info, &virtual_file_);
    const bool is_open = adopt(file, info, why);
    check_reads();
    return is_open;
  }

  // By its name, from whose extension libsndfile knows headerless formats.
  bool open_by_name(const std::string& path, std::string& why) {
    SF_INFO info = {};
    SNDFILE* file = sf_open(path.c_str(), SFM_READ, &info);
    return adopt(file, info, why);
  }

  size_t read(float* interleaved, size_t n_frames) override {
    return read_all(interleaved, n_frames, sf_readf_float);
  }
  size_t read_16_bit(int16_t* interleaved, size_t n_frames) override {
    return read_all(interleaved, n_frames, sf_readf_short);
  }

 private:
  template <class Sample>
  size_t read_all(Sample* interleaved, size_t n_frames,
                  sf_count_t (*read_some)(SNDFILE*, Sample*, sf_count_t)) {
    size_t done = 0;
    while (done < n_frames) {
      Sample* const to = interleaved + done * static_cast<size_t>(channels);
      const sf_count_t got = read_some(file_, to, static_cast<sf_count_t>(n_frames - done));
      check_reads();
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    n_read_ += done;
    if (done < n_frames) check_end();
    return done;
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
    is_16_bit = (info.format & SF_FORMAT_SUBMASK) == SF_FORMAT_PCM_16;
    // libsndfile limits the length of most formats to the file, but not that of FLAC.
    frames_are_promised = (info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC;
    return true;
  }

  void check_reads() const {
    if (virtual_file_.error == 0) return;
    throw Error(ErrorKind::kInput,
                "cannot read " + name_ + ": " + std::strerror(virtual_file_.error));
  }

  void check_end() const {
    if (sf_error(file_) == SF_ERR_NO_ERROR) return;
    const double at_s = static_cast<double>(n_read_) / static_cast<double>(sample_rate_hz);
    throw Error(ErrorKind::kInput, name_ +
                                       formatted(" is damaged after %.7g s: libsndfile: ", at_s) +
                                       reason(sf_strerror(file_)));
  }

  std::string name_;
  VirtualFile virtual_file_;
  SNDFILE* file_ = nullptr;
  uint64_t n_read_ = 0;  // frames so far
};

}  // namespace

std::unique_ptr<SampleSource> open_with_sndfile(int fd, const std::string& path,
                                                const std::string& name, std::string& why) {
  VirtualFile file;
  file.fd = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  struct stat status {};
  if (!file.fd.is_open() || ::fstat(fd, &status) != 0) {
    why = std::strerror(errno);
    return nullptr;
  }
  file.size = status.st_size;
  auto source = std::make_unique<SndfileSource>(name, std::move(file));
  if (source->open(why)) return source;
  source = std::make_unique<SndfileSource>(name);
  if (path.empty() || !source->open_by_name(path, why)) return nullptr;
  return source;
}

std::unique_ptr<SampleSource> open_with_sndfile(std::span<const uint8_t> bytes,
                                                const std::string& name, std::string& why) {
  VirtualFile file;
  file.bytes = bytes;
  file.size = static_cast<sf_count_t>(bytes.size());
  auto source = std::make_unique<SndfileSource>(name, std::move(file));
  return source->open(why) ? std::move(source) : nullptr;
}

}  // namespace vesper
