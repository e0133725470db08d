#include "session/text/long_text.h"

#include <algorithm>
#include <string_view>

#include "error/error.h"

namespace vesper {
namespace {

// Splits a text into pieces of at most `most` tokens, at the ends of lines, sentences or words.
std::vector<std::string> parts_of(const TextTokenizer& tokenizer, const std::string& text,
                                  uint32_t most) {
  const auto n_tokens = [&](std::string_view part) {
    return tokenizer.encode(part, false, false).size();
  };
  std::vector<std::string> parts;
  std::string_view rest = text;
  while (!rest.empty()) {
    size_t n = rest.size();
    // Estimates the fitting size by proportion, in a few rounds, because tokens differ in length.
    for (size_t tokens = n_tokens(rest); tokens > most && n > 1;) {
      n = std::max<size_t>(1, std::min(n - 1, n * most / tokens));
      tokens = n_tokens(rest.substr(0, n));
    }
    if (n < rest.size()) {
      for (const std::string_view mark : {"\n", ". ", " "}) {
        const size_t at = rest.substr(0, n).rfind(mark);
        if (at == std::string_view::npos || at < n / 2) continue;
        n = at + mark.size();
        break;
      }
      while (n > 1 && (static_cast<unsigned char>(rest[n]) & 0xc0) == 0x80) --n;
    }
    parts.emplace_back(rest.substr(0, n));
    rest.remove_prefix(n);
  }
  return parts;
}

}  // namespace

std::vector<int32_t> map_reduced_prompt(
    TextSession& session, const TextOptions& options, const std::string& text,
    const std::function<std::vector<int32_t>(const std::string& part)>& prompt_of,
    const std::function<bool()>& is_cancelled) {
  const uint32_t context = session.context();
  TextOptions of_part = options;
  of_part.grammar.reset();  // of the last answer
  const uint32_t n_answer = std::min(options.max_tokens.value_or(context / 4), context / 2);
  of_part.max_tokens = n_answer;
  of_part.top_logprobs = 0;
  of_part.thinking = Thinking::kSeparate;
  // Some tokens are added where a text is cut.
  const size_t n_around = prompt_of("x").size() + 8;
  if (n_around + n_answer + 16 >= context) {
    throw Error(ErrorKind::kInput, "context",
                "expected room for the instruction of " + std::to_string(n_around) +
                    " tokens, an answer of " + std::to_string(n_answer) +
                    " and a part of the text, found " + std::to_string(context));
  }
  std::string left = text;
  while (true) {
    std::vector<int32_t> ids = prompt_of(left);
    if (ids.size() + n_answer <= context) return ids;
    const auto most = static_cast<uint32_t>(context - n_answer - n_around);
    std::string joined;
    for (const std::string& part : parts_of(session.model().require_tokenizer(), left, most)) {
      const TextAnswer answer =
          session.answer({prompt_of(part), of_part}, {.is_cancelled = is_cancelled});
      if (answer.end == AnswerEnd::kCancelled) throw_stopped();
      joined += (joined.empty() ? "" : "\n\n") + answer.text;
    }
    if (joined.size() >= left.size()) {
      throw Error(ErrorKind::kInput, "max tokens",
                  "expected less, as the answers to the parts are as long as the text; found " +
                      std::to_string(n_answer));
    }
    left = joined;
  }
}

std::vector<int32_t> long_prompt(TextSession& session, const TextOptions& options,
                                 const std::string& instruction, const std::string& text,
                                 const InstructionFormat& format,
                                 const std::function<bool()>& is_cancelled) {
  const auto prompt_of = [&](const std::string& part) {
    return session.model().instruction_ids(instruction, part, format);
  };
  std::vector<int32_t> ids = prompt_of(text);
  if (ids.size() + options.max_tokens.value_or(1) <= session.context() || text.empty()) return ids;
  return map_reduced_prompt(session, options, text, prompt_of, is_cancelled);
}

}  // namespace vesper
