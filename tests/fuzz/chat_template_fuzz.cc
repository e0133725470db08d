// Chat templates, which are programs that come with a model.
#include <nlohmann/json.hpp>

#include "llm/chat/chat_template.h"
#include "tests/fuzz/fuzz.h"

namespace vesper::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> sources;
  const auto templates = nlohmann::json::parse(content_of(CHAT_TEMPLATES));
  for (const auto& one : templates.at("cases")) sources.push_back(one.at("template"));
  return sources;
}

void use(Bytes input) {
  const ChatTemplate chat(text_of(input));
  chat.render({{"messages",
                {{{"role", "system"}, {"content", "Be brief."}},
                 {{"role", "user"}, {"content", " Why? "}},
                 {{"role", "assistant"}, {"content", "So.\n"}}}},
               {"add_generation_prompt", true},
               {"bos_token", "<s>"},
               {"eos_token", "</s>"},
               {"tools", {{{"name", "clock"}, {"parameters", {{"type", "object"}}}}}},
               {"n", -3}},
              std::time_t{0});
}

}  // namespace vesper::fuzz
