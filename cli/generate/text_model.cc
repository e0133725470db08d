#include "cli/generate/text_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/terminal/text_input.h"
#include "error/error.h"
#include "llm/devices/open_device.h"
#include "llm/weights/model_tokenizer.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
TextModel::TextModel(const std::filesystem::path& path, const TextModelOptions& options)
    : options_(options), provider_(open_weights(path)) {
  provider_->config(ModelType::kLanguageModel);  // or says what it is
  try {
    tokenizer_ = open_text_tokenizer(*provider_);
  } catch (const Error&) {
    if (options.needs_text) throw;
  }
  if (!options.chat_template.empty()) {
    chat_template_.emplace(read_text_file(options.chat_template));
  } else if (const auto source = chat_template_source(*provider_)) {
    chat_template_.emplace(*source);
  }
}

const TextTokenizer& TextModel::require_tokenizer() const {
  if (tokenizer_) return *tokenizer_;
  throw Error(ErrorKind::kModel, provider_->path().string() +
                                     ": expected a tokenizer, found none (token ids can be given "
                                     "by --prompt-ids, with --print-ids)");
}

std::vector<int32_t> TextModel::chat_ids(std::span<const ChatMessage> messages) const {
  const TextTokenizer& tokenizer = require_tokenizer();
  if (!chat_template_) {
    throw Error(ErrorKind::kModel, provider_->path().string() +
                                       ": expected a chat template, found none (--no-chat "
                                       "continues the text, --chat-template FILE gives one)");
  }
  nlohmann::ordered_json extra;
  if (!options_.thinks) extra = {{"enable_thinking", false}};
  const std::string text = chat_template_->render(messages, true, &tokenizer, extra);
  std::vector<int32_t> ids = tokenizer.encode(text, true, false);
  // Templates as a rule begin with what stands before every text.
  const auto before = tokenizer.before();
  if (ids.size() < before.size() || !std::equal(before.begin(), before.end(), ids.begin())) {
    ids.insert(ids.begin(), before.begin(), before.end());
  }
  return ids;
}

bool TextModel::begins_thinking(std::span<const int32_t> prompt) const {
  if (!tokenizer_) return false;
  std::string ending = tokenizer_->decode(prompt.last(std::min<size_t>(prompt.size(), 8)), true);
  ending.resize(ending.find_last_not_of(" \n") + 1);
  return ending.ends_with("<think>");
}

std::vector<int32_t> TextModel::text_ids(const std::string& text) const {
  const TextTokenizer& tokenizer = require_tokenizer();
  std::vector<int32_t> ids = tokenizer.encode(text, false, false);
  ids.insert(ids.begin(), tokenizer.before().begin(), tokenizer.before().end());
  return ids;
}

std::string TextModel::activations() const {
  return device_->info().policy.products(compute_, has_quantized_matrices(*provider_)).activations;
}

void TextModel::load(const GeneratorOptions& options) {
  device_ = open_device(options_.device, DeviceOptions{.n_threads = options_.threads});
  compute_ = device_->resolve(parse_compute(options_.compute), WeightUse::kAnyRows);
  generator_ = std::make_unique<Generator>(*device_, *provider_, compute_, options);
}

}  // namespace vesper
