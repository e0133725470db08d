// Turns of speech in a live stream: when somebody begins to speak and when they have ended.
//
// In: the probability of speech of every 32 ms (SileroVad), as it comes. Out: the start and the end
// of each turn, as soon as it is certain. Used by the server's live streams.
// vad/speech_segments.h finds the speech of a whole recording.
#pragma once

#include <cstdint>
#include <optional>

namespace vesper {

struct TurnSettings {
  double threshold = 0.5;            // probability above which speech begins
  double silence_duration_ms = 500;  // a shorter silence does not end a turn
  double prefix_padding_ms = 300;    // of a turn, before its speech
};

// By the rules of silero-vad 6.2's VADIterator.
class SpeechTurns {
 public:
  enum class Event { kNone, kBegins, kEnds };

  explicit SpeechTurns(const TurnSettings& settings) : settings_(settings) {}

  // The next probability, of SileroVad::kChunkSamples samples. kEnds: after this chunk.
  Event take(double probability);
  // Waits for the beginning of another turn.
  void reset();

 private:
  TurnSettings settings_;
  bool is_speech_ = false;
  std::optional<uint64_t> silence_;  // chunks after the first one of the present silence
};

}  // namespace vesper
