#include "error/tasks.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace vesper {

void run_tasks(size_t n_tasks, size_t n_threads, const std::function<void(size_t i)>& run_task) {
  if (n_threads == 0) n_threads = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < n_tasks; i = next++) run_task(i);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
      next = n_tasks;
    }
  };
  std::vector<std::thread> threads;
  try {
    for (size_t i = 1; i < std::min(n_tasks, n_threads); ++i) threads.emplace_back(work);
  } catch (const std::exception&) {
    // Out of threads or memory: those that run do all tasks.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace vesper
