#include "decoder/transcript/segment_cutting.h"

#include <algorithm>
#include <utility>

namespace vesper {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

std::string_view without_leading_space(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

// The segment's tokens, in pieces; timestamps belong to the text before them.
class TokenShares {
 public:
  TokenShares(const std::vector<int32_t>& tokens, int32_t end_of_text)
      : tokens_(tokens), end_of_text_(end_of_text) {}

  std::vector<int32_t> take(const std::vector<Word>& words) {
    size_t n_text = 0;
    for (const Word& word : words) n_text += word.n_tokens;
    const size_t begin = next_;
    while (next_ < tokens_.size() && (n_text > 0 || tokens_[next_] >= end_of_text_)) {
      if (tokens_[next_++] < end_of_text_) --n_text;
    }
    return {tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
            tokens_.begin() + static_cast<std::ptrdiff_t>(next_)};
  }

 private:
  const std::vector<int32_t>& tokens_;
  int32_t end_of_text_;
  size_t next_ = 0;
};

}  // namespace

size_t count_characters(std::string_view text) {
  return text.size() -
         static_cast<size_t>(std::count_if(text.begin(), text.end(), continues_character));
}

std::vector<Word> words_of(const Segment& segment) {
  if (!segment.words.empty() || segment.text.empty()) return segment.words;
  std::vector<Word> words;
  const std::string_view text = segment.text;
  const double per_character_s = (segment.end_s - segment.start_s) /
                                 static_cast<double>(std::max<size_t>(1, count_characters(text)));
  double start_s = segment.start_s;
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end = std::min(text.find(' ', text.find_first_not_of(' ', begin)), text.size());
    Word& word = words.emplace_back();
    word.text = text.substr(begin, end - begin);
    word.start_s = start_s;
    start_s += per_character_s * static_cast<double>(count_characters(word.text));
    word.end_s = end == text.size() ? segment.end_s : start_s;
  }
  return words;
}

std::vector<Segment> cut_segment(const Segment& segment, std::vector<Word> parts,
                                 uint32_t max_length, int32_t end_of_text) {
  std::vector<Segment> pieces;
  Segment piece = segment;
  piece.words.clear();
  TokenShares tokens(segment.tokens, end_of_text);
  size_t length = 0;  // of the piece
  const auto finish = [&] {
    if (piece.words.empty()) return;
    piece.text.clear();
    for (const Word& word : piece.words) piece.text += word.text;
    if (!pieces.empty()) piece.start_s = piece.words.front().start_s;
    piece.end_s = piece.words.back().end_s;
    piece.tokens = tokens.take(piece.words);
    if (segment.words.empty()) piece.words.clear();
    pieces.push_back(piece);
    piece.words.clear();
    length = 0;
  };
  for (Word& part : parts) {
    if (length > 0 && length + count_characters(part.text) > max_length) finish();
    length += count_characters(length > 0 ? std::string_view(part.text)
                                          : without_leading_space(part.text));
    piece.words.push_back(std::move(part));
  }
  finish();
  if (!pieces.empty()) pieces.back().end_s = segment.end_s;
  return pieces;
}

}  // namespace vesper
