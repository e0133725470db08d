#include "llm/tokenizer/unicode/pattern.h"

#include <new>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace vesper {
namespace {

// Step limit of one match, against hostile patterns. Tokenizers' patterns take few steps per
// character.
constexpr uint32_t kMaxSteps = 2'000'000;

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// Replaces \s, \S and \w by Unicode properties, also inside character classes, because PCRE2's
// differ from those of tokenizers. Nested classes, which Oniguruma has and PCRE2 has not, are
// merged.
std::string with_unicode_classes(std::string_view pattern) {
  constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
  std::string out;
  size_t n_classes = 0;  // open ones
  for (size_t i = 0; i < pattern.size(); ++i) {
    const bool in_class = n_classes > 0;
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      const bool opens = pattern[i] == '[' && (!in_class || i + 1 == pattern.size() ||
                                               (pattern[i + 1] != ':' && pattern[i + 1] != '^'));
      const bool closes = pattern[i] == ']' && in_class;
      if (opens) ++n_classes;
      if (closes) --n_classes;
      // A nested class is merged.
      const bool is_inner = (opens && in_class) || (closes && n_classes > 0);
      if (!is_inner) out += pattern[i];
      // A bracket in first position closes nothing.
      if (opens && !in_class) {
        while (i + 1 < pattern.size() && (pattern[i + 1] == '^' || pattern[i + 1] == ']')) {
          out += pattern[++i];
          if (pattern[i] == ']') break;
        }
      }
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      out += "\\p{White_Space}";
    } else if (escaped == 'S') {
      out += "\\P{White_Space}";
    } else if (escaped == 'w') {
      out += in_class ? std::string(kWord) : "[" + std::string(kWord) + "]";
    } else if (escaped == 'W' && !in_class) {
      out += "[^" + std::string(kWord) + "]";
    } else {
      out += '\\';
      out += escaped;
    }
  }
  return out;
}

}  // namespace

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
using MatchData = std::unique_ptr<pcre2_match_data, FreeMatchData>;

struct Pattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  std::string where;
  ErrorKind kind = ErrorKind::kModel;
  ~Compiled() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }

  MatchData match_data() const {
    MatchData data(pcre2_match_data_create_from_pattern(code, nullptr));
    if (!data) throw std::bad_alloc();
    return data;
  }
  // Whether there is a match.
  bool match(std::string_view text, size_t from, uint32_t options, pcre2_match_data* data) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int n = pcre2_match(code, subject, text.size(), from, options, data, context);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its state on the heap
      n = pcre2_match(code, subject, text.size(), from, options | PCRE2_NO_JIT, data, context);
    }
    if (n >= 0) return true;
    // Errors in this range mean invalid UTF-8.
    if (n == PCRE2_ERROR_NOMATCH || (n <= PCRE2_ERROR_UTF8_ERR1 && n >= PCRE2_ERROR_UTF8_ERR21)) {
      return false;
    }
    if (n == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    throw error("matching a text failed: " + message_of(n));
  }

  // A pattern of the user is a setting.
  Error error(const std::string& message) const {
    return kind == ErrorKind::kUsage ? Error(kind, where, message)
                                     : Error(kind, where + ": " + message);
  }
};

Pattern::Pattern(std::string_view pattern, const std::string& where, ErrorKind kind)
    : compiled_(std::make_unique<Compiled>()) {
  compiled_->where = where;
  compiled_->kind = kind;
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::string spelt = with_unicode_classes(pattern);
  compiled_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelt.data()), spelt.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                  &error, &offset, nullptr);
  if (compiled_->code == nullptr) {
    if (error == PCRE2_ERROR_HEAP_FAILED) throw std::bad_alloc();
    throw compiled_->error("expected a pattern of PCRE2, found \"" + std::string(pattern) +
                           "\": " + message_of(error) + " at byte " + std::to_string(offset));
  }
  compiled_->context = pcre2_match_context_create(nullptr);
  if (compiled_->context == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(compiled_->context, kMaxSteps);
  // Without a just-in-time compiler, matching is slower but correct.
  pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE);
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

bool Pattern::matches_whole(std::string_view text) const {
  return compiled_->match(text, 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED,
                          compiled_->match_data().get());
}

struct PatternSearch::State {
  const Pattern::Compiled& pattern;
  std::string_view text;
  MatchData data;
};

PatternSearch::PatternSearch(const Pattern& pattern, std::string_view valid_text)
    : state_(new State{*pattern.compiled_, valid_text, pattern.compiled_->match_data()}) {}

PatternSearch::~PatternSearch() = default;

std::optional<PatternSearch::Match> PatternSearch::next(size_t from) {
  // The text is valid; PCRE2 would check the rest at every match.
  if (!state_->pattern.match(state_->text, from, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                             state_->data.get())) {
    return std::nullopt;
  }
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(state_->data.get());
  // \K in a lookaround may put the begin after the end.
  if (range[0] >= range[1] || range[0] < from) return std::nullopt;
  return Match{range[0], range[1]};
}

}  // namespace vesper
