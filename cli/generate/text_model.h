// A language model with what stands around it: its tokenizer, its chat template, a generator.
//
// Opened from what the user says after --model; `generate` and its chat are made of it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "llm/chat/chat_template.h"
#include "llm/generation/generator.h"
#include "llm/tokenizer/text_tokenizer.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

struct TextModelOptions {
  std::string device = "auto", compute = "auto";
  uint32_t threads = 0;
  std::string chat_template;  // a file with one; empty: the model's own
  bool thinks = true;         // false: the template is asked for answers without thinking
  bool needs_text = true;     // false: token ids do, a tokenizer that cannot be read is none
};

class TextModel {
 public:
  // Opens the files. Throws Error(kModel, kUsage).
  TextModel(const std::filesystem::path& path, const TextModelOptions& options);

  // Null without one.
  const TextTokenizer* tokenizer() const { return tokenizer_.get(); }
  // Throws Error(kModel) without one.
  const TextTokenizer& require_tokenizer() const;
  bool has_chat_template() const { return chat_template_.has_value(); }

  // The conversation as the model is to see it, up to where its answer begins; throws Error(kModel)
  // if it has no template.
  std::vector<int32_t> chat_ids(std::span<const ChatMessage> messages) const;
  // Whether a prompt ends where the model's thinking has begun: some templates begin it themselves.
  bool begins_thinking(std::span<const int32_t> prompt) const;
  // A text that is to be continued.
  std::vector<int32_t> text_ids(const std::string& text) const;

  // The longest context that the model is made for.
  uint32_t most_ctx() const { return provider_->config().decoder().n_positions; }
  // Loads the weights; once, before generator(). Throws Error(kModel, kDevice, kUsage).
  void load(const GeneratorOptions& options);
  Generator& generator() { return *generator_; }
  const Device& device() const { return *device_; }
  // What products meet the weights in: "int8".
  std::string activations() const;

 private:
  TextModelOptions options_;
  std::unique_ptr<WeightProvider> provider_;
  std::unique_ptr<TextTokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_template_;
  std::unique_ptr<Device> device_;
  Compute compute_ = Compute::kAuto;
  std::unique_ptr<Generator> generator_;
};

}  // namespace vesper
