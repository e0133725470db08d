// Checksums of files, as published with models.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace vesper {

enum class DigestAlgorithm { kSha1, kSha256 };

struct Digest {
  DigestAlgorithm algorithm = DigestAlgorithm::kSha256;
  std::string hex;  // lower case

  bool operator==(const Digest&) const = default;
};

// "SHA-1" or "SHA-256".
std::string_view algorithm_name(DigestAlgorithm algorithm);

// Reads the whole file. Throws Error(kModel).
Digest digest_of_file(const std::filesystem::path& path, DigestAlgorithm algorithm);

}  // namespace vesper
