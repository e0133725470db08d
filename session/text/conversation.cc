#include "session/text/conversation.h"

#include <utility>

#include "error/error.h"

namespace vesper {

Conversation::Conversation(TextSession& session, const TextOptions& options, bool thinks)
    : session_(session), options_(options), thinks_(thinks) {
  options_.thinking = Thinking::kSeparate;
  prompt_of({{"user", "?"}});  // throws without a template
}

TextAnswer Conversation::say(const std::string& message, const TextEvents& events) {
  std::vector<ChatMessage> messages = messages_;
  messages.push_back({"user", message});
  return answer(std::move(messages), events);
}

TextAnswer Conversation::regenerate(const TextEvents& events) {
  std::vector<ChatMessage> messages = messages_;
  if (!messages.empty() && messages.back().role == "assistant") messages.pop_back();
  if (messages.empty()) throw Error(ErrorKind::kInput, "There is no message to answer yet.");
  if (options_.sampling.seed) ++*options_.sampling.seed;
  return answer(std::move(messages), events);
}

std::vector<int32_t> Conversation::prompt_of(std::vector<ChatMessage> messages) const {
  if (!system.empty()) messages.insert(messages.begin(), {"system", system});
  return session_.model().chat_ids(messages, thinks_);
}

std::vector<int32_t> Conversation::fitting_prompt(std::vector<ChatMessage>& messages) const {
  const uint32_t context = session_.context();
  std::vector<int32_t> ids = prompt_of(messages);
  // An eighth of the context is reserved for the answer.
  while (ids.size() + context / 8 > context && messages.size() > 2) {
    messages.erase(messages.begin(), messages.begin() + 2);
    ids = prompt_of(messages);
  }
  if (ids.size() >= context) {
    throw Error(ErrorKind::kInput, "context",
                "expected a message that leaves room in " + std::to_string(context) +
                    " tokens, found " + std::to_string(ids.size()));
  }
  return ids;
}

TextAnswer Conversation::answer(std::vector<ChatMessage> messages, const TextEvents& events) {
  const size_t n_before = messages.size();
  TextRequest request{.prompt = fitting_prompt(messages), .options = options_};
  if (messages.size() < n_before && on_forget) on_forget();
  TextAnswer answer = session_.answer(request, events);
  messages.push_back({"assistant", answer.text});
  messages_ = std::move(messages);
  return answer;
}

}  // namespace vesper
