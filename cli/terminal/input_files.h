// Which recordings the program is to read: those named on the command line, found in folders, and
// listed in a file.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vesper {

struct InputFile {
  std::string path;  // to open; "-" is standard input
  // Where its transcripts lie below an output folder, still with the recording's extension: the
  // file's name; with its folders if it was found in a folder (below that one) or listed by a
  // relative path that does not lead upwards.
  std::filesystem::path place;
};

struct InputSelection {
  std::vector<std::string> named;         // files, folders if `recursive`, or "-"
  bool recursive = false;                 // folders stand for the recordings in them
  std::optional<std::string> files_from;  // a file with paths, "-" is standard input
  bool null_separated = false;            // paths in it end with a zero byte, not with a line
};

// The recordings in the order of the selection: named ones, then listed ones; those of a folder
// sorted by path. In folders a recording is known by its extension (audio/reader.h); hidden
// files and folders (".name") are passed over, links to folders not followed. Calls on_failure for
// a folder that cannot be read or has no recording, and goes on. Throws Error(kInput) where the
// list cannot be read, Error(kUsage) where it holds what cannot be a path.
std::vector<InputFile> find_inputs(
    const InputSelection& selection,
    const std::function<void(const std::string& path, const std::string& message)>& on_failure);

}  // namespace vesper
