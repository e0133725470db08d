#include "llm/tokenizer/tokenizer.h"

#include <algorithm>
#include <queue>

#include "error/error.h"

namespace vesper {
namespace {

// A part of a piece while merging; parts are a list linked through a vector, by place of their
// first byte.
struct MergingPart {
  uint32_t end;       // one past the last byte; begin itself if the part was merged away
  uint32_t previous;  // the part before, kNone for the first
};

constexpr uint32_t kNone = UINT32_MAX;

// Two neighbouring parts whose bytes together are a token.
struct Merge {
  int32_t rank;
  uint32_t begin, middle, end;

  // The lowest rank comes first, of equal ones the leftmost.
  bool operator<(const Merge& other) const {
    return rank != other.rank ? rank > other.rank : begin > other.begin;
  }
};

}  // namespace

Tokenizer::Tokenizer(std::vector<std::string> vocabulary, uint32_t n_text_tokens,
                     std::string_view pattern)
    : vocabulary_(std::move(vocabulary)), pre_tokenizer_(pattern) {
  const size_t n = std::min<size_t>(n_text_tokens, vocabulary_.size());
  id_of_.reserve(n);
  for (size_t id = 0; id < n; ++id) {
    if (vocabulary_[id].empty()) continue;
    id_of_.emplace(vocabulary_[id], static_cast<int32_t>(id));
    longest_ = std::max(longest_, vocabulary_[id].size());
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (find({&text, 1}) < 0) {
      throw Error(ErrorKind::kModel,
                  "expected a vocabulary with a token for each of the 256 bytes"
                  ", found none for byte " +
                      std::to_string(byte) + " among " + std::to_string(n) + " tokens");
    }
  }
}

int32_t Tokenizer::find(std::string_view bytes) const {
  const auto found = id_of_.find(bytes);
  return found == id_of_.end() ? -1 : found->second;
}

void Tokenizer::encode_piece(std::string_view piece, std::vector<int32_t>& ids) const {
  if (piece.size() <= longest_) {
    if (const int32_t id = find(piece); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  const auto size = static_cast<uint32_t>(piece.size());
  std::vector<MergingPart> parts(size);
  std::priority_queue<Merge> merges;
  const auto propose = [&](uint32_t begin, uint32_t middle) {
    const uint32_t end = parts[middle].end;
    if (end - begin > longest_) return;
    if (const int32_t rank = find(piece.substr(begin, end - begin)); rank >= 0) {
      merges.push({rank, begin, middle, end});
    }
  };
  for (uint32_t i = 0; i < size; ++i) parts[i] = {i + 1, i == 0 ? kNone : i - 1};
  for (uint32_t i = 0; i + 1 < size; ++i) propose(i, i + 1);
  while (!merges.empty()) {
    const Merge merge = merges.top();
    merges.pop();
    // Out of date if either part has been merged since.
    if (parts[merge.begin].end != merge.middle || parts[merge.middle].end != merge.end) continue;
    parts[merge.begin].end = merge.end;
    parts[merge.middle].end = merge.middle;
    if (merge.end < size) {
      parts[merge.end].previous = merge.begin;
      propose(merge.begin, merge.end);
    }
    if (const uint32_t previous = parts[merge.begin].previous; previous != kNone) {
      propose(previous, merge.begin);
    }
  }
  for (uint32_t i = 0; i < size; i = parts[i].end) {
    ids.push_back(find(piece.substr(i, parts[i].end - i)));
  }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  if (text.size() >= kNone) {
    throw Error(ErrorKind::kInput, "expected less than 4 GiB of text, found " +
                                       std::to_string(text.size()) + " bytes");
  }
  std::vector<int32_t> ids;
  pre_tokenizer_.split(text, [&](std::string_view piece) { encode_piece(piece, ids); });
  return ids;
}

std::string_view Tokenizer::bytes_of(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= vocabulary_.size()) return {};
  return vocabulary_[static_cast<size_t>(id)];
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string bytes;
  for (const int32_t id : ids) bytes += bytes_of(id);
  return bytes;
}

}  // namespace vesper
