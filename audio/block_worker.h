// A thread that works on blocks of samples while its owner reads the next ones.
#pragma once

#include <functional>
#include <memory>
#include <span>

namespace vesper {

class BlockWorker {
 public:
  // Calls `work` with each block, in order, on one thread. Throws Error(kDevice) if there can be no
  // thread.
  explicit BlockWorker(std::function<void(std::span<const float> block)> work);
  // Drops the blocks that wait.
  ~BlockWorker();
  BlockWorker(const BlockWorker&) = delete;
  BlockWorker& operator=(const BlockWorker&) = delete;

  // Copies a block for the thread. Waits while several blocks wait. Throws what `work` has thrown;
  // it is not called again then.
  void push(std::span<const float> block);
  // Returns when all blocks are done; once. Throws what `work` has thrown.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vesper
