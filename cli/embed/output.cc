#include "cli/embed/output.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/terminal/program.h"
#include "error/number_text.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

using OrderedJson = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

// JSON has no infinity and no NaN: write null instead.
void append_number(float value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out.append(digits.data(), end);
}

void append_array(std::span<const float> vector, std::string& out) {
  out += '[';
  for (size_t i = 0; i < vector.size(); ++i) {
    if (i > 0) out += ',';
    append_number(vector[i], out);
  }
  out += ']';
}

void append_base64(std::span<const float> vector, std::string& out) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* bytes = reinterpret_cast<const unsigned char*>(vector.data());
  const size_t n = vector.size_bytes();
  for (size_t i = 0; i < n; i += 3) {
    const size_t left = std::min<size_t>(3, n - i);
    uint32_t bits = uint32_t{bytes[i]} << 16;
    if (left > 1) bits |= uint32_t{bytes[i + 1]} << 8;
    if (left > 2) bits |= bytes[i + 2];
    for (size_t digit = 0; digit < 4; ++digit) {
      out += digit <= left ? kDigits[bits >> (18 - 6 * digit) & 63] : '=';
    }
  }
}

std::string json_text(std::string_view text) { return OrderedJson(valid_utf8(text)).dump(); }

}  // namespace

void append_embedding(EmbedFormat format, const EmbeddedText& embedded, std::string& out) {
  switch (format) {
    case EmbedFormat::kJson:
      append_array(embedded.vector, out);
      out += '\n';
      return;
    case EmbedFormat::kJsonl:
      out += "{\"index\":" + std::to_string(embedded.index);
      if (embedded.text != nullptr) out += ",\"text\":" + json_text(*embedded.text);
      out += ",\"n_tokens\":" + std::to_string(embedded.n_tokens) + ",\"embedding\":";
      append_array(embedded.vector, out);
      out += "}\n";
      return;
    case EmbedFormat::kBase64:
      append_base64(embedded.vector, out);
      out += '\n';
      return;
    case EmbedFormat::kF32:
    case EmbedFormat::kNpy:
      out.append(reinterpret_cast<const char*>(embedded.vector.data()),
                 embedded.vector.size_bytes());
      return;
  }
}

std::string ranking_text(const std::vector<RankedLine>& lines, bool pairs,
                         const std::vector<std::string>& texts) {
  std::string out;
  for (const RankedLine& line : lines) {
    out += formatted("%.4f\t", line.score) + std::to_string(line.first + 1);
    if (pairs) out += "\t" + std::to_string(line.second + 1);
    out += "\t" + printable(texts[line.first]);
    if (pairs) out += "\t" + printable(texts[line.second]);
    out += "\n";
  }
  return out;
}

std::string ranking_json(const std::vector<RankedLine>& lines, bool pairs,
                         const std::vector<std::string>& texts, EmbedFormat format) {
  OrderedJson list = OrderedJson::array();
  for (const RankedLine& line : lines) {
    OrderedJson row = {{"score", line.score}, {"index", line.first}};
    row["text"] = valid_utf8(texts[line.first]);
    if (pairs) {
      row["other_index"] = line.second;
      row["other_text"] = valid_utf8(texts[line.second]);
    }
    list.push_back(std::move(row));
  }
  if (format == EmbedFormat::kJson) return list.dump() + "\n";
  std::string out;
  for (const OrderedJson& row : list) out += row.dump() + "\n";
  return out;
}

}  // namespace vesper
