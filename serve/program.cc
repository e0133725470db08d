// serve: the API of OpenAI over HTTP. Parses the command line, loads the models, and serves until a
// signal.

#include "cli/terminal/program.h"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "serve/options.h"
#include "serve/server/log.h"
#include "session/models/model_store.h"

namespace vesper {
namespace {

constexpr const char* kProgram = "serve";

sigset_t service_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  return signals;
}

// While it exists, SIGINT and SIGTERM stop the server, the second one without waiting for running
// requests, and SIGHUP reads the keys again. All other threads block these signals.
class SignalThread {
 public:
  explicit SignalThread(Server& server) : server_(server), thread_([this] { wait(); }) {}
  ~SignalThread() {
    has_ended_ = true;
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  void wait() {
    const sigset_t signals = service_signals();
    int number = 0;
    while (sigwait(&signals, &number) == 0 && !has_ended_) {
      if (number == SIGHUP) {
        server_.reload_keys();
      } else {
        write_log("stopping", {{"signal", number == SIGINT ? "SIGINT" : "SIGTERM"}});
        server_.stop();
      }
    }
  }

  Server& server_;
  std::atomic<bool> has_ended_ = false;
  std::thread thread_;
};

// The name by which clients name a model.
std::string public_name(const std::string& name_or_path) {
  std::error_code error;
  if (!std::filesystem::exists(name_or_path, error)) return name_or_path;
  std::filesystem::path path = std::filesystem::path(name_or_path).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return std::filesystem::is_directory(path, error) ? path.filename().string()
                                                    : path.stem().string();
}

int serve(ServeArguments arguments) {
  RegistryOptions& options = arguments.registry;
  check_options(options.text);
  check_options(options.speech);
  check_options(options.embedding);
  options.host.on_log = [](const std::string& message) {
    write_log("model", {{"message", message}});
  };
  std::vector<std::pair<std::string, std::filesystem::path>> files;
  for (const std::string& name : arguments.models) {
    const KnownModel* known = find_known_model(name);
    files.emplace_back(
        public_name(name),
        find_model_showing(kProgram, name, known != nullptr ? known->kind : ModelKind::kSpeech,
                           arguments.offline));
  }
  if (!arguments.vad_model.empty()) {
    options.speech.vad_model =
        find_model_showing(kProgram, arguments.vad_model, ModelKind::kVad, arguments.offline);
  } else {
    options.speech.vad_model = ModelStore().find_installed(kVadModel).value_or("");
  }

  // The threads from here on inherit it.
  const sigset_t signals = service_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ModelRegistry models(options);
  for (const auto& [name, path] : files) models.add(name, path);
  Server server(models, arguments.server);
  {
    const SignalThread thread(server);
    for (const std::string& address : server.addresses()) {
      write_log("listening", {{"url", "http://" + address}});
    }
    server.run();
  }
  // A further signal does not wait for the models.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  write_log("stopped", {});
  return 0;
}

}  // namespace
}  // namespace vesper

int main(int argc, char** argv) {
  return vesper::run_program(vesper::kProgram, argc, argv, [](int n, char** words) {
    vesper::ServeArguments arguments;
    if (const auto answer = vesper::parse_serve_options(n, words, arguments)) {
      vesper::write_to_stdout(*answer);
      return 0;
    }
    return vesper::serve(std::move(arguments));
  });
}
