// Conversation: a chat with a model, message by message.
//
// Each answer is asked for with all messages so far; the session has the keys and values of those
// before the last, which are not computed again. When the context is full the oldest messages are
// forgotten.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "session/text_session.h"

namespace vesper {

class Conversation {
 public:
  // Both the session and what it is asked with are the conversation's for its life. Throws
  // Error(kModel) if the model has no chat template. TextOptions::thinking is kSeparate: what was
  // thought is no part of the messages.
  Conversation(TextSession& session, const TextOptions& options, bool thinks = true);

  // Adds a message of the user and the model's answer. Throws what TextSession::answer does, and
  // Error(kInput) for a message that leaves no room in the context: it is dropped then.
  TextAnswer say(const std::string& message, const TextEvents& events = {});
  // Answers the last message once more, with another seed. Throws Error(kInput) without one.
  TextAnswer regenerate(const TextEvents& events = {});

  // Told before each conversation; empty: nothing.
  std::string system;
  // Called before an answer when messages were forgotten for it.
  std::function<void()> on_forget = {};

  const std::vector<ChatMessage>& messages() const { return messages_; }
  void set_messages(std::vector<ChatMessage> messages) { messages_ = std::move(messages); }

 private:
  std::vector<int32_t> prompt_of(std::vector<ChatMessage> messages) const;
  std::vector<int32_t> fitting_prompt();
  TextAnswer answer(const TextEvents& events);

  TextSession& session_;
  TextOptions options_;
  bool thinks_;
  std::vector<ChatMessage> messages_;  // without the system's
};

}  // namespace vesper
