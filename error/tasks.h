// Runs independent tasks on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace vesper {

// Calls run_task(i) once for each i < n_tasks, on up to n_threads threads (0: one for each core),
// the caller's among them, but no more than there are cores. The other threads stay and wait for
// the next call; tasks do not wait for threads that are busy or that the system refuses. If a task
// throws, later ones are left out, and the first exception is rethrown after all have ended.
void run_tasks(size_t n_tasks, size_t n_threads, const std::function<void(size_t i)>& run_task);

}  // namespace vesper
