#include "vad/speech_turns.h"

#include "vad/silero_vad.h"
#include "vad/speech_segments.h"

namespace vesper {
namespace {

constexpr double kChunkMs = SileroVad::kChunkSamples / 16.0;  // of 16 kHz

}  // namespace

SpeechTurns::Event SpeechTurns::take(double probability) {
  if (probability >= settings_.threshold) {
    silence_.reset();
    if (is_speech_) return Event::kNone;
    is_speech_ = true;
    return Event::kBegins;
  }
  if (!is_speech_) return Event::kNone;
  if (silence_) ++*silence_;
  // Between the two thresholds a silence neither begins nor ends a turn.
  if (probability >= settings_.threshold - kVadHysteresis) return Event::kNone;
  if (!silence_) silence_ = 0;
  if (static_cast<double>(*silence_) * kChunkMs < settings_.silence_duration_ms) {
    return Event::kNone;
  }
  reset();
  return Event::kEnds;
}

void SpeechTurns::reset() {
  is_speech_ = false;
  silence_.reset();
}

}  // namespace vesper
