#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "error/error.h"

namespace vesper::fuzz {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  const MappedFile file(path);
  return std::string(file.text());
}

Files files_of(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), folder).string());
  }
  std::sort(names.begin(), names.end());
  Files files;
  for (const std::string& name : names) {
    const MappedFile file(folder / name);
    files.push_back(std::make_shared<const MappedFile>(
        name, std::vector<uint8_t>(file.bytes().begin(), file.bytes().end())));
  }
  return files;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

SoundFolders::SoundFolders(std::vector<Files> folders, std::vector<std::string> suffixes)
    : folders_(std::move(folders)) {
  for (size_t folder = 0; folder < folders_.size(); ++folder) {
    for (size_t file = 0; file < folders_[folder].size(); ++file) {
      const std::string& name = folders_[folder][file]->name();
      if (std::any_of(suffixes.begin(), suffixes.end(),
                      [&](const std::string& suffix) { return name.ends_with(suffix); })) {
        places_.push_back({folder, file});
      }
    }
  }
  require(!places_.empty() && places_.size() <= 256, "expected 1 to 256 files to replace");
}

std::vector<std::string> SoundFolders::seeds() const {
  std::vector<std::string> seeds;
  for (size_t i = 0; i < places_.size(); ++i) {
    const auto& file = folders_[places_[i].folder][places_[i].file];
    seeds.push_back(static_cast<char>(i) + std::string(file->text()));
  }
  return seeds;
}

ModelFiles SoundFolders::with(Bytes input) const {
  const Place place = places_[input.empty() ? 0 : input[0] % places_.size()];
  if (!input.empty()) input = input.subspan(1);
  Files files = folders_[place.folder];
  files[place.file] = std::make_shared<const MappedFile>(
      files[place.file]->name(), std::vector<uint8_t>(input.begin(), input.end()));
  return ModelFiles("folder", std::move(files));
}

}  // namespace vesper::fuzz

// Writes the seeds to the first folder on the command line, which libFuzzer then reads as its
// corpus.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  namespace fs = std::filesystem;
  for (int i = 1; i < *argc; ++i) {
    const fs::path folder = (*argv)[i];
    if (!fs::is_directory(folder)) continue;
    const std::vector<std::string> seeds = vesper::fuzz::seeds();
    for (size_t k = 0; k < seeds.size(); ++k) {
      std::ofstream(folder / ("seed-" + std::to_string(k)), std::ios::binary) << seeds[k];
    }
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    vesper::fuzz::use({data, size});
  } catch (const vesper::Error& error) {
    const std::string message = error.what();
    vesper::fuzz::require(!message.empty() && message.find('\n') == message.npos,
                          "expected an error of one line, found: " + message);
    vesper::fuzz::require(error.kind() != vesper::ErrorKind::kInternal,
                          "expected no internal error");
  }
  return 0;
}
