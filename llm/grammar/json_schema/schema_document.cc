#include "llm/grammar/json_schema/schema_document.h"

#include <charconv>
#include <utility>

#include "error/error.h"

namespace vesper {
namespace {

using nlohmann::json;

constexpr int kMaxSchemaDepth = 100;

json parse_schema(std::string_view text) {
  const auto check_depth = [](int depth, json::parse_event_t, json&) {
    if (depth > kMaxSchemaDepth)
      throw Error(ErrorKind::kUsage, "JSON schema", "expected at most 100 nested levels");
    return true;
  };
  try {
    return json::parse(text, check_depth);
  } catch (const json::parse_error& error) {
    throw Error(ErrorKind::kUsage, "JSON schema",
                "expected JSON, found something else at byte " + std::to_string(error.byte));
  } catch (const json::exception&) {
    throw Error(ErrorKind::kUsage, "JSON schema", "expected numbers within the range of a double");
  }
}

std::string percent_decoded(const std::string& text, const std::string& place) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned value = 0;
    const char* const end = text.data() + std::min(i + 3, text.size());
    const auto result = std::from_chars(text.data() + i + 1, end, value, 16);
    if (result.ptr != text.data() + i + 3)
      SchemaDocument::fail(place, "expected two hexadecimal digits after %, found " + shown(text));
    decoded += static_cast<char>(value);
    i += 2;
  }
  return decoded;
}

// So that a message is one line.
std::string percent_encoded(const std::string& text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f && c != '%') {
      encoded += c;
    } else {
      encoded += std::string("%") + kDigits[size_t(c) / 16] + kDigits[size_t(c) % 16];
    }
  }
  return encoded;
}

}  // namespace

SchemaDocument::SchemaDocument(std::string_view text) : document_(parse_schema(text)) {
  find_anchors(document_, "#");
}

void SchemaDocument::fail(const std::string& place, const std::string& message) {
  throw Error(ErrorKind::kUsage, "JSON schema", "at " + place + ": " + message);
}

void SchemaDocument::find_anchors(const json& value, const std::string& place) {
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i)
      find_anchors(value[i], place + "/" + std::to_string(i));
  }
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.items()) {
    if (key == "const" || key == "enum" || key == "default" || key == "examples") continue;
    if ((key == "$anchor" || key == "$dynamicAnchor") && member.is_string())
      anchors_.try_emplace(member.get<std::string>(), Schema{&value, place});
    if ((key == "$id" || key == "id") && member.is_string()) {
      const auto& id = member.get_ref<const std::string&>();
      if (id.starts_with('#')) {
        anchors_.try_emplace(id.substr(1), Schema{&value, place});
      } else if (key == "$id" && &value != &document_) {
        fail(place_of(place, key), "expected one resource, found another one inside of it");
      }
    }
    find_anchors(member, place_of(place, key));
  }
}

uint32_t SchemaDocument::number_of(const json& schema, const std::string& place) {
  const auto [found, is_new] =
      numbers_.try_emplace(&schema, static_cast<uint32_t>(schemas_.size()));
  if (is_new) {
    if (!schema.is_object() && !schema.is_boolean())
      fail(place, "expected a schema, an object or a boolean, found " + shown(schema));
    schemas_.push_back({&schema, place});
  }
  return found->second;
}

uint32_t SchemaDocument::add(json schema, const std::string& place) {
  added_.push_back(std::move(schema));
  return number_of(added_.back(), place);
}

uint32_t SchemaDocument::resolve(const json& reference, const std::string& place) {
  if (!reference.is_string()) fail(place, "expected a text, found " + shown(reference));
  std::string text = reference.get<std::string>();
  if (document_.is_object() && document_.contains("$id") && document_["$id"].is_string()) {
    const std::string id = document_["$id"].get<std::string>();
    if (text == id) return root();
    if (text.starts_with(id + "#")) text.erase(0, id.size());
  }
  if (!text.starts_with('#'))
    fail(place, "expected a reference into this document, #/..., found " + shown(reference));
  text = percent_decoded(text.substr(1), place);
  if (text.empty()) return root();
  if (text[0] != '/') {
    const auto anchor = anchors_.find(text);
    if (anchor == anchors_.end())
      fail(place, "expected an anchor of this document, found " + shown(reference));
    return number_of(*anchor->second.value, anchor->second.place);
  }
  try {
    const json::json_pointer pointer(text);
    if (document_.contains(pointer))
      return number_of(document_.at(pointer), "#" + percent_encoded(text));
  } catch (const json::exception&) {
    // Not a pointer: the message below.
  }
  fail(place, "expected a schema of this document, found no " + shown(reference));
}

std::string place_of(const std::string& place, const std::string& key) {
  std::string escaped;
  for (const char c : key) {
    if (c == '~') {
      escaped += "~0";
    } else if (c == '/') {
      escaped += "~1";
    } else {
      escaped += c;
    }
  }
  return place + "/" + percent_encoded(escaped);
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

}  // namespace vesper
