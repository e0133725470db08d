#include "cli/embed_input.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/weights/json_file.h"

namespace vesper {
namespace {

// A longer line is no text that anybody would embed, but a file of another kind.
constexpr size_t kMaxLineBytes = size_t{64} << 20;

}  // namespace

EmbedInput::EmbedInput(const EmbedArguments& arguments)
    : arguments_(arguments), files_(arguments.inputs) {
  if (arguments.texts.empty() && files_.empty()) files_.emplace_back("-");
}

std::string EmbedInput::place() const {
  if (!arguments_.texts.empty()) return "text " + std::to_string(n_texts_);
  return name_ + ", line " + std::to_string(line_);
}

void EmbedInput::fail(const std::string& message) const {
  throw Error(ErrorKind::kInput, place() + ": " + message);
}

void EmbedInput::open_next() {
  const std::string& path = files_[n_opened_++];
  line_ = 0;
  if (path == "-") {
    name_ = "stdin";
    if (isatty(STDIN_FILENO)) {
      throw Error(ErrorKind::kInput,
                  "standard input is a terminal; expected texts as arguments, by --input or in a "
                  "pipe");
    }
    file_.reset(stdin);
  } else {
    name_ = path;
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
      throw Error(ErrorKind::kInput, path + ": is a folder, expected a file with a text a line");
    }
    file_.reset(std::fopen(path.c_str(), "rbe"));
    if (!file_) throw Error(ErrorKind::kInput, path + ": " + std::strerror(errno));
  }
  is_json_ = !arguments_.key.empty() || name_.ends_with(".jsonl");
}

bool EmbedInput::next_line(std::string& line) {
  line.clear();
  while (true) {
    if (!file_) {
      if (n_opened_ == files_.size()) return false;
      open_next();
    }
    ++line_;
    int c = 0;
    while ((c = getc_unlocked(file_.get())) != EOF && c != '\n') {
      if (line.size() >= kMaxLineBytes) {
        fail("expected at most " + std::to_string(kMaxLineBytes) + " bytes a line, found more");
      }
      line += static_cast<char>(c);
    }
    if (c == EOF && std::ferror(file_.get())) {
      throw Error(ErrorKind::kInput, name_ + ": " + std::strerror(errno));
    }
    if (c != EOF || !line.empty()) break;
    file_.reset();
  }
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

std::string EmbedInput::member_of(const std::string& line) const {
  const std::string key = arguments_.key.empty() ? "text" : arguments_.key;
  const auto value =
      parse_json(place(), {reinterpret_cast<const uint8_t*>(line.data()), line.size()});
  const auto* member = find_member(value, key.c_str());
  if (member == nullptr) fail("expected a member \"" + key + "\", found none");
  if (arguments_.input_ids && member->is_array()) return member->dump();
  if (!member->is_string()) fail("expected \"" + key + "\" to be a text");
  return member->get<std::string>();
}

bool EmbedInput::next(std::string& text) {
  if (!arguments_.texts.empty()) {
    if (n_texts_ == arguments_.texts.size()) return false;
    text = arguments_.texts[n_texts_++];
    return true;
  }
  if (!next_line(text)) return false;
  if (is_json_) {
    try {
      text = member_of(text);
    } catch (const Error& error) {  // what the parser found is the input's fault, not the model's
      throw Error(ErrorKind::kInput, error.what());
    }
  }
  return true;
}

std::vector<int32_t> parse_token_ids(std::string_view text) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (std::strchr(" \t,[]", *at) != nullptr && *at != '\0') {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [after, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0) {
      throw Error(ErrorKind::kInput, "expected token ids with spaces or commas between, found \"" +
                                         std::string(text.substr(0, 60)) + "\"");
    }
    ids.push_back(id);
    at = after;
  }
  return ids;
}

}  // namespace vesper
