// Tasks on several threads.
#include "error/tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
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

}  // namespace
}  // namespace vesper::tasks_test
