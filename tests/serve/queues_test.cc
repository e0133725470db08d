// The queues between connections and models, and the memory that models share.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "error/error.h"
#include "serve/models/event_queue.h"
#include "serve/models/job_queue.h"
#include "serve/models/memory_budget.h"

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

}  // namespace
}  // namespace vesper::queues_test
