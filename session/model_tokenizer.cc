#include "session/model_tokenizer.h"

#include "error/error.h"
#include "llm/tokenizer/files/open_text_tokenizer.h"
#include "llm/tokenizer/whisper_tokens.h"

namespace vesper {

ModelTokenizer::ModelTokenizer(const std::filesystem::path& model)
    : ModelTokenizer(describe_model(model)) {}

ModelTokenizer::ModelTokenizer(const ModelDescription& model)
    : is_whisper_(model.provider && model.provider->type() == ModelType::kWhisper),
      name_(model.path.string()) {
  if (is_whisper_) {
    const auto special = WhisperTokens::of_vocabulary_size(model.provider->config().n_vocab);
    tokenizer_ =
        whisper_tokenizer(model.provider->vocabulary(), static_cast<uint32_t>(special.eot));
  } else {
    tokenizer_ = open_text_tokenizer(model.path);
  }
  if (!model.chat_template.empty()) chat_template_.emplace(model.chat_template);
}

std::string ModelTokenizer::format_chat(std::span<const ChatMessage> messages, bool thinks) const {
  if (!chat_template_) throw_no_chat_template(name_);
  return chat_template_->render_prompt(messages, thinks, tokenizer_.get());
}

}  // namespace vesper
