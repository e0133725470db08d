// How file formats spell a family's tensors, as tables: from a file's name to the canonical names
// of weight_provider.h. Rows of llm/weights/model_families.cc say which table is whose.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vesper {

struct TensorNaming {
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

// The canonical names of a file's tensor: one; several if it is fused; none if the table does not
// have it.
std::vector<std::string> canonical_names(const TensorNaming& naming, std::string_view file_name);

extern const TensorNaming kCTranslate2WhisperNaming;
extern const TensorNaming kGgmlWhisperNaming;
extern const TensorNaming kHuggingFaceWhisperNaming;

extern const TensorNaming kHuggingFaceBertNaming;
extern const TensorNaming kHuggingFaceRobertaNaming;
extern const TensorNaming kHuggingFaceJinaBertNaming;
extern const TensorNaming kHuggingFaceNewNaming;
extern const TensorNaming kHuggingFaceNomicBertNaming;
extern const TensorNaming kHuggingFaceModernBertNaming;
extern const TensorNaming kGgufTextEncoderNaming;
extern const TensorNaming kGgufModernBertNaming;

extern const TensorNaming kGgufLanguageModelNaming;
extern const TensorNaming kHuggingFaceLanguageModelNaming;
// For families with norms behind their blocks as well, where one name means another norm.
extern const TensorNaming kHuggingFacePostNormNaming;

}  // namespace vesper
