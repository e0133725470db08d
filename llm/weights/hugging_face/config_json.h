// config.json of Hugging Face's transformers: the facts of text encoders and language models. The
// keys and what they mean are those of transformers' configuration classes.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "llm/config/model_config.h"
#include "llm/weights/model_families.h"

namespace vesper {

// An object of a config.json, by its members. Every function throws Error(kModel) naming the file
// and the key if a member has the wrong type.
class ConfigJson {
 public:
  // `name` stands for the file in messages.
  ConfigJson(std::string name, const nlohmann::json& object)
      : name_(std::move(name)), object_(object) {}

  const nlohmann::json* find(const char* key) const;
  // The first of several keys that is there; 0 if none is.
  uint32_t count(std::initializer_list<const char*> keys) const;
  // Likewise, a number above 0, or `otherwise`.
  float number(std::initializer_list<const char*> keys, float otherwise = 0) const;
  bool truth(const char* key, bool otherwise) const;
  std::string text(const char* key, const char* otherwise) const;
  std::vector<float> numbers(const char* key) const;
  // A list with an element for each layer, each one of two; empty if absent.
  std::vector<bool> layers(const char* key, const nlohmann::json& yes,
                           const nlohmann::json& no) const;
  // The member, an object; empty if it is absent.
  ConfigJson member(const char* key) const;
  [[noreturn]] void fail(const std::string& message) const;

 private:
  std::string name_;
  const nlohmann::json& object_;
};

// The facts of a model of `family`, whose norm weights and the like are in the row.
ModelConfig read_config_json(const ConfigJson& config, const ModelFamily& family);

// What the rows of the families name (ModelFamily::read_config_json).
void read_bert(const ConfigJson&, const ModelFamily&, ModelConfig&);
void read_roberta(const ConfigJson&, const ModelFamily&, ModelConfig&);
void read_jina_bert(const ConfigJson&, const ModelFamily&, ModelConfig&);
void read_nomic_bert(const ConfigJson&, const ModelFamily&, ModelConfig&);
void read_new(const ConfigJson&, const ModelFamily&, ModelConfig&);
void read_modern_bert(const ConfigJson&, const ModelFamily&, ModelConfig&);
void read_language_model(const ConfigJson&, const ModelFamily&, ModelConfig&);

}  // namespace vesper
