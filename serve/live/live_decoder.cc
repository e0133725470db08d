#include "serve/live/live_decoder.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "error/error.h"

namespace vesper {
namespace {

constexpr std::chrono::milliseconds kUntilAsked{100};
// Each has a pipe and its descriptors. A client that ends turns faster than they are decoded waits.
constexpr size_t kMostTurns = 8;
// 16 s of 16 kHz f32: the beginning of a turn, while the one before it is decoded.
constexpr int kPipeBytes = 1 << 20;

}  // namespace

LiveTurn::LiveTurn(LiveTurnSettings settings, LiveTurnEvents events)
    : settings_(std::move(settings)), events_(std::move(events)) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(ErrorKind::kDevice, "cannot make a pipe for a live stream");
  }
  out_ = UniqueFd(ends[0]);
  in_ = UniqueFd(ends[1]);
  ::fcntl(in_.get(), F_SETPIPE_SZ,
          kPipeBytes);  // a user has a limit of such memory; 64 KiB will do
  ::fcntl(in_.get(), F_SETFL, O_NONBLOCK);
}

void LiveTurn::write(std::string_view bytes, const std::function<bool()>& is_given_up) {
  while (!bytes.empty() && !is_decoded_ && in_.is_open()) {
    const ssize_t n = ::write(in_.get(), bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return;  // out_ is open: the pipe has a reader
    if (is_given_up()) return;
    pollfd room{in_.get(), POLLOUT, 0};
    ::poll(&room, 1, static_cast<int>(kUntilAsked.count()));
  }
}

LiveDecoder::~LiveDecoder() {
  {
    const std::lock_guard lock(mutex_);
    has_finished_ = true;
    on_idle_ = {};
    for (const auto& turn : turns_) turn->cancel();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void LiveDecoder::add(std::shared_ptr<LiveTurn> turn, const std::function<bool()>& is_given_up) {
  std::unique_lock lock(mutex_);
  while (turns_.size() >= kMostTurns) {
    if (is_given_up()) return;
    changed_.wait_for(lock, kUntilAsked);
  }
  turns_.push_back(std::move(turn));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void LiveDecoder::finish(std::function<void()> on_idle) {
  {
    const std::lock_guard lock(mutex_);
    has_finished_ = true;
    on_idle_ = std::move(on_idle);
    changed_.notify_all();
    if (thread_.joinable()) return;
  }
  on_idle_();
}

void LiveDecoder::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !turns_.empty() || has_finished_; });
    if (turns_.empty()) break;
    const std::shared_ptr<LiveTurn> turn = turns_.front();
    lock.unlock();
    decode(*turn);
    lock.lock();
    turns_.pop_front();
    changed_.notify_all();
  }
  const std::function<void()> on_idle = std::move(on_idle_);
  lock.unlock();
  lease_.reset();  // another stream may have it
  if (on_idle) on_idle();
}

void LiveDecoder::decode(LiveTurn& turn) {
  const LiveTurnSettings& settings = turn.settings_;
  try {
    if (!lease_ || (!settings.model.empty() && lease_->model() != settings.model)) {
      lease_.reset();
      lease_ = std::make_unique<LiveSessions::Lease>(sessions_, settings.model);
    }
    if (turn.events_.on_ready) turn.events_.on_ready(lease_->model());
    SpeechOptions options;
    options.decoding.language = settings.language;
    options.decoding.initial_prompt = settings.prompt;
    options.decoding.hotwords = settings.hotwords;
    SpeechEvents events;
    events.is_cancelled = [&turn] { return turn.is_cancelled_.load(); };
    events.on_final = turn.events_.on_final;
    events.on_partial = turn.events_.on_partial;
    const LiveTranscript live =
        lease_->session().transcribe_live({.reader = settings.audio, .descriptor = turn.out_.get()},
                                          options, events, {.step_s = settings.step_s});
    if (live.error) std::rethrow_exception(live.error);
    if (!turn.is_cancelled_) turn.events_.on_done(live.transcript);
  } catch (const std::exception& error) {
    if (!turn.is_cancelled_) turn.events_.on_error(error);
  }
  turn.is_decoded_ = true;
}

}  // namespace vesper
