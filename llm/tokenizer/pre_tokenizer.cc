#include "llm/tokenizer/pre_tokenizer.h"

#include <string>

#include "error/error.h"
#include "llm/tokenizer/utf8_stream.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace vesper {
namespace {

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

struct MatchData {
  pcre2_match_data* data;
  ~MatchData() { pcre2_match_data_free(data); }
};

}  // namespace

struct PreTokenizer::Pattern {
  pcre2_code* code = nullptr;
  ~Pattern() { pcre2_code_free(code); }
};

PreTokenizer::PreTokenizer(std::string_view pattern) : pattern_(std::make_unique<Pattern>()) {
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  pattern_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_UTF | PCRE2_UCP, &error, &error_offset, nullptr);
  if (pattern_->code == nullptr) {
    throw Error(ErrorKind::kModel,
                "expected a pattern of PCRE2 to split text by, found an error at " +
                    std::to_string(error_offset) + ": " + message_of(error));
  }
  // Without a just-in-time compiler on this machine, matching is slower and as right.
  pcre2_jit_compile(pattern_->code, PCRE2_JIT_COMPLETE);
}

PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

void PreTokenizer::split(std::string_view text,
                         const std::function<void(std::string_view)>& piece) const {
  const MatchData match{pcre2_match_data_create_from_pattern(pattern_->code, nullptr)};
  if (match.data == nullptr) throw std::bad_alloc();
  while (!text.empty()) {
    // Validity is settled here once: PCRE2 would check all the rest of the text at every match.
    const std::string_view valid = text.substr(0, valid_utf8_prefix(text));
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(valid.data());
    size_t done = 0;
    while (done < valid.size()) {
      const int n = pcre2_match(pattern_->code, subject, valid.size(), done,
                                PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.data, nullptr);
      if (n < 0 && n != PCRE2_ERROR_NOMATCH) {
        throw Error(ErrorKind::kInternal, "splitting text into pieces failed: " + message_of(n));
      }
      size_t begin = valid.size();
      size_t end = valid.size();
      if (n > 0) {
        const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.data);
        begin = range[0];
        end = range[1];
      }
      if (begin > done) piece(valid.substr(done, begin - done));
      if (end > begin) piece(valid.substr(begin, end - begin));
      done = end;
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
