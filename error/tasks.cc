#include "error/tasks.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace vesper {
namespace {

// Asked once: the C library opens a file of the system for each answer.
size_t n_cores() {
  static const size_t n = std::max(1u, std::thread::hardware_concurrency());
  return n;
}

// The tasks of one call. Its caller and helpers take the next one until there are none.
class Tasks {
 public:
  Tasks(size_t n, const std::function<void(size_t i)>& run_task) : n_(n), run_task_(run_task) {}

  void work() {
    try {
      for (size_t i = next_++; i < n_; i = next_++) run_task_(i);
    } catch (...) {
      const std::lock_guard lock(failure_mutex_);
      if (!failure_) failure_ = std::current_exception();
      next_ = n_;
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  size_t n_helpers = 0;  // that work now

 private:
  const size_t n_;
  const std::function<void(size_t i)>& run_task_;
  std::atomic<size_t> next_{0};
  std::exception_ptr failure_;
  std::mutex failure_mutex_;
};

// Threads that wait for tasks: starting them takes longer than many tasks.
class Helpers {
 public:
  // Runs the tasks on this thread and up to n_wanted helpers. Busy helpers are not waited for.
  void run(Tasks& tasks, size_t n_wanted) {
    // A fork of the process has no other threads, and may find the mutex locked.
    if (getpid() != process_) n_wanted = 0;
    if (n_wanted > 0) {
      const std::lock_guard lock(mutex_);
      waiting_.insert(waiting_.end(), n_wanted, &tasks);
      start_threads();
    }
    for (size_t i = 0; i < n_wanted; ++i) has_work_.notify_one();
    tasks.work();
    if (n_wanted == 0) return;
    std::unique_lock lock(mutex_);
    std::erase(waiting_, &tasks);
    has_ended_.wait(lock, [&] { return tasks.n_helpers == 0; });
  }

 private:
  // As many as the waiting tasks want, one less than there are cores.
  void start_threads() {
    try {
      while (n_idle_ + n_starting_ < waiting_.size() && n_threads_ + 1 < n_cores()) {
        std::thread([this] { help(); }).detach();
        ++n_threads_;
        ++n_starting_;
      }
    } catch (const std::exception&) {
      // Out of threads or memory: those that run do all tasks.
    }
  }

  void help() {
    std::unique_lock lock(mutex_);
    --n_starting_;
    while (true) {
      ++n_idle_;
      has_work_.wait(lock, [&] { return !waiting_.empty(); });
      --n_idle_;
      Tasks& tasks = *waiting_.front();
      waiting_.pop_front();
      ++tasks.n_helpers;
      lock.unlock();
      tasks.work();
      lock.lock();
      if (--tasks.n_helpers == 0) has_ended_.notify_all();
    }
  }

  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable has_work_, has_ended_;
  std::deque<Tasks*> waiting_;  // once for each helper that is wanted
  size_t n_threads_ = 0, n_idle_ = 0, n_starting_ = 0;
};

}  // namespace

void run_tasks(size_t n_tasks, size_t n_threads, const std::function<void(size_t i)>& run_task) {
  // Never destroyed: a thread that reads a live stream may run tasks while the program ends.
  static Helpers& helpers = *new Helpers;
  if (n_threads == 0) n_threads = n_cores();
  Tasks tasks(n_tasks, run_task);
  helpers.run(tasks, std::max<size_t>(std::min(n_tasks, n_threads), 1) - 1);
  tasks.rethrow();
}

}  // namespace vesper
