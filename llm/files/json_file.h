// JSON files of a model, parsed with limits on size and depth.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/files/mapped_file.h"

namespace vesper {

// Throws Error(kModel) with `name`, the file in messages, and `message`.
[[noreturn]] void fail_in_file(const std::string& name, const std::string& message);

// Parses the whole text, an object or an array. `name` is the file in messages. Throws
// Error(kModel) if it is no JSON, or nested deeper than 32.
nlohmann::json parse_json(const std::string& name, std::span<const uint8_t> text);
nlohmann::json parse_json(const MappedFile& file);

// The member `key` of an object, or null if it is absent or its value is null.
const nlohmann::json* find_member(const nlohmann::json& object, const char* key);

// A member that is a string, or a boolean; `otherwise` if absent. Throws Error(kModel) if it has
// another type.
std::string text_member(const std::string& name, const nlohmann::json& object, const char* key,
                        const std::string& otherwise);
bool truth_member(const std::string& name, const nlohmann::json& object, const char* key,
                  bool otherwise);
// The bytes of a text in base64. Throws Error(kModel) if it is none.
std::string bytes_of_base64(const std::string& name, std::string_view text);
// A value for a message: short, and always ASCII. "none" for null.
std::string shown_json(const nlohmann::json* value);

// A member that is a list of token ids; empty if absent. Throws Error(kModel) if it is not.
std::vector<int32_t> id_list(const std::string& name, const nlohmann::json& object,
                             const char* key);
// A member that is a list of pairs of counts; empty if absent. Throws Error(kModel) if it is not.
std::vector<std::array<uint32_t, 2>> pair_list(const std::string& name,
                                               const nlohmann::json& object, const char* key);
// A member that is a count; 0 if absent. Throws Error(kModel) if it is not, or 0.
uint32_t count_member(const std::string& name, const nlohmann::json& object, const char* key);

}  // namespace vesper
