#include "session/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

#include "error/error.h"
#include "llm/files/folder_names.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;

std::array<std::atomic<char*>, 256> g_paths{};
static_assert(std::atomic<char*>::is_always_lock_free);

[[noreturn]] void throw_output_error(const std::string& where, int error_number) {
  throw Error(ErrorKind::kOutput, where + ": " + std::strerror(error_number));
}

// Prefix of temporary files: short, because a long final name leaves no room for a longer one.
constexpr std::string_view kPrefix = ".vesper-", kSuffix = ".part";
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr size_t kRandomLetters = 8;

std::string temporary_name() {
  std::random_device random;
  std::string name(kPrefix);
  for (size_t i = 0; i < kRandomLetters; ++i) name += kLetters[random() % kLetters.size()];
  return name.append(kSuffix);
}

bool is_temporary_name(const std::string& name) {
  return name.size() == kPrefix.size() + kRandomLetters + kSuffix.size() &&
         name.starts_with(kPrefix) && name.ends_with(kSuffix) &&
         name.find_first_not_of(kLetters, kPrefix.size()) == name.size() - kSuffix.size();
}

// Removes a temporary file that no program writes to.
void remove_if_abandoned(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  struct stat status {};
  // Without file locks, a file in use cannot be detected: it is kept.
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
      flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
    unlink(path.c_str());
  }
  close(descriptor);
}

}  // namespace

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

fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path out = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? path : out;
}

UnfinishedFile::UnfinishedFile(const std::string& path)
    : path_(new char[path.size() + 1]), slot_(0) {
  std::memcpy(path_, path.c_str(), path.size() + 1);
  for (; slot_ < g_paths.size(); ++slot_) {
    char* empty = nullptr;
    if (g_paths[slot_].compare_exchange_strong(empty, path_)) break;
  }
}

UnfinishedFile::~UnfinishedFile() {
  if (slot_ < g_paths.size()) g_paths[slot_].store(nullptr);
  delete[] path_;
}

void remove_unfinished_files() {
  for (std::atomic<char*>& path : g_paths) {
    if (const char* file = path.load()) unlink(file);
  }
}

AtomicFile::AtomicFile(const fs::path& path) : path_(resolved(path)) {
  std::error_code error;
  if (fs::is_directory(path_, error)) throw_output_error(path.string(), EISDIR);
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    path_ = path;
    descriptor_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) throw_output_error(path.string(), errno);
    return;
  }
  for (int attempt = 0; attempt < 16; ++attempt) {
    // Before the file is there: what follows needs no memory.
    temporary_ = path_.parent_path() / temporary_name();
    unfinished_ = std::make_unique<UnfinishedFile>(temporary_.string());
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      if (errno != EEXIST) throw_output_error(path.string(), errno);
      continue;
    }
    // Between the two calls another run may take the file for abandoned and remove it.
    const bool is_free = flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    struct stat status {};
    if (is_free && fstat(descriptor_, &status) == 0 && status.st_nlink > 0) return;
    close(std::exchange(descriptor_, -1));
    unlink(temporary_.c_str());
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
  if (temporary_.empty()) {
    if (close(std::exchange(descriptor_, -1)) != 0) throw_output_error(path_.string(), errno);
    return;
  }
  // Some file systems cannot sync (EINVAL), but keep the file.
  if (fsync(descriptor_) != 0 && errno != EINVAL) throw_output_error(path_.string(), errno);
  // Closed after renaming: closing releases the lock.
  if (rename(temporary_.c_str(), path_.c_str()) != 0) throw_output_error(path_.string(), errno);
  temporary_.clear();
  if (close(std::exchange(descriptor_, -1)) != 0) throw_output_error(path_.string(), errno);
  unfinished_.reset();
}

void remove_abandoned_files(const std::set<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (const std::string& name : names_in_folder(folder, error)) {
      if (is_temporary_name(name)) remove_if_abandoned(folder / name);
    }
  }
}

}  // namespace vesper
