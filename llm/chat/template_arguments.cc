#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>

#include "llm/chat/template_evaluator.h"
#include "llm/tokenizer/unicode/characters.h"

namespace vesper::chat {

std::vector<std::optional<Value>> bind(const std::string& function, const Arguments& arguments,
                                       std::initializer_list<const char*> parameters,
                                       size_t n_required) {
  std::vector<std::optional<Value>> values(parameters.size());
  if (arguments.positional.size() > values.size()) {
    fail(function + ": expected at most " + std::to_string(values.size()) + " arguments, found " +
         std::to_string(arguments.positional.size()));
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), values.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto* found = std::find_if(parameters.begin(), parameters.end(),
                                     [&, &key = name](const char* known) { return key == known; });
    if (found == parameters.end()) {
      fail(function + ": expected no argument named \"" + name + "\"");
    }
    values[static_cast<size_t>(found - parameters.begin())] = value;
  }
  for (size_t i = 0; i < n_required; ++i) {
    if (!values[i]) {
      fail(function + ": expected an argument for \"" + std::string(parameters.begin()[i]) + "\"");
    }
  }
  return values;
}

int64_t checked_integer(const Value& value, const std::string& what) {
  if (!value.is_number() || value.is_float()) {
    fail_type("expected an integer for " + what, value);
  }
  return value.as_int();
}

std::string checked_text(const Value& value, const std::string& what) {
  if (!value.is_string() && !value.is_undefined()) {
    fail_type("expected a string for " + what, value);
  }
  return text_of(value);
}

std::optional<int64_t> parse_int(std::string_view text, int base) {
  const std::string plain = stripped(text, std::nullopt, true, true);
  std::string digits;
  for (const char c : plain) {
    if (c != '_') digits += c;
  }
  const char* begin = digits.data();
  const char* end = begin + digits.size();
  if (begin != end && *begin == '+') ++begin;
  const bool negative = begin != end && *begin == '-';
  if (base == 16 && end - begin > 2 + negative && begin[negative] == '0' &&
      (begin[negative + 1] | 32) == 'x') {
    const auto magnitude = parse_int(std::string_view(begin + negative + 2, end), 16);
    return magnitude && negative ? -*magnitude : magnitude;
  }
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value, base);
  if (begin == end || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  const std::string plain = stripped(text, std::nullopt, true, true);
  const char* begin = plain.data();
  const char* end = begin + plain.size();
  if (begin != end && *begin == '+') ++begin;
  double value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (begin == end || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string stripped(std::string_view text, std::optional<std::string_view> characters, bool left,
                     bool right) {
  if (!characters) {
    if (left) text.remove_prefix(white_space_at_start(text));
    if (right) text.remove_suffix(white_space_at_end(text));
    return std::string(text);
  }
  const auto belongs = [&](std::string_view character) {
    return characters->find(character) != std::string_view::npos;
  };
  const std::vector<std::string_view> parts = characters_of(text);
  size_t begin = 0, end = parts.size();
  while (left && begin < end && belongs(parts[begin])) ++begin;
  while (right && end > begin && belongs(parts[end - 1])) --end;
  std::string out;
  for (size_t i = begin; i < end; ++i) out += parts[i];
  return out;
}

std::string upper_case(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (c == 0xdf) {
      out += "SS";
    } else {
      append_character(vesper::upper_case(c), out);
    }
  }
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();)
    append_character(vesper::lower_case(next_character(text, at)), out);
  return out;
}

std::string capitalized(std::string_view text) {
  const size_t first = text.empty() ? 0 : characters_of(text.substr(0, 4)).front().size();
  return upper_case(text.substr(0, first)) + lower_case(text.substr(first));
}

std::string title_case(std::string_view text, bool (*separates)(char32_t)) {
  std::string out;
  bool in_word = false;
  for (const std::string_view character : characters_of(text)) {
    size_t at = 0;
    out += in_word ? lower_case(character) : upper_case(character);
    in_word = !separates(next_character(character, at));
  }
  return out;
}

std::string replaced(Evaluator& evaluator, std::string_view text, std::string_view from,
                     std::string_view to, int64_t most) {
  std::string out;
  evaluator.spend(text.size());
  const auto put = [&](std::string_view part) {
    evaluator.spend(part.size());
    out += part;
  };
  if (from.empty()) {  // before every character and at the end
    for (const std::string_view character : characters_of(text)) {
      if (most-- != 0) put(to);
      put(character);
    }
    if (most != 0) put(to);
    return out;
  }
  while (most-- != 0) {
    const size_t at = text.find(from);
    if (at == std::string_view::npos) break;
    put(text.substr(0, at));
    put(to);
    text.remove_prefix(at + from.size());
  }
  put(text);
  return out;
}

std::string percent_format(Evaluator& evaluator, std::string_view format, const Value& values) {
  const bool is_tuple = values.is_list() && values.as_list().is_tuple;
  size_t next = 0;
  const auto take = [&]() -> Value {
    if (!is_tuple) {
      if (next++ > 0) fail("expected a value for each % of a format");
      return values;
    }
    if (next >= values.items().size()) fail("expected a value for each % of a format");
    return values.items()[next++];
  };
  std::string out;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out += format[at];
      continue;
    }
    std::string flags;  // of one conversion, as in printf()
    for (++at;
         at < format.size() && std::string_view("+- #0").find(format[at]) != std::string_view::npos;
         ++at) {
      flags += format[at];
    }
    std::array<size_t, 2> numbers{};  // width, precision
    bool has_precision = false;
    for (size_t which = 0; which < 2; ++which) {
      while (at < format.size() && format[at] >= '0' && format[at] <= '9') {
        numbers[which] =
            std::min<size_t>(numbers[which] * 10 + static_cast<size_t>(format[at++] - '0'), 1000);
      }
      if (which == 0 && at < format.size() && format[at] == '.') {
        has_precision = true;
        ++at;
      } else {
        break;
      }
    }
    if (at >= format.size()) fail("expected a conversion after % in a format");
    const char kind = format[at];
    if (kind == '%') {
      out += '%';
      continue;
    }
    std::string piece;
    const Value value = take();
    std::string spec = "%" + flags + (numbers[0] > 0 ? std::to_string(numbers[0]) : "") +
                       (has_precision ? "." + std::to_string(numbers[1]) : "");
    std::array<char, 1600> room{};
    if (kind == 's' || kind == 'r') {
      evaluator.spend(value.weight());
      piece = kind == 's' ? text_of(value) : repr_of(value);
      if (has_precision) {
        std::string cut;
        for (const std::string_view c : characters_of(piece)) {
          if (numbers[1]-- == 0) break;
          cut += c;
        }
        piece = cut;
      }
      const size_t n = count_characters(piece);
      const std::string room_left(numbers[0] > n ? numbers[0] - n : 0, ' ');
      piece = flags.find('-') != std::string::npos ? piece + room_left : room_left + piece;
    } else if ((kind == 'd' || kind == 'i' || kind == 'x' || kind == 'X' || kind == 'o') &&
               value.is_number()) {
      spec += kind == 'i' ? "lld" : std::string("ll") + kind;
      const auto number = value.is_float()
                              ? static_cast<long long>(std::clamp(value.as_double(), -9e18, 9e18))
                              : static_cast<long long>(value.as_int());
      std::snprintf(room.data(), room.size(), spec.c_str(), number);
      piece = room.data();
    } else if (std::string_view("fFeEgG").find(kind) != std::string_view::npos &&
               value.is_number()) {
      spec += kind;
      std::snprintf(room.data(), room.size(), spec.c_str(), value.as_double());
      piece = room.data();
    } else {
      fail(std::string("expected a matching format, found %") + kind + " for a value of type " +
           value.type_name());
    }
    evaluator.spend(piece.size());
    out += piece;
  }
  evaluator.spend(out.size());
  if (is_tuple && next < values.items().size()) fail("expected a % in a format for each value");
  return out;
}

}  // namespace vesper::chat
