// The directory of a zip file whose entries are stored, not compressed, so that they are read in
// place. PyTorch writes checkpoints so. libzip copies entries and has no such view.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "llm/files/mapped_file.h"

namespace vesper {

// Whether the file begins like a zip file with entries.
bool is_zip(const MappedFile& file);

struct ZipEntry {
  std::string name;
  std::span<const uint8_t> bytes;
};

// The entries, in the order of the directory. Throws Error(kModel) for a damaged file, a compressed
// or encrypted entry, and for a file of 4 GiB or more (zip64).
std::vector<ZipEntry> read_zip_directory(const MappedFile& file);

}  // namespace vesper
