#include "tests/child_process.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace vesper {
namespace {

namespace fs = std::filesystem;

void redirect(int stream, const fs::path& path, int flags) {
  const int descriptor = open(path.c_str(), flags, 0666);
  if (descriptor < 0) _exit(126);
  if (descriptor != stream) {
    dup2(descriptor, stream);
    close(descriptor);
  }
}

}  // namespace

void write_file(const fs::path& path, const std::string& text) {
  // A new file: ext4 waits for the disk when one that was truncated is closed.
  std::error_code error;
  if (fs::is_regular_file(fs::symlink_status(path, error))) fs::remove(path, error);
  std::ofstream file(path, std::ios::binary);
  if (!(file << text).flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Child::Child(const std::vector<std::string>& arguments, const ChildOptions& options) {
  write_file(captured_ / "in", options.standard_input);
  std::string terminal_name;
  if (options.terminal) {
    terminal_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal_ < 0 || grantpt(terminal_) != 0 || unlockpt(terminal_) != 0) {
      throw std::runtime_error("no pseudo-terminal");
    }
    const winsize size{24, 80, 0, 0};
    ioctl(terminal_, TIOCSWINSZ, &size);
    terminal_name = ptsname(terminal_);
  }
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ != 0) return;

  // Under nohup, and in the background of a shell, the tests ignore some of these.
  for (const int signal_number : {SIGHUP, SIGINT, SIGQUIT}) signal(signal_number, SIG_DFL);
  if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(126);
  for (const auto& [name, value] : options.environment) {
    value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
  }
  redirect(STDIN_FILENO, captured_ / "in", O_RDONLY);
  if (options.stdout_path == "(closed)") {
    close(STDOUT_FILENO);
  } else {
    redirect(STDOUT_FILENO,
             options.stdout_path.empty() ? captured_ / "out" : fs::path(options.stdout_path),
             O_WRONLY | O_CREAT);
  }
  redirect(STDERR_FILENO, options.terminal ? fs::path(terminal_name) : captured_ / "err",
           options.terminal ? O_RDWR | O_NOCTTY : O_WRONLY | O_CREAT);
  execv(argv[0], argv.data());
  _exit(127);
}

Child::~Child() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (terminal_ >= 0) close(terminal_);
}

void Child::send(int signal_number) const { kill(pid_, signal_number); }

ChildResult Child::wait() {
  ChildResult result;
  // A terminal's buffer is small: read while the child runs, until it closes its end (EIO).
  if (terminal_ >= 0) {
    std::array<char, 4096> buffer{};
    for (ssize_t n = 0; (n = read(terminal_, buffer.data(), buffer.size())) > 0;) {
      result.err.append(buffer.data(), static_cast<size_t>(n));
    }
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (fs::exists(captured_ / "out")) result.out = read_file(captured_ / "out");
  if (terminal_ < 0) result.err = read_file(captured_ / "err");
  return result;
}

ChildResult run_child(const std::vector<std::string>& arguments, const ChildOptions& options) {
  return Child(arguments, options).wait();
}

}  // namespace vesper
