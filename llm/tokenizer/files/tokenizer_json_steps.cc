#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/files/json_file.h"
#include "llm/tokenizer/files/tokenizer_json.h"
#include "llm/tokenizer/steps/normalizations.h"
#include "llm/tokenizer/steps/text_splitters.h"

namespace vesper {
namespace {

using nlohmann::json;

// The steps of a sequence, in the member `key`.
const json& list_of(const std::string& name, const json& step, const char* key) {
  const json* list = find_member(step, key);
  if (list == nullptr || !list->is_array()) fail_in_file(name, std::string("expected ") + key);
  return *list;
}

// A pattern in a step: {"Regex": ...} or {"String": ...}. Returns whether it is a Regex.
bool is_regex(const std::string& name, const json& step, std::string& pattern) {
  const json* member = find_member(step, "pattern");
  if (member == nullptr) fail_in_file(name, "expected a pattern, found " + shown_json(&step));
  const bool regex = find_member(*member, "Regex") != nullptr;
  const char* key = regex ? "Regex" : "String";
  if (find_member(*member, key) == nullptr) {
    fail_in_file(name, "expected a pattern with Regex or String, found " + shown_json(member));
  }
  pattern = text_member(name, *member, key, "");
  return regex;
}

std::string pattern_of_text(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    const bool is_sign = (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
                         (c >= 123 && c <= 126);
    if (is_sign) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

SplitBehavior behavior_of(const std::string& name, const json& step) {
  const std::string text = text_member(name, step, "behavior", "Isolated");
  if (text == "Isolated") return SplitBehavior::kIsolated;
  if (text == "Removed") return SplitBehavior::kRemoved;
  if (text == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (text == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (text == "Contiguous") return SplitBehavior::kContiguous;
  fail_in_file(name, "expected a behavior of a split, found \"" + text + "\"");
}

void add_metaspace(const std::string& name, const json& step, TokenizerParts& parts) {
  std::string scheme = text_member(name, step, "prepend_scheme", "always");
  if (!truth_member(name, step, "add_prefix_space", true)) scheme = "never";
  SpacePrefix prefix = SpacePrefix::kAlways;
  if (scheme == "first") {
    prefix = SpacePrefix::kFirst;
  } else if (scheme == "never") {
    prefix = SpacePrefix::kNever;
  } else if (scheme != "always") {
    fail_in_file(name, "expected prepend_scheme always, first or never, found \"" + scheme + "\"");
  }
  const std::string replacement = text_member(name, step, "replacement", std::string(kSpaceMark));
  if (replacement.empty()) fail_in_file(name, "expected a replacement for spaces, found none");
  parts.splitters.push_back(
      split_at_spaces(replacement, prefix, truth_member(name, step, "split", true)));
}

}  // namespace

void read_json_normalizer(const std::string& name, const json& step, TokenizerParts& parts) {
  const std::string type = text_member(name, step, "type", "none");
  const auto add = [&](Normalization normalization) {
    parts.normalizations.push_back(std::move(normalization));
  };
  if (type == "Sequence") {
    for (const json& part : list_of(name, step, "normalizers")) {
      // Sequences are not nested.
      if (text_member(name, part, "type", "none") == "Sequence") {
        fail_in_file(name, "expected a sequence of normalizers without a nested one");
      }
      read_json_normalizer(name, part, parts);
    }
  } else if (type == "NFC") {
    add(normalize_unicode(UnicodeForm::kNfc));
  } else if (type == "NFD") {
    add(normalize_unicode(UnicodeForm::kNfd));
  } else if (type == "NFKC") {
    add(normalize_unicode(UnicodeForm::kNfkc));
  } else if (type == "NFKD") {
    add(normalize_unicode(UnicodeForm::kNfkd));
  } else if (type == "Lowercase") {
    add(make_lower_case());
  } else if (type == "Strip") {
    add(strip_white_space(truth_member(name, step, "strip_left", true),
                          truth_member(name, step, "strip_right", true)));
  } else if (type == "StripAccents") {
    add(strip_accents());
  } else if (type == "Prepend") {
    add(prepend_text(text_member(name, step, "prepend", "")));
  } else if (type == "Replace") {
    std::string pattern;
    const bool regex = is_regex(name, step, pattern);
    std::string content = text_member(name, step, "content", "");
    add(regex ? replace_pattern(pattern, std::move(content))
              : replace_text(std::move(pattern), std::move(content)));
  } else if (type == "Precompiled") {
    add(normalize_by_charsmap(
        bytes_of_base64(name, text_member(name, step, "precompiled_charsmap", ""))));
  } else if (type == "BertNormalizer") {
    BertNormalization settings;
    settings.clean_text = truth_member(name, step, "clean_text", true);
    settings.space_chinese_characters = truth_member(name, step, "handle_chinese_chars", true);
    settings.lower_case = truth_member(name, step, "lowercase", true);
    settings.strip_accents = truth_member(name, step, "strip_accents", settings.lower_case);
    add(normalize_as_bert(settings));
  } else if (type == "Nmt") {
    add(normalize_as_nmt());
  } else {
    fail_in_file(name, "expected a known normalizer, found \"" + type + "\"");
  }
}

void read_json_pre_tokenizer(const std::string& name, const json& step, TokenizerParts& parts) {
  const std::string type = text_member(name, step, "type", "none");
  const auto add = [&](PieceSplitter splitter) { parts.splitters.push_back(std::move(splitter)); };
  if (type == "Sequence") {
    for (const json& part : list_of(name, step, "pretokenizers")) {
      if (text_member(name, part, "type", "none") == "Sequence") {
        fail_in_file(name, "expected a sequence of pre-tokenizers without a nested one");
      }
      read_json_pre_tokenizer(name, part, parts);
    }
  } else if (type == "ByteLevel") {
    parts.knows_bytes = true;
    if (truth_member(name, step, "add_prefix_space", true)) {
      add([](const TextPiece& piece, std::vector<TextPiece>& out) {
        const bool prefixed = !piece.text.empty() && !piece.text.starts_with(' ');
        out.push_back({prefixed ? " " + piece.text : piece.text, piece.at_start});
      });
    }
    if (truth_member(name, step, "use_regex", true)) {
      add(split_by_pattern(kGpt2Pattern, SplitBehavior::kIsolated, false));
    }
    add(spell_bytes());
  } else if (type == "Split") {
    std::string pattern;
    const bool regex = is_regex(name, step, pattern);
    add(split_by_pattern(regex ? pattern : pattern_of_text(pattern), behavior_of(name, step),
                         truth_member(name, step, "invert", false)));
  } else if (type == "Digits") {
    const bool alone = truth_member(name, step, "individual_digits", false);
    add(split_by_pattern(alone ? "\\p{N}" : "\\p{N}+", SplitBehavior::kIsolated, false));
  } else if (type == "Metaspace") {
    add_metaspace(name, step, parts);
  } else if (type == "Whitespace") {
    // \w+|[^\w\s]+ of a regular expression whose \w includes joiners.
    add(split_by_pattern("[\\w\\x{200c}\\x{200d}]+|[^\\w\\x{200c}\\x{200d}\\s]+",
                         SplitBehavior::kRemoved, true));
  } else if (type == "WhitespaceSplit") {
    add(split_at_white_space());
  } else if (type == "BertPreTokenizer") {
    add(split_at_white_space());
    add(split_at_punctuation(SplitBehavior::kIsolated));
  } else if (type == "Punctuation") {
    add(split_at_punctuation(behavior_of(name, step)));
  } else if (type == "CharDelimiterSplit") {
    add(split_by_pattern(pattern_of_text(text_member(name, step, "delimiter", " ")),
                         SplitBehavior::kRemoved, false));
  } else {
    fail_in_file(name, "expected a known pre-tokenizer, found \"" + type + "\"");
  }
}

}  // namespace vesper
