// The model hub of model_server.py, which runs as long as this object.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

namespace vesper {

class ModelServer {
 public:
  // Serves `content` under every path. Fails the test if the server does not start.
  explicit ModelServer(const std::string& content);
  ~ModelServer();
  ModelServer(const ModelServer&) = delete;
  ModelServer& operator=(const ModelServer&) = delete;

  // "http://127.0.0.1:1234"; append "/" and a mode.
  const std::string& address() const { return address_; }
  // The Range headers of the requests so far, "-" for none.
  std::vector<std::string> ranges() const;

 private:
  TemporaryFolder folder_;
  std::string address_;
  pid_t server_ = -1;
  int keep_alive_ = -1;  // its standard input
};

}  // namespace vesper
