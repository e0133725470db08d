#include "serve/access/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "error/error.h"

namespace vesper {
namespace {

// The quota that a word such as "per-minute=60" sets; false for other words.
bool set_quota(std::string_view word, ClientQuota& quota) {
  const auto set = [&](std::string_view name, uint32_t& value) {
    if (!word.starts_with(name)) return false;
    const std::string_view number = word.substr(name.size());
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    return error == std::errc() && end == number.data() + number.size() && value > 0;
  };
  return set("at-once=", quota.n_running) || set("per-minute=", quota.per_minute);
}

template <size_t n>
bool parse_hex(std::string_view text, std::array<unsigned char, n>& bytes) {
  if (text.size() != 2 * n) return false;
  for (size_t i = 0; i < n; ++i) {
    const char* digits = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(digits, digits + 2, bytes[i], 16);
    if (error != std::errc() || end != digits + 2) return false;
  }
  return true;
}

}  // namespace

ApiKeys::ApiKeys(std::filesystem::path file) : file_(std::move(file)) { reload(); }

std::vector<ApiKeys::Entry> ApiKeys::read() const {
  std::ifstream file(file_);
  if (!file) {
    throw Error(ErrorKind::kInput,
                file_.string() + ": cannot be read: " + std::generic_category().message(errno));
  }
  std::vector<Entry> entries;
  std::string line;
  for (size_t n_line = 1; std::getline(file, line); ++n_line) {
    std::istringstream words(line);
    Entry entry;
    std::string digest, word;
    if (!(words >> entry.client.name) || entry.client.name.front() == '#') continue;
    const auto fail = [&](const std::string& expected, const std::string& found) {
      throw Error(ErrorKind::kInput, file_.string() + ":" + std::to_string(n_line) + ": expected " +
                                         expected + ", found " + found);
    };
    // The second word is not shown: it may be a key that somebody forgot to hash.
    if (!(words >> digest) || !parse_hex(digest, entry.digest)) {
      fail("a name and a SHA-256 digest of 64 hexadecimal digits",
           digest.empty() ? "a name only" : std::to_string(digest.size()) + " other characters");
    }
    while (words >> word) {
      if (!set_quota(word, entry.client.quota)) {
        fail("at-once=N or per-minute=N, N at least 1", "\"" + word + "\"");
      }
    }
    entries.push_back(std::move(entry));
  }
  if (!file.eof()) throw Error(ErrorKind::kInput, file_.string() + ": cannot be read to its end");
  if (entries.empty())
    throw Error(ErrorKind::kInput, file_.string() + ": expected a key, found none");
  return entries;
}

void ApiKeys::reload() {
  auto entries = std::make_shared<const std::vector<Entry>>(read());
  const std::lock_guard lock(mutex_);
  entries_ = std::move(entries);
}

std::optional<Client> ApiKeys::find(std::string_view key) const {
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  std::shared_ptr<const std::vector<Entry>> entries;
  {
    const std::lock_guard lock(mutex_);
    entries = entries_;
  }
  const Entry* found = nullptr;
  for (const Entry& entry : *entries) {
    if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) found = &entry;
  }
  if (found == nullptr) return std::nullopt;
  return found->client;
}

size_t ApiKeys::size() const {
  const std::lock_guard lock(mutex_);
  return entries_->size();
}

}  // namespace vesper
