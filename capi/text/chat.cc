#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "capi/text/text.h"
#include "session/text/conversation.h"

struct vesper_chat final : vesper::capi::Object {
  static constexpr std::string_view kKind = "a chat";
  vesper_chat(std::shared_ptr<vesper_language_model> opened, const char* system,
              const vesper_generate_options* options)
      : Object(kKind),
        model(std::move(opened)),
        call(options),
        conversation(model->session, call.text, call.thinks) {
    check_options(call.text, model->session.options());
    if (system) conversation.system = system;
  }

  const std::shared_ptr<vesper_language_model> model;
  const vesper::capi::GenerateCall call;
  vesper::Conversation conversation;
};

namespace vesper::capi {
namespace {

constexpr std::string_view kSystem = "system";

// `ask` calls the conversation with the events.
template <class Ask>
vesper_status answer_in(const char* function, vesper_chat* chat, vesper_answer** answer,
                        const Ask& ask) {
  if (answer) *answer = nullptr;
  return guarded(function, chat, [&] {
    const Use use("chat", chat);
    // The model may have been closed.
    const Use model("model", use->model.get());
    required("answer", answer);
    *answer = add_answer(*model, ask(use->conversation, use->call.events()));
  });
}

}  // namespace
}  // namespace vesper::capi

namespace capi = vesper::capi;

extern "C" {

vesper_status vesper_chat_open(vesper_language_model* model, const char* system,
                               const vesper_generate_options* options, vesper_chat** chat) {
  if (chat) *chat = nullptr;
  return capi::guarded(__func__, model, [&] {
    auto found = capi::find_object("model", model);
    capi::required("chat", chat);
    *chat = capi::add_object(std::make_shared<vesper_chat>(std::move(found), system, options));
  });
}

void vesper_chat_close(vesper_chat* chat) { capi::close_object(__func__, "chat", chat); }

vesper_status vesper_chat_say(vesper_chat* chat, const char* message, vesper_answer** answer) {
  return capi::answer_in(__func__, chat, answer, [&](auto& conversation, const auto& events) {
    return conversation.say(capi::required("message", message), events);
  });
}

vesper_status vesper_chat_regenerate(vesper_chat* chat, vesper_answer** answer) {
  return capi::answer_in(__func__, chat, answer, [&](auto& conversation, const auto& events) {
    return conversation.regenerate(events);
  });
}

vesper_status vesper_chat_messages(const vesper_chat* chat, char** json) {
  if (json) *json = nullptr;
  return capi::guarded(__func__, chat, [&] {
    const capi::Use use("chat", chat);
    capi::required("json", json);
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    const auto add = [&](std::string_view role, const std::string& content) {
      list.push_back({{"role", role}, {"content", content}});
    };
    if (!use->conversation.system.empty()) add(capi::kSystem, use->conversation.system);
    for (const auto& [role, content] : use->conversation.messages()) add(role, content);
    *json =
        capi::copied_string(list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  });
}

vesper_status vesper_chat_set_messages(vesper_chat* chat, const vesper_message* messages,
                                       size_t n_messages) {
  return capi::guarded(__func__, chat, [&] {
    const capi::Use use("chat", chat);
    std::vector<vesper::ChatMessage> list = capi::read_messages(messages, n_messages);
    if (!list.empty() && list.front().role == capi::kSystem) {
      use->conversation.system = std::move(list.front().content);
      list.erase(list.begin());
    }
    use->conversation.set_messages(std::move(list));
  });
}

}  // extern "C"
