// The tokenizer and the chat template of any model's files: Whisper, language models, text
// encoders. The weights are not read, and need not be readable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/chat/chat_template.h"
#include "llm/inspect/model_description.h"
#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

// Thread-safe.
class ModelTokenizer {
 public:
  // Throws Error(kModel) if the model has no tokenizer.
  explicit ModelTokenizer(const std::filesystem::path& model);
  explicit ModelTokenizer(const ModelDescription& model);

  const TextTokenizer& text() const { return *tokenizer_; }
  // Whether the special tokens of the model have spellings that encode() can parse, and surround
  // texts. Those of Whisper are chosen by its decoder instead.
  bool has_special_spellings() const { return !is_whisper_; }
  // A conversation up to the start of the model's answer; see TextModel::chat_ids. Throws
  // Error(kModel) without a template, Error(kInput) if it rejects the conversation.
  std::string format_chat(std::span<const ChatMessage> messages, bool thinks = true) const;

 private:
  bool is_whisper_ = false;
  std::string name_;  // of the file, for messages
  std::shared_ptr<const TextTokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_template_;
};

}  // namespace vesper
