#include "serve/live/live_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "audio/sources/unlinked_file.h"
#include "error/error.h"
#include "serve/live/live_messages.h"

namespace vesper {
namespace {

constexpr std::string_view kProtocol = "vesper";

// Whether a list of names, separated by commas, has a name.
bool has_name(std::string_view list, std::string_view name) {
  constexpr std::string_view kSpace = " \t";
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    while (!item.empty() && kSpace.find(item.front()) != kSpace.npos) item.remove_prefix(1);
    while (!item.empty() && kSpace.find(item.back()) != kSpace.npos) item.remove_suffix(1);
    if (item == name) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

class LiveStream {
 public:
  LiveStream(const ApiRequest& request, LiveSessions& sessions, const WebSocketLimits& limits)
      : exchange_(request.exchange),
        sessions_(sessions),
        socket_(
            request.exchange,
            has_name(request.exchange.header("Sec-WebSocket-Protocol"), kProtocol) ? kProtocol : "",
            limits) {}

  void run(const std::function<bool()>& is_stopping) {
    socket_.run(
        {.on_message = [this](std::string_view bytes, bool is_text) { on_message(bytes, is_text); },
         .on_end = [this](bool is_connected) { on_end(is_connected); },
         .is_ending = is_stopping});
    is_cancelled_ = true;
    if (decoding_.joinable()) decoding_.join();
  }

 private:
  void on_message(std::string_view bytes, bool is_text) {
    if (is_failed_) return;
    try {
      if (!is_text) {
        write_audio(bytes);
      } else if (!decoding_.joinable()) {
        start(parse_live_start(bytes));
      } else {
        check_live_end(bytes);
        audio_in_ = UniqueFd();
      }
    } catch (const std::exception& error) {
      fail(error);
    }
  }

  void start(LiveStart start) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      throw Error(ErrorKind::kDevice, "cannot make a pipe for a live stream");
    }
    audio_out_ = UniqueFd(ends[0]);
    audio_in_ = UniqueFd(ends[1]);
    ::fcntl(audio_in_.get(), F_SETFL, O_NONBLOCK);
    decoding_ = std::thread([this, given = std::move(start)] { decode(given); });
  }

  // Waits while the decoder is behind by a minute (LiveSource).
  void write_audio(std::string_view bytes) {
    if (!decoding_.joinable()) throw ApiError(400, "expected a JSON text before the audio");
    if (!audio_in_.is_open()) throw ApiError(400, "expected no audio after {\"type\": \"end\"}");
    constexpr int kUntilAsked_ms = 100;
    while (!bytes.empty() && !is_decoded_) {
      const ssize_t n = ::write(audio_in_.get(), bytes.data(), bytes.size());
      if (n >= 0) {
        bytes.remove_prefix(static_cast<size_t>(n));
        continue;
      }
      if (errno != EAGAIN && errno != EINTR) return;  // audio_out_ is open: the pipe has a reader
      if (exchange_.client_has_left()) return;
      pollfd room{audio_in_.get(), POLLOUT, 0};
      ::poll(&room, 1, kUntilAsked_ms);
    }
  }

  // Decodes what has come, unless nobody is there to read it.
  void on_end(bool is_connected) {
    if (!is_connected) is_cancelled_ = true;
    audio_in_ = UniqueFd();
    if (!decoding_.joinable()) socket_.close(WebSocketClose::kGoingAway, "no stream was started");
  }

  void fail(const std::exception& error) {
    is_failed_ = true;
    is_cancelled_ = true;
    audio_in_ = UniqueFd();
    socket_.send(live_error(error));
    socket_.close(WebSocketClose::kPolicyViolation);
  }

  // Runs in the second thread.
  void decode(const LiveStart& start) {
    try {
      LiveSessions::Lease lease(sessions_, start.model);
      socket_.send(live_ready(lease.model()));
      SpeechOptions options;
      options.decoding.language = start.language;
      options.decoding.initial_prompt = start.prompt;
      SpeechEvents events;
      events.is_cancelled = [this] { return is_cancelled_.load(); };
      events.on_final = [this](std::span<const CaptionWord> words, double received_s) {
        if (!words.empty()) socket_.send(live_words("final", words, received_s));
      };
      events.on_partial = [this](std::span<const CaptionWord> words, double received_s) {
        socket_.send(live_words("partial", words, received_s));
      };
      const LiveTranscript live =
          lease.session().transcribe_live({.reader = start.audio, .descriptor = audio_out_.get()},
                                          options, events, {.step_s = start.step_s});
      if (live.error) std::rethrow_exception(live.error);
      socket_.send(live_done(live.transcript));
      socket_.close(WebSocketClose::kNormal);
    } catch (const std::exception& error) {
      socket_.send(live_error(error));
      socket_.close(WebSocketClose::kInternalError);
    }
    is_decoded_ = true;
  }

  HttpExchange& exchange_;
  LiveSessions& sessions_;
  WebSocket socket_;
  UniqueFd audio_out_, audio_in_;  // ends of the pipe
  bool is_failed_ = false;
  std::atomic<bool> is_cancelled_ = false;
  std::atomic<bool> is_decoded_ = false;  // no audio is read any more
  std::thread decoding_;
};

}  // namespace

void serve_live_stream(const ApiRequest& request, LiveSessions& sessions,
                       const WebSocketLimits& limits, const std::function<bool()>& is_stopping) {
  if (!WebSocket::is_upgrade(request.exchange)) {
    request.exchange.set_header("Upgrade", "websocket");
    throw ApiError(426, "expected a WebSocket upgrade");
  }
  LiveStream(request, sessions, limits).run(is_stopping);
}

}  // namespace vesper
