#include "cli/terminal/input_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "audio/reader.h"
#include "error/error.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;

using OnFailure = std::function<void(const std::string&, const std::string&)>;

constexpr size_t kMaxPathBytes = 4096;  // PATH_MAX of Linux
constexpr size_t kMaxPaths = 10'000'000;

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

// The recordings below `folder`, sorted.
std::vector<fs::path> recordings_in(const fs::path& folder, const OnFailure& on_failure) {
  std::vector<fs::path> found;
  std::error_code error;
  // Each folder is opened by itself, so that one that cannot be read hides no other.
  std::vector<fs::path> folders{folder};
  while (!folders.empty()) {
    const fs::path current = std::exchange(folders.back(), {});
    folders.pop_back();
    fs::directory_iterator entry(current, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const fs::path& path = entry->path();
      if (is_hidden(path)) continue;
      std::error_code unknown;
      if (entry->is_directory(unknown)) {
        if (!entry->is_symlink(unknown)) folders.push_back(path);
      } else if (has_audio_extension(path.filename().native())) {
        found.push_back(path);
      }
    }
    if (error) on_failure(current.string(), error.message());
  }
  std::ranges::sort(found);
  return found;
}

// A listed path's folders are kept below the output folder if they stay below it.
fs::path place_of_listed(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  if (normal.is_absolute() || normal.empty() || *normal.begin() == "..") return path.filename();
  return normal;
}

struct CloseFile {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};

std::vector<std::string> read_list(const std::string& name, char separator) {
  const std::unique_ptr<std::FILE, CloseFile> file(name == "-" ? stdin
                                                               : std::fopen(name.c_str(), "rbe"));
  const std::string where = "--files-from: " + (name == "-" ? "standard input" : name);
  if (!file) throw Error(ErrorKind::kInput, where + ": " + std::strerror(errno));
  std::vector<std::string> paths;
  std::string path;
  const auto add = [&] {
    if (path.empty()) return;
    if (paths.size() == kMaxPaths) {
      throw Error(ErrorKind::kUsage,
                  where + ": expected at most " + std::to_string(kMaxPaths) + " paths, found more");
    }
    // Standard input holds the list, or is named on the command line.
    paths.push_back(path == "-" ? "./-" : std::move(path));
    path.clear();
  };
  for (int c; (c = std::getc(file.get())) != EOF;) {
    if (c == separator) {
      add();
      continue;
    }
    if (c == 0 || path.size() == kMaxPathBytes) {
      throw Error(ErrorKind::kUsage,
                  where + ": path " + std::to_string(paths.size() + 1) +
                      (c == 0 ? " has a zero byte (expected only with --null)"
                              : " is longer than " + std::to_string(kMaxPathBytes) + " bytes"));
    }
    path += static_cast<char>(c);
  }
  if (std::ferror(file.get())) {
    throw Error(ErrorKind::kInput, where + ": " + std::strerror(errno));
  }
  add();
  return paths;
}

}  // namespace

std::vector<InputFile> find_inputs(const InputSelection& selection, const OnFailure& on_failure) {
  std::vector<InputFile> inputs;
  const auto add = [&](const std::string& path, const fs::path& place) {
    std::error_code error;
    if (!selection.recursive || path == "-" || !fs::is_directory(path, error)) {
      inputs.push_back({path, place});
      return;
    }
    const std::vector<fs::path> found = recordings_in(path, on_failure);
    if (found.empty()) on_failure(path, "no recording is in this folder, by the files' extensions");
    for (const fs::path& file : found) {
      inputs.push_back({file.string(), file.lexically_relative(path)});
    }
  };
  for (const std::string& name : selection.named) add(name, fs::path(name).filename());
  if (selection.files_from) {
    for (const std::string& path :
         read_list(*selection.files_from, selection.null_separated ? '\0' : '\n')) {
      add(path, place_of_listed(path));
    }
  }
  return inputs;
}

}  // namespace vesper
