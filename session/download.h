// Fetches one file by HTTP: resumes, checks, and puts it in place in one step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "session/digest.h"

namespace vesper {

struct DownloadRequest {
  std::string url;               // https; http only if the user named such a server
  std::filesystem::path target;  // its folder exists
  // Of the whole file. If absent, the server must give a SHA-256 itself, in the header
  // `x-linked-etag` as Hugging Face does for large files; unless nobody gives one, as for its small
  // files: then the connection's word is taken.
  std::optional<Digest> digest;
  bool has_digest = true;
};

// As ModelStoreOptions has them.
struct DownloadEvents {
  std::function<void(uint64_t done, uint64_t total, uint64_t before)> on_progress = nullptr;
  std::function<void()> on_wait = nullptr;
};

// Returns when `target` exists, fetched by this call or by another process meanwhile. The bytes
// collect in `target` + ".part", which is locked while in use, stays when the transfer is
// interrupted and is continued by the next call. Failures that may pass (a broken connection, 5xx)
// are tried again a few times. Throws Error(kModel) saying what happened; a file with a wrong
// digest is removed.
void download(const DownloadRequest& request, const DownloadEvents& events);

}  // namespace vesper
