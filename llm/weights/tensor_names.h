// Names of a family's tensors in file formats: tables from file names to the canonical names of
// weight_provider.h. llm/weights/model_families.cc says which family uses which table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vesper {

struct TensorNaming {
  using Row = std::pair<std::string_view, std::string_view>;  // file's spelling -> canonical

  char separator;                    // before the last component of a name
  std::string_view optional_prefix;  // that some files put before every name; may be empty
  std::vector<Row> whole;            // names without a pattern
  std::vector<Row> stems;            // names outside layers, without the last component
  std::vector<Row> layer_prefixes;   // prefixes of a layer's number
  // Names inside layers, without the last component. Several canonical names joined by '|' are a
  // fused tensor: equal parts of its rows, in order. '#' is a number, the same in both names; '*'
  // in a canonical name is every number: the tensor is a stack of such matrices or vectors.
  std::vector<Row> layer_stems;
  std::vector<Row> leaves;  // the last component
};

// The canonical names of a file's tensor: one, several if it is fused, none if the table lacks it.
std::vector<std::string> canonical_names(const TensorNaming& naming, std::string_view file_name);

// A tensor of a file that holds a canonical one.
struct FileTensorName {
  std::string name;
  // The canonical names that it holds, in the order of its rows; several if it is fused. '*' is
  // every number.
  std::vector<std::string> parts;
};
// The inverse of canonical_names(): by the first row of a table that has the name.
std::optional<FileTensorName> file_tensor_name(const TensorNaming& naming,
                                               std::string_view canonical_name);

extern const TensorNaming kCTranslate2WhisperNaming;
extern const TensorNaming kGgmlWhisperNaming;
extern const TensorNaming kHuggingFaceWhisperNaming;

extern const TensorNaming kHuggingFaceBertNaming;
extern const TensorNaming kHuggingFaceRobertaNaming;
extern const TensorNaming kHuggingFaceMpnetNaming;
extern const TensorNaming kHuggingFaceJinaBertNaming;
extern const TensorNaming kHuggingFaceNewNaming;
extern const TensorNaming kHuggingFaceNomicBertNaming;
extern const TensorNaming kHuggingFaceModernBertNaming;
extern const TensorNaming kGgufTextEncoderNaming;
extern const TensorNaming kGgufModernBertNaming;

extern const TensorNaming kGgufLanguageModelNaming;
extern const TensorNaming kGgufPhi3Naming;  // and of GLM
extern const TensorNaming kGgufGptOssNaming;
extern const TensorNaming kHuggingFaceLanguageModelNaming;
// For families with norms after their blocks: the same file name means another norm.
extern const TensorNaming kHuggingFacePostNormNaming;
extern const TensorNaming kHuggingFaceGlm4Naming;

}  // namespace vesper
