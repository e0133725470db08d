// The chat of the built `generate` on a pseudo terminal, with SmolLM2 from scripts/fetch-models.sh.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/child_process.h"
#include "tests/fetched_model.h"

namespace vesper::generate_chat_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A program on a terminal, and a user who types and reads.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& arguments) {
    pid_ = forkpty(&descriptor_, nullptr, nullptr, nullptr);
    if (pid_ != 0) return;
    std::vector<char*> words;
    for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    setenv("TERM", "xterm", 1);
    execv(words[0], words.data());
    _exit(127);
  }
  ~Terminal() {
    if (pid_ > 0 && !ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(descriptor_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) {
    // The prompt is written shortly before the terminal switches to single keys.
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    ASSERT_EQ(write(descriptor_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // The screen output since the last call, up to and including `mark`.
  std::string read_until(const std::string& mark) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
      if (const size_t at = held_.find(mark); at != std::string::npos) {
        const std::string text = held_.substr(0, at + mark.size());
        held_.erase(0, at + mark.size());
        return text;
      }
      pollfd waiting{descriptor_, POLLIN, 0};
      if (std::chrono::steady_clock::now() > deadline || poll(&waiting, 1, 1000) < 0) break;
      char bytes[4096];
      if (waiting.revents == 0) continue;
      const ssize_t n = read(descriptor_, bytes, sizeof bytes);
      if (n <= 0) break;
      held_.append(bytes, static_cast<size_t>(n));
    }
    ADD_FAILURE() << "expected \"" << mark << "\", found: " << held_;
    return std::exchange(held_, "");
  }
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int descriptor_ = -1;
  bool ended_ = false;
  std::string held_;
};

class GenerateChat : public testing::Test {
 protected:
  std::vector<std::string> command(const std::vector<std::string>& options) const {
    std::vector<std::string> words = {GENERATE, "-m", model_, "--device", "cpu"};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }

  const std::string model_ = fetched_model("smollm2-135m").string();
  TemporaryFolder folder_;
};

TEST_F(GenerateChat, AnswersAndSavesAConversation) {
  Terminal terminal(command({"-n", "12"}));
  const std::string name = std::filesystem::path(model_).filename().string();
  EXPECT_EQ(terminal.read_until("/help.\r\n> "),
            "Chat with " + name + ". Type a message, or /help.\r\n> ");
  terminal.type("/help\n");
  const std::string help = terminal.read_until("/exit          end the chat\r\n> ");
  for (const char* line : {"Ctrl-C stops an answer", "/reset ", "/system TEXT", "/regenerate ",
                           "/save FILE", "/load FILE", "/stats "}) {
    EXPECT_THAT(help, HasSubstr(line));
  }
  const std::string question = "What is the capital of France? Answer in one word.";
  terminal.type(question + "\n");
  EXPECT_THAT(terminal.read_until("\r\n> "), HasSubstr("word.\r\nThe capital of France is Paris"));
  terminal.type("/stats\n");
  const std::string stats = terminal.read_until("tokens/s)\r\n");
  EXPECT_THAT(stats, HasSubstr("of them new"));
  terminal.read_until("> ");
  const std::string file = (folder_ / "chat.json").string();
  terminal.type("/save " + file + "\n");
  terminal.read_until("Saved 2 messages.\r\n> ");
  const auto saved = nlohmann::json::parse(read_file(file));
  EXPECT_EQ(saved["messages"][0]["content"], question);
  EXPECT_THAT(saved["messages"][1]["content"].get<std::string>(), HasSubstr("Paris"));
  terminal.type("/reset\n");
  terminal.read_until("forgotten.\r\n> ");
  terminal.type("/regenerate\n");
  terminal.read_until("no message");
  terminal.read_until("> ");
  terminal.type("   \n");  // not a message
  EXPECT_EQ(terminal.read_until("\r\n> "), "   \r\n> ");
  terminal.type("/load " + file + "\n");
  terminal.read_until("Loaded 2 messages.\r\n> ");
  terminal.type("/load " + (folder_ / "none").string() + "\n");
  terminal.read_until("No such file or directory\r\n> ");
  // The second answer computes only the new part of the conversation.
  terminal.type("And \\\nof Spain?\n");
  terminal.read_until("\r\n> ");
  terminal.type("\x04");
  terminal.read_until("\r\n");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST_F(GenerateChat, CtrlCStopsAnAnswerOrDropsALine) {
  Terminal terminal(command({"--ignore-eos"}));
  terminal.read_until("> ");
  terminal.type("half a li\x03");
  EXPECT_THAT(terminal.read_until("^C\r\n> "), Not(HasSubstr("(stopped)")));
  terminal.type("\x03");  // on an empty line: drops nothing, and the chat continues
  terminal.read_until("^C\r\n> ");
  terminal.type("/save\n");
  terminal.read_until("expected a file: /save FILE\r\n> ");
  terminal.type("Tell me a story.\n");
  terminal.read_until("story.\r\n");
  terminal.read_until(" ");  // of the answer, which is endless
  terminal.type("\x03");
  terminal.read_until("(stopped)\r\n> ");
  terminal.type("Another one.\n");  // the chat goes on, and the next answer can be stopped too
  terminal.read_until("one.\r\n");
  terminal.read_until(" ");
  terminal.type("\x03");
  terminal.read_until("(stopped)\r\n> ");
  terminal.type("/exit\n");
  terminal.read_until("/exit\r\n");
  EXPECT_EQ(terminal.wait(), 0);
}

// A single answer on a terminal: thinking is dim, on standard error; standard output has the
// answer.
TEST_F(GenerateChat, ShowsThinkingDimmed) {
  const std::string chat_template = (folder_ / "begins.jinja").string();
  write_file(chat_template, "{{ messages[-1].content }}<think>\n");
  const std::vector<std::string> question = {"--offline",       "-n",          "6",
                                             "--chat-template", chat_template, "One two three"};
  Terminal shown(command(question));
  shown.read_until("\x1b[2m");
  EXPECT_THAT(shown.read_until("\x1b[22m"), Not(HasSubstr("think")));
  shown.read_until("still thinking");
  EXPECT_EQ(shown.wait(), 0);
  std::vector<std::string> hidden = question;
  hidden.insert(hidden.begin(), {"--thinking", "hide"});
  Terminal terminal(command(hidden));
  EXPECT_THAT(terminal.read_until("still thinking"), Not(HasSubstr("\x1b[2m")));
  EXPECT_EQ(terminal.wait(), 0);
}

// After one answer on a terminal, the shell's next line starts below it.
TEST_F(GenerateChat, CtrlCEndsASingleAnswer) {
  Terminal terminal(command({"--offline", "--ignore-eos", "Tell me a story."}));
  terminal.read_until(" ");  // of the answer
  terminal.type("\x03");
  EXPECT_THAT(terminal.read_until("the answer was cut\r\n"),
              HasSubstr("\r\ngenerate: interrupted: "));
  EXPECT_EQ(terminal.wait(), 128 + SIGINT);
}

}  // namespace
}  // namespace vesper::generate_chat_test
