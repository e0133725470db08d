#include "llm/generation/grammar_constraint.h"

#include <algorithm>
#include <utility>

namespace vesper {
namespace {

constexpr uint32_t kMostSpaceTokens = 2;

bool is_white_space(std::string_view text) {
  return !text.empty() && text.find_first_not_of(" \n\r\t") == std::string_view::npos;
}

void set_bit(std::span<uint32_t> bits, int32_t id) {
  const auto at = static_cast<uint32_t>(id);
  if (at / 32 < bits.size()) bits[at / 32] |= 1u << at % 32;
}

void clear_bit(std::span<uint32_t> bits, int32_t id) {
  const auto at = static_cast<uint32_t>(id);
  if (at / 32 < bits.size()) bits[at / 32] &= ~(1u << at % 32);
}

}  // namespace

GrammarConstraint::GrammarConstraint(GrammarMatcher matcher, const TextTokenizer* tokenizer,
                                     GrammarStart start)
    : matcher_(std::move(matcher)), tokenizer_(tokenizer), start_(std::move(start)) {
  if (tokenizer_ == nullptr || start_.after.empty()) return;
  part_ = start_.opening >= 0 ? Part::kOpening : Part::kFree;
}

bool GrammarConstraint::fill_mask(std::span<uint32_t> allowed) {
  const TokenVocabulary& vocabulary = matcher_.masks().vocabulary();
  if (part_ == Part::kFree) {
    std::ranges::fill(allowed, ~0u);
    for (const int32_t id : vocabulary.stop_ids()) clear_bit(allowed, id);
    return true;
  }
  const size_t n_words = vocabulary.n_words();
  bool any = matcher_.fill_mask(allowed.first(n_words));
  std::ranges::fill(allowed.subspan(n_words), 0u);
  if (part_ == Part::kOpening) {
    set_bit(allowed, start_.opening);
    any = true;
  }
  if (part_ == Part::kSpace) allow_space(allowed);
  if (timestamp_begin_ < INT32_MAX && (!has_begun_ || matcher_.may_end())) {
    for (auto id = static_cast<uint32_t>(timestamp_begin_); id < allowed.size() * 32; ++id) {
      set_bit(allowed, static_cast<int32_t>(id));
    }
    any = true;
  }
  return any;
}

void GrammarConstraint::allow_space(std::span<uint32_t> allowed) const {
  const TokenVocabulary::Trie& trie = matcher_.masks().vocabulary().trie();
  // Only descendants by white space are visited.
  for (uint32_t node = 1; node < trie.n_nodes();) {
    const char byte = static_cast<char>(trie.byte[node]);
    if (!is_white_space({&byte, 1})) {
      node = trie.end[node];
      continue;
    }
    for (uint32_t i = trie.first_token[node]; i < trie.first_token[node + 1]; ++i) {
      set_bit(allowed, trie.tokens[i]);
    }
    ++node;
  }
}

void GrammarConstraint::leave_free_text(std::string_view rest) {
  part_ = Part::kSpace;
  n_space_ = kMostSpaceTokens;
  const size_t first = rest.find_first_not_of(" \n\r\t");
  if (first == std::string_view::npos || !matcher_.accept_bytes(rest.substr(first))) return;
  part_ = Part::kGrammar;
  has_begun_ = true;
}

bool GrammarConstraint::accept(int32_t token) {
  if (part_ == Part::kOpening) {
    part_ = token == start_.opening ? Part::kFree : Part::kGrammar;
    if (part_ == Part::kFree) return true;
  }
  if (part_ == Part::kFree) {
    std::string text = free_ending_ + std::string(tokenizer_->bytes_of(token));
    if (const size_t at = text.find(start_.after); at != std::string::npos) {
      leave_free_text(std::string_view(text).substr(at + start_.after.size()));
    } else {
      text.erase(0, text.size() - std::min(text.size(), start_.after.size() - 1));
      free_ending_ = std::move(text);
    }
    return true;
  }
  if (token >= timestamp_begin_) return true;
  if (!matcher_.accept(token)) {
    if (part_ != Part::kSpace || !is_white_space(matcher_.masks().vocabulary().bytes_of(token))) {
      return false;
    }
    if (--n_space_ == 0) part_ = Part::kGrammar;
    return true;
  }
  part_ = Part::kGrammar;
  has_begun_ = true;
  if (n_written_ == written_.size()) {
    std::shift_left(written_.begin(), written_.end(), 1);
    --n_written_;
  }
  written_[n_written_++] = token;
  return true;
}

// A tokenizer makes its tokens by merging parts, or chooses among the tokens that spell a part. If
// no token spells text on both sides of a place, the tokens of each side are independent of the
// other.
bool GrammarConstraint::is_boundary(std::string_view text, size_t at) const {
  const TokenVocabulary& vocabulary = matcher_.masks().vocabulary();
  const TokenVocabulary::Trie& trie = vocabulary.trie();
  const size_t first = at - std::min(at, vocabulary.longest());
  for (size_t begin = first; begin < at; ++begin) {
    uint32_t node = 0;
    for (size_t i = begin;; ++i) {
      const uint32_t end = node == 0 ? trie.n_nodes() : trie.end[node];
      if (i == text.size()) {
        if (node + 1 < end) return false;  // a token goes on after the text
        break;
      }
      uint32_t child = node + 1;
      while (child < end && trie.byte[child] != static_cast<uint8_t>(text[i])) {
        child = trie.end[child];
      }
      if (child >= end) break;
      node = child;
      if (i >= at && trie.first_token[node] < trie.first_token[node + 1]) return false;
    }
  }
  return true;
}

std::vector<int32_t> GrammarConstraint::take_forced(size_t most) {
  if (tokenizer_ == nullptr || part_ != Part::kGrammar || timestamp_begin_ < INT32_MAX) return {};
  const std::string forced = matcher_.forced_bytes();
  if (forced.size() < 2) return {};
  const TokenVocabulary& vocabulary = matcher_.masks().vocabulary();
  std::string before;
  const auto written = std::span(written_).first(n_written_);
  for (const int32_t id : written) before += vocabulary.bytes_of(id);
  const std::string text = before + forced;
  // The last tokens that have a boundary before them.
  size_t n_known = 0, from = before.size();
  while (n_known < written.size() && !is_boundary(text, from)) {
    from -= vocabulary.bytes_of(written[written.size() - ++n_known]).size();
  }
  const bool is_at_start =
      from == 0 && n_known == written.size() && written.size() < kTokensBeforeForced;
  if (!is_at_start && !is_boundary(text, from)) return {};
  const std::vector<int32_t> ids =
      tokenizer_->encode(std::string_view(text).substr(from), false, false);
  if (ids.size() < n_known ||
      !std::equal(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n_known),
                  written.end() - static_cast<std::ptrdiff_t>(n_known))) {
    return {};
  }
  // The tokens up to the last boundary.
  size_t at = before.size(), n_taken = n_known;
  for (size_t i = n_known; i < ids.size(); ++i) {
    const std::string_view bytes = vocabulary.bytes_of(ids[i]);
    if (bytes.empty() || std::string_view(text).substr(at, bytes.size()) != bytes) break;
    at += bytes.size();
    if (is_boundary(text, at)) n_taken = i + 1;
  }
  std::vector<int32_t> taken(ids.begin() + static_cast<std::ptrdiff_t>(n_known),
                             ids.begin() + static_cast<std::ptrdiff_t>(n_taken));
  taken.resize(std::min(taken.size(), most));
  if (taken.size() < 2) return {};
  for (size_t i = 0; i < taken.size(); ++i) {
    if (accept(taken[i])) continue;
    taken.resize(i);
    break;
  }
  return taken;
}

}  // namespace vesper
