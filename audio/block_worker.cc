#include "audio/block_worker.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "error/error.h"

namespace vesper {

struct BlockWorker::State {
  static constexpr size_t kMostWaiting = 3;

  explicit State(std::function<void(std::span<const float>)> to_do) : work(std::move(to_do)) {
    spare.reserve(kMostWaiting + 1);  // so that the thread allocates nothing
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return !waiting.empty() || has_ended; });
      if (waiting.empty()) return;
      std::vector<float> block = std::move(waiting.front());
      waiting.pop_front();
      changed.notify_all();
      lock.unlock();
      std::exception_ptr thrown;
      try {
        work(block);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      spare.push_back(std::move(block));
      if (thrown) {
        error = thrown;
        waiting.clear();
        has_ended = true;
        changed.notify_all();
      }
    }
  }

  void end(bool drops_waiting) {
    {
      const std::lock_guard lock(mutex);
      if (drops_waiting) waiting.clear();
      has_ended = true;
      changed.notify_all();
    }
    if (thread.joinable()) thread.join();
  }

  const std::function<void(std::span<const float>)> work;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::vector<float>> waiting;
  std::vector<std::vector<float>> spare;  // blocks that are done, whose memory is used again
  bool has_ended = false;                 // no more blocks are pushed
  std::exception_ptr error;
  std::thread thread;
};

BlockWorker::BlockWorker(std::function<void(std::span<const float>)> work)
    : state_(std::make_unique<State>(std::move(work))) {
  try {
    state_->thread = std::thread([state = state_.get()] { state->run(); });
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::kDevice,
                std::string("cannot start a thread that works on sound: ") + error.what());
  }
}

BlockWorker::~BlockWorker() { state_->end(true); }

void BlockWorker::push(std::span<const float> block) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(
      lock, [&] { return state_->waiting.size() < State::kMostWaiting || state_->error; });
  if (state_->error) std::rethrow_exception(state_->error);
  std::vector<float> copy;
  if (!state_->spare.empty()) {
    copy = std::move(state_->spare.back());
    state_->spare.pop_back();
  }
  copy.assign(block.begin(), block.end());
  state_->waiting.push_back(std::move(copy));
  state_->changed.notify_all();
}

void BlockWorker::finish() {
  state_->end(false);
  if (state_->error) std::rethrow_exception(state_->error);
}

}  // namespace vesper
