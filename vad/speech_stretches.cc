#include "vad/speech_stretches.h"

#include <algorithm>
#include <cstddef>

namespace vesper {
namespace {

constexpr uint64_t kSamplesPerChunk = 512;
// Below this probability a chunk is silence.
constexpr float kSilence = 0.35f;
constexpr uint64_t kLeastFrames = 3000;  // of a part: 30 s

// Frames of what was kept in which nothing is said.
struct Silence {
  uint64_t begin, end;
  uint64_t middle() const { return begin + (end - begin) / 2; }
};

std::vector<Silence> silences_of(std::span<const float> probabilities,
                                 std::span<const FrameSpan> kept) {
  std::vector<Silence> silences;
  uint64_t at = 0;
  for (const FrameSpan& span : kept) {
    for (uint64_t frame = span.begin; frame < span.end; ++frame, ++at) {
      const size_t chunk = frame * kSamplesPerFrame / kSamplesPerChunk;
      if (chunk < probabilities.size() && probabilities[chunk] >= kSilence) continue;
      // What was left out between two stretches belongs to the silence around it.
      if (silences.empty() || silences.back().end != at) silences.push_back({at, at});
      silences.back().end = at + 1;
    }
  }
  return silences;
}

// The middle of the longest silence in [from, to), or halfway between them if there is none.
uint64_t cut_between(std::span<const Silence> silences, uint64_t from, uint64_t to) {
  const Silence* longest = nullptr;
  for (const Silence& silence : silences) {
    if (silence.middle() < from || silence.middle() >= to) continue;
    if (!longest || silence.end - silence.begin > longest->end - longest->begin) {
      longest = &silence;
    }
  }
  return longest ? longest->middle() : from + (to - from) / 2;
}

}  // namespace

std::vector<FrameSpan> cut_at_silences(std::span<const float> probabilities,
                                       std::span<const FrameSpan> kept, uint64_t n) {
  uint64_t n_frames = 0;
  for (const FrameSpan& span : kept) n_frames += span.end - span.begin;
  if (n_frames == 0) return {};
  const std::vector<Silence> silences = silences_of(probabilities, kept);
  n = std::clamp<uint64_t>(n, 1, std::max<uint64_t>(1, n_frames / kLeastFrames));
  const uint64_t part = n_frames / n;
  std::vector<FrameSpan> parts;
  uint64_t begin = 0;
  for (uint64_t i = 1; i < n; ++i) {
    const uint64_t around = i * part;
    const uint64_t end = cut_between(silences, around - part / 4, around + part / 4);
    parts.push_back({begin, end});
    begin = end;
  }
  parts.push_back({begin, n_frames});
  return parts;
}

}  // namespace vesper
