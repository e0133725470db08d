#include "cli/generate/generate_chat.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/generate/line_editor.h"
#include "cli/generate/thinking_text.h"
#include "cli/terminal/output.h"
#include "cli/terminal/signals.h"
#include "cli/terminal/terminal_text.h"
#include "cli/terminal/text_input.h"
#include "error/error.h"

namespace vesper {
namespace {

constexpr std::string_view kChatHelp =
    R"(A line is a message; one that ends with \ goes on in the next, and """ begins and
ends a message of several lines. Ctrl-C stops an answer, Ctrl-D ends the chat.
  /reset         forget the conversation
  /system TEXT   what the model is told before it; without TEXT: nothing
  /regenerate    answer the last message again
  /save FILE     write the conversation, as JSON; /load FILE takes it up again
  /stats         how long the last answer took
  /exit
)";

// What a model says is shown, and must not command the terminal. Lines stay lines.
std::string shown(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.find_first_of("\n\t");
    out += escaped(text.substr(0, end));
    if (end == std::string_view::npos) break;
    out += text[end];
    text.remove_prefix(end + 1);
  }
  return out;
}

class Chat {
 public:
  Chat(TextModel& model, const GenerateArguments& arguments)
      : model_(model), arguments_(arguments), editor_("generate"), sampling_(arguments.sampling) {
    if (arguments.system) system_ = *arguments.system;
    prompt_of({{"user", "?"}});  // a model that has no template says so now
  }

  void run() {
    write_to_stdout("Type a message, or /help.\n");
    while (const auto message = read_message()) {
      if (message->find_first_not_of(" \t\n") == std::string::npos) continue;
      try {
        if (message->starts_with('/') && message->find('\n') == std::string::npos) {
          if (!command(*message)) return;
        } else {
          messages_.push_back({"user", *message});
          answer();
        }
      } catch (const Error& error) {
        // A device or the program itself that fails is no matter of this message.
        if (error.kind() == ErrorKind::kDevice || error.kind() == ErrorKind::kInternal) throw;
        say(error.what());
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

  // False for the end of the chat.
  bool command(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (name == "/exit" || name == "/quit" || name == "/bye") return false;
    if (name == "/help") {
      write_to_stdout(kChatHelp);
    } else if (name == "/reset" || name == "/clear") {
      messages_.clear();
      say("The conversation is forgotten.");
    } else if (name == "/system") {
      system_ = rest;
      say(rest.empty() ? "Nothing is told before the conversation."
                       : "Told before the conversation from now on.");
    } else if (name == "/regenerate") {
      regenerate();
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

  void regenerate() {
    if (!messages_.empty() && messages_.back().role == "assistant") messages_.pop_back();
    if (messages_.empty()) return say("There is no message to answer yet.");
    ++sampling_.seed;  // another answer, where answers are drawn
    answer();
  }

  std::vector<int32_t> prompt_of(const std::vector<ChatMessage>& messages) const {
    std::vector<ChatMessage> all = messages;
    if (!system_.empty()) all.insert(all.begin(), {"system", system_});
    return model_.chat_ids(all);
  }

  // The conversation as tokens; its oldest turns are forgotten where it leaves no room for an
  // answer.
  std::vector<int32_t> prompt() {
    const uint32_t n_ctx = model_.generator().n_ctx();
    std::vector<int32_t> ids = prompt_of(messages_);
    bool forgets = false;
    while (ids.size() + n_ctx / 8 > n_ctx && messages_.size() > 2) {
      messages_.erase(messages_.begin(), messages_.begin() + 2);
      ids = prompt_of(messages_);
      forgets = true;
    }
    if (forgets) say("(The context is full: the oldest messages are forgotten.)");
    if (ids.size() >= n_ctx) {
      throw Error(ErrorKind::kInput, "expected a message that leaves room in the context of " +
                                         std::to_string(n_ctx) + " tokens, found " +
                                         std::to_string(ids.size()) + " (--ctx N)");
    }
    return ids;
  }

  void answer() {
    std::vector<int32_t> ids;
    try {
      ids = prompt();
    } catch (const Error&) {
      messages_.pop_back();  // the conversation goes on as if it had not been said
      throw;
    }
    const bool starts_inside = model_.begins_thinking(ids);
    ThinkingText thinking(starts_inside);
    bool is_dim = false;
    std::string text;
    const auto show = [&](const std::vector<AnswerPart>& parts) {
      std::string out;
      for (const AnswerPart& part : parts) {
        if (part.is_thinking && arguments_.no_think) continue;
        if (part.is_thinking != is_dim) {
          out += part.is_thinking ? "\x1b[2m" : "\x1b[22m\n\n";
          is_dim = part.is_thinking;
        }
        out += shown(part.text);
      }
      if (!out.empty()) write_to_stdout(out);
    };
    GenerateArguments arguments = arguments_;
    arguments.sampling = sampling_;
    InterruptNoted::forget();
    last_ = run_answer(
        model_, arguments, ids,
        [&](std::string_view part) {
          text += part;
          show(thinking.push(part));
        },
        InterruptNoted::has_come);
    show(thinking.finish());
    if (is_dim) write_to_stdout("\x1b[22m");
    write_to_stdout(text.ends_with('\n') ? "" : "\n");
    if (last_->end == "interrupted") say("(stopped)");
    if (last_->end == "context") say("(The context is full: the answer was cut.)");
    messages_.push_back({"assistant", without_thinking(text, starts_inside)});
  }

  void stats() const {
    if (!last_) return say("There is no answer yet.");
    const AnswerTimes& times = last_->times;
    std::array<char, 200> text{};
    const auto rate = [](uint64_t n, double s) { return s > 0 ? static_cast<double>(n) / s : 0.0; };
    const uint64_t n_read = times.n_prompt - times.n_reused;
    const uint64_t n_after = times.n_answer - std::min<uint64_t>(times.n_answer, 1);
    std::snprintf(text.data(), text.size(),
                  "prompt: %llu tokens, %llu of them new, %.2f s (%.1f tokens/s); answer: %llu "
                  "tokens, %.2f s (%.1f tokens/s)",
                  static_cast<unsigned long long>(times.n_prompt),
                  static_cast<unsigned long long>(n_read), times.prompt_s,
                  rate(n_read, times.prompt_s), static_cast<unsigned long long>(times.n_answer),
                  times.answer_s, rate(n_after, times.answer_s));
    say(text.data());
  }

  void save(const std::string& path) const {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const ChatMessage& message : messages_) {
      list.push_back({{"role", message.role}, {"content", message.content}});
    }
    AtomicFile file(path);
    file.write(nlohmann::ordered_json{{"system", system_}, {"messages", list}}.dump(2) + "\n");
    file.commit();
    say("Saved " + std::to_string(messages_.size()) + " messages.");
  }

  void load(const std::string& path) {
    const auto saved = nlohmann::json::parse(read_text_file(path), nullptr, false);
    std::vector<ChatMessage> messages;
    try {
      for (const auto& message : saved.at("messages")) {
        messages.push_back({message.at("role"), message.at("content")});
      }
      system_ = saved.value("system", "");
    } catch (const nlohmann::json::exception&) {
      throw Error(ErrorKind::kInput, path + ": expected a conversation that /save has written");
    }
    messages_ = std::move(messages);
    say("Loaded " + std::to_string(messages_.size()) + " messages.");
  }

  TextModel& model_;
  const GenerateArguments& arguments_;
  const InterruptNoted noted_{InterruptNoted::Which::kEvery};  // also between two lines
  LineEditor editor_;
  Sampling sampling_;
  std::string system_;
  std::vector<ChatMessage> messages_;  // without the system's
  std::optional<Answer> last_;
};

}  // namespace

void run_chat(TextModel& model, const GenerateArguments& arguments) {
  Chat(model, arguments).run();
}

}  // namespace vesper
