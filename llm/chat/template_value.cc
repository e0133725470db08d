#include "llm/chat/template_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/tokenizer/unicode/characters.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper::chat {
namespace {

constexpr uint32_t kMaxValueDepth = 100;

void check_nesting(uint32_t depth) {
  if (depth > kMaxValueDepth) {
    fail("expected lists and dictionaries nested at most " + std::to_string(kMaxValueDepth) +
         " deep");
  }
}

void add_weight(size_t& sum, size_t weight) {
  if (__builtin_add_overflow(sum, weight, &sum)) sum = SIZE_MAX;
}

void append_hex(char32_t c, size_t n_digits, std::string& out) {
  for (size_t i = n_digits; i-- > 0;) out += "0123456789abcdef"[c >> (4 * i) & 15];
}

std::string repr_of_text(std::string_view text) {
  const bool doubled =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out += text.substr(begin, at - begin);
    } else {
      const size_t n_digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
      out += n_digits == 2 ? "\\x" : n_digits == 4 ? "\\u" : "\\U";
      append_hex(c, n_digits, out);
    }
  }
  return out + quote;
}

void append_json_text(const std::string& text, bool ascii, std::string& out) {
  out += nlohmann::json(text).dump(-1, ' ', ascii, nlohmann::json::error_handler_t::replace);
}

void append_json(const Value& value, const JsonStyle& style, size_t level, std::string& out);

void append_line(const JsonStyle& style, size_t level, std::string& out) {
  if (style.indent < 0 && style.indent_text.empty()) return;
  out += '\n';
  for (size_t i = 0; i < level; ++i) {
    if (style.indent_text.empty()) {
      out.append(static_cast<size_t>(style.indent), ' ');
    } else {
      out += style.indent_text;
    }
  }
}

void append_json_key(const Value& key, const JsonStyle& style, std::string& out) {
  if (key.is_string()) return append_json_text(key.as_string(), style.ascii, out);
  std::string text;
  append_json(key, style, 0, text);
  append_json_text(text, style.ascii, out);
}

void append_json(const Value& value, const JsonStyle& style, size_t level, std::string& out) {
  if (value.is_none()) {
    out += "null";
  } else if (value.is_bool()) {
    out += value.as_bool() ? "true" : "false";
  } else if (value.is_int()) {
    out += std::to_string(value.as_int());
  } else if (value.is_float()) {
    const double number = value.as_double();
    out += std::isnan(number)   ? "NaN"
           : std::isinf(number) ? (number > 0 ? "Infinity" : "-Infinity")
                                : repr_of(number);
  } else if (value.is_string()) {
    append_json_text(value.as_string(), style.ascii, out);
  } else if (value.is_list()) {
    out += '[';
    bool first = true;
    for (const Value& item : value.items()) {
      if (!first) out += style.item_separator;
      first = false;
      append_line(style, level + 1, out);
      append_json(item, style, level + 1, out);
    }
    if (!first) append_line(style, level, out);
    out += ']';
  } else if (value.is_dict() && !value.as_dict().is_namespace) {
    std::vector<const std::pair<Value, Value>*> members;
    for (const auto& member : value.as_dict().items) members.push_back(&member);
    if (style.sort_keys) {
      std::stable_sort(members.begin(), members.end(), [](const auto* a, const auto* b) {
        return text_of(a->first) < text_of(b->first);
      });
    }
    out += '{';
    bool first = true;
    for (const auto* member : members) {
      if (!first) out += style.item_separator;
      first = false;
      append_line(style, level + 1, out);
      append_json_key(member->first, style, out);
      out += style.key_separator;
      append_json(member->second, style, level + 1, out);
    }
    if (!first) append_line(style, level, out);
    out += '}';
  } else {
    fail_type("tojson: expected a value that JSON has", value);
  }
}

}  // namespace

void fail(const std::string& message) { throw Error(ErrorKind::kModel, message); }

void fail_type(const std::string& expected, const Value& found) {
  fail(expected + ", found a value of type " + found.type_name());
}

Value::Value(List list) {
  for (const Value& item : list.items) {
    list.depth = std::max(list.depth, item.depth() + 1);
    list.holds_namespace |= item.holds_namespace();
    add_weight(list.weight, item.weight());
  }
  check_nesting(list.depth);
  data_ = std::make_shared<List>(std::move(list));
}

Value::Value(Dict dict) {
  dict.holds_namespace |= dict.is_namespace;
  for (const auto& [key, value] : dict.items) {
    dict.depth = std::max({dict.depth, key.depth() + 1, value.depth() + 1});
    dict.holds_namespace |= value.holds_namespace() || key.holds_namespace();
    add_weight(dict.weight, key.weight());
    add_weight(dict.weight, value.weight());
    if (dict.is_namespace && value.holds_namespace()) fail("expected no namespace in a namespace");
  }
  check_nesting(dict.depth);
  data_ = std::make_shared<Dict>(std::move(dict));
}

Value::Value(Callable callable) {
  check_nesting(callable.depth);
  data_ = std::make_shared<const Callable>(std::move(callable));
}

Value Value::undefined(std::string message) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(message))};
  return value;
}

Value Value::tuple(std::vector<Value> items) {
  List list;
  list.items = std::move(items);
  list.is_tuple = true;
  return list;
}

std::string Value::undefined_message() const {
  const auto& message = std::get<Undefined>(data_).message;
  return message == nullptr ? "a value is undefined" : *message;
}

bool Value::truth() const {
  if (is_bool()) return as_bool();
  if (is_int()) return as_int() != 0;
  if (is_float()) return as_double() != 0;
  if (is_string()) return !as_string().empty();
  if (is_list()) return !items().empty();
  if (is_dict()) return as_dict().is_namespace || !as_dict().items.empty();
  return is_callable() || is_loop();
}

bool Value::equals(const Value& other) const {
  if (is_number() && other.is_number()) {
    return is_float() || other.is_float() ? as_double() == other.as_double()
                                          : as_int() == other.as_int();
  }
  if (data_.index() != other.data_.index()) return false;
  if (is_undefined() || is_none()) return true;
  if (is_string()) return as_string() == other.as_string();
  if (is_list()) {
    return as_list().is_tuple == other.as_list().is_tuple &&
           std::equal(items().begin(), items().end(), other.items().begin(), other.items().end(),
                      [](const Value& a, const Value& b) { return a.equals(b); });
  }
  if (is_dict()) {
    const Dict &a = as_dict(), &b = other.as_dict();
    if (a.is_namespace || b.is_namespace) return &a == &b;
    if (a.items.size() != b.items.size()) return false;
    return std::all_of(a.items.begin(), a.items.end(), [&](const auto& member) {
      const Value* same = find_member(b, member.first);
      return same != nullptr && member.second.equals(*same);
    });
  }
  if (is_callable()) return &as_callable() == &other.as_callable();
  return &as_loop() == &other.as_loop();
}

const char* Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_string()) return "str";
  if (is_list()) return as_list().is_tuple ? "tuple" : "list";
  if (is_dict()) return as_dict().is_namespace ? "Namespace" : "dict";
  return is_loop() ? "LoopContext" : "function";
}

uint32_t Value::depth() const {
  if (is_list()) return as_list().depth;
  if (is_dict()) return as_dict().depth;
  if (is_callable()) return as_callable().depth;
  return is_loop() ? as_loop().items->depth + 1 : 0;
}

size_t Value::weight() const {
  if (is_string()) return as_string().size() + 1;
  if (is_list()) return as_list().weight;
  return is_dict() && !as_dict().is_namespace ? as_dict().weight : 1;
}

bool Value::holds_namespace() const {
  if (is_list()) return as_list().holds_namespace;
  if (is_dict()) return as_dict().holds_namespace;
  return is_loop() || is_callable();
}

const Value* find_member(const Dict& dict, const Value& key) {
  for (const auto& [name, value] : dict.items) {
    if (name.equals(key)) return &value;
  }
  return nullptr;
}

void set_member(Dict& dict, const Value& key, Value value) {
  dict.holds_namespace |= value.holds_namespace();
  for (auto& [name, old] : dict.items) {
    if (!name.equals(key)) continue;
    old = std::move(value);
    return;
  }
  dict.items.emplace_back(key, std::move(value));
}

std::string repr_of(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  std::array<char, 64> room{};
  // The shortest digits with this value; an exponent where Python has one.
  const double magnitude = std::fabs(number);
  const bool scientific = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  const auto [end, error] =
      std::to_chars(room.data(), room.data() + room.size(), number,
                    scientific ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(room.data(), error == std::errc() ? end : room.data());
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string text_of(const Value& value) {
  if (value.is_string()) return value.as_string();
  if (value.is_undefined()) return "";
  return repr_of(value);
}

std::string repr_of(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.as_bool() ? "True" : "False";
  if (value.is_int()) return std::to_string(value.as_int());
  if (value.is_float()) return repr_of(value.as_double());
  if (value.is_string()) return repr_of_text(value.as_string());
  if (value.is_list()) {
    const bool is_tuple = value.as_list().is_tuple;
    std::string out = is_tuple ? "(" : "[";
    for (const Value& item : value.items()) {
      if (out.size() > 1) out += ", ";
      out += repr_of(item);
    }
    if (is_tuple && value.items().size() == 1) out += ',';
    return out + (is_tuple ? ")" : "]");
  }
  // The contents of a namespace can change, and its weight would not.
  if (value.is_dict() && value.as_dict().is_namespace) return "<Namespace>";
  if (value.is_dict()) {
    std::string out = "{";
    for (const auto& [key, member] : value.as_dict().items) {
      if (out.size() > 1) out += ", ";
      out += repr_of(key) + ": " + repr_of(member);
    }
    return out + '}';
  }
  return std::string("<") + value.type_name() + ">";
}

std::string json_of(const Value& value, const JsonStyle& style) {
  std::string out;
  append_json(value, style, 0, out);
  return out;
}

Value value_of(const nlohmann::ordered_json& json) {
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return json.get<bool>();
    case nlohmann::ordered_json::value_t::number_integer:
      return json.get<int64_t>();
    case nlohmann::ordered_json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(INT64_MAX)) return static_cast<double>(number);
      return static_cast<int64_t>(number);
    }
    case nlohmann::ordered_json::value_t::number_float:
      return json.get<double>();
    case nlohmann::ordered_json::value_t::string:
      return valid_utf8(json.get_ref<const std::string&>());
    case nlohmann::ordered_json::value_t::array: {
      List list;
      for (const auto& item : json) list.items.push_back(value_of(item));
      return list;
    }
    case nlohmann::ordered_json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) {
        dict.items.emplace_back(valid_utf8(key), value_of(item));
      }
      return dict;
    }
    default:
      return nullptr;
  }
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<uint8_t>(byte) & 0xc0) != 0x80;
  }));
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t n = character_bytes(text, at);
    characters.push_back(text.substr(at, n));
    at += n;
  }
  return characters;
}

}  // namespace vesper::chat
