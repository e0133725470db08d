#include "audio/sources/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "audio/sources/byte_stream.h"
#include "error/error.h"

namespace vesper {
namespace {

// The name in messages.
std::string name_of(const AudioInput& input) {
  if (input.samples) return "PCM";
  if (input.descriptor && !input.path.empty()) return input.path;
  if (input.descriptor) return "descriptor " + std::to_string(*input.descriptor);
  return input.path == "-" ? "standard input" : "'" + input.path + "'";
}

// Samples in memory are raw PCM.
AudioReader open_samples(const PcmSamples& samples, ReaderOptions options) {
  static_assert(std::endian::native == std::endian::little);
  if (samples.format.channels > 0 && samples.interleaved.size() % samples.format.channels != 0) {
    throw Error(ErrorKind::kInput, "samples: expected " + std::to_string(samples.format.channels) +
                                       " for each frame, found " +
                                       std::to_string(samples.interleaved.size()) + " in all");
  }
  options.raw =
      RawPcm{RawPcm::Encoding::kF32Le, samples.format.sample_rate_hz, samples.format.channels};
  const auto bytes = std::as_bytes(samples.interleaved);
  return AudioReader::from_memory({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                                  "PCM", options);
}

}  // namespace

AudioReader open_audio(const AudioInput& input) {
  if (input.samples) return open_samples(*input.samples, input.reader);
  if (input.descriptor) {
    return AudioReader::from_stream(*input.descriptor, name_of(input), input.reader);
  }
  return AudioReader(input.path, input.reader);
}

bool is_recorded(const AudioInput& input) {
  if (input.samples) return true;
  struct stat info {};
  const bool is_known = input.descriptor    ? ::fstat(*input.descriptor, &info) == 0
                        : input.path == "-" ? ::fstat(STDIN_FILENO, &info) == 0
                                            : ::stat(input.path.c_str(), &info) == 0;
  return is_known && S_ISREG(info.st_mode);
}

RewindableInput::RewindableInput(const AudioInput& input) : input_(input) {
  if (input_.samples) return;
  const bool is_stream = input_.descriptor || input_.path == "-";
  const int descriptor = input_.descriptor.value_or(STDIN_FILENO);
  struct stat info {};
  if (!is_stream && (::stat(input_.path.c_str(), &info) != 0 || S_ISREG(info.st_mode))) return;
  UniqueFd source(is_stream ? ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
                            : ::open(input_.path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string name = name_of(input_);
  if (!source.is_open()) {
    throw Error(ErrorKind::kInput, "cannot read " + name + ": " + std::strerror(errno));
  }
  ByteStream bytes = stream_of(std::move(source), name);
  copy_ = spool_to_unlinked_file(bytes, name);
}

AudioReader RewindableInput::open(std::optional<int> channel) const {
  AudioInput input = input_;
  input.reader.channel = channel;
  if (!copy_.is_open()) return open_audio(input);
  // Readers share the file position.
  if (::lseek(copy_.get(), 0, SEEK_SET) != 0) {
    throw Error(ErrorKind::kInput, "cannot read the copy of " + name_of(input_) +
                                       " from its beginning: " + std::strerror(errno));
  }
  return AudioReader::from_stream(copy_.get(), name_of(input_), input.reader);
}

}  // namespace vesper
