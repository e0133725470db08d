#include "cli/transcribe/recordings.h"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "audio/sources/reader.h"
#include "cli/terminal/text_input.h"
#include "error/error.h"
#include "llm/files/folder_names.h"
#include "session/atomic_file.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;

using OnFailure = std::function<void(const std::string&, const std::string&)>;

constexpr size_t kMaxPathBytes = 4096;  // PATH_MAX of Linux

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

// The recordings in `folder` and below, sorted.
std::vector<fs::path> recordings_in(const fs::path& folder, const OnFailure& on_failure) {
  std::vector<fs::path> found;
  std::error_code error;
  // Each folder is opened separately, so that an unreadable one hides no other.
  std::vector<fs::path> folders{folder};
  while (!folders.empty()) {
    const fs::path current = std::exchange(folders.back(), {});
    folders.pop_back();
    for (const std::string& name : names_in_folder(current, error)) {
      const fs::path path = current / name;
      if (is_hidden(path)) continue;
      std::error_code unknown;
      if (fs::is_directory(path, unknown)) {
        if (!fs::is_symlink(path, unknown)) folders.push_back(path);
      } else if (has_audio_extension(path.filename().native())) {
        found.push_back(path);
      }
    }
    if (error) on_failure(current.string(), error.message());
  }
  std::ranges::sort(found);
  return found;
}

// The folders of a listed path are kept unless they lead out of the output folder.
fs::path output_path_of_listed(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  if (normal.is_absolute() || normal.empty() || *normal.begin() == "..") return path.filename();
  return normal;
}

std::vector<std::string> read_list(const std::string& name, char separator) {
  TextLines lines(name, separator);
  std::vector<std::string> paths;
  for (std::string path; lines.next(path);) {
    if (path.empty()) continue;
    const bool has_zero = path.find('\0') != std::string::npos;
    if (has_zero || path.size() > kMaxPathBytes) {
      throw Error(ErrorKind::kUsage,
                  "--files-from: " + lines.origin() + ": the path " +
                      (has_zero ? "has a zero byte (expected only with --null)"
                                : "is longer than " + std::to_string(kMaxPathBytes) + " bytes"));
    }
    // A listed "-" is a file: standard input is the list, or is named on the command line.
    paths.push_back(path == "-" ? "./-" : path);
  }
  return paths;
}

}  // namespace

std::vector<InputFile> find_inputs(const InputSelection& selection, const OnFailure& on_failure) {
  std::vector<InputFile> inputs;
  const auto add = [&](const std::string& path, const fs::path& output_path) {
    std::error_code error;
    if (!selection.recursive || path == "-" || !fs::is_directory(path, error)) {
      inputs.push_back({path, output_path});
      return;
    }
    const std::vector<fs::path> found = recordings_in(path, on_failure);
    if (found.empty())
      on_failure(path, "expected a file with an audio extension in this folder, found none");
    for (const fs::path& file : found) {
      inputs.push_back({file.string(), file.lexically_relative(path)});
    }
  };
  for (const std::string& name : selection.named) add(name, fs::path(name).filename());
  if (selection.files_from) {
    for (const std::string& path :
         read_list(*selection.files_from, selection.null_separated ? '\0' : '\n')) {
      add(path, output_path_of_listed(path));
    }
  }
  return inputs;
}

std::vector<std::vector<PlannedFile>> plan_files(const std::vector<InputFile>& inputs,
                                                 const std::vector<TranscriptFormat>& formats,
                                                 const std::optional<fs::path>& folder) {
  std::map<fs::path, std::string> input_at, source_of;
  for (const InputFile& input : inputs) {
    if (input.path != "-") input_at.emplace(resolved(input.path), input.path);
  }
  std::vector<std::vector<PlannedFile>> plan;
  for (const InputFile& input : inputs) {
    fs::path source = folder ? *folder / input.output_path : fs::path(input.path);
    if (input.path == "-") source = folder.value_or("") / "stdin";
    std::vector<PlannedFile>& files = plan.emplace_back();
    for (TranscriptFormat format : formats) {
      fs::path name = source.stem();
      name += ".";
      name += format_name(format);
      const fs::path file = source.parent_path() / name;
      const fs::path target = resolved(file);
      if (const auto at = input_at.find(target); at != input_at.end()) {
        throw Error(ErrorKind::kUsage, "the transcript of " + input.path +
                                           " would overwrite the input " + at->second +
                                           "; choose a folder with --output-dir");
      }
      if (const auto [at, fresh] = source_of.emplace(target, input.path); !fresh) {
        throw Error(ErrorKind::kUsage, "the transcripts of " + at->second + " and " + input.path +
                                           " would both be " + file.string());
      }
      files.push_back({format, file});
    }
  }
  return plan;
}

bool is_up_to_date(const InputFile& input, const std::vector<PlannedFile>& files) {
  std::error_code error;
  const fs::file_time_type changed = fs::last_write_time(input.path, error);
  if (error) return false;
  return std::ranges::all_of(files, [&](const PlannedFile& file) {
    std::error_code missing;
    return fs::is_regular_file(file.path, missing) &&
           fs::last_write_time(file.path, missing) >= changed && !missing;
  });
}

}  // namespace vesper
