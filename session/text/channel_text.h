// Splits answers of models that write messages on channels (OpenAI's harmony format, of gpt-oss):
//
//   <|channel|>analysis<|message|>THINKING<|end|><|start|>assistant<|channel|>final<|message|>TEXT
//   ... <|start|>assistant to=functions.NAME<|channel|>commentary json<|message|>ARGUMENTS<|call|>
//
// Messages on the channel "analysis" are thinking, the others text. A call becomes the text that
// most models write, <tool_call>{"name": NAME, "arguments": ARGUMENTS}</tool_call>.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "session/text/thinking_text.h"

namespace vesper {

// The tokens of the format.
inline constexpr std::string_view kMessageStart = "<|start|>", kMessageChannel = "<|channel|>",
                                  kMessageBody = "<|message|>", kMessageEnd = "<|end|>",
                                  kMessageCall = "<|call|>";

class ChannelText {
 public:
  // `starts_in_header`: the prompt ends with the start of the answer's message. Without it, text is
  // of the channel "final" until a message starts.
  explicit ChannelText(bool starts_in_header) : in_header_(starts_in_header) {}

  // Returns the parts that new text completes, without tags and headers. Text that may be a tag is
  // held back.
  std::vector<AnswerPart> push(std::string_view text);
  // Ends the text; returns the text that was held back.
  std::vector<AnswerPart> finish();

 private:
  void add(std::string_view text, std::vector<AnswerPart>& parts);
  void take_tag(std::string_view tag, std::vector<AnswerPart>& parts);
  void end_message(std::vector<AnswerPart>& parts);

  bool in_header_;
  bool is_thinking_ = false, is_call_ = false;  // the message
  bool has_message_ = false;                    // a header has ended
  std::string header_;
  std::string held_;
};

}  // namespace vesper
