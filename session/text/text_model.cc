#include "session/text/text_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "error/error.h"
#include "session/models/known_models.h"

namespace vesper {

TextModel::TextModel(const std::filesystem::path& path, std::string_view chat_template)
    : TextModel(std::shared_ptr<const WeightProvider>(open_weights(path)), chat_template) {}

TextModel::TextModel(std::shared_ptr<const WeightProvider> weights, std::string_view chat_template)
    : weights_(std::move(weights)) {
  weights_->config(ModelType::kLanguageModel);  // throws for other models
  try {
    tokenizer_ = open_text_tokenizer(*weights_);
  } catch (const Error&) {
    tokenizer_error_ = std::current_exception();
  }
  chat_template_text_ = chat_template;
  if (chat_template.empty()) {
    chat_template_text_ = chat_template_source(*weights_).value_or("");
  }
  if (!chat_template_text_.empty()) chat_template_.emplace(chat_template_text_);
  sampling_defaults_ = vesper::sampling_defaults(*weights_);
  if (!sampling_defaults_.source.empty()) return;
  const KnownModel* known = find_known_model_of_file(weights_->path());
  if (known == nullptr || known->generation_config.empty()) return;
  sampling_defaults_ = vesper::sampling_defaults(
      "generation_config.json of " + std::string(known->name), known->generation_config);
}

const TextTokenizer& TextModel::require_tokenizer() const {
  if (!tokenizer_) std::rethrow_exception(tokenizer_error_);
  return *tokenizer_;
}

const ChatTemplate& TextModel::require_chat_template() const {
  require_tokenizer();
  if (!chat_template_) throw_no_chat_template(weights_->path().string());
  return *chat_template_;
}

std::vector<int32_t> TextModel::chat_ids(std::span<const ChatMessage> messages, bool thinks) const {
  return ids_of_chat(require_chat_template().render_prompt(messages, thinks, tokenizer_.get()));
}

std::vector<int32_t> TextModel::chat_ids(const nlohmann::ordered_json& variables) const {
  return ids_of_chat(require_chat_template().render({}, true, tokenizer_.get(), variables));
}

std::vector<int32_t> TextModel::ids_of_chat(const std::string& text) const {
  std::vector<int32_t> ids = tokenizer_->encode(text, true, false);
  // Most templates contain the tokens that begin every text.
  const auto before = tokenizer_->before();
  if (ids.size() < before.size() || !std::equal(before.begin(), before.end(), ids.begin())) {
    ids.insert(ids.begin(), before.begin(), before.end());
  }
  return ids;
}

std::vector<int32_t> TextModel::text_ids(std::string_view text) const {
  const TextTokenizer& tokenizer = require_tokenizer();
  std::vector<int32_t> ids = tokenizer.encode(text, false, false);
  ids.insert(ids.begin(), tokenizer.before().begin(), tokenizer.before().end());
  return ids;
}

std::vector<int32_t> TextModel::instruction_ids(const std::string& instruction,
                                                const std::string& text,
                                                const InstructionFormat& format) const {
  const std::string both = instruction.empty() ? text
                           : text.empty()      ? instruction
                                               : instruction + "\n\n" + text;
  if (!format.is_chat || (!has_chat_template() && !format.system)) return text_ids(both);
  std::vector<ChatMessage> messages;
  if (format.system) messages.push_back({"system", *format.system});
  messages.push_back({"user", both});
  return chat_ids(messages, format.thinks);
}

bool TextModel::begins_thinking(std::span<const int32_t> prompt) const {
  return ends_with(prompt, "<think>");
}

bool TextModel::ends_thinking(std::span<const int32_t> prompt) const {
  return ends_with(prompt, "</think>");
}

bool TextModel::has_channels() const { return tokenizer_ && tokenizer_->has_channels(); }

bool TextModel::begins_message(std::span<const int32_t> prompt) const {
  return ends_with(prompt, "<|start|>assistant");
}

bool TextModel::ends_with(std::span<const int32_t> prompt, std::string_view tag) const {
  if (!tokenizer_) return false;
  std::string ending = tokenizer_->decode(prompt.last(std::min<size_t>(prompt.size(), 16)), true);
  ending.resize(ending.find_last_not_of(" \n") + 1);
  return ending.ends_with(tag);
}

uint32_t TextModel::ctx_for(uint64_t n_prompt, std::optional<uint32_t> max_tokens) const {
  constexpr uint64_t kUsualAnswer = 2048, kStep = 1024;
  const uint64_t wanted = n_prompt + max_tokens.value_or(kUsualAnswer);
  const uint64_t rounded = (wanted + kStep - 1) / kStep * kStep;
  return static_cast<uint32_t>(std::min<uint64_t>(rounded, max_ctx()));
}

}  // namespace vesper
