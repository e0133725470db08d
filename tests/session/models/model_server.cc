#include "tests/session/models/model_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

#include "tests/child_process.h"

namespace vesper {

ModelServer::ModelServer(const std::string& content) {
  write_file(folder_ / "content", content);
  int to_server[2], from_server[2];
  if (pipe2(to_server, O_CLOEXEC) != 0 || pipe2(from_server, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "no pipes";
    return;
  }
  const std::string file = folder_ / "content", log = folder_ / "log";
  server_ = fork();
  if (server_ == 0) {
    dup2(to_server[0], STDIN_FILENO);
    dup2(from_server[1], STDOUT_FILENO);
    execlp("python3", "python3", MODEL_SERVER, file.c_str(), log.c_str(), nullptr);
    _exit(127);
  }
  close(to_server[0]);
  close(from_server[1]);
  keep_alive_ = to_server[1];
  std::string port;
  for (char c = 0; read(from_server[0], &c, 1) == 1 && c != '\n';) port += c;
  close(from_server[0]);
  EXPECT_FALSE(port.empty()) << "the test server did not start";
  address_ = "http://127.0.0.1:" + port;
}

ModelServer::~ModelServer() {
  if (keep_alive_ >= 0) close(keep_alive_);
  if (server_ > 0) waitpid(server_, nullptr, 0);
}

std::vector<std::string> ModelServer::ranges() const {
  std::vector<std::string> ranges;
  std::istringstream log(read_file(folder_ / "log"));
  for (std::string path, range; log >> path >> range;) ranges.push_back(range);
  return ranges;
}

}  // namespace vesper
