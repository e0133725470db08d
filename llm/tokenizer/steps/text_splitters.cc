#include "llm/tokenizer/steps/text_splitters.h"

#include <memory>

#include "llm/tokenizer/steps/byte_level.h"
#include "llm/tokenizer/unicode/characters.h"
#include "llm/tokenizer/unicode/pattern.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

struct SplitPart {
  size_t begin, end;
  bool is_separator;
};

// Merges the parts of a text by `behavior` and appends them.
void append_parts(const TextPiece& piece, std::vector<SplitPart> parts, SplitBehavior behavior,
                  std::vector<TextPiece>& out) {
  std::vector<SplitPart> merged;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      merged = std::move(parts);
      break;
    case SplitBehavior::kRemoved:
      for (const SplitPart& part : parts) {
        if (!part.is_separator) merged.push_back(part);
      }
      break;
    case SplitBehavior::kContiguous:
      for (const SplitPart& part : parts) {
        if (!merged.empty() && merged.back().is_separator == part.is_separator) {
          merged.back().end = part.end;
        } else {
          merged.push_back(part);
        }
      }
      break;
    case SplitBehavior::kMergedWithPrevious: {
      bool after_separator = false;
      for (const SplitPart& part : parts) {
        if (part.is_separator && !after_separator && !merged.empty()) {
          merged.back().end = part.end;
        } else {
          merged.push_back(part);
        }
        after_separator = part.is_separator;
      }
      break;
    }
    case SplitBehavior::kMergedWithNext: {
      bool before_separator = false;
      for (size_t i = parts.size(); i-- > 0;) {
        const SplitPart& part = parts[i];
        if (part.is_separator && !before_separator && !merged.empty()) {
          merged.back().begin = part.begin;
        } else {
          merged.push_back(part);
        }
        before_separator = part.is_separator;
      }
      merged = {merged.rbegin(), merged.rend()};
      break;
    }
  }
  for (const SplitPart& part : merged) {
    out.push_back(
        {piece.text.substr(part.begin, part.end - part.begin), piece.at_start && part.begin == 0});
  }
}

}  // namespace

PieceSplitter split_by_pattern(std::string_view pattern, SplitBehavior behavior, bool invert) {
  return [compiled = std::make_shared<const Pattern>(pattern, "the pattern to split text by"),
          behavior, invert](const TextPiece& piece, std::vector<TextPiece>& out) {
    const std::string_view text = piece.text;
    std::vector<SplitPart> parts;
    const auto add = [&](size_t begin, size_t end, bool matches) {
      if (end > begin) parts.push_back({begin, end, matches != invert});
    };
    for (size_t begin = 0; begin < text.size();) {
      const size_t valid_end = begin + valid_utf8_prefix(text.substr(begin));
      PatternSearch search(*compiled, text.substr(begin, valid_end - begin));
      size_t done = begin;
      while (done < valid_end) {
        const auto match = search.next(done - begin);
        if (!match) break;
        add(done, begin + match->begin, false);
        add(begin + match->begin, begin + match->end, true);
        done = begin + match->end;
      }
      add(done, valid_end, false);
      begin = valid_end;
      while (begin < text.size() && valid_utf8_prefix(text.substr(begin, 4)) == 0) ++begin;
      add(valid_end, begin, !invert);
    }
    append_parts(piece, std::move(parts), behavior, out);
  };
}

namespace {

// Characters for which `separates` is true are separate separators.
template <typename Separates>
std::vector<SplitPart> parts_by_character(std::string_view text, const Separates& separates) {
  std::vector<SplitPart> parts;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t from = at;
    if (!separates(next_character(text, at))) continue;
    if (from > begin) parts.push_back({begin, from, false});
    parts.push_back({from, at, true});
    begin = at;
  }
  if (begin < text.size()) parts.push_back({begin, text.size(), false});
  return parts;
}

}  // namespace

PieceSplitter split_at_spaces(std::string replacement, SpacePrefix prefix, bool split) {
  return [replacement = std::move(replacement), prefix, split](const TextPiece& piece,
                                                               std::vector<TextPiece>& out) {
    if (piece.text.empty()) return;
    TextPiece replaced{"", piece.at_start};
    for (const char c : piece.text) {
      if (c == ' ') {
        replaced.text += replacement;
      } else {
        replaced.text += c;
      }
    }
    const bool prefixes =
        prefix == SpacePrefix::kAlways || (prefix == SpacePrefix::kFirst && piece.at_start);
    if (prefixes && !replaced.text.starts_with(replacement)) replaced.text.insert(0, replacement);
    if (!split) {
      out.push_back(std::move(replaced));
      return;
    }
    size_t at = 0;
    const char32_t sign = next_character(replacement, at);
    append_parts(replaced, parts_by_character(replaced.text, [&](char32_t c) { return c == sign; }),
                 SplitBehavior::kMergedWithNext, out);
  };
}

PieceSplitter split_at_white_space() {
  return [](const TextPiece& piece, std::vector<TextPiece>& out) {
    append_parts(piece, parts_by_character(piece.text, is_white_space), SplitBehavior::kRemoved,
                 out);
  };
}

PieceSplitter split_at_punctuation(SplitBehavior behavior) {
  return [behavior](const TextPiece& piece, std::vector<TextPiece>& out) {
    const auto is_sign = [](char32_t c) {
      const bool is_ascii = (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
                            (c >= 123 && c <= 126);
      return is_ascii || (is_punctuation(c) && !is_punctuation_since_unicode_9(c));
    };
    append_parts(piece, parts_by_character(piece.text, is_sign), behavior, out);
  };
}

PieceSplitter spell_bytes() {
  return [](const TextPiece& piece, std::vector<TextPiece>& out) {
    out.push_back({byte_level_of_bytes(piece.text), piece.at_start});
  };
}

}  // namespace vesper
