// The thread that works on blocks of samples.
#include "audio/block_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

namespace vesper {
namespace {

TEST(BlockWorker, WorksOnEveryBlockInOrderOnAnotherThread) {
  std::vector<float> seen;
  std::thread::id thread;
  BlockWorker worker([&](std::span<const float> block) {
    seen.insert(seen.end(), block.begin(), block.end());
    thread = std::this_thread::get_id();
  });
  std::vector<float> expected;
  for (int i = 0; i < 100; ++i) {
    const std::vector<float> block(static_cast<size_t>(i % 3 + 1), static_cast<float>(i));
    worker.push(block);
    expected.insert(expected.end(), block.begin(), block.end());
  }
  worker.finish();
  EXPECT_EQ(seen, expected);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(BlockWorker, PassesOnTheFirstError) {
  std::atomic<int> n_calls = 0;
  BlockWorker worker([&](std::span<const float>) {
    if (++n_calls == 3) throw std::runtime_error("third");
  });
  const auto push_until_error = [&] {
    while (true) worker.push(std::vector<float>(1));
  };
  EXPECT_THROW(push_until_error(), std::runtime_error);
  EXPECT_THROW(worker.finish(), std::runtime_error);
  EXPECT_EQ(n_calls, 3);
}

TEST(BlockWorker, CanBeDestroyedWhileBlocksWait) {
  std::promise<void> go_on, has_begun;
  std::atomic<int> n_calls = 0;
  std::thread other;
  {
    BlockWorker worker([&](std::span<const float>) {
      if (++n_calls > 1) return;
      has_begun.set_value();
      go_on.get_future().wait();
    });
    for (int i = 0; i < 3; ++i) worker.push(std::vector<float>(1));
    has_begun.get_future().wait();
    other = std::thread([&] { go_on.set_value(); });
  }
  other.join();
  EXPECT_GE(n_calls, 1);
}

}  // namespace
}  // namespace vesper
