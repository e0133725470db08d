#include "decoder/suppressed_tokens.h"

#include <algorithm>
#include <string_view>

#include "llm/tokenizer/unicode/pattern.h"

namespace vesper {
namespace {

// As in WhisperX: digits and signs used with numbers.
bool has_numeral(std::string_view text) {
  return text.find_first_of("0123456789%$") != std::string_view::npos ||
         text.find("£") != std::string_view::npos;
}

}  // namespace

std::vector<int32_t> suppressed_tokens(const DecodingSettings& settings,
                                       const TextTokenizer& tokenizer, int32_t n_text_tokens,
                                       std::span<const int32_t> of_model) {
  std::vector<int32_t> ids = settings.suppress_tokens;
  if (settings.suppress_model_tokens) ids.insert(ids.end(), of_model.begin(), of_model.end());
  const auto add_if = [&](auto condition) {
    for (int32_t id = 0; id < n_text_tokens; ++id) {
      if (condition(tokenizer.bytes_of(id))) ids.push_back(id);
    }
  };
  if (settings.suppress_numerals) add_if(has_numeral);
  if (!settings.suppress_regex.empty()) {
    // The pattern must match a token completely, as in whisper.cpp.
    const Pattern pattern(settings.suppress_regex, "suppress regex", ErrorKind::kUsage);
    add_if([&](std::string_view text) { return pattern.matches_whole(text); });
  }
  return ids;
}

}  // namespace vesper
