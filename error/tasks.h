// Runs independent tasks on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace vesper {

// Calls run_task(i) once for each i < n_tasks, on up to n_threads threads (0: one for each core),
// the caller's among them. Does without threads that the system refuses. If a task throws, later
// ones are left out, and the first exception is rethrown after all threads have ended.
void run_tasks(size_t n_tasks, size_t n_threads, const std::function<void(size_t i)>& run_task);

}  // namespace vesper
