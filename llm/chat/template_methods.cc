// Python's methods of strings, dicts and lists, without those that change a value, as in the
// sandbox that templates are written for.
#include <algorithm>
#include <unordered_map>

#include "llm/chat/template_evaluator.h"
#include "llm/tokenizer/unicode/characters.h"

namespace vesper::chat {
namespace {

using Method = Value (*)(Evaluator&, const Value& self, const Arguments&);

std::optional<std::string> optional_text(const std::optional<Value>& value,
                                         const std::string& what) {
  if (!value || value->is_none()) return std::nullopt;
  return checked_text(*value, what);
}

template <bool left, bool right>
Value strip(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const auto characters =
      optional_text(bind("strip()", arguments, {"chars"})[0], "the characters to strip");
  evaluator.spend(self.as_string().size(), characters ? characters->size() + 1 : 1);
  return stripped(self.as_string(), characters, left, right);
}

std::vector<std::string> words_of(std::string_view text, int64_t most) {
  std::vector<std::string> words;
  for (;;) {
    text.remove_prefix(white_space_at_start(text));
    if (text.empty()) return words;
    if (most >= 0 && words.size() == static_cast<size_t>(most)) {
      words.emplace_back(text.substr(0, text.size() - white_space_at_end(text)));
      return words;
    }
    size_t end = 0;
    for (size_t at = 0; at < text.size() && !is_white_space(next_character(text, at));) end = at;
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

Value list_of(const std::vector<std::string>& texts) {
  List list;
  for (const std::string& text : texts) list.items.emplace_back(text);
  return list;
}

template <bool from_right>
Value split(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const auto given = bind("split()", arguments, {"sep", "maxsplit"});
  const auto separator = optional_text(given[0], "the separator");
  const int64_t most = given[1] ? checked_integer(*given[1], "maxsplit") : -1;
  std::string_view text = self.as_string();
  evaluator.spend(text.size(), 8);
  if (!separator) {
    if (!from_right || most < 0) return list_of(words_of(text, most));
    // The last words are split off; the text before them keeps its spaces.
    std::vector<std::string> words;
    while (text.remove_suffix(white_space_at_end(text)), !text.empty()) {
      if (words.size() == static_cast<size_t>(most)) {
        words.emplace_back(text);
        break;
      }
      size_t begin = 0;
      for (size_t at = 0; at < text.size();) {
        if (is_white_space(next_character(text, at))) begin = at;
      }
      evaluator.spend(text.size());
      words.emplace_back(text.substr(begin));
      text = text.substr(0, begin);
    }
    std::reverse(words.begin(), words.end());
    return list_of(words);
  }
  if (separator->empty()) fail("split(): expected a separator that is not empty");
  std::vector<std::string> parts;
  while (most < 0 || parts.size() < static_cast<size_t>(most)) {
    const size_t at = from_right ? text.rfind(*separator) : text.find(*separator);
    if (at == std::string_view::npos) break;
    if (from_right) {
      parts.emplace_back(text.substr(at + separator->size()));
      text = text.substr(0, at);
    } else {
      parts.emplace_back(text.substr(0, at));
      text.remove_prefix(at + separator->size());
    }
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return list_of(parts);
}

Value splitlines(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const auto given = bind("splitlines()", arguments, {"keepends"});
  const bool keeps = given[0] && given[0]->truth();
  const std::string_view text = self.as_string();
  evaluator.spend(text.size(), 8);
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = next_character(text, at);
    const bool ends = (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 ||
                      c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.emplace_back(text.substr(begin, (keeps ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return list_of(lines);
}

template <bool at_end>
Value has_affix(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const auto given = bind(at_end ? "endswith()" : "startswith()", arguments, {"affix"}, 1);
  const std::vector<Value> affixes =
      given[0]->is_list() ? given[0]->items() : std::vector{*given[0]};
  for (const Value& affix : affixes) {
    if (!affix.is_string()) {
      fail_type("expected a string to search for", affix);
    }
    evaluator.spend(affix.as_string().size());
    if (at_end ? self.as_string().ends_with(affix.as_string())
               : self.as_string().starts_with(affix.as_string())) {
      return true;
    }
  }
  return false;
}

template <bool at_end>
Value without_affix(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const std::string affix =
      checked_text(*bind("removeprefix()", arguments, {"affix"}, 1)[0], "a prefix or suffix");
  std::string_view text = self.as_string();
  evaluator.spend(text.size());
  if (at_end ? text.ends_with(affix) : text.starts_with(affix)) {
    text = at_end ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size());
  }
  return text;
}

// Characters before `part`, or -1.
template <bool from_right>
Value find(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const std::string part = checked_text(*bind("find()", arguments, {"sub"}, 1)[0], "what to find");
  const std::string& text = self.as_string();
  evaluator.spend(text.size());
  const size_t at = from_right ? text.rfind(part) : text.find(part);
  if (at == std::string::npos) return int64_t{-1};
  return static_cast<int64_t>(count_characters(std::string_view(text).substr(0, at)));
}

Value index(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Value at = find<false>(evaluator, self, arguments);
  if (at.as_int() < 0) fail("index(): expected a string that is found");
  return at;
}

Value count(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const std::string part =
      checked_text(*bind("count()", arguments, {"sub"}, 1)[0], "what to count");
  std::string_view text = self.as_string();
  evaluator.spend(text.size());
  if (part.empty()) return static_cast<int64_t>(count_characters(text) + 1);
  int64_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part)) {
    ++n;
    text.remove_prefix(at + part.size());
  }
  return n;
}

Value replace(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const auto given = bind("replace()", arguments, {"old", "new", "count"}, 2);
  return replaced(evaluator, self.as_string(), checked_text(*given[0], "what to replace"),
                  checked_text(*given[1], "the replacement"),
                  given[2] ? checked_integer(*given[2], "count") : -1);
}

Value join(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  std::string out;
  bool first = true;
  for (const Value& item : evaluator.items_of(*bind("join()", arguments, {"items"}, 1)[0])) {
    if (!item.is_string()) {
      fail_type("join(): expected text", item);
    }
    evaluator.spend(self.as_string().size() + item.as_string().size());
    if (!first) out += self.as_string();
    first = false;
    out += item.as_string();
  }
  return out;
}

std::string python_title(std::string_view text) {
  return title_case(text, [](char32_t c) { return !is_letter(c); });
}

template <std::string (*convert)(std::string_view)>
Value convert_text(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  bind("the conversion", arguments, {});
  evaluator.spend(self.as_string().size());
  return convert(self.as_string());
}

bool has_case(std::string_view text) { return upper_case(text) != lower_case(text); }
bool all_upper(std::string_view text) { return has_case(text) && upper_case(text) == text; }
bool all_lower(std::string_view text) { return has_case(text) && lower_case(text) == text; }
template <bool (*belongs)(char32_t)>
bool all_are(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (!belongs(next_character(text, at))) return false;
  }
  return !text.empty();
}
bool is_letter_or_number(char32_t c) { return is_letter(c) || is_number(c); }

template <bool (*tests)(std::string_view)>
Value test_text(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  bind("the test", arguments, {});
  evaluator.spend(self.as_string().size());
  return tests(self.as_string());
}

template <int side>  // -1: text to the left, 1: to the right, 0: in the middle
Value justify(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const auto given = bind("justifying", arguments, {"width", "fillchar"}, 1);
  const std::string fill = given[1] ? checked_text(*given[1], "the fill character") : " ";
  const auto n = static_cast<int64_t>(count_characters(self.as_string()));
  const int64_t room = std::max<int64_t>(0, checked_integer(*given[0], "a width") - n);
  evaluator.spend(static_cast<size_t>(room), fill.size() + 1);
  const int64_t width = room + n;
  const int64_t before = side < 0 ? 0 : side > 0 ? room : room / 2 + (room & width & 1);
  std::string out;
  for (int64_t i = 0; i < before; ++i) out += fill;
  out += self.as_string();
  for (int64_t i = before; i < room; ++i) out += fill;
  return out;
}

// "{} {0} {name}" without format specifications.
Value format(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const std::string_view text = self.as_string();
  evaluator.spend(text.size());
  std::string out;
  size_t next = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '{' && text[at] != '}') {
      out += text[at];
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == text[at]) {
      out += text[at++];
      continue;
    }
    const size_t end = text.find('}', at);
    const std::string name(text.substr(at + 1, end == std::string_view::npos ? 0 : end - at - 1));
    if (text[at] == '}' || end == std::string_view::npos ||
        name.find_first_of(":!.[") != std::string::npos) {
      fail("format(): expected names or numbers in braces");
    }
    const auto index =
        name.empty() ? std::optional<int64_t>(static_cast<int64_t>(next++)) : parse_int(name, 10);
    const Value* value = nullptr;
    if (index) {
      if (*index >= 0 && static_cast<size_t>(*index) < arguments.positional.size()) {
        value = &arguments.positional[static_cast<size_t>(*index)];
      }
    } else {
      for (const auto& [key, named] : arguments.named) {
        if (key == name) value = &named;
      }
    }
    if (value == nullptr) fail("format(): expected a value for {" + name + "}");
    const std::string piece = evaluator.text(*value);
    evaluator.spend(piece.size());
    out += piece;
    at = end;
  }
  return out;
}

const std::unordered_map<std::string_view, Method>& text_methods() {
  static const std::unordered_map<std::string_view, Method> table = {
      {"strip", strip<true, true>},
      {"lstrip", strip<true, false>},
      {"rstrip", strip<false, true>},
      {"split", split<false>},
      {"rsplit", split<true>},
      {"splitlines", splitlines},
      {"startswith", has_affix<false>},
      {"endswith", has_affix<true>},
      {"removeprefix", without_affix<false>},
      {"removesuffix", without_affix<true>},
      {"find", find<false>},
      {"rfind", find<true>},
      {"index", index},
      {"count", count},
      {"replace", replace},
      {"join", join},
      {"title", convert_text<python_title>},
      {"format", format},
      {"upper", convert_text<upper_case>},
      {"lower", convert_text<lower_case>},
      {"casefold", convert_text<lower_case>},
      {"capitalize", convert_text<capitalized>},
      {"isupper", test_text<all_upper>},
      {"islower", test_text<all_lower>},
      {"isspace", test_text<all_are<is_white_space>>},
      {"isalpha", test_text<all_are<is_letter>>},
      {"isdigit", test_text<all_are<is_decimal_digit>>},
      {"isdecimal", test_text<all_are<is_decimal_digit>>},
      {"isnumeric", test_text<all_are<is_number>>},
      {"isalnum", test_text<all_are<is_letter_or_number>>},
      {"ljust", justify<-1>},
      {"rjust", justify<1>},
      {"center", justify<0>},
  };
  return table;
}

enum class Side { kKeys, kValues, kPairs };
template <Side side>
Value dict_list(Evaluator& evaluator, const Value& self, const Arguments&) {
  List list;
  evaluator.spend(self.as_dict().items.size(), side == Side::kPairs ? 8 : 4);
  for (const auto& [key, value] : self.as_dict().items) {
    list.items.push_back(side == Side::kKeys     ? key
                         : side == Side::kValues ? value
                                                 : Value::tuple({key, value}));
  }
  return list;
}

Value dict_get(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const auto given = bind("get()", arguments, {"key", "default"}, 1);
  evaluator.spend(self.as_dict().items.size() / 8);
  const Value* found = find_member(self.as_dict(), *given[0]);
  return found != nullptr ? *found : given[1].value_or(nullptr);
}

Value copy(Evaluator&, const Value& self, const Arguments&) { return self; }

Value list_index(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Value wanted = *bind("index()", arguments, {"value"}, 1)[0];
  evaluator.spend(self.items().size());
  for (size_t i = 0; i < self.items().size(); ++i) {
    if (evaluator.equal(self.items()[i], wanted)) return static_cast<int64_t>(i);
  }
  fail("index(): expected a value that the list has");
}

Value list_count(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Value wanted = *bind("count()", arguments, {"value"}, 1)[0];
  evaluator.spend(self.items().size());
  return static_cast<int64_t>(
      std::count_if(self.items().begin(), self.items().end(),
                    [&](const Value& item) { return evaluator.equal(item, wanted); }));
}

const std::unordered_map<std::string_view, Method>& dict_methods() {
  static const std::unordered_map<std::string_view, Method> table = {
      {"items", dict_list<Side::kPairs>},
      {"keys", dict_list<Side::kKeys>},
      {"values", dict_list<Side::kValues>},
      {"get", dict_get},
      {"copy", copy},
  };
  return table;
}

const std::unordered_map<std::string_view, Method>& list_methods() {
  static const std::unordered_map<std::string_view, Method> table = {
      {"index", list_index}, {"count", list_count}, {"copy", copy}};
  return table;
}

}  // namespace

Value method_of(const Value& value, const std::string& name) {
  const auto* methods = value.is_string() ? &text_methods()
                        : value.is_dict() ? &dict_methods()
                        : value.is_list() ? &list_methods()
                                          : nullptr;
  if (methods == nullptr) return Value();
  const auto found = methods->find(name);
  if (found == methods->end()) return Value();
  Callable bound;
  bound.name = name;
  bound.depth = value.depth() + 1;
  bound.call = [value, method = found->second](Evaluator& evaluator, const Arguments& arguments) {
    return method(evaluator, value, arguments);
  };
  return bound;
}

}  // namespace vesper::chat
