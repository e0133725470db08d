// The spellings of tokens that end an answer. Files name one end-of-sequence token, and a chat
// model has several: that of its turns, that of its messages, that of its base model's texts.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace vesper {

inline bool ends_an_answer(std::string_view spelling) {
  constexpr std::array<std::string_view, 20> kEnds = {"<|im_end|>",
                                                      "<|endoftext|>",
                                                      "<|eot_id|>",
                                                      "<|eom_id|>",
                                                      "<|end_of_text|>",
                                                      "<|end|>",
                                                      "<end_of_turn>",
                                                      "<|END_OF_TURN_TOKEN|>",
                                                      "<|end_of_turn|>",
                                                      "<end_of_utterance>",
                                                      "<|endofturn|>",
                                                      "[|endofturn|]",
                                                      "<|eot|>",
                                                      "<|return|>",
                                                      "<|call|>",
                                                      "<\xef\xbd\x9c"
                                                      "end\xe2\x96\x81"
                                                      "of\xe2\x96\x81"
                                                      "sentence\xef\xbd\x9c>",
                                                      "<EOT>",
                                                      "_<EOT>",
                                                      "<turn|>",
                                                      "<|role_end|>"};
  return std::find(kEnds.begin(), kEnds.end(), spelling) != kEnds.end();
}

}  // namespace vesper
