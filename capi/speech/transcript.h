// A finished transcription of the C API, and its segments as C structs.
#pragma once

#include <vesper/speech.h>

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "capi/objects.h"
#include "decoder/transcript/transcript.h"
#include "session/speech/channels.h"

namespace vesper::capi {

// A segment as the caller sees it. It is not moved, because it has pointers to itself.
class SegmentView {
 public:
  explicit SegmentView(Segment segment);
  SegmentView(const SegmentView&) = delete;
  SegmentView& operator=(const SegmentView&) = delete;

  const vesper_segment* get() const { return &view_; }

 private:
  Segment segment_;  // its texts are valid UTF-8
  std::vector<vesper_word> words_;
  vesper_segment view_;
};

// A session's event for the caller's function; empty for NULL. A non-zero result stops the work.
OnSegment segment_event(vesper_on_segment on_segment, void* user);

}  // namespace vesper::capi

struct vesper_transcript final : vesper::capi::Object {
  static constexpr std::string_view kKind = "a transcript";
  explicit vesper_transcript(vesper::Transcript result);

  const vesper::Transcript transcript;
  std::string text;                                // of all segments, trimmed
  std::deque<vesper::capi::SegmentView> segments;  // [transcript.segments.size()]
};
