#include "audio/sources/unlinked_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

namespace vesper {

std::string temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  if (folder != nullptr && *folder != '\0') return folder;
  return ::access("/var/tmp", W_OK | X_OK) == 0 ? "/var/tmp" : "/tmp";
}

UniqueFd open_unlinked_file() {
  std::string path = temporary_folder() + "/vesper-XXXXXX";
  UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));
  if (file.is_open()) ::unlink(path.c_str());
  return file;
}

}  // namespace vesper
