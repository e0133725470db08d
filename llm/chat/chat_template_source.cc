#include <nlohmann/json.hpp>

#include "error/error.h"
#include "llm/chat/chat_template.h"
#include "llm/files/gguf_file.h"
#include "llm/files/json_file.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

// A template, or a list of named templates, from which "default" is taken.
std::optional<std::string> source_of(const std::string& name, const nlohmann::json& config) {
  const nlohmann::json* member = find_member(config, "chat_template");
  if (member == nullptr) return std::nullopt;
  if (member->is_string()) return member->get<std::string>();
  if (member->is_array()) {
    for (const nlohmann::json& entry : *member) {
      const nlohmann::json* entry_name = find_member(entry, "name");
      const nlohmann::json* source = find_member(entry, "template");
      if (entry_name != nullptr && *entry_name == "default" && source != nullptr &&
          source->is_string()) {
        return source->get<std::string>();
      }
    }
  }
  throw Error(ErrorKind::kModel,
              name + ": expected chat_template to be a string, or a list with one named default");
}

}  // namespace

std::optional<std::string> chat_template_source(const WeightProvider& weights) {
  if (const Gguf* gguf = weights.gguf(); gguf != nullptr) {
    const auto source = gguf->find_string("tokenizer.chat_template");
    return source ? std::optional<std::string>(*source) : std::nullopt;
  }
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(weights.path(), error);
  const ModelFiles files(is_folder ? weights.path() : weights.path().parent_path());
  if (files.has("chat_template.jinja")) {
    const auto file = files.open("chat_template.jinja");
    return std::string(file->text());
  }
  for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
    if (!files.has(name)) continue;
    const auto file = files.open(name);
    if (auto source = source_of(file->name(), parse_json(*file))) return source;
  }
  return std::nullopt;
}

}  // namespace vesper
