#include "llm/files/zip_directory.h"

#include <algorithm>

#include "llm/files/byte_reader.h"

namespace vesper {
namespace {

// PKWARE's APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16.
constexpr uint32_t kEntryMark = 0x04034b50, kDirectoryMark = 0x02014b50, kEndMark = 0x06054b50;
constexpr uint64_t kEndBytes = 22, kEntryBytes = 30;
constexpr uint64_t kMostComment = 65535;

template <typename T>
T load(std::span<const uint8_t> bytes, uint64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The offset of the record at the end, which a comment may follow.
uint64_t find_end(const MappedFile& file) {
  const auto bytes = file.bytes();
  if (bytes.size() >= kEndBytes) {
    const uint64_t last = bytes.size() - kEndBytes;
    for (uint64_t back = 0; back <= std::min(last, kMostComment); ++back) {
      if (load<uint32_t>(bytes, last - back) == kEndMark) return last - back;
    }
  }
  throw Error(ErrorKind::kModel,
              file.name() + ": expected the directory of a zip file at its end, found none");
}

// The bytes of the entry whose header is at `offset`.
std::span<const uint8_t> bytes_of_entry(const MappedFile& file, const std::string& name,
                                        uint64_t offset, uint64_t n) {
  const auto bytes = file.bytes();
  const auto fail = [&](const std::string& what) {
    fail_at(file.name(), offset, "entry " + name + ": expected " + what);
  };
  if (offset > bytes.size() || bytes.size() - offset < kEntryBytes ||
      load<uint32_t>(bytes, offset) != kEntryMark) {
    fail("its header there");
  }
  const uint64_t start = offset + kEntryBytes + load<uint16_t>(bytes, offset + 26) +
                         load<uint16_t>(bytes, offset + 28);
  if (start > bytes.size() || n > bytes.size() - start) {
    fail(std::to_string(n) + " bytes, found " +
         std::to_string(start > bytes.size() ? 0 : bytes.size() - start) +
         " until the end of the file");
  }
  return bytes.subspan(start, n);
}

}  // namespace

bool is_zip(const MappedFile& file) {
  return file.bytes().size() >= kEndBytes && load<uint32_t>(file.bytes(), 0) == kEntryMark;
}

std::vector<ZipEntry> read_zip_directory(const MappedFile& file) {
  const uint64_t end = find_end(file);
  const auto n_entries = load<uint16_t>(file.bytes(), end + 10);
  const auto start = load<uint32_t>(file.bytes(), end + 16);
  if (n_entries == UINT16_MAX || start == UINT32_MAX) {
    fail_at(file.name(), end, "expected a zip file of less than 4 GiB and 65,535 entries");
  }
  ByteReader reader(file);
  reader.take(start, "the entries of a zip file");
  std::vector<ZipEntry> entries;
  for (uint32_t i = 0; i < n_entries; ++i) {
    if (reader.read<uint32_t>("an entry of a zip directory") != kDirectoryMark) {
      reader.fail("expected entry " + std::to_string(i) + " of the zip directory before this");
    }
    reader.take(4, "versions");
    const auto flags = reader.read<uint16_t>("flags");
    const auto method = reader.read<uint16_t>("a method");
    reader.take(8, "a time and a checksum");
    const auto stored = reader.read<uint32_t>("a size");
    const auto size = reader.read<uint32_t>("a size");
    const auto name_length = reader.read<uint16_t>("the length of a name");
    const auto extra_length = reader.read<uint16_t>("a length");
    const auto comment_length = reader.read<uint16_t>("a length");
    reader.take(8, "attributes");
    const auto offset = reader.read<uint32_t>("an offset");
    ZipEntry entry;
    entry.name = reader.read_name(name_length, "the name of an entry");
    reader.take(uint64_t{extra_length} + comment_length, "a zip directory");
    constexpr uint16_t kEncrypted = 1;
    if (method != 0 || (flags & kEncrypted) != 0 || stored != size) {
      reader.fail("entry " + entry.name + ": expected plain bytes, found compressed or encrypted " +
                  "ones (method " + std::to_string(method) + ")");
    }
    entry.bytes = bytes_of_entry(file, entry.name, offset, size);
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace vesper
