#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "audio/sources/sample_source.h"
#include "audio/sources/unlinked_file.h"
#include "error/error.h"

extern char** environ;

namespace vesper {
namespace {

constexpr size_t kMaxComplaintBytes = 4096;

// Demuxers of ffmpeg that read one file. The others include playlists (hls, concat, dash, imf) and
// lists of images or subtitles, which name further files: a recording from a stranger could have
// ffmpeg read files of this machine. The protocol "file" must be allowed: only with it can ffmpeg
// before 6.0 seek in a descriptor, which MP4 with its index at the end needs.
constexpr const char* kFormats =
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,asf_o,au,avi,caf,dsf,dts,dtshd,eac3,flac,flv,iff,ivf,"
    "live_flv,loas,matroska,mlp,mov,mp3,mpc,mpc8,mpeg,mpegts,mpegtsraw,mxf,nut,ogg,oma,rm,shn,sox,"
    "tak,truehd,tta,voc,vqf,w64,wav,webm,wtv,wv,xwma";

struct Pipe {
  UniqueFd read_end, write_end;
};

// Both ends are above the standard descriptors, which the child replaces one after another.
Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(ErrorKind::kInput, std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  UniqueFd low_read(ends[0]), low_write(ends[1]);
  Pipe pipe{UniqueFd(::fcntl(ends[0], F_DUPFD_CLOEXEC, 3)),
            UniqueFd(::fcntl(ends[1], F_DUPFD_CLOEXEC, 3))};
  if (!pipe.read_end.is_open() || !pipe.write_end.is_open()) {
    throw Error(ErrorKind::kInput, std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  return pipe;
}

// The last line of `text` that is not blank, without control characters.
std::string last_line(const std::string& text) {
  size_t end = text.find_last_not_of(" \r\n\t");
  if (end == std::string::npos) return "";
  size_t begin = text.find_last_of("\r\n", end);
  begin = begin == std::string::npos ? 0 : begin + 1;
  std::string line = text.substr(begin, end + 1 - begin);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return line;
}

class FfmpegSource : public SampleSource {
 public:
  FfmpegSource(const std::string& path, int fd, const std::string& name,
               std::optional<double> max_wait_s)
      : name_(name),
        max_wait_s_(max_wait_s),
        stream_([this](uint8_t* bytes, size_t n) { return pull(bytes, n); }) {
    start(path, fd);
    try {
      wav_ = open_wav_stream(stream_);
      if (!wav_) {
        throw Error(ErrorKind::kInput,
                    "cannot read " + name_ + ": ffmpeg gave no audio" + complaint());
      }
    } catch (...) {
      stop();  // no destructor runs if a constructor throws
      throw;
    }
    sample_rate_hz = wav_->sample_rate_hz;
    channels = wav_->channels;
  }
  ~FfmpegSource() override { stop(); }

  size_t read(float* interleaved, size_t n_frames) override {
    return wav_->read(interleaved, n_frames);
  }

 private:
  void start(const std::string& path, int fd) {
    Pipe out = make_pipe(), err = make_pipe();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (path.empty()) {
      posix_spawn_file_actions_adddup2(&actions, fd, 0);
    } else {
      posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    }
    posix_spawn_file_actions_adddup2(&actions, out.write_end.get(), 1);
    posix_spawn_file_actions_adddup2(&actions, err.write_end.get(), 2);
    // If this program ignores SIGPIPE, the child must not: ffmpeg has to end when nobody reads.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t defaults, mask;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigemptyset(&mask);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);

    // "file:" protects names that begin with a dash or look like a URL.
    const std::string input = "file:" + (path.empty() ? std::string("/dev/fd/0") : path);
    // clang-format off
    const char* arguments[] = {
        "ffmpeg", "-nostdin", "-hide_banner", "-v", "error",
        "-protocol_whitelist", "file,pipe", "-format_whitelist", kFormats, "-i", input.c_str(),
        "-vn", "-sn", "-dn", "-c:a", "pcm_f32le", "-f", "wav", "pipe:1", nullptr};
    // clang-format on
    const int failure = ::posix_spawnp(&pid_, "ffmpeg", &actions, &attributes,
                                       const_cast<char* const*>(arguments), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (failure != 0) {
      pid_ = -1;
      throw Error(ErrorKind::kInput,
                  "cannot read " + name_ + ": cannot start ffmpeg: " + std::strerror(failure));
    }
    out_ = std::move(out.read_end);
    err_ = std::move(err.read_end);
  }

  // Reads for the ByteStream. Also reads stderr, so that ffmpeg never waits on a full pipe.
  size_t pull(uint8_t* bytes, size_t n) {
    while (out_.is_open()) {
      pollfd fds[2] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};  // -1 is ignored
      if (wait(fds) < 0) {
        if (errno == EINTR) continue;
        throw Error(ErrorKind::kInput, "cannot wait for ffmpeg: " + std::string(strerror(errno)));
      }
      if (fds[1].revents != 0) listen_to_stderr();
      if (fds[0].revents == 0) continue;
      const ssize_t got = ::read(out_.get(), bytes, n);
      if (got > 0) return static_cast<size_t>(got);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        throw Error(ErrorKind::kInput,
                    "cannot read the output of ffmpeg for " + name_ + ": " + std::strerror(errno));
      }
      out_.reset();
      finish();
    }
    return 0;
  }

  // poll(), until the limit of all waiting. Throws Error(kInput) beyond it.
  int wait(pollfd (&fds)[2]) {
    if (!max_wait_s_) return ::poll(fds, 2, -1);
    const auto start = std::chrono::steady_clock::now();
    const double left_ms = std::clamp((*max_wait_s_ - waited_s_) * 1000, 0.0, 1e9);
    const int n_ready = ::poll(fds, 2, static_cast<int>(std::ceil(left_ms)));
    waited_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (n_ready == 0) throw_too_slow(name_, *max_wait_s_);
    return n_ready;
  }

  void listen_to_stderr() {
    char text[1024];
    const ssize_t got = ::read(err_.get(), text, sizeof text);
    if (got < 0 && errno == EINTR) return;
    if (got <= 0) {
      err_.reset();
      return;
    }
    complaint_.append(text, static_cast<size_t>(got));
    if (complaint_.size() > kMaxComplaintBytes) {
      complaint_.erase(0, complaint_.size() - kMaxComplaintBytes);
    }
  }

  // After the end of stdout: checks the exit status.
  void finish() {
    while (err_.is_open()) listen_to_stderr();
    int status = 0;
    pid_t ended;
    do {
      ended = ::waitpid(pid_, &status, 0);
    } while (ended < 0 && errno == EINTR);
    pid_ = -1;
    if (ended < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return;
    const std::string how =
        WIFSIGNALED(status) ? "ffmpeg was ended by signal " + std::to_string(WTERMSIG(status))
                            : "ffmpeg failed with status " + std::to_string(WEXITSTATUS(status));
    throw Error(ErrorKind::kInput, "cannot read " + name_ + ": " + how + complaint());
  }

  std::string complaint() const {
    const std::string line = last_line(complaint_);
    return line.empty() ? "" : ": " + line;
  }

  void stop() {
    out_.reset();
    err_.reset();
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }

  std::string name_;
  std::optional<double> max_wait_s_;
  double waited_s_ = 0;
  pid_t pid_ = -1;
  UniqueFd out_, err_;     // ffmpeg's stdout and stderr
  std::string complaint_;  // the end of its stderr
  ByteStream stream_;
  std::unique_ptr<SampleSource> wav_;
};

}  // namespace

bool ffmpeg_is_on_path() {
  const char* path = std::getenv("PATH");
  if (path == nullptr) return false;
  const std::string folders = path;
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string folder = end == begin ? "." : folders.substr(begin, end - begin);
    const std::string program = folder + "/ffmpeg";
    struct stat info;
    if (::stat(program.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        ::access(program.c_str(), X_OK) == 0) {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

std::unique_ptr<SampleSource> open_with_ffmpeg(const std::string& path, int fd,
                                               const std::string& name,
                                               std::optional<double> max_wait_s) {
  return std::make_unique<FfmpegSource>(path, fd, name, max_wait_s);
}

}  // namespace vesper
