#include "llm/files/folder_names.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <string_view>

namespace vesper {

std::vector<std::string> names_in_folder(const std::filesystem::path& folder,
                                         std::error_code& error) {
  struct Close {
    void operator()(DIR* opened) const { closedir(opened); }
  };
  std::vector<std::string> names;
  const std::unique_ptr<DIR, Close> opened(opendir(folder.c_str()));
  while (opened) {
    errno = 0;
    const dirent* entry = readdir(opened.get());
    if (!entry) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno == ENOMEM) throw std::bad_alloc();
  error = std::error_code(errno, std::generic_category());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace vesper
