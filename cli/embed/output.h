// Formats vectors and ranked lines.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/embed/options.h"
#include "session/embedding/ranking.h"

namespace vesper {

// Receives the output.
using EmbedSink = std::function<void(std::string_view)>;

// Appends a vector in a format other than kNpy:
//   json    [0.1,-0.2,...] and a line end, with the fewest digits that give the same f32
//   jsonl   {"index": 0, "text": "...", "n_tokens": 7, "embedding": [...]} and a line end;
//           without "text" for token ids
//   f32     little-endian numbers without separators
//   base64  these bytes in base64 (RFC 4648), and a line end
struct EmbeddedText {
  uint64_t index = 0;  // from 0, in input order
  const std::string* text = nullptr;
  uint32_t n_tokens = 0;  // encoded tokens
  std::span<const float> vector;
};
void append_embedding(EmbedFormat format, const EmbeddedText& embedded, std::string& out);

// `pairs`: two texts per line, otherwise one. Text: score, number of each text (from 1) and each
// text, separated by tabs. jsonl: an object per line. json: a list of objects.
std::string ranking_text(const std::vector<RankedLine>& lines, bool pairs,
                         const std::vector<std::string>& texts);
std::string ranking_json(const std::vector<RankedLine>& lines, bool pairs,
                         const std::vector<std::string>& texts, EmbedFormat format);

}  // namespace vesper
