// A tiny language model with heads of 32 elements, which quantized keys and values need: gemma2's
// (sliding windows of 9 in two of three layers, soft caps), whose weights serve two heads of 32 as
// well as four of 16.
#pragma once

#include <filesystem>
#include <string>

#include "tests/child_process.h"
#include "tests/temporary_folder.h"

namespace vesper {

class WideHeads {
 public:
  // `models`: the folder of the tiny language models.
  explicit WideHeads(const std::filesystem::path& models) {
    const std::filesystem::path source = models / "gemma2";
    std::filesystem::copy(source, folder_.path(), std::filesystem::copy_options::recursive);
    std::string config = read_file(source / "config.json");
    replace(config, "\"head_dim\": 16", "\"head_dim\": 32");
    replace(config, "\"num_attention_heads\": 4", "\"num_attention_heads\": 2");
    replace(config, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 1");
    write_file(folder_ / "config.json", config);
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  static void replace(std::string& text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);  // throws if it is not there
  }

  TemporaryFolder folder_;
};

}  // namespace vesper
