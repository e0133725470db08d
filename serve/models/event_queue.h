// What a model's thread tells the thread of a connection about a request. The model's thread never
// waits for it: the number of events is bounded by the length of an answer.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace vesper {

// Shared by the two threads of a request.
template <class Event>
class EventQueue {
 public:
  void push(Event event) {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    changed_.notify_one();
  }

  // The next event. None: there came none within `limit`, or no sender is left.
  std::optional<Event> pop(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return !events_.empty() || n_senders_ == 0; });
    if (events_.empty()) return std::nullopt;
    std::optional<Event> event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  // Whether all senders are gone and all events are taken.
  bool has_ended() const {
    const std::lock_guard lock(mutex_);
    return n_senders_ == 0 && events_.empty();
  }

  // Asks the model's thread to end the request. Read in its callbacks.
  std::atomic<bool> is_cancelled = false;

 private:
  template <class>
  friend class EventSender;

  void add_sender() {
    const std::lock_guard lock(mutex_);
    ++n_senders_;
  }
  void remove_sender() {
    {
      const std::lock_guard lock(mutex_);
      --n_senders_;
    }
    changed_.notify_one();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  int n_senders_ = 0;
};

// Held by the callbacks of a job. When the last copy is destroyed, the job can send no more: if a
// model fails, its jobs are destroyed, and their connections learn it.
template <class Event>
class EventSender {
 public:
  explicit EventSender(std::shared_ptr<EventQueue<Event>> queue)
      : queue_(std::shared_ptr<EventQueue<Event>>(
            (queue->add_sender(), queue.get()),
            [kept = queue](EventQueue<Event>* ended) { ended->remove_sender(); })) {}

  void push(Event event) const { queue_->push(std::move(event)); }
  bool is_cancelled() const { return queue_->is_cancelled; }

 private:
  std::shared_ptr<EventQueue<Event>> queue_;
};

}  // namespace vesper
