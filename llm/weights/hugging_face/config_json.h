// config.json of Hugging Face's transformers: configurations of text encoders and language models.
// Keys are those of transformers' configuration classes.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "llm/config/model_config.h"
#include "llm/weights/model_families.h"

namespace vesper {

// An object of a config.json. All functions throw Error(kModel) naming the file and the key if a
// member has the wrong type.
class ConfigJson {
 public:
  // `name` is the file in messages.
  ConfigJson(std::string name, const nlohmann::json& object)
      : name_(std::move(name)), object_(object) {}

  const nlohmann::json* find(const char* key) const;
  // The first of several keys that is present; 0 if none is.
  uint32_t count(std::initializer_list<const char*> keys) const;
  // The same for a number above 0, or `otherwise`.
  float number(std::initializer_list<const char*> keys, float otherwise = 0) const;
  bool truth(const char* key, bool otherwise) const;
  std::string text(const char* key, const char* otherwise) const;
  std::vector<float> numbers(const char* key) const;
  // A list with one of two values per layer; empty if absent.
  std::vector<bool> layers(const char* key, const nlohmann::json& yes,
                           const nlohmann::json& no) const;
  // The member, an object; empty if absent.
  ConfigJson member(const char* key) const;
  [[noreturn]] void fail(const std::string& message) const;

 private:
  std::string name_;
  const nlohmann::json& object_;
};

// The configuration of a model of `family`; its row has the rest.
ModelConfig read_config_json(const ConfigJson& config, const ModelFamily& family);

// Functions for ModelFamily::read_config_json.
void read_bert(const ConfigJson&, const ModelFamily&, ModelConfig&);
void read_roberta(const ConfigJson&, const ModelFamily&, ModelConfig&);
void read_mpnet(const ConfigJson&, const ModelFamily&, ModelConfig&);
void read_jina_bert(const ConfigJson&, const ModelFamily&, ModelConfig&);
void read_nomic_bert(const ConfigJson&, const ModelFamily&, ModelConfig&);
void read_new(const ConfigJson&, const ModelFamily&, ModelConfig&);
void read_modern_bert(const ConfigJson&, const ModelFamily&, ModelConfig&);
void read_language_model(const ConfigJson&, const ModelFamily&, ModelConfig&);

}  // namespace vesper
