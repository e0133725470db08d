// How each file format spells the tensors of a Whisper model, as tables: from a file's name to the
// canonical names of weight_provider.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vesper {

struct WhisperNaming {
  using Row = std::pair<std::string_view, std::string_view>;  // file's spelling -> canonical

  char separator;                    // before a name's last component
  std::string_view optional_prefix;  // that some files put before every name; may be empty
  std::vector<Row> whole;            // names that follow no pattern
  std::vector<Row> stems;            // names outside layers, without their last component
  std::vector<Row> layer_prefixes;   // what stands before a layer's number
  // Names inside layers, without their last component. A canonical side of several names joined
  // by '|' is a fused tensor: equal parts of its rows, in that order.
  std::vector<Row> layer_stems;
  std::vector<Row> leaves;  // the last component
};

extern const WhisperNaming kCTranslate2WhisperNaming;
extern const WhisperNaming kGgmlWhisperNaming;
extern const WhisperNaming kHuggingFaceWhisperNaming;

// The canonical names of a file's tensor: one; several if it is fused; none if it is not one of a
// Whisper model's weights.
std::vector<std::string> canonical_whisper_names(const WhisperNaming& naming,
                                                 std::string_view file_name);

}  // namespace vesper
