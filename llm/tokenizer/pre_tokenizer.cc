#include "llm/tokenizer/pre_tokenizer.h"

#include "llm/tokenizer/utf8_stream.h"

namespace vesper {

PreTokenizer::PreTokenizer(std::string_view pattern)
    : pattern_(pattern, "the pattern to split text by") {}

void PreTokenizer::split(std::string_view text,
                         const std::function<void(std::string_view)>& piece) const {
  while (!text.empty()) {
    const std::string_view valid = text.substr(0, valid_utf8_prefix(text));
    PatternSearch search(pattern_, valid);
    size_t done = 0;
    while (done < valid.size()) {
      const auto match =
          search.next(done).value_or(PatternSearch::Match{valid.size(), valid.size()});
      if (match.begin > done) piece(valid.substr(done, match.begin - done));
      if (match.end > match.begin) piece(valid.substr(match.begin, match.end - match.begin));
      done = match.end;
    }
    text.remove_prefix(valid.size());
    size_t n_invalid = 0;
    while (n_invalid < text.size() && valid_utf8_prefix(text.substr(n_invalid, 4)) == 0) {
      ++n_invalid;
    }
    if (n_invalid > 0) piece(text.substr(0, n_invalid));
    text.remove_prefix(n_invalid);
  }
}

}  // namespace vesper
