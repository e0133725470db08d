// The CPU device's workers.
//
// In: TaskStages. The pool runs stage after stage, the tasks of a stage in any order on any thread,
// including the caller's. One wake-up serves all stages and their repetitions: the thread that ends
// the last task of a stage opens the next stage. Waiting threads spin for at most 50 us, then
// sleep, so that programs on shared cores do not slow each other down. A stage waits for its tasks,
// not for threads, so a worker that the system has suspended delays nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

namespace vesper {

// Times of stages, summed over repetitions and runs.
struct StageClock {
  std::vector<uint64_t> ns;  // [n_stages]
  uint64_t n_runs = 0;
};

// The work of a run. Not copied; must outlive the run.
struct TaskStages {
  // Runs one task on thread `thread` of the pool (0: the caller of run). `serial` is different for
  // every stage that the pool runs. Must not throw.
  void (*run_task)(const void* context, uint32_t stage, uint32_t task, uint32_t thread,
                   uint32_t serial) = nullptr;
  const void* context = nullptr;
  const uint32_t* n_tasks = nullptr;  // [n_stages], each at least 1
  uint32_t n_stages = 0;
  StageClock* clock = nullptr;  // may be null
};

class ThreadPool {
 public:
  // Starts n_threads - 1 workers, n_threads >= 1. Throws Error(kDevice) on failure.
  explicit ThreadPool(uint32_t n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t n_threads() const { return n_threads_; }

  // Runs the stages `times` times and returns when they are done. With `stop`, repetitions after
  // *stop became non-zero are skipped. Allocates nothing. One thread at a time.
  void run(const TaskStages& stages, uint32_t times, const uint32_t* stop);

  // Runs body(task, thread) for every task in [0, n_tasks), in any order. If a task throws, later
  // ones are left out, and the first exception is rethrown at the end.
  template <class Body>
  void for_each(uint32_t n_tasks, const Body& body) {
    if (n_tasks == 0) return;
    struct Tasks {
      const Body& body;
      mutable std::atomic<bool> has_failed = false;
      mutable std::exception_ptr failure = {};
    };
    const Tasks tasks{body};
    TaskStages stages;
    stages.run_task = [](const void* context, uint32_t, uint32_t task, uint32_t thread, uint32_t) {
      const auto& of_all = *static_cast<const Tasks*>(context);
      if (of_all.has_failed) return;
      try {
        of_all.body(task, thread);
      } catch (...) {
        if (!of_all.has_failed.exchange(true)) of_all.failure = std::current_exception();
      }
    };
    stages.context = &tasks;
    stages.n_tasks = &n_tasks;
    stages.n_stages = 1;
    run(stages, 1, nullptr);
    if (tasks.failure) std::rethrow_exception(tasks.failure);
  }

 private:
  void shut_down();
  void work(uint32_t thread);
  bool take_task(uint32_t thread);
  void open_stage(uint32_t stage);
  void end_stage();
  void clock_stage();
  void wake(std::atomic<uint32_t>& word, int how_many);
  void sleep(bool caller);

  uint32_t n_threads_;
  std::vector<std::thread> workers_;

  // The open stage: serial in the upper half, tasks not taken yet in the lower half.
  alignas(64) std::atomic<uint64_t> open_{0};
  // Unfinished tasks of the open stage.
  alignas(64) std::atomic<uint32_t> unfinished_{0};
  alignas(64) std::atomic<uint32_t> sleeping_workers_{0};
  std::atomic<uint32_t> worker_word_{0};  // futex of sleeping workers
  alignas(64) std::atomic<uint32_t> caller_sleeps_{0};
  std::atomic<uint32_t> caller_word_{0};
  std::atomic<bool> running_{false};
  std::atomic<bool> shut_down_{false};

  // The running stages: written while no task is open, or by the thread that ended the last one.
  TaskStages stages_;
  uint32_t stage_ = 0;
  uint32_t repetitions_left_ = 0;
  const uint32_t* stop_ = nullptr;
  std::chrono::steady_clock::time_point stage_began_;  // with a clock
};

}  // namespace vesper
