#include "session/speech/live_stream.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "error/error.h"
#include "tests/audio/made_recordings.h"

namespace vesper::live_stream_test {
namespace {

ReaderOptions raw_at(uint32_t rate) {
  ReaderOptions options;
  options.raw = RawPcm{RawPcm::Encoding::kS16Le, rate, 1};
  return options;
}

// At 8 kHz.
void send_second(int to) {
  const std::vector<int16_t> second(8000, 8192);
  const size_t n_bytes = second.size() * 2;
  ASSERT_EQ(write(to, second.data(), n_bytes), static_cast<ssize_t>(n_bytes));
}

TEST(LiveSource, GivesAudioBeforeTheStreamEnds) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  send_second(ends[1]);
  LiveSource source(AudioReader::from_stream(ends[0], "pipe", raw_at(8000)), false);
  // The resampler delays samples, and blocks have 50 ms.
  const std::vector<float> first = source.take(14000);
  EXPECT_EQ(first.size(), 14000u);
  EXPECT_NEAR(first[8000], 0.25, 0.01);
  close(ends[1]);
  size_t total = first.size();
  for (size_t n = 1; n > 0; total += n) n = source.take(16000).size();
  EXPECT_EQ(total, 16000u);
  EXPECT_EQ(source.waiting(), 0u);
  close(ends[0]);
}

TEST(LiveSource, DistinguishesLiveStreamsFromFiles) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  send_second(ends[1]);
  LiveSource source(AudioReader::from_stream(ends[0], "pipe", raw_at(8000)), false);
  source.take(14000);
  EXPECT_TRUE(source.is_paced()) << "a sender may have kept a second";
  for (int i = 0; i < 9; ++i) send_second(ends[1]);
  for (int i = 0; i < 6000 && source.waiting() < 9 * 16000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(source.has_more(9 * 16000));
  EXPECT_FALSE(source.has_more(11 * 16000));
  source.take(9 * 16000);
  EXPECT_FALSE(source.is_paced()) << "ten seconds at once";
  close(ends[1]);
  close(ends[0]);
}

TEST(LiveSource, GivesAudioBeforeAnErrorThenTheError) {
  const TemporaryFolder folder;
  const std::string path = folder.file("samples");
  std::string bytes(4 * 16000, '\0');
  bytes += "\xff\xff\xff\xff";  // not a number
  write_bytes(path, bytes);
  ReaderOptions options;
  options.raw = RawPcm{RawPcm::Encoding::kF32Le, 16000, 1};
  LiveSource source(AudioReader(path, options), true);
  size_t total = 0;
  EXPECT_THROW(
      {
        while (true) total += source.take(32000).size();
      },
      Error);
  EXPECT_GE(total, 15000u);
}

TEST(LiveSource, CanBeStoppedWhileWaiting) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  send_second(ends[1]);
  LiveSource source(AudioReader::from_stream(ends[0], "pipe", raw_at(8000)), false);
  const auto stop_at = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  const auto is_stopped = [&] { return std::chrono::steady_clock::now() > stop_at; };
  size_t total = 0;
  for (size_t n = 1; n > 0; total += n) n = source.take(20000, is_stopped).size();
  EXPECT_GE(total, 14000u) << "what has come is given";
  EXPECT_TRUE(source.has_more(1)) << "nothing will come";
  close(ends[1]);
  close(ends[0]);
}

// The passes over a stream, one second at 8 kHz at a time.
struct Followed {
  size_t n_pushed = 0, n_looks = 0;
  std::vector<SlowPass> slow;
  std::exception_ptr error;
};

// `seconds` of audio at once. A full window and each beginning take this many milliseconds.
Followed follow_seconds(int seconds, int window_ms, int look_ms, double step_s) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  send_second(ends[1]);
  LiveSource source(AudioReader::from_stream(ends[0], "pipe", raw_at(8000)), false);
  for (int i = 1; i < seconds; ++i) send_second(ends[1]);
  // The resampler delays the rest.
  while (source.waiting() < static_cast<size_t>(seconds) * 16000 - 2000) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Followed followed;
  const auto take = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  LivePasses passes;
  passes.push = [&](std::span<const float> samples) { followed.n_pushed += samples.size(); };
  passes.whole_windows = [&] {
    if (window_ms == 0) return false;
    take(std::exchange(window_ms, 0));
    return true;
  };
  passes.beginning = [&] {
    ++followed.n_looks;
    take(look_ms);
  };
  LiveOptions options;
  options.step_s = step_s;
  options.on_slow = [&](const SlowPass& pass) { followed.slow.push_back(pass); };
  options.is_stopped = [&] { return followed.n_looks > 0; };
  followed.error = follow(source, options, passes);
  close(ends[1]);
  close(ends[0]);
  return followed;
}

TEST(LivePasses, CountAFullWindow) {
  const Followed quick = follow_seconds(1, 20, 20, 0.5);
  EXPECT_TRUE(quick.slow.empty());
  EXPECT_GE(quick.n_pushed, 14000u);
  const Followed window = follow_seconds(1, 600, 10, 0.5);
  ASSERT_EQ(window.slow.size(), 1u);
  EXPECT_TRUE(window.slow[0].had_window);
  EXPECT_GE(window.slow[0].pass_s, 0.6);
  const Followed look = follow_seconds(1, 0, 600, 0.5);
  ASSERT_EQ(look.slow.size(), 1u);
  EXPECT_FALSE(look.slow[0].had_window);
  EXPECT_GE(look.slow[0].pass_s, 0.6);
  EXPECT_EQ(look.error, nullptr);
}

TEST(LivePasses, AreNotSlowForAFile) { EXPECT_TRUE(follow_seconds(6, 600, 10, 0.5).slow.empty()); }

TEST(LivePasses, DecodeAudioBeforeAnError) {
  const TemporaryFolder folder;
  const std::string path = folder.file("samples");
  write_bytes(path, std::string(4 * 16000, '\0') + "\xff\xff\xff\xff");  // not a number
  ReaderOptions raw;
  raw.raw = RawPcm{RawPcm::Encoding::kF32Le, 16000, 1};
  LiveSource source(AudioReader(path, raw), true);
  size_t n_pushed = 0;
  const LivePasses passes{
      .push = [&](std::span<const float> samples) { n_pushed += samples.size(); },
      .whole_windows = [] { return false; },
      .beginning = [] {}};
  EXPECT_NE(follow(source, {}, passes), nullptr);
  EXPECT_GE(n_pushed, 15000u);
}

// Samples pushed before each pass, if `piece` samples come every 150 ms.
std::vector<size_t> looks_at(size_t n_samples, size_t piece, double step_s) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  std::thread sender([&] {
    const std::vector<int16_t> sent(piece, 8192);
    for (size_t at = 0; at < n_samples; at += piece) {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      const size_t n_bytes = std::min(piece, n_samples - at) * 2;
      EXPECT_EQ(write(ends[1], sent.data(), n_bytes), static_cast<ssize_t>(n_bytes));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    close(ends[1]);
  });
  LiveSource source(AudioReader::from_stream(ends[0], "pipe", raw_at(16000)), false);
  std::vector<size_t> looks;
  size_t n_pushed = 0;
  const LivePasses passes{
      .push = [&](std::span<const float> samples) { n_pushed += samples.size(); },
      .whole_windows = [] { return false; },
      .beginning = [&] { looks.push_back(n_pushed); }};
  EXPECT_EQ(follow(source, {.step_s = step_s}, passes), nullptr);
  EXPECT_EQ(n_pushed, n_samples);
  sender.join();
  close(ends[0]);
  return looks;
}

TEST(LivePasses, DecodeAfterEachStepForAnyBlockSize) {
  const std::vector<size_t> steps = {3200, 6400, 9600};
  std::vector<std::future<std::vector<size_t>>> looks;
  for (const size_t piece : {3200u, 1600u, 4000u}) {
    looks.push_back(std::async(std::launch::async, looks_at, 11200, piece, 0.2));
  }
  for (auto& found : looks) EXPECT_EQ(found.get(), steps);
}

TEST(LivePasses, DecodeOnlyFullWindowsOfARecording) {
  const TemporaryFolder folder;
  const std::string path = folder.file("samples");
  write_bytes(path, std::string(2 * 11200, '\0'));
  for (const bool is_slow : {false, true}) {
    LiveSource source(AudioReader(path, raw_at(16000)), true);
    std::vector<size_t> pushed;
    const LivePasses passes{.push =
                                [&](std::span<const float> samples) {
                                  pushed.push_back(samples.size());
                                  if (is_slow) {
                                    std::this_thread::sleep_for(std::chrono::milliseconds(20));
                                  }
                                },
                            .whole_windows = [] { return true; },
                            .beginning = [] { FAIL() << "all of the sound is there"; }};
    EXPECT_EQ(follow(source, {.step_s = 0.2}, passes), nullptr);
    EXPECT_EQ(pushed, (std::vector<size_t>{3200, 3200, 3200, 1600}));
  }
}

TEST(LiveSource, CanBeDestroyedWhileReading) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::vector<int16_t> samples(1000, 1);
  ASSERT_EQ(write(ends[1], samples.data(), 2000), 2000);
  { LiveSource source(AudioReader::from_stream(ends[0], "pipe", raw_at(16000)), false); }
  close(ends[1]);
  close(ends[0]);
}

}  // namespace
}  // namespace vesper::live_stream_test
