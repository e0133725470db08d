// The recordings of `transcribe` (named, found in folders, listed in a file), and the files of
// their transcripts.
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
  // Path of its transcripts in an output folder, with the extension of the recording: the file
  // name, with its folders if it was found in a folder (relative to it) or listed by a relative
  // path that does not lead upwards.
  std::filesystem::path output_path;
};

struct InputSelection {
  std::vector<std::string> named;         // files, folders if `recursive`, or "-"
  bool recursive = false;                 // folders mean the recordings in them
  std::optional<std::string> files_from;  // a file with paths, "-" is standard input
  bool null_separated = false;            // its paths end with a zero byte instead of a line end
};

// The recordings: named ones, then listed ones; those of a folder sorted by path. In folders,
// recordings are found by extension (audio/sources/reader.h); hidden files and folders (".name")
// and linked folders are skipped. Calls on_failure for a folder that is unreadable or has no
// recording, and continues. Throws Error(kInput) if the list is unreadable, Error(kUsage) if it has
// an invalid path.
std::vector<InputFile> find_inputs(
    const InputSelection& selection,
    const std::function<void(const std::string& path, const std::string& message)>& on_failure);

struct PlannedFile {
  TranscriptFormat format;
  std::filesystem::path path;
};

// The transcript files of each input: its name with the format as extension, in `folder`, or beside
// the input without one; standard input ("-") is "stdin" in the current folder. Returns
// [input][format]. Throws Error(kUsage) if two files are the same, or one is an input.
std::vector<std::vector<PlannedFile>> plan_files(
    const std::vector<InputFile>& inputs, const std::vector<TranscriptFormat>& formats,
    const std::optional<std::filesystem::path>& folder);

// Whether all files exist and none is older than the input. Files appear only when they are
// complete, so such an input is done.
bool is_up_to_date(const InputFile& input, const std::vector<PlannedFile>& files);

}  // namespace vesper
