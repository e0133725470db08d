#include "cli/terminal/program.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#include "error/error.h"
#include "llm/tokenizer/unicode/utf8_stream.h"
#include "session/atomic_file.h"

namespace vesper {
namespace {

// If the caller closed a standard stream, the next opened file must not get its number: results
// would be written to it.
void occupy_standard_streams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1) continue;
    // The lowest free number is `stream`. Reading and writing fail, as with the closed one.
    if (open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) == -1) return;
  }
}

// The name of the program, for handlers of signals.
std::atomic<const char*> g_program = nullptr;
static_assert(std::atomic<const char*>::is_always_lock_free);

// Prints "program: message" without allocating memory.
void print_plainly(const char* message) {
  std::array<iovec, 4> parts{};
  size_t n = 0;
  for (const char* text : {g_program.load(), ": ", message, "\n"}) {
    parts[n++] = {const_cast<char*>(text), std::strlen(text)};
  }
  // There is nowhere to report a failure to.
  [[maybe_unused]] const ssize_t written = writev(STDERR_FILENO, parts.data(), int(n));
}

void remove_files_and_die(int signal_number) {
  remove_unfinished_files();
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

// Reading a page of a mapped file failed: only model files are mapped.
void report_unreadable_page(int) {
  remove_unfinished_files();
  print_plainly(
      "a model file cannot be read: the disk failed, or the file became shorter while it was used");
  _exit(exit_status(ErrorKind::kModel));
}

// An exception where none may leave: libraries whose destructors allocate (nlohmann's JSON) end so
// if memory runs out.
[[noreturn]] void report_termination() {
  remove_unfinished_files();
  bool has_memory = true;
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    has_memory = false;
  } catch (...) {
  }
  print_plainly(has_memory ? "internal error: an exception that nobody handles" : "out of memory");
  _exit(exit_status(has_memory ? ErrorKind::kInternal : ErrorKind::kDevice));
}

void handle(int signal_number, void (*handler)(int)) {
  struct sigaction action {};
  // Unchanged if the caller ignores it (nohup).
  if (sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(signal_number, &action, nullptr);
}

void handle_signals() {
  // Writes to a closed pipe or beyond the limit of a file's size fail where they happen
  // (cli/terminal/output), which cleans up first.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // SIGABRT comes from libraries that cannot go on, such as nlohmann's JSON without memory.
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGABRT}) {
    handle(signal_number, remove_files_and_die);
  }
  handle(SIGBUS, report_unreadable_page);
}

std::map<std::string, std::string>& option_of_setting() {
  static std::map<std::string, std::string> options;
  return options;
}

}  // namespace

void name_settings(std::map<std::string, std::string> options) {
  option_of_setting() = std::move(options);
}

std::string printable(std::string_view text) {
  std::string out = valid_utf8(text);
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  // U+0080 to U+009F are also control characters; one of them begins terminal sequences.
  for (size_t at = 0; (at = out.find('\xc2', at)) != std::string::npos; ++at) {
    if (static_cast<unsigned char>(out[at + 1]) < 0xa0) out.replace(at, 2, "?");
  }
  return out;
}

void print_error(std::string_view program, std::string_view message) {
  std::string line(message);
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  line = printable(std::string(program) + ": " + line) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print_error(std::string_view program, std::string_view file, std::string_view message) {
  const std::string prefix = std::string(file) + ": ";
  // Readers include the file in their messages.
  const std::string in_message = escaped_controls(prefix);
  if (message.starts_with(in_message)) message.remove_prefix(in_message.size());
  print_error(program, prefix + std::string(message));
}

Failure failure_of(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    std::string message = ours->what();
    const auto option = option_of_setting().find(ours->setting());
    if (option != option_of_setting().end()) {
      message.replace(0, ours->setting().size(), option->second);
    }
    return {exit_status(ours->kind()), message};
  }
  if (dynamic_cast<const std::bad_alloc*>(&error)) {
    return {exit_status(ErrorKind::kDevice), "out of memory"};
  }
  return {exit_status(ErrorKind::kInternal), std::string("internal error: ") + error.what()};
}

namespace {

int end_by(int signal_number) {
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
  return 128 + signal_number;
}

int report(std::string_view program, const std::exception& error) noexcept {
  try {
    const Failure failure = failure_of(error);
    print_error(program, failure.message);
    return failure.status;
  } catch (const std::exception&) {
    print_plainly("out of memory");
    return exit_status(ErrorKind::kDevice);
  }
}

}  // namespace

int run_program(const char* program, int argc, char** argv, int (*body)(int, char**)) {
  g_program = program;
  occupy_standard_streams();
  handle_signals();
  std::set_terminate(report_termination);
  try {
    return body(argc, argv);
  } catch (const OutputPipeClosed&) {
    return end_by(SIGPIPE);  // like any filter whose reader is gone
  } catch (const Interrupted&) {
    return end_by(SIGINT);
  } catch (const std::exception& error) {
    return report(program, error);
  }
}

}  // namespace vesper
