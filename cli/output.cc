#include "cli/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <system_error>
#include <utility>

#include "cli/program.h"
#include "error/error.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_output_error(const std::string& where, int error_number) {
  throw Error(ErrorKind::kOutput, where + ": " + std::strerror(error_number));
}

// Writes everything, or returns the error number.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(descriptor, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

// The path with links resolved as far as it exists; as it is where that fails.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path out = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? path : out;
}

std::string random_letters() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::string letters;
  for (int i = 0; i < 8; ++i) letters += kLetters[random() % kLetters.size()];
  return letters;
}

}  // namespace

void write_to_stdout(std::string_view text) {
  const int error_number = write_all(STDOUT_FILENO, text);
  if (error_number == EPIPE) throw OutputPipeClosed{};
  if (error_number != 0) throw_output_error("standard output", error_number);
}

AtomicFile::AtomicFile(const fs::path& path) : path_(resolved(path)) {
  std::error_code error;
  if (fs::is_directory(path_, error)) throw_output_error(path.string(), EISDIR);
  // A long name leaves no room for a longer temporary one, so that one is short and its own.
  for (int attempt = 0; attempt < 16; ++attempt) {
    const fs::path candidate = path_.parent_path() / (".vesper-" + random_letters() + ".part");
    auto unfinished = std::make_unique<UnfinishedFile>(candidate.string());
    descriptor_ = open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) {
      temporary_ = candidate;
      unfinished_ = std::move(unfinished);
      return;
    }
    if (errno != EEXIST) throw_output_error(path.string(), errno);
  }
  throw_output_error(path.string(), EEXIST);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view text) {
  if (const int error_number = write_all(descriptor_, text)) {
    throw_output_error(path_.string(), error_number);
  }
}

void AtomicFile::commit() {
  // Some file systems cannot sync (EINVAL) and still keep the file.
  if (fsync(descriptor_) != 0 && errno != EINVAL) throw_output_error(path_.string(), errno);
  if (close(std::exchange(descriptor_, -1)) != 0) throw_output_error(path_.string(), errno);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) throw_output_error(path_.string(), errno);
  temporary_.clear();
  unfinished_.reset();
}

std::vector<std::vector<PlannedFile>> plan_files(const std::vector<std::string>& inputs,
                                                 const std::vector<TranscriptFormat>& formats,
                                                 const std::optional<fs::path>& folder) {
  std::map<fs::path, std::string> input_at, source_of;
  for (const std::string& input : inputs) {
    if (input != "-") input_at.emplace(resolved(input), input);
  }
  std::vector<std::vector<PlannedFile>> plan;
  for (const std::string& input : inputs) {
    const fs::path source = input == "-" ? fs::path("stdin") : fs::path(input);
    std::vector<PlannedFile>& files = plan.emplace_back();
    for (TranscriptFormat format : formats) {
      fs::path name = source.stem();
      name += ".";
      name += format_name(format);
      const fs::path file = folder.value_or(source.parent_path()) / name;
      const fs::path place = resolved(file);
      if (const auto at = input_at.find(place); at != input_at.end()) {
        throw Error(ErrorKind::kUsage, "the transcript of " + input +
                                           " would overwrite the input " + at->second +
                                           "; choose a folder with --output-dir");
      }
      if (const auto [at, fresh] = source_of.emplace(place, input); !fresh) {
        throw Error(ErrorKind::kUsage, "the transcripts of " + at->second + " and " + input +
                                           " would both be " + file.string());
      }
      files.push_back({format, file});
    }
  }
  return plan;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && !fs::is_directory(folder)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) throw Error(ErrorKind::kOutput, folder.string() + ": " + error.message());
  if (access(folder.c_str(), W_OK | X_OK) != 0) throw_output_error(folder.string(), errno);
}

}  // namespace vesper
