#include "llm/files/json_file.h"

#include <limits>

#include "error/error.h"

namespace vesper {
namespace {

using nlohmann::json;

constexpr int kMaxJsonDepth = 32;

// A deeply nested value costs the parser far more memory than its text. So the depth is checked
// first, by counting brackets outside strings.
bool is_too_deep(std::span<const uint8_t> text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const uint8_t c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

bool is_count(const json& value) {
  return value.is_number_unsigned() &&
         value.get<uint64_t>() <= std::numeric_limits<uint32_t>::max();
}

}  // namespace

[[noreturn]] void fail_in_file(const std::string& name, const std::string& message) {
  throw Error(ErrorKind::kModel, name + ": " + message);
}

std::string shown_json(const json* value) {
  if (value == nullptr) return "none";
  const std::string text = value->dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 60) + "...";
}

std::string text_member(const std::string& name, const json& object, const char* key,
                        const std::string& otherwise) {
  const json* value = find_member(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) {
    fail_in_file(name,
                 std::string("expected ") + key + " to be a text, found " + shown_json(value));
  }
  return value->get<std::string>();
}

bool truth_member(const std::string& name, const json& object, const char* key, bool otherwise) {
  const json* value = find_member(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) {
    fail_in_file(
        name, std::string("expected ") + key + " to be true or false, found " + shown_json(value));
  }
  return value->get<bool>();
}

json parse_json(const std::string& name, std::span<const uint8_t> text) {
  if (is_too_deep(text)) {
    fail_in_file(name, "expected JSON nested at most " + std::to_string(kMaxJsonDepth) +
                           " deep, found more");
  }
  json value;
  try {
    value = json::parse(text.begin(), text.end());
  } catch (const json::exception& error) {
    fail_in_file(name, std::string("expected JSON, found an error: ") + error.what());
  }
  if (!value.is_object() && !value.is_array())
    fail_in_file(name, "expected a JSON object or array");
  return value;
}

json parse_json(const MappedFile& file) { return parse_json(file.name(), file.bytes()); }

const json* find_member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::vector<int32_t> id_list(const std::string& name, const json& object, const char* key) {
  std::vector<int32_t> ids;
  const json* list = find_member(object, key);
  if (list == nullptr) return ids;
  if (!list->is_array())
    fail_in_file(name, std::string("expected ") + key + " to be a list of token ids");
  ids.reserve(list->size());
  for (const json& value : *list) {
    if (!is_count(value) || value.get<uint64_t>() > std::numeric_limits<int32_t>::max()) {
      fail_in_file(name,
                   std::string("expected a token id in ") + key + ", found " + shown_json(&value));
    }
    ids.push_back(value.get<int32_t>());
  }
  return ids;
}

std::vector<std::array<uint32_t, 2>> pair_list(const std::string& name, const json& object,
                                               const char* key) {
  std::vector<std::array<uint32_t, 2>> pairs;
  const json* list = find_member(object, key);
  if (list == nullptr) return pairs;
  if (!list->is_array())
    fail_in_file(name, std::string("expected ") + key + " to be a list of pairs");
  pairs.reserve(list->size());
  for (const json& value : *list) {
    if (!value.is_array() || value.size() != 2 || !is_count(value[0]) || !is_count(value[1])) {
      fail_in_file(name, std::string("expected a pair of counts in ") + key + ", found " +
                             shown_json(&value));
    }
    pairs.push_back({value[0].get<uint32_t>(), value[1].get<uint32_t>()});
  }
  return pairs;
}

uint32_t count_member(const std::string& name, const json& object, const char* key) {
  const json* value = find_member(object, key);
  if (value == nullptr) return 0;
  if (!is_count(*value) || value->get<uint32_t>() == 0) {
    fail_in_file(name, std::string("expected ") + key + " to be a positive count, found " +
                           shown_json(value));
  }
  return value->get<uint32_t>();
}

std::string bytes_of_base64(const std::string& name, std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0, n_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) fail_in_file(name, "expected text in base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    n_bits += 6;
    if (n_bits >= 8) {
      n_bits -= 8;
      bytes += static_cast<char>(bits >> n_bits & 255);
    }
  }
  return bytes;
}

}  // namespace vesper
