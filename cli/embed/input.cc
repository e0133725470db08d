#include "cli/embed/input.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/files/json_file.h"

namespace vesper {

EmbedInput::EmbedInput(const EmbedArguments& arguments)
    : arguments_(arguments), files_(arguments.inputs) {
  if (arguments.texts.empty() && files_.empty()) files_.emplace_back("-");
}

std::string EmbedInput::origin() const {
  return lines_ ? lines_->origin() : "text " + std::to_string(n_texts_);
}

void EmbedInput::fail(const std::string& message) const {
  throw Error(ErrorKind::kInput, origin() + ": " + message);
}

bool EmbedInput::next_line(std::string& line) {
  while (true) {
    if (lines_ && lines_->next(line)) return true;
    if (n_opened_ == files_.size()) return false;
    lines_.emplace(files_[n_opened_++]);
    is_json_ = !arguments_.key.empty() || lines_->name().ends_with(".jsonl");
  }
}

std::string EmbedInput::member_of(const std::string& line) const {
  const std::string key = arguments_.key.empty() ? "text" : arguments_.key;
  const auto value =
      parse_json(origin(), {reinterpret_cast<const uint8_t*>(line.data()), line.size()});
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
    } catch (const Error& error) {  // the parser throws kModel, but this is bad input
      throw Error(ErrorKind::kInput, error.what());
    }
  }
  return true;
}

}  // namespace vesper
