// Language models and answers of the C API.
#pragma once

#include <vesper/text.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "capi/objects.h"
#include "session/text/text_session.h"

struct vesper_language_model final : vesper::capi::Object {
  static constexpr std::string_view kKind = "a language model";
  vesper_language_model(std::shared_ptr<const vesper::TextModel> model,
                        const vesper::TextSessionOptions& options)
      : Object(kKind), session(std::move(model), options), description(session.description()) {}

  vesper::TextSession session;
  const std::string description;
};

struct vesper_answer final : vesper::capi::Object {
  static constexpr std::string_view kKind = "an answer";
  // `model` has the texts of the tokens.
  vesper_answer(std::shared_ptr<const vesper::TextModel> model, vesper::TextAnswer found);

  const std::shared_ptr<const vesper::TextModel> model;
  const vesper::TextAnswer answer;
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
};

namespace vesper::capi {

// The options of a call: those of the caller, read.
class GenerateCall {
 public:
  // Throws ArgumentError, and Error(kUsage) about a setting.
  explicit GenerateCall(const vesper_generate_options* options);

  // Of an answer: the callbacks, and whether they or the cancellation have ended it.
  TextEvents events() const;

  TextOptions text;
  bool thinks = true;
  std::function<bool()> is_cancelled;  // empty without a cancellation

 private:
  int (*on_text_)(const char* text, void* user);
  int (*on_thinking_)(const char* text, void* user);
  void* user_;
};

// Copies the messages. Throws ArgumentError for NULL.
std::vector<ChatMessage> read_messages(const vesper_message* messages, size_t n_messages);

// The registered answer.
vesper_answer* add_answer(const vesper_language_model& model, TextAnswer answer);

}  // namespace vesper::capi
