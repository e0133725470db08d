// Downloads one file by HTTP: resumes, checks the digest, and renames the file when it is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "session/models/digest.h"

namespace vesper {

struct DownloadRequest {
  std::string url;               // https; http only for a server named by the user
  std::filesystem::path target;  // its folder exists
  // Of the whole file. If absent, the SHA-256 of the server's header `x-linked-etag`, which Hugging
  // Face sends for large files. Without either, as for its small files, the file is not checked.
  std::optional<Digest> digest;
  bool has_digest = true;
};

// As in ModelStoreOptions.
struct DownloadEvents {
  std::function<void(uint64_t done, uint64_t total, uint64_t before)> on_progress = nullptr;
  std::function<void()> on_wait = nullptr;
  std::function<bool()> is_cancelled = nullptr;
};

// Returns when `target` exists, downloaded by this call or by another process. The bytes are
// collected in `target` + ".part". It is locked while in use, kept when the transfer is
// interrupted after its first byte, and continued by the next call. Temporary failures (a broken
// connection, 5xx) are retried a few times. Throws Error(kModel); a file with a wrong digest is
// removed. Throws Error(kStopped) if it is cancelled; an exception of an event is passed on.
void download(const DownloadRequest& request, const DownloadEvents& events);

}  // namespace vesper
