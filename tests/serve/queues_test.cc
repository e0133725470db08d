// The queues between connections and models, and the memory that models share.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "error/error.h"
#include "serve/models/event_queue.h"
#include "serve/models/job_queue.h"
#include "serve/models/memory_budget.h"
#include "serve/models/model_thread.h"

namespace vesper::queues_test {
namespace {

using std::chrono::milliseconds;

TEST(JobQueue, ClientsTakeTurns) {
  JobQueue<int> queue(10);
  for (const int job : {1, 2, 3}) EXPECT_TRUE(queue.push("ann", job));
  EXPECT_TRUE(queue.push("bob", 4));
  EXPECT_TRUE(queue.push("carl", 5));
  std::vector<int> order;
  while (const auto job = queue.pop()) order.push_back(*job);
  EXPECT_EQ(order, (std::vector<int>{1, 4, 5, 2, 3}));
}

TEST(JobQueue, IsBoundedAndKeepsAJobThatIsNotAccepted) {
  JobQueue<int> queue(2);
  EXPECT_TRUE(queue.push("ann", 1));
  EXPECT_TRUE(queue.push("ann", 2));
  EXPECT_FALSE(queue.push("bob", 3));
  EXPECT_FALSE(queue.pop_if([](int job) { return job > 1; }));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.pop_if([](int job) { return job == 1; }), 1);
  queue.close();
  EXPECT_FALSE(queue.push("bob", 3));
  EXPECT_EQ(queue.wait_and_pop(milliseconds(10000)), 2);
  EXPECT_FALSE(queue.wait_and_pop(milliseconds(10000)));  // closed: does not wait
}

TEST(EventQueue, EndsWithItsLastSender) {
  auto queue = std::make_shared<EventQueue<int>>();
  {
    const EventSender<int> first(queue);
    const EventSender<int> second = first;
    first.push(1);
    EXPECT_FALSE(queue->has_ended());
  }
  EXPECT_FALSE(queue->has_ended());  // there is an event
  EXPECT_EQ(queue->pop(milliseconds(0)), 1);
  EXPECT_TRUE(queue->has_ended());
  EXPECT_FALSE(queue->pop(milliseconds(10000)));
}

TEST(MemoryBudget, AModelWaitsForRoom) {
  MemoryBudget budget(100);
  EXPECT_THROW(MemoryBudget::Share(budget, "large", 101), Error);
  auto first = std::make_unique<MemoryBudget::Share>(budget, "first", 60);
  EXPECT_FALSE(first->is_wanted());
  std::atomic<bool> has_room = false;
  std::thread other([&] {
    const MemoryBudget::Share second(budget, "second", 60);
    has_room = true;
  });
  while (!first->is_wanted()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_FALSE(has_room);
  first.reset();
  other.join();
  EXPECT_TRUE(has_room);
}

TEST(MemoryBudget, ServesThoseThatWaitInTheirOrder) {
  MemoryBudget budget(100);
  auto first = std::make_unique<MemoryBudget::Share>(budget, "first", 100);
  std::atomic<int> n_loaded = 0;
  std::thread large([&] {
    const MemoryBudget::Share share(budget, "large", 100);
    EXPECT_EQ(n_loaded++, 0);
  });
  while (!first->is_wanted()) std::this_thread::sleep_for(milliseconds(1));
  std::thread small([&] {
    // There would be room for it before.
    const MemoryBudget::Share share(budget, "small", 1);
    EXPECT_EQ(n_loaded++, 1);
  });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(n_loaded, 0);
  first.reset();
  large.join();
  small.join();
  EXPECT_EQ(n_loaded, 2);
}

TEST(MemoryBudget, ABusyModelMustEndAfterAWhile) {
  MemoryBudget budget(100, milliseconds(50));
  auto busy = std::make_unique<MemoryBudget::Share>(budget, "busy", 100);
  EXPECT_FALSE(busy->must_end());
  std::thread other([&] { const MemoryBudget::Share share(budget, "other", 100); });
  while (!busy->is_wanted()) std::this_thread::sleep_for(milliseconds(1));
  const auto start = std::chrono::steady_clock::now();
  while (!busy->must_end()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(40));
  busy.reset();
  other.join();
}

// Jobs of a model that is asked for without end, and one of another model that needs its memory.
TEST(ModelThread, ABusyModelGivesItsMemoryToOneThatWaits) {
  struct Model {};
  HostOptions options;
  options.is_preloaded = false;
  options.memory = std::make_shared<MemoryBudget>(100, milliseconds(100));
  std::atomic<int> n_busy = 0, n_other = 0;
  std::atomic<bool> has_ended = false;
  const auto make = [&](const char* name, std::atomic<int>& n_jobs) {
    return std::make_unique<ModelThread<Model, int>>(
        HostedModel{name, "", 60}, options, [] { return std::make_unique<Model>(); },
        [&n_jobs](Model&, JobQueue<int>& queue, int) {
          do {
            std::this_thread::sleep_for(milliseconds(1));
            ++n_jobs;
          } while (queue.pop());
        },
        [](int&, const std::exception&) { FAIL(); });
  };
  const auto busy = make("busy", n_busy);
  auto other = make("other", n_other);
  std::thread client([&] {
    while (!has_ended) {
      if (!busy->push("ann", 1)) std::this_thread::sleep_for(milliseconds(1));
    }
  });
  while (n_busy == 0) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(other->push("bob", 1));
  const auto start = std::chrono::steady_clock::now();
  while (n_other == 0 && std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(n_other, 1);
  EXPECT_GT(busy->busy_s(), 0.09);
  // The busy one gets it back, although the other one has no further job.
  const int n_before = n_busy;
  while (n_busy == n_before &&
         std::chrono::steady_clock::now() - start < std::chrono::seconds(40)) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_GT(n_busy, n_before);
  has_ended = true;
  client.join();
  // One that is closed gives it, too.
  EXPECT_TRUE(other->push("bob", 1));
  busy->close();
  other.reset();
  EXPECT_EQ(n_other, 2);
}

}  // namespace
}  // namespace vesper::queues_test
