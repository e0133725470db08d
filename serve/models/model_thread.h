// The thread of a model: it loads the model for the first job, or at once, runs the jobs, and
// unloads the model when it has been idle. Used by the hosts of text, speech and vectors.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "serve/models/busy_clock.h"
#include "serve/models/job_queue.h"
#include "serve/models/memory_budget.h"

namespace vesper {

// Settings of all models of a server.
struct HostOptions {
  size_t most_waiting = 64;  // jobs of a model; further ones are refused
  // A model that had no job for so long is unloaded; absent: never.
  std::optional<std::chrono::milliseconds> idle_limit = {};
  // Loads the model before the first job.
  bool is_preloaded = true;
  std::shared_ptr<MemoryBudget> memory = {};  // null: unlimited
  // Called on the model's thread about what a user cannot see otherwise: loaded, unloaded, failed.
  std::function<void(const std::string& message)> on_log = {};
};

// A model that a client can name.
struct HostedModel {
  std::string name;
  std::filesystem::path path;
  uint64_t n_bytes = 0;  // of memory when it is loaded: weights, caches and scratch
  int64_t written = 0;   // when its newest file was written, in seconds since 1970
};

template <class Session, class Job>
class ModelThread {
 public:
  // Runs jobs of `queue`, beginning with `first`, until no job is there. Called on the thread. An
  // exception is logged, and the session is loaded again for the next job.
  using RunJobs = std::function<void(Session& session, JobQueue<Job>& queue, Job first)>;
  using FailJob = std::function<void(Job& job, const std::exception& error)>;

  ModelThread(HostedModel model, HostOptions options,
              std::function<std::unique_ptr<Session>()> load, RunJobs run_jobs, FailJob fail_job)
      : model_(std::move(model)),
        options_(std::move(options)),
        load_(std::move(load)),
        run_jobs_(std::move(run_jobs)),
        fail_job_(std::move(fail_job)),
        queue_(options_.most_waiting, [this] { return must_end(); }),
        thread_([this] { run(); }) {}

  // Runs the jobs that wait, then ends.
  ~ModelThread() {
    queue_.close();
    thread_.join();
  }

  const HostedModel& model() const { return model_; }
  bool is_loaded() const { return is_loaded_; }
  // Whether it is loaded, or need not be.
  bool is_ready() const { return is_loaded_ || !options_.is_preloaded || has_been_loaded_; }
  size_t n_waiting() const { return queue_.size(); }
  // Time in which it ran jobs.
  double busy_s() const { return busy_.seconds(); }
  bool push(const std::string& client, Job job) { return queue_.push(client, std::move(job)); }
  // Refuses further jobs.
  void close() { queue_.close(); }

 private:
  void log(const std::string& message) const {
    if (options_.on_log) options_.on_log(model_.name + ": " + message);
  }

  void load() {
    if (options_.memory) share_.emplace(*options_.memory, model_.name, model_.n_bytes);
    const auto start = std::chrono::steady_clock::now();
    session_ = load_();
    is_loaded_ = has_been_loaded_ = true;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    log("loaded in " + std::to_string(took.count()).substr(0, 5) + " s");
  }

  void unload() {
    session_.reset();
    share_.reset();
    is_loaded_ = false;
  }

  // Whether another model has waited for the memory of this one for long enough.
  bool must_end() const { return share_ && share_->must_end(); }

  void run() {
    constexpr std::chrono::milliseconds kStep{200};
    auto last_use = std::chrono::steady_clock::now();
    if (options_.is_preloaded) {
      try {
        load();
      } catch (const std::exception& error) {
        share_.reset();
        log(error.what());
      }
    }
    for (;;) {
      if (session_ && must_end()) {
        unload();
        log("unloaded for another model");
      }
      std::optional<Job> job = queue_.wait_and_pop(kStep);
      if (!job) {
        if (queue_.is_closed()) return unload();  // another model may wait for its memory
        const bool is_idle = options_.idle_limit &&
                             std::chrono::steady_clock::now() - last_use > *options_.idle_limit;
        if (session_ && (is_idle || (share_ && share_->is_wanted()))) {
          unload();
          log("unloaded");
        }
        continue;
      }
      try {
        if (!session_) load();
      } catch (const std::exception& error) {
        share_.reset();
        log(error.what());
        fail_job_(*job, error);
        continue;
      }
      busy_.start();
      try {
        run_jobs_(*session_, queue_, std::move(*job));
      } catch (const std::exception& error) {
        unload();
        log(error.what());
      }
      busy_.stop();
      last_use = std::chrono::steady_clock::now();
    }
  }

  HostedModel model_;
  HostOptions options_;
  std::function<std::unique_ptr<Session>()> load_;
  RunJobs run_jobs_;
  FailJob fail_job_;
  JobQueue<Job> queue_;
  std::optional<MemoryBudget::Share> share_;  // this and the next one: of the thread
  std::unique_ptr<Session> session_;
  std::atomic<bool> is_loaded_ = false, has_been_loaded_ = false;
  BusyClock busy_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace vesper
