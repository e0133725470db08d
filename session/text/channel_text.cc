#include "session/text/channel_text.h"

#include <algorithm>
#include <array>
#include <utility>

namespace vesper {
namespace {

constexpr std::array kTags = {kMessageStart, kMessageChannel, kMessageBody, kMessageEnd,
                              kMessageCall};

// "get_weather" of the header "assistant to=functions.get_weather<|channel|>commentary json", where
// the recipient may also follow the channel. Empty without a recipient.
std::string_view recipient(std::string_view header) {
  constexpr std::string_view kTo = "to=", kFunctions = "functions.";
  const size_t at = header.find(kTo);
  if (at == std::string_view::npos) return {};
  std::string_view name = header.substr(at + kTo.size());
  name = name.substr(0, name.find_first_of(" \n\r\t<"));
  if (name.starts_with(kFunctions)) name.remove_prefix(kFunctions.size());
  return name;
}

// As the text of a JSON string.
std::string quoted(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

}  // namespace

void ChannelText::add(std::string_view text, std::vector<AnswerPart>& parts) {
  if (text.empty()) return;
  if (in_header_) {
    header_ += text;
    return;
  }
  if (!parts.empty() && parts.back().is_thinking == is_thinking_) {
    parts.back().text += text;
  } else {
    parts.push_back({std::string(text), is_thinking_});
  }
}

void ChannelText::end_message(std::vector<AnswerPart>& parts) {
  if (is_call_) add("}</tool_call>", parts);
  is_call_ = false;
  header_.clear();
  in_header_ = true;
}

void ChannelText::take_tag(std::string_view tag, std::vector<AnswerPart>& parts) {
  if (tag == kMessageChannel) {
    if (!in_header_) end_message(parts);
    header_ += kMessageChannel;
  } else if (tag != kMessageBody) {
    if (!in_header_) end_message(parts);
    header_.clear();
  } else if (in_header_) {
    const size_t channel = header_.find(kMessageChannel);
    is_thinking_ =
        channel != std::string::npos &&
        std::string_view(header_).substr(channel + kMessageChannel.size()).starts_with("analysis");
    const std::string_view name = recipient(header_);
    is_call_ = !is_thinking_ && !name.empty();
    in_header_ = false;
    has_message_ = true;
    if (is_call_) add("<tool_call>{\"name\": " + quoted(name) + ", \"arguments\": ", parts);
  }
}

std::vector<AnswerPart> ChannelText::push(std::string_view text) {
  std::vector<AnswerPart> parts;
  held_ += text;
  for (;;) {
    size_t first = std::string::npos;
    std::string_view found;
    for (const std::string_view tag : kTags) {
      if (const size_t at = held_.find(tag); at < first) {
        first = at;
        found = tag;
      }
    }
    if (first == std::string::npos) break;
    add(std::string_view(held_).substr(0, first), parts);
    take_tag(found, parts);
    held_.erase(0, first + found.size());
  }
  // A tag may begin at the last "<".
  const size_t last = held_.rfind('<');
  size_t n = held_.size();
  if (last != std::string::npos && std::ranges::any_of(kTags, [&](std::string_view tag) {
        return tag.starts_with(std::string_view(held_).substr(last));
      })) {
    n = last;
  }
  add(std::string_view(held_).substr(0, n), parts);
  held_.erase(0, n);
  return parts;
}

std::vector<AnswerPart> ChannelText::finish() {
  std::vector<AnswerPart> parts;
  add(std::exchange(held_, {}), parts);
  if (!in_header_) {
    end_message(parts);
  } else if (!has_message_ && header_.find(kMessageChannel) == std::string::npos) {
    // The model does not follow the format.
    in_header_ = false;
    add(std::exchange(header_, {}), parts);
  }
  return parts;
}

}  // namespace vesper
