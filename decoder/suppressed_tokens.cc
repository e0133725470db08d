#include "decoder/suppressed_tokens.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string_view>

#include "error/error.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace vesper {
namespace {

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// A pattern that a text has to match from its first to its last byte, as in whisper.cpp.
class WholeMatch {
 public:
  explicit WholeMatch(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(
        reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
        PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED,
        &error, &offset, nullptr));
    if (!code_) {
      throw Error(ErrorKind::kUsage, "--suppress-regex: expected a pattern of PCRE2, found \"" +
                                         pattern + "\": " + message_of(error) + " at byte " +
                                         std::to_string(offset));
    }
    data_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    if (!data_) throw std::bad_alloc();
  }

  bool matches(std::string_view text) const {
    const int n = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                              0, 0, data_.get(), nullptr);
    if (n >= 0) return true;
    if (n == PCRE2_ERROR_NOMATCH) return false;
    throw Error(ErrorKind::kUsage, "--suppress-regex: matching a token failed: " + message_of(n));
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> data_;
};

// As WhisperX has it: digits and the signs that go with numbers.
bool has_numeral(std::string_view text) {
  return text.find_first_of("0123456789%$") != std::string_view::npos ||
         text.find("£") != std::string_view::npos;
}

}  // namespace

std::vector<int32_t> suppressed_tokens(const DecodingSettings& settings, const Tokenizer& tokenizer,
                                       int32_t n_text_tokens, std::span<const int32_t> of_model) {
  std::vector<int32_t> ids = settings.suppress_tokens;
  if (settings.suppress_model_tokens) ids.insert(ids.end(), of_model.begin(), of_model.end());
  const auto add_if = [&](auto condition) {
    for (int32_t id = 0; id < n_text_tokens; ++id) {
      if (condition(tokenizer.bytes_of(id))) ids.push_back(id);
    }
  };
  if (settings.suppress_numerals) add_if(has_numeral);
  if (!settings.suppress_regex.empty()) {
    const WholeMatch pattern(settings.suppress_regex);
    add_if([&](std::string_view text) { return pattern.matches(text); });
  }
  return ids;
}

}  // namespace vesper
