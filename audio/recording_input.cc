#include "audio/recording_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "audio/byte_stream.h"
#include "error/error.h"

namespace vesper {

RecordingInput::RecordingInput(const std::string& path, const ReaderOptions& options)
    : path_(path), options_(options) {
  struct stat info {};
  if (path != "-" && (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode))) return;
  UniqueFd source(path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                              : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string name = path == "-" ? "standard input" : "'" + path + "'";
  if (!source.is_open()) {
    throw Error(ErrorKind::kInput, "cannot read " + name + ": " + std::strerror(errno));
  }
  ByteStream bytes = stream_of(std::move(source), name);
  copy_ = spool_to_unlinked_file(bytes, name);
}

AudioReader RecordingInput::open(std::optional<int> channel) const {
  ReaderOptions options = options_;
  options.channel = channel;
  if (!copy_.is_open()) return AudioReader(path_, options);
  // Readers share the position of the descriptor.
  if (::lseek(copy_.get(), 0, SEEK_SET) != 0) {
    throw Error(ErrorKind::kInput, "cannot read the copy of '" + path_ +
                                       "' from its beginning: " + std::strerror(errno));
  }
  return AudioReader::from_stream(copy_.get(), path_ == "-" ? "standard input" : "'" + path_ + "'",
                                  options);
}

}  // namespace vesper
