#include "session/text/answer_loop.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace vesper {
namespace {

bool is_of_words(std::string_view text) {
  const auto is_letter = [](unsigned char c) {
    return c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return std::ranges::any_of(text, is_letter) && std::ranges::all_of(text, [&](char c) {
           return is_letter(static_cast<unsigned char>(c)) || (c >= '0' && c <= '9') ||
                  std::string_view(" .,!?'-").find(c) != std::string_view::npos;
         });
}

}  // namespace

TokenLoop answer_loop(std::span<const int32_t> tokens, const TextTokenizer* tokenizer) {
  const TokenLoop loop = final_loop(tokens, kLoopRounds, kWordLoopTokens);
  if (loop.length >= kRowLoopTokens) return loop;
  const bool is_certain = loop.period > 0 && tokenizer != nullptr &&
                          is_of_words(tokenizer->decode(tokens.last(loop.period), true));
  return is_certain ? loop : TokenLoop{};
}

}  // namespace vesper
