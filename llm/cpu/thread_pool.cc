#include "llm/cpu/thread_pool.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <string>
#include <system_error>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "error/error.h"

namespace vesper {
namespace {

constexpr auto kSpinTime = std::chrono::microseconds(50);
constexpr int kPausesPerLookAtTheClock = 16;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a futex is a plain word");

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word, int how_many) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, how_many, nullptr, nullptr, 0);
}

}  // namespace

ThreadPool::ThreadPool(uint32_t n_threads) : n_threads_(std::max(n_threads, 1u)) {
  workers_.reserve(n_threads_ - 1);
  try {
    for (uint32_t thread = 1; thread < n_threads_; ++thread) {
      workers_.emplace_back([this, thread] { work(thread); });
    }
  } catch (const std::system_error& error) {
    const size_t started = workers_.size();
    shut_down();
    throw Error(ErrorKind::kDevice, "cannot start " + std::to_string(n_threads_) +
                                        " threads: the system gave " + std::to_string(started + 1) +
                                        " (" + error.what() + ")");
  } catch (...) {
    shut_down();
    throw;
  }
}

ThreadPool::~ThreadPool() { shut_down(); }

void ThreadPool::shut_down() {
  shut_down_ = true;
  wake(worker_word_, INT_MAX);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::wake(std::atomic<uint32_t>& word, int how_many) {
  word.fetch_add(1);
  futex_wake(word, how_many);
}

// Takes and runs one task of the open stage, if any.
bool ThreadPool::take_task(uint32_t thread) {
  uint64_t seen = open_.load();
  do {
    if (static_cast<uint32_t>(seen) == 0) return false;
  } while (!open_.compare_exchange_weak(seen, seen - 1));
  // The stage cannot end before this task, so its description does not change.
  const uint32_t stage = stage_;
  const uint32_t task = stages_.n_tasks[stage] - static_cast<uint32_t>(seen);
  stages_.run_task(stages_.context, stage, task, thread, static_cast<uint32_t>(seen >> 32));
  if (unfinished_.fetch_sub(1) == 1) end_stage();
  return true;
}

void ThreadPool::open_stage(uint32_t stage) {
  stage_ = stage;
  const uint32_t n_tasks = stages_.n_tasks[stage];
  unfinished_.store(n_tasks, std::memory_order_relaxed);
  const uint64_t serial = (open_.load(std::memory_order_relaxed) >> 32) + 1;
  open_.store(serial << 32 | n_tasks);
  // Sequentially consistent on both sides: a thread that goes to sleep sees the stage, or is
  // counted here. The opening thread works too, so one wake-up less.
  if (n_tasks > 1) {
    if (sleeping_workers_.load() != 0) {
      wake(worker_word_, static_cast<int>(std::min<uint32_t>(n_tasks - 1, INT_MAX)));
    }
    if (caller_sleeps_.load() != 0) wake(caller_word_, 1);
  }
}

void ThreadPool::clock_stage() {
  const auto now = std::chrono::steady_clock::now();
  StageClock& clock = *stages_.clock;
  clock.ns[stage_] += static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now - stage_began_).count());
  clock.n_runs += stage_ + 1 == stages_.n_stages;
  stage_began_ = now;
}

void ThreadPool::end_stage() {
  if (stages_.clock != nullptr) clock_stage();
  if (stage_ + 1 < stages_.n_stages) return open_stage(stage_ + 1);
  if (--repetitions_left_ > 0 && (stop_ == nullptr || *stop_ == 0)) return open_stage(0);
  running_.store(false);
  if (caller_sleeps_.load() != 0) wake(caller_word_, 1);
}

// Sleeps unless there is work.
void ThreadPool::sleep(bool caller) {
  std::atomic<uint32_t>& count = caller ? caller_sleeps_ : sleeping_workers_;
  std::atomic<uint32_t>& word = caller ? caller_word_ : worker_word_;
  const uint32_t seen = word.load();
  count.fetch_add(1);
  const bool ended = caller ? !running_.load() : shut_down_.load();
  if (!ended && static_cast<uint32_t>(open_.load()) == 0) futex_wait(word, seen);
  count.fetch_sub(1);
}

void ThreadPool::work(uint32_t thread) {
  const bool caller = thread == 0;
  auto idle_since = std::chrono::steady_clock::now();
  bool idle = true;
  while (caller ? running_.load() : !shut_down_.load()) {
    if (take_task(thread)) {
      idle = false;
      continue;
    }
    if (!idle) {
      idle = true;
      idle_since = std::chrono::steady_clock::now();
    }
    for (int i = 0; i < kPausesPerLookAtTheClock; ++i) pause();
    if (std::chrono::steady_clock::now() - idle_since > kSpinTime) {
      sleep(caller);
      idle_since = std::chrono::steady_clock::now();
    }
  }
}

void ThreadPool::run(const TaskStages& stages, uint32_t times, const uint32_t* stop) {
  if (times == 0 || stages.n_stages == 0 || (stop != nullptr && *stop != 0)) return;
  stages_ = stages;
  repetitions_left_ = times;
  stop_ = stop;
  if (stages.clock != nullptr) stage_began_ = std::chrono::steady_clock::now();
  running_.store(true);
  open_stage(0);
  work(0);
}

}  // namespace vesper
