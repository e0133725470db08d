// Conversation: a chat with a model, message by message.
//
// Each answer uses all messages so far; the session has the cached prefix. When the context is
// full, the oldest messages are dropped.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "session/text/text_session.h"

namespace vesper {

class Conversation {
 public:
  // Session and options must outlive the conversation. Throws Error(kModel) if the model has no
  // chat template. TextOptions::thinking is set to kSeparate: thinking is not part of the messages.
  Conversation(TextSession& session, const TextOptions& options, bool thinks = true);

  // Adds a message of the user and the model's answer. Throws the errors of TextSession::answer,
  // and Error(kInput) for a message that is too long for the context; the messages are then as
  // before.
  TextAnswer say(const std::string& message, const TextEvents& events = {});
  // Answers the last message again with another seed (given: the next one). Throws Error(kInput)
  // without a message.
  TextAnswer regenerate(const TextEvents& events = {});

  // The system message; may be empty.
  std::string system;
  // Called before an answer if messages were dropped.
  std::function<void()> on_forget = {};

  const std::vector<ChatMessage>& messages() const { return messages_; }
  void set_messages(std::vector<ChatMessage> messages) { messages_ = std::move(messages); }

 private:
  std::vector<int32_t> prompt_of(std::vector<ChatMessage> messages) const;
  // Drops the oldest messages until the others fit.
  std::vector<int32_t> fitting_prompt(std::vector<ChatMessage>& messages) const;
  TextAnswer answer(std::vector<ChatMessage> messages, const TextEvents& events);

  TextSession& session_;
  TextOptions options_;
  bool thinks_;
  std::vector<ChatMessage> messages_;  // without the system message
};

}  // namespace vesper
