#include "session/models/digest.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "error/error.h"

namespace vesper {

std::string_view algorithm_name(DigestAlgorithm algorithm) {
  return algorithm == DigestAlgorithm::kSha1 ? "SHA-1" : "SHA-256";
}

Digest digest_of_file(const std::filesystem::path& path, DigestAlgorithm algorithm) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             &std::fclose);
  if (!file && errno == ENOMEM) throw std::bad_alloc();
  if (!file) throw Error(ErrorKind::kModel, path.string() + ": " + std::strerror(errno));
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   &EVP_MD_CTX_free);
  const auto check = [&](int result) {
    if (result != 1) {
      const int reason = ERR_GET_REASON(ERR_peek_error());
      ERR_clear_error();
      if (reason != ERR_R_UNSUPPORTED) throw std::bad_alloc();
      throw Error(ErrorKind::kModel, std::string(algorithm_name(algorithm)) +
                                         " is not offered by this system's OpenSSL");
    }
  };
  if (!context) throw std::bad_alloc();
  check(EVP_DigestInit_ex(
      context.get(), algorithm == DigestAlgorithm::kSha1 ? EVP_sha1() : EVP_sha256(), nullptr));
  std::vector<unsigned char> buffer(1 << 20);
  while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    check(EVP_DigestUpdate(context.get(), buffer.data(), n));
  }
  if (std::ferror(file.get())) {
    throw Error(ErrorKind::kModel, path.string() + ": " + std::strerror(errno));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned length = 0;
  check(EVP_DigestFinal_ex(context.get(), bytes.data(), &length));
  Digest digest{algorithm, ""};
  for (unsigned i = 0; i < length; ++i) {
    constexpr std::string_view kHex = "0123456789abcdef";
    digest.hex += kHex[bytes[i] >> 4];
    digest.hex += kHex[bytes[i] & 15];
  }
  return digest;
}

}  // namespace vesper
