// Live captions on standard output: final words, and on a terminal the words that may still change,
// which are redrawn.
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
  // Final words, in order. `received_s`: audio received so far.
  virtual void final(std::span<const CaptionWord> words, double received_s) = 0;
  // Words that may follow them, replacing the previous ones.
  virtual void partial(std::span<const CaptionWord> words, double received_s) = 0;
  // A segment with only final words.
  virtual void segment(const Segment& segment) = 0;
  // The stream has ended.
  virtual void end(const Transcript& transcript) = 0;
};

// `put` writes to standard output. Formats:
//   txt    the words, one segment per line; if `terminal_columns`, called each time, is above 0,
//          the partial ones after them, dimmed if `colour`
//  jsonl  one object per line:
//            {"event": "partial", start, end, text, received}
//            {"event": "final", start, end, text, opens_segment, words: [{word, start, end}],
//             received}
//            {"event": "segment", and what the format has without --stream}
//            {"event": "end", duration, language}
//   others null: a TranscriptWriter writes each segment when all its words are final
std::unique_ptr<CaptionPrinter> make_caption_printer(TranscriptFormat format,
                                                     const RecordingInfo& recording, TextSink put,
                                                     std::function<int()> terminal_columns,
                                                     bool colour);

}  // namespace vesper
