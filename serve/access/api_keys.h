// The keys of a server's clients. In: a file of hashed keys and the key of a request. Out: the
// client that it belongs to. A key itself is nowhere in the file, in memory or in a log.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vesper {

// What a client may use at once and in a time. 0: unlimited.
struct ClientQuota {
  uint32_t n_running = 0;   // requests at once
  uint32_t per_minute = 0;  // requests begun in any minute
};

struct Client {
  std::string name;
  ClientQuota quota = {};
};

// The keys of a file: a line for each, `NAME SHA256 [at-once=N] [per-minute=N]`, where SHA256 is
// the digest of the key in hexadecimal. Empty lines and lines that begin with # are ignored.
class ApiKeys {
 public:
  // Throws Error(kInput) with the file's name, the line, what was expected and what was found.
  explicit ApiKeys(std::filesystem::path file);

  // Reads the file again. After an error the earlier keys stay. Thread-safe, like find().
  void reload();
  // The client with this key. The time that it takes does not depend on which key is the nearest.
  std::optional<Client> find(std::string_view key) const;
  size_t size() const;

 private:
  static constexpr size_t kDigestBytes = 32;
  using Digest = std::array<unsigned char, kDigestBytes>;
  struct Entry {
    Digest digest{};
    Client client;
  };

  std::vector<Entry> read() const;

  std::filesystem::path file_;
  mutable std::mutex mutex_;
  std::shared_ptr<const std::vector<Entry>> entries_;
};

}  // namespace vesper
