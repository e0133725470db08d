// Which recordings `transcribe` reads (named on the command line, found in folders, listed in a
// file), and which files their transcripts go to.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "decoder/transcript/writers.h"

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
// sorted by path. In folders a recording is known by its extension (audio/reader.h); hidden files
// and folders (".name") are skipped, links to folders not followed. Calls on_failure for a folder
// that cannot be read or has no recording, and goes on. Throws Error(kInput) where the list cannot
// be read, Error(kUsage) where it has a path that cannot be one.
std::vector<InputFile> find_inputs(
    const InputSelection& selection,
    const std::function<void(const std::string& path, const std::string& message)>& on_failure);

struct PlannedFile {
  TranscriptFormat format;
  std::filesystem::path path;
};

// The files that each input's transcript goes to: the input's name with the format as extension,
// at its place below `folder`, or beside the input if there is none; standard input ("-") is called
// "stdin" and lies in the current folder. Returns [input][format]. Throws Error(kUsage) if two of
// them are the same file, or if one is itself an input.
std::vector<std::vector<PlannedFile>> plan_files(
    const std::vector<InputFile>& inputs, const std::vector<TranscriptFormat>& formats,
    const std::optional<std::filesystem::path>& folder);

// Whether all of the files are there and none is older than the input. As files appear only when
// they are complete, such an input needs no work.
bool is_up_to_date(const InputFile& input, const std::vector<PlannedFile>& files);

}  // namespace vesper
