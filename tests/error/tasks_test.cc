// Tasks on several threads.
#include "error/tasks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace vesper::tasks_test {
namespace {

TEST(Tasks, RunOnceEachOnAnyNumberOfThreads) {
  for (const size_t n_threads : {0, 1, 3, 100}) {
    std::vector<std::atomic<int>> runs(50);
    run_tasks(runs.size(), n_threads, [&](size_t i) { ++runs[i]; });
    for (const std::atomic<int>& n : runs) EXPECT_EQ(n, 1);
  }
  run_tasks(0, 4, [](size_t) { FAIL(); });
}

TEST(Tasks, RethrowTheFirstException) {
  std::atomic<int> n_runs = 0;
  EXPECT_THROW(run_tasks(1000, 4,
                         [&](size_t) {
                           ++n_runs;
                           throw std::runtime_error("a task failed");
                         }),
               std::runtime_error);
  EXPECT_LE(n_runs, 4);
}

TEST(Tasks, OfTasksRunToo) {
  std::atomic<int> n_runs = 0;
  run_tasks(8, 0, [&](size_t) { run_tasks(8, 0, [&](size_t) { ++n_runs; }); });
  EXPECT_EQ(n_runs, 64);
}

TEST(Tasks, OfSeveralCallersRunOnceEach) {
  std::atomic<int> n_runs = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) run_tasks(5, 3, [&](size_t) { ++n_runs; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(n_runs, 4 * 200 * 5);
}

// A fork has the memory of the threads that wait for tasks, but not the threads. It ends by _exit:
// the leak check at the end of a process may wait for a lock that such a thread held.
TEST(Tasks, RunInAForkedProcess) {
  run_tasks(4, 2, [](size_t) {});
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> n_runs = 0;
    run_tasks(4, 2, [&](size_t) { ++n_runs; });
    _exit(n_runs);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 4);
}

}  // namespace
}  // namespace vesper::tasks_test
