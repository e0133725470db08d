#include "session/models/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "error/error.h"
#include "session/models/response_headers.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;

constexpr int kAttemptsWithoutProgress = 4;

[[noreturn]] void throw_model_error(const std::string& message) {
  throw Error(ErrorKind::kModel, message);
}

std::string errno_text() { return std::strerror(errno); }

void check_cancelled(const DownloadEvents& events) {
  if (events.is_cancelled && events.is_cancelled()) {
    throw Error(ErrorKind::kStopped, "the download was stopped by the caller");
  }
}

// Sleeps for `duration`. Throws Error(kStopped).
void wait_for(std::chrono::milliseconds duration, const DownloadEvents& events) {
  constexpr std::chrono::milliseconds kStep(50);
  for (; duration.count() > 0; duration -= kStep) {
    check_cancelled(events);
    std::this_thread::sleep_for(std::min(duration, kStep));
  }
}

// The unfinished file, locked against other processes during this object's life.
class PartFile {
 public:
  PartFile(const fs::path& target, const DownloadEvents& events) : PartFile(target) {
    bool has_waited = false;
    while (true) {
      descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
      if (descriptor_ < 0) throw_model_error(path_.string() + ": " + errno_text());
      while (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 &&
             (errno == EWOULDBLOCK || errno == EINTR)) {
        if (!std::exchange(has_waited, true) && events.on_wait) events.on_wait();
        wait_for(std::chrono::milliseconds(50), events);
      }
      // The previous holder of the lock may have renamed or removed the file that we opened.
      struct stat ours {
      }, named{};
      if (fstat(descriptor_, &ours) == 0 && stat(path_.c_str(), &named) == 0 &&
          ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
        is_ours_ = true;
        return;
      }
      close(std::exchange(descriptor_, -1));
    }
  }
  // A transfer that received nothing leaves nothing.
  ~PartFile() {
    struct stat status {};
    if (is_ours_ && fstat(descriptor_, &status) == 0 && status.st_size == 0) remove();
    if (descriptor_ >= 0) close(descriptor_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  uint64_t size() const {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0) throw_model_error(path_.string() + ": " + errno_text());
    return static_cast<uint64_t>(status.st_size);
  }

  // Sets errno and returns false on failure, because callers must not throw.
  bool empty() { return ftruncate(descriptor_, 0) == 0; }
  bool append(const char* data, size_t size) {
    const off_t end = lseek(descriptor_, 0, SEEK_END);
    if (end < 0) return false;
    while (size > 0) {
      const ssize_t n = write(descriptor_, data, size);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      data += n;
      size -= static_cast<size_t>(n);
    }
    return true;
  }

  void remove() {
    unlink(path_.c_str());
    is_ours_ = false;
  }

  void become(const fs::path& target) {
    if (fsync(descriptor_) != 0 || rename(path_.c_str(), target.c_str()) != 0) {
      throw_model_error(target.string() + ": " + errno_text());
    }
    is_ours_ = false;
    // Makes the new name durable; if that fails the file is still complete.
    const int folder = open(target.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
      fsync(folder);
      close(folder);
    }
  }

  const fs::path& path() const { return path_; }

 private:
  // The other constructor delegates to this one, so that its exceptions destroy the object.
  explicit PartFile(const fs::path& target) : path_(target.string() + ".part") {}

  fs::path path_;
  int descriptor_ = -1;
  bool is_ours_ = false;  // the file at path_ is the one that we have locked
};

// The state shared by the callbacks of a transfer.
struct Transfer {
  CURL* curl = nullptr;
  PartFile* part = nullptr;
  const DownloadEvents* events = nullptr;
  uint64_t offset = 0;   // requested start
  uint64_t present = 0;  // bytes in the file
  uint64_t before = 0;   // bytes in the file when download() was called
  bool body_begun = false;
  int write_error = 0;       // errno
  bool wrong_range = false;  // the server sent another range than requested
  ResponseHeaders headers;
  std::exception_ptr error;  // of an event: exceptions must not cross libcurl
};

// Runs `work`; false if it throws, or has thrown before.
template <class Work>
bool keeping_exceptions(Transfer& transfer, const Work& work) {
  if (transfer.error) return false;
  try {
    work();
    return true;
  } catch (...) {
    transfer.error = std::current_exception();
    return false;
  }
}

size_t on_header(char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const bool is_kept = keeping_exceptions(transfer, [&] { transfer.headers.add({data, size}); });
  return is_kept ? size : 0;
}

size_t on_body(char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (!transfer.body_begun) {
    transfer.body_begun = true;
    long status = 0;
    curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
    if (transfer.offset > 0 && status != 206) {  // the server ignores ranges: it sends the whole
                                                 // file again
      if (!transfer.part->empty()) {
        transfer.write_error = errno;
        return CURL_WRITEFUNC_ERROR;
      }
      transfer.present = transfer.before = transfer.offset = 0;
    } else if (transfer.offset > 0 && !transfer.headers.range_begins_at(transfer.offset)) {
      transfer.wrong_range = true;
      return CURL_WRITEFUNC_ERROR;
    }
  }
  if (!transfer.part->append(data, size)) {
    transfer.write_error = errno;
    return CURL_WRITEFUNC_ERROR;
  }
  transfer.present += size;
  return size;
}

int on_transfer_progress(void* user, curl_off_t total, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  const bool goes_on = keeping_exceptions(transfer, [&] {
    check_cancelled(*transfer.events);
    if (!transfer.events->on_progress || !transfer.body_begun) return;
    const uint64_t whole = total > 0 ? static_cast<uint64_t>(total) + transfer.offset : 0;
    transfer.events->on_progress(transfer.present, whole, transfer.before);
  });
  return goes_on ? 0 : 1;
}

bool may_pass(CURLcode code, long status) {
  switch (code) {
    case CURLE_HTTP_RETURNED_ERROR:
      return status >= 500 || status == 408 || status == 429;
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

class Downloader {
 public:
  Downloader(const DownloadRequest& request, const DownloadEvents& events, PartFile& part)
      : request_(request), curl_(curl_easy_init(), &curl_easy_cleanup) {
    if (!curl_) throw_model_error("libcurl cannot be started");
    transfer_.curl = curl_.get();
    transfer_.part = &part;
    transfer_.events = &events;
    transfer_.before = part.size();
    const auto set = [&](CURLoption option, auto value) {
      const CURLcode code = curl_easy_setopt(curl_.get(), option, value);
      if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
      if (code != CURLE_OK) {
        throw_model_error(request.url + ": " + curl_easy_strerror(code));
      }
    };
    // Plain HTTP does not authenticate the server, so https never redirects to it.
    const bool plain = request.url.rfind("http://", 0) == 0;
    set(CURLOPT_PROTOCOLS_STR, plain ? "http" : "https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, plain ? "http,https" : "https");
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 10L);
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, 20L);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);  // bytes per second, over this many seconds:
    set(CURLOPT_LOW_SPEED_TIME, 30L);
    set(CURLOPT_USERAGENT, "vesper");
    set(CURLOPT_ERRORBUFFER, error_text_.data());
    set(CURLOPT_HEADERFUNCTION, &on_header);
    set(CURLOPT_HEADERDATA, &transfer_);
    set(CURLOPT_WRITEFUNCTION, &on_body);
    set(CURLOPT_WRITEDATA, &transfer_);
    set(CURLOPT_XFERINFOFUNCTION, &on_transfer_progress);
    set(CURLOPT_XFERINFODATA, &transfer_);
    set(CURLOPT_NOPROGRESS, 0L);
  }

  // Until the file is complete, or an error is permanent.
  void fetch_rest() {
    for (int failures = 0;;) {
      const uint64_t present_before = transfer_.part->size();
      const CURLcode code = perform(present_before);
      if (code == CURLE_OK) return;
      long status = 0;
      curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
      // No bytes after ours: complete, or too long. The digest decides.
      if (code == CURLE_HTTP_RETURNED_ERROR && status == 416 && present_before > 0) return;
      if (transfer_.write_error != 0) {
        throw_model_error(transfer_.part->path().string() + ": " +
                          std::strerror(transfer_.write_error));
      }
      failures = transfer_.present > present_before ? 1 : failures + 1;
      if (transfer_.wrong_range) {
        transfer_.part->empty();
      } else if (!may_pass(code, status)) {
        throw_model_error(request_.url + ": " + reason(code, status));
      }
      if (failures >= kAttemptsWithoutProgress) {
        const uint64_t n_kept = transfer_.part->size();
        throw_model_error(request_.url + ": " + reason(code, status) +
                          (n_kept == 0 ? std::string()
                                       : "; " + std::to_string(n_kept) +
                                             " bytes are kept, and the next attempt continues "
                                             "from there"));
      }
      wait_for(std::chrono::milliseconds(250) * (1 << failures), *transfer_.events);
    }
  }

  // The digest: requested, otherwise the server's.
  Digest expected_digest() const {
    if (request_.digest) return *request_.digest;
    if (const auto& sha256 = transfer_.headers.linked_sha256()) {
      return {DigestAlgorithm::kSha256, *sha256};
    }
    throw_model_error(request_.url + ": expected a digest from the publisher, found none");
  }

 private:
  CURLcode perform(uint64_t offset) {
    transfer_.offset = transfer_.present = offset;
    transfer_.body_begun = transfer_.wrong_range = false;
    error_text_[0] = '\0';
    const std::string range = std::to_string(offset) + "-";
    curl_easy_setopt(curl_.get(), CURLOPT_RANGE, offset > 0 ? range.c_str() : nullptr);
    const CURLcode code = curl_easy_perform(curl_.get());
    if (transfer_.error) std::rethrow_exception(std::exchange(transfer_.error, nullptr));
    if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
    return code;
  }

  std::string reason(CURLcode code, long status) const {
    if (code == CURLE_HTTP_RETURNED_ERROR) {
      return "the server answered with HTTP status " + std::to_string(status);
    }
    return error_text_[0] ? error_text_.data() : curl_easy_strerror(code);
  }

  const DownloadRequest& request_;
  std::unique_ptr<CURL, void (*)(CURL*)> curl_;
  std::array<char, CURL_ERROR_SIZE> error_text_{};
  Transfer transfer_;
};

}  // namespace

void download(const DownloadRequest& request, const DownloadEvents& events) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) throw_model_error("libcurl cannot be started");
  PartFile part(request.target, events);
  std::error_code error;
  if (fs::exists(request.target, error)) {  // another process was faster
    part.remove();
    return;
  }
  while (true) {
    const bool continued = part.size() > 0;
    Downloader downloader(request, events, part);
    downloader.fetch_rest();
    if (!request.has_digest) break;
    const Digest expected = downloader.expected_digest();
    const Digest found = digest_of_file(part.path(), expected.algorithm);
    if (found == expected) break;
    // The beginning may be damaged or of another version: download all of it once more.
    if (continued && part.empty()) continue;
    const std::string size = std::to_string(part.size());
    part.remove();
    throw_model_error(request.url + ": expected a file with the " +
                      std::string(algorithm_name(expected.algorithm)) + " digest " + expected.hex +
                      ", received " + size + " bytes with " + found.hex);
  }
  part.become(request.target);
}

}  // namespace vesper
