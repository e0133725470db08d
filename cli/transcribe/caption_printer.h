// Live captions on standard output: words as soon as they are final, and on a terminal what may
// follow them, which is drawn anew until it is final too.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "decoder/transcript/transcript.h"
#include "decoder/transcript/writers.h"
#include "decoder/windows/live/live_captions.h"

namespace vesper {

class CaptionPrinter {
 public:
  virtual ~CaptionPrinter() = default;
  // Words that stay, in order. `received_s`: how much of the stream has been heard by now.
  virtual void final(std::span<const CaptionWord> words, double received_s) = 0;
  // What may follow them, instead of what was said before.
  virtual void partial(std::span<const CaptionWord> words, double received_s) = 0;
  // All words of a segment are final.
  virtual void segment(const Segment& segment) = 0;
  // The stream has ended.
  virtual void end(const Transcript& transcript) = 0;
};

// `put` takes text for standard output. Formats:
//   txt    the words, a segment a line; where `terminal_columns`, asked each time, is above 0
//          the partial ones after them, dimmed if `colour`
//   jsonl  an object a line:
//            {"event": "partial", start, end, text, received}
//            {"event": "final", start, end, text, opens_segment, words: [{word, start, end}],
//             received}
//            {"event": "segment", and what the format has without --stream}
//            {"event": "end", duration, language}
//   others as without --stream, a segment when all of its words are final
std::unique_ptr<CaptionPrinter> make_caption_printer(TranscriptFormat format,
                                                     const RecordingInfo& recording, TextSink put,
                                                     std::function<int()> terminal_columns,
                                                     bool colour);

}  // namespace vesper
