#include "cli/generate/chat.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/generate/line_editor.h"
#include "cli/terminal/output.h"
#include "cli/terminal/program.h"
#include "cli/terminal/signals.h"
#include "cli/terminal/terminal_text.h"
#include "error/error.h"
#include "error/number_text.h"
#include "llm/files/text_file.h"
#include "session/atomic_file.h"
#include "session/text/conversation.h"

namespace vesper {
namespace {

constexpr std::string_view kChatHelp =
    R"(Type a message and press Enter. A line that ends with \ continues in the next one;
""" begins and ends a message of several lines.
Ctrl-C stops an answer or drops a line, Ctrl-D ends the chat.
  /help          this text
  /reset         forget the conversation
  /system TEXT   give the model a system message; without TEXT: none
  /regenerate    answer the last message again
  /save FILE     write the conversation as JSON
  /load FILE     continue a saved conversation
  /stats         how long the last answer took
  /exit          end the chat
)";

class Chat {
 public:
  Chat(TextSession& session, const GenerateArguments& arguments)
      : conversation_(session, arguments.text, !arguments.no_think),
        model_(session.model().weights()->path().filename().string()),
        hides_thinking_(arguments.no_think || arguments.thinking == ShownThinking::kHide),
        editor_("generate") {
    conversation_.system = arguments.system.value_or("");
    conversation_.on_forget = [this] {
      say("(The context is full: the oldest messages are forgotten.)");
    };
  }

  void run() {
    write_to_stdout("Chat with " + escaped(model_) + ". Type a message, or /help.\n");
    while (const auto message = read_message()) {
      if (message->find_first_not_of(" \t\n") == std::string::npos) continue;
      try {
        if (message->starts_with('/') && message->find('\n') == std::string::npos) {
          if (!command(*message)) return;
        } else {
          answer([&](const TextEvents& events) { return conversation_.say(*message, events); });
        }
      } catch (const Error& error) {
        // Errors of the device or the program end the chat.
        if (error.kind() == ErrorKind::kDevice || error.kind() == ErrorKind::kInternal) throw;
        say(failure_of(error).message);
      }
    }
    write_to_stdout("\n");
  }

 private:
  void say(const std::string& text) const { write_to_stdout(escaped(text) + "\n"); }

  std::optional<std::string> read_message() {
    auto line = editor_.read("> ");
    if (!line || editor_.was_cancelled()) return line;
    std::string message = *line;
    const bool is_block = message.starts_with("\"\"\"");
    if (is_block) message.erase(0, 3);
    while (is_block ? !message.ends_with("\"\"\"") : message.ends_with('\\')) {
      if (!is_block) message.pop_back();
      line = editor_.read(". ");
      if (!line) return std::nullopt;
      if (editor_.was_cancelled()) return "";
      message += (message.empty() && is_block ? "" : "\n") + *line;
    }
    if (is_block) message.resize(message.size() - 3);
    if (!message.empty() && message.find('\n') == std::string::npos) editor_.remember(message);
    return message;
  }

  // False at the end of the chat.
  bool command(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (name == "/exit" || name == "/quit" || name == "/bye") return false;
    if (name == "/help") {
      write_to_stdout(kChatHelp);
    } else if (name == "/reset" || name == "/clear") {
      conversation_.set_messages({});
      say("The conversation is forgotten.");
    } else if (name == "/system") {
      conversation_.system = rest;
      say(rest.empty() ? "There is no system message." : "The system message is set.");
    } else if (name == "/regenerate") {
      answer([&](const TextEvents& events) { return conversation_.regenerate(events); });
    } else if ((name == "/save" || name == "/load") && rest.empty()) {
      say("expected a file: " + name + " FILE");
    } else if (name == "/save") {
      save(rest);
    } else if (name == "/load") {
      load(rest);
    } else if (name == "/stats") {
      stats();
    } else {
      say("expected a command of /help, found " + line);
    }
    return true;
  }

  // Prints an answer while it is generated; thinking is dim.
  void answer(const std::function<TextAnswer(const TextEvents&)>& ask) {
    bool is_dim = false;
    TextEvents events;
    events.on_thinking = [&](std::string_view text) {
      if (hides_thinking_) return;
      write_to_stdout((std::exchange(is_dim, true) ? "" : "\x1b[2m") + escaped_lines(text));
    };
    events.on_text = [&](std::string_view text) {
      write_to_stdout((std::exchange(is_dim, false) ? "\x1b[22m\n\n" : "") + escaped_lines(text));
    };
    events.is_cancelled = InterruptNoted::has_come;
    InterruptNoted::forget();
    last_ = ask(events);
    if (is_dim) write_to_stdout("\x1b[22m");
    write_to_stdout(last_->text.ends_with('\n') ? "" : "\n");
    if (last_->end == AnswerEnd::kCancelled) say("(stopped)");
    if (last_->end == AnswerEnd::kLoop) say("(The answer only repeated itself: it was ended.)");
    if (last_->end == AnswerEnd::kContext) say("(The context is full: the answer was cut.)");
  }

  void stats() const {
    if (!last_) return say("There is no answer yet.");
    const TextStatistics& times = last_->statistics;
    const auto rate = [](uint64_t n, double s) { return s > 0 ? static_cast<double>(n) / s : 0.0; };
    const uint64_t n_read = times.n_prompt - times.n_reused;
    const uint64_t n_after = times.n_answer - std::min<uint64_t>(times.n_answer, 1);
    const std::string text = formatted(
        "prompt: %llu tokens, %llu of them new, %.2f s (%.1f tokens/s); answer: %llu "
        "tokens, %.2f s (%.1f tokens/s)",
        static_cast<unsigned long long>(times.n_prompt), static_cast<unsigned long long>(n_read),
        times.prompt_s, rate(n_read, times.prompt_s),
        static_cast<unsigned long long>(times.n_answer), times.answer_s,
        rate(n_after, times.answer_s));
    say(text.data());
  }

  void save(const std::string& path) const {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const ChatMessage& message : conversation_.messages()) {
      list.push_back({{"role", message.role}, {"content", message.content}});
    }
    AtomicFile file(path);
    file.write(
        nlohmann::ordered_json{{"system", conversation_.system}, {"messages", list}}.dump(2) +
        "\n");
    file.commit();
    say("Saved " + std::to_string(list.size()) + " messages.");
  }

  void load(const std::string& path) {
    const auto saved = nlohmann::json::parse(read_text_file(path), nullptr, false);
    std::vector<ChatMessage> messages;
    try {
      for (const auto& message : saved.at("messages")) {
        messages.push_back({message.at("role"), message.at("content")});
      }
      conversation_.system = saved.value("system", "");
    } catch (const nlohmann::json::exception&) {
      throw Error(ErrorKind::kInput, path + ": expected a conversation that /save has written");
    }
    say("Loaded " + std::to_string(messages.size()) + " messages.");
    conversation_.set_messages(std::move(messages));
  }

  Conversation conversation_;
  std::string model_;  // name of its file or folder
  bool hides_thinking_;
  const InterruptNoted noted_{InterruptNoted::Which::kEvery};  // also between two lines
  LineEditor editor_;
  std::optional<TextAnswer> last_;
};

}  // namespace

void run_chat(TextSession& session, const GenerateArguments& arguments) {
  Chat(session, arguments).run();
}

}  // namespace vesper
