#include "session/speech/channels.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "audio/channel_levels.h"
#include "audio/sources/input.h"
#include "error/error.h"

namespace vesper {
namespace {

constexpr int kMaxSplitChannels = 32;

bool begins_earlier(const Segment& a, const Segment& b) { return a.start_s < b.start_s; }

// Merges the segments of several channels by their starts, and numbers them.
class Interleaver {
 public:
  explicit Interleaver(const OnSegment& on_segment) : on_segment_(on_segment) {}

  // Adds the segments of a channel, in order, before the last channel.
  void keep(std::vector<Segment> segments) {
    std::vector<Segment> merged;
    std::ranges::merge(waiting_, segments, std::back_inserter(merged), begins_earlier);
    waiting_ = std::move(merged);
  }

  // Emits a segment of the last channel, and before it all waiting ones that begin earlier.
  void pass(const Segment& segment) {
    while (n_given_ < waiting_.size() && !begins_earlier(segment, waiting_[n_given_])) {
      give(waiting_[n_given_++]);
    }
    give(segment);
  }

  std::vector<Segment> finish() {
    while (n_given_ < waiting_.size()) give(waiting_[n_given_++]);
    return std::move(given_);
  }

 private:
  void give(Segment segment) {
    segment.id = static_cast<int>(given_.size());
    if (on_segment_) on_segment_(segment);
    given_.push_back(std::move(segment));
  }

  const OnSegment& on_segment_;
  std::vector<Segment> waiting_;  // of the channels before the last one
  size_t n_given_ = 0;            // emitted ones of waiting_
  std::vector<Segment> given_;
};

Transcript transcribe_each(const AudioInput& input, const TranscribeOne& transcribe,
                           const OnSegment& on_segment, const OnProgress& on_progress) {
  const RewindableInput recording(input);
  const int n_channels = recording.open().channels();
  if (n_channels > kMaxSplitChannels) {
    throw Error(ErrorKind::kInput, "has " + std::to_string(n_channels) +
                                       " channels, expected at most " +
                                       std::to_string(kMaxSplitChannels) + " to split");
  }
  Interleaver interleaver(on_segment);
  Transcript whole;
  size_t most_text = 0;
  for (int channel = 0; channel < n_channels; ++channel) {
    const auto labelled = [&](Segment segment) {
      segment.channel = channel + 1;
      if (n_channels == 2) segment.speaker = channel == 0 ? "left" : "right";
      return segment;
    };
    const bool is_last = channel + 1 == n_channels;
    Transcript one = transcribe(
        recording.open(channel),
        [&](const Segment& segment) {
          if (is_last) interleaver.pass(labelled(segment));
        },
        [&](double done_s, double total_s) {
          if (on_progress) on_progress((channel * total_s + done_s) / n_channels, total_s);
        });
    size_t text = 0;
    for (const Segment& segment : one.segments) text += segment.text.size();
    if (channel == 0 || text > most_text) {
      whole.language = one.language;
      whole.language_probability = one.language_probability;
      most_text = text;
    }
    whole.duration_s = std::max(whole.duration_s, one.duration_s);
    std::ranges::move(one.dropped, std::back_inserter(whole.dropped));
    if (is_last) continue;
    std::ranges::transform(one.segments, one.segments.begin(), labelled);
    interleaver.keep(std::move(one.segments));
  }
  whole.segments = interleaver.finish();
  std::ranges::stable_sort(whole.dropped, {}, &DroppedSpan::start_s);
  return whole;
}

Transcript transcribe_labelled(const AudioInput& input, const TranscribeOne& transcribe,
                               const OnSegment& on_segment, const OnProgress& on_progress) {
  const RewindableInput recording(input);
  const ChannelLevels levels(recording.open());
  const auto speaker = [&](double start_s, double end_s) -> std::string {
    const std::optional<int> louder = levels.louder(start_s, end_s);
    return louder ? std::to_string(*louder) : "?";
  };
  const auto label = [&](Segment& segment) {
    segment.speaker = speaker(segment.start_s, segment.end_s);
    for (Word& word : segment.words) word.speaker = speaker(word.start_s, word.end_s);
  };
  Transcript transcript = transcribe(
      recording.open(),
      [&](Segment segment) {
        label(segment);
        if (on_segment) on_segment(segment);
      },
      on_progress);
  for (Segment& segment : transcript.segments) label(segment);
  return transcript;
}

}  // namespace

Transcript transcribe_channels(const AudioInput& input, Channels channels,
                               const TranscribeOne& transcribe, const OnSegment& on_segment,
                               const OnProgress& on_progress) {
  switch (channels) {
    case Channels::kSplit:
      return transcribe_each(input, transcribe, on_segment, on_progress);
    case Channels::kDiarize:
      return transcribe_labelled(input, transcribe, on_segment, on_progress);
    case Channels::kMix:
      break;
  }
  return transcribe(open_audio(input), on_segment, on_progress);
}

}  // namespace vesper
