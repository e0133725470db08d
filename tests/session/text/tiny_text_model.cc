#include "tests/session/text/tiny_text_model.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tests/child_process.h"

namespace vesper {
namespace {

// Ids 0 and 1 are special, 2 and 3 are the tags of thinking, 4 is a space, then letters.
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,!?;:-";

}  // namespace

void write_tiny_text_weights(const std::filesystem::path& folder) {
  const std::filesystem::path source = std::string(LANGUAGE_MODELS) + "/qwen3";
  std::filesystem::create_directories(folder);
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(source / file, folder / file);
  }
}

void write_letter_tokenizer(const std::filesystem::path& folder, bool has_template, bool begins) {
  const std::vector<std::string> added = {"<end>", "<user>", "<think>", "</think>"};
  nlohmann::json list = nlohmann::json::array(), vocabulary;
  for (size_t id = 0; id < added.size(); ++id) {
    vocabulary[added[id]] = id;
    list.push_back({{"id", id},
                    {"content", added[id]},
                    {"special", id < 2},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false}});
  }
  vocabulary["\u0120"] = 4;
  for (size_t i = 0; i < kLetters.size(); ++i) vocabulary[std::string(1, kLetters[i])] = 5 + i;
  const nlohmann::json bytes = {{"type", "ByteLevel"},
                                {"add_prefix_space", false},
                                {"trim_offsets", true},
                                {"use_regex", true}};
  write_file(
      folder / "tokenizer.json",
      nlohmann::json{
          {"added_tokens", list},
          {"pre_tokenizer", bytes},
          {"decoder", bytes},
          {"post_processor", begins ? nlohmann::json::parse(R"({"type": "TemplateProcessing",
               "single": [{"SpecialToken": {"id": "<user>", "type_id": 0}},
                          {"Sequence": {"id": "A", "type_id": 0}}],
               "pair": [],
               "special_tokens": {"<user>": {"id": "<user>", "ids": [1], "tokens": ["<user>"]}}})")
                                    : nlohmann::json()},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}}
          .dump());
  nlohmann::json config = {{"eos_token", "<end>"}};
  if (has_template) {
    config["chat_template"] =
        "{% for message in messages %}<user>{{ message.content }}{% endfor %}<user>"
        "{% if enable_thinking is not defined %}{% else %}<think></think>{% endif %}";
  }
  write_file(folder / "tokenizer_config.json", config.dump());
}

}  // namespace vesper
