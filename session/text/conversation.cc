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
  messages_.push_back({"user", message});
  return answer(events);
}

TextAnswer Conversation::regenerate(const TextEvents& events) {
  if (!messages_.empty() && messages_.back().role == "assistant") messages_.pop_back();
  if (messages_.empty()) throw Error(ErrorKind::kInput, "There is no message to answer yet.");
  if (options_.sampling.seed) ++*options_.sampling.seed;
  return answer(events);
}

std::vector<int32_t> Conversation::prompt_of(std::vector<ChatMessage> messages) const {
  if (!system.empty()) messages.insert(messages.begin(), {"system", system});
  return session_.model().chat_ids(messages, thinks_);
}

std::vector<int32_t> Conversation::fitting_prompt() {
  const uint32_t context = session_.context();
  std::vector<ChatMessage> kept = messages_;
  std::vector<int32_t> ids = prompt_of(kept);
  // An eighth of the context is reserved for the answer.
  while (ids.size() + context / 8 > context && kept.size() > 2) {
    kept.erase(kept.begin(), kept.begin() + 2);
    ids = prompt_of(kept);
  }
  if (ids.size() >= context) {
    throw Error(ErrorKind::kInput, "context",
                "expected a message that leaves room in " + std::to_string(context) +
                    " tokens, found " + std::to_string(ids.size()));
  }
  if (kept.size() < messages_.size()) {
    messages_ = std::move(kept);
    if (on_forget) on_forget();
  }
  return ids;
}

TextAnswer Conversation::answer(const TextEvents& events) {
  TextRequest request{.options = options_};
  try {
    request.prompt = fitting_prompt();
  } catch (const Error&) {
    messages_.pop_back();
    throw;
  }
  TextAnswer answer = session_.answer(request, events);
  messages_.push_back({"assistant", answer.text});
  return answer;
}

}  // namespace vesper
