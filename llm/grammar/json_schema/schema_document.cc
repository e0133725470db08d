#include "llm/grammar/json_schema/schema_document.h"

#include <algorithm>
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

// A reference without its fragment, relative to `base`. Segments ".." are not resolved.
std::string resolved_uri(std::string reference, const std::string& base) {
  const size_t scheme = reference.find_first_of(":/?");
  if (scheme != std::string::npos && reference[scheme] == ':') return reference;
  const size_t colon = base.find("://");
  const size_t authority = colon == std::string::npos ? 0 : colon + 3;
  const size_t path = std::min(base.find('/', authority), base.size());
  if (reference.starts_with('/')) return base.substr(0, path) + reference;
  if (reference.starts_with("./")) reference.erase(0, 2);
  if (authority > 0 && path == base.size()) return base + "/" + reference;
  return base.substr(0, base.rfind('/') + 1) + reference;
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
  resources_.push_back({{&document_, "#"}, ""});
  find_resources(document_, "#", 0);
}

void SchemaDocument::fail(const std::string& place, const std::string& message) {
  throw Error(ErrorKind::kUsage, "JSON schema", "at " + place + ": " + message);
}

void SchemaDocument::find_resources(const json& value, const std::string& place, size_t resource) {
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i)
      find_resources(value[i], place + "/" + std::to_string(i), resource);
  }
  if (!value.is_object()) return;
  const Schema here{&value, place};
  if (const auto id = value.find("$id"); id != value.end() && id->is_string()) {
    const auto& text = id->get_ref<const std::string&>();
    if (text.starts_with('#')) {
      anchors_.try_emplace({resource, text.substr(1)}, here);
    } else {
      const std::string uri =
          resolved_uri(text.substr(0, text.find('#')), resources_[resource].uri);
      if (&value == &document_) {
        resources_[0].uri = uri;
      } else {
        resource = resources_.size();
        resources_.push_back({here, uri});
      }
    }
  }
  for (const char* key : {"$anchor", "$dynamicAnchor"}) {
    if (const auto anchor = value.find(key); anchor != value.end() && anchor->is_string())
      anchors_.try_emplace({resource, anchor->get<std::string>()}, here);
  }
  for (const auto& [key, member] : value.items()) {
    if (key != "const" && key != "enum" && key != "default" && key != "examples")
      find_resources(member, place_of(place, key), resource);
  }
}

// The innermost one.
size_t SchemaDocument::resource_around(const std::string& place) const {
  size_t found = 0;
  for (size_t i = 1; i < resources_.size(); ++i) {
    const std::string& root = resources_[i].root.place;
    if (place.starts_with(root + "/") && root.size() > resources_[found].root.place.size())
      found = i;
  }
  return found;
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
  const auto& text = reference.get_ref<const std::string&>();
  const size_t hash = std::min(text.find('#'), text.size());
  size_t resource = resource_around(place);
  if (hash > 0) {
    const std::string uri = resolved_uri(text.substr(0, hash), resources_[resource].uri);
    const auto found = std::find_if(resources_.begin(), resources_.end(),
                                    [&](const Resource& one) { return one.uri == uri; });
    if (found == resources_.end())
      fail(place, "expected a reference into this document, #/..., found " + shown(reference));
    resource = static_cast<size_t>(found - resources_.begin());
  }
  const Schema& root = resources_[resource].root;
  const std::string fragment =
      hash < text.size() ? percent_decoded(text.substr(hash + 1), place) : std::string();
  if (fragment.empty()) return number_of(*root.value, root.place);
  if (fragment[0] != '/') {
    const auto anchor = anchors_.find({resource, fragment});
    if (anchor == anchors_.end())
      fail(place, "expected an anchor of this document, found " + shown(reference));
    return number_of(*anchor->second.value, anchor->second.place);
  }
  try {
    const json::json_pointer pointer(fragment);
    if (root.value->contains(pointer))
      return number_of(root.value->at(pointer), root.place + percent_encoded(fragment));
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
