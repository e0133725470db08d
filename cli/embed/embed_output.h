// How `embed` writes vectors and ranked lines.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/embed/options.h"

namespace vesper {

// Where output goes, piece by piece.
using EmbedSink = std::function<void(std::string_view)>;

// Appends a vector in its format, which is not kNpy:
//   json    [0.1,-0.2,...] and a new line, in the fewest digits that give the same f32
//   jsonl   {"index": 0, "text": "...", "n_tokens": 7, "embedding": [...]} and a new line; an
//   object
//           without "text" for token ids
//   f32     little-endian numbers, nothing between
//   base64  these bytes in base64 (RFC 4648), and a new line
struct EmbeddedText {
  uint64_t index = 0;  // from 0, in the order of the input
  const std::string* text = nullptr;
  uint32_t n_tokens = 0;  // that went into the model
  std::span<const float> vector;
};
void append_embedding(EmbedFormat format, const EmbeddedText& embedded, std::string& out);

// A line of a ranking: a text and the query, or two texts.
struct RankedLine {
  double score = 0;
  uint64_t first = 0, second = 0;  // texts, from 0
};

// The best of what is offered, highest score first, of equal ones the earliest. Holds no more than
// it will give.
class Ranking {
 public:
  explicit Ranking(size_t n_best) : n_best_(n_best) {}
  void offer(const RankedLine& line);
  std::vector<RankedLine> best() const;

 private:
  size_t n_best_;
  std::vector<RankedLine> heap_;  // the worst of them on top
};

// `pairs`: two texts a line, else one. As text, with tabs between: score, the number of each text
// from 1, each text; as jsonl an object a line; as json a list of these.
std::string ranking_text(const std::vector<RankedLine>& lines, bool pairs,
                         const std::vector<std::string>& texts);
std::string ranking_json(const std::vector<RankedLine>& lines, bool pairs,
                         const std::vector<std::string>& texts, EmbedFormat format);

}  // namespace vesper
