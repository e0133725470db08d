// Jobs that wait for a model. Each client's jobs are in order, and the clients take turns, so that
// one with many jobs does not delay the others.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace vesper {

// Thread-safe.
template <class Job>
class JobQueue {
 public:
  // `holds_back`: asked by pop() and pop_if(); true: they give no job, so that the running ones
  // end.
  explicit JobQueue(size_t most_waiting, std::function<bool()> holds_back = nullptr)
      : most_waiting_(most_waiting), holds_back_(std::move(holds_back)) {}

  // false: the queue is full or closed.
  bool push(const std::string& client, Job job) {
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_ || n_waiting_ >= most_waiting_) return false;
      const auto found = std::ranges::find(clients_, client, &Client::name);
      Client& entry = found != clients_.end() ? *found : clients_.emplace_back(Client{client, {}});
      entry.jobs.push_back(std::move(job));
      ++n_waiting_;
    }
    changed_.notify_one();
    return true;
  }

  // The next job; none if there is none, or if `accepts` refuses it.
  template <class Accepts>
  std::optional<Job> pop_if(const Accepts& accepts) {
    if (holds_back_ && holds_back_()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    return take(accepts);
  }
  std::optional<Job> pop() {
    return pop_if([](const Job&) { return true; });
  }

  // Waits for a job, at most `limit`. None: there came none, or the queue is closed and empty.
  std::optional<Job> wait_and_pop(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return is_closed_ || n_waiting_ > 0; });
    return take([](const Job&) { return true; });
  }

  // Refuses further jobs. Those that wait can still be taken.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    changed_.notify_all();
  }

  bool is_closed() const {
    const std::lock_guard lock(mutex_);
    return is_closed_;
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return n_waiting_;
  }

 private:
  struct Client {
    std::string name;
    std::deque<Job> jobs;  // never empty
  };

  template <class Accepts>
  std::optional<Job> take(const Accepts& accepts) {
    if (clients_.empty() || !accepts(clients_.front().jobs.front())) return std::nullopt;
    Client& client = clients_.front();
    std::optional<Job> job = std::move(client.jobs.front());
    client.jobs.pop_front();
    --n_waiting_;
    if (client.jobs.empty()) {
      clients_.pop_front();
    } else {
      clients_.splice(clients_.end(), clients_, clients_.begin());
    }
    return job;
  }

  size_t most_waiting_, n_waiting_ = 0;
  std::function<bool()> holds_back_;
  bool is_closed_ = false;
  std::list<Client> clients_;  // the next one first
  mutable std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace vesper
