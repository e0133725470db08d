// Writes a model with another weight format: in GGUF, or Whisper in whisper.cpp's ggml format.
//
// In: the files of a model. Out: one file, which appears under its name only when it is complete
// and has been read back. Called by `inspect`. llm/conversion plans the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace vesper {

struct ConversionOptions {
  std::filesystem::path model = {};   // a file or a folder
  std::filesystem::path output = {};  // a file, replaced if it exists
  // Format of most matrices, one of mixture_names() (llm/conversion/mixture.h).
  std::string type = {};
  uint32_t threads = 0;  // 0: one per core
  // Bytes written and bytes of the file; may be empty.
  std::function<void(uint64_t done, uint64_t total)> on_progress = {};
};

struct ConversionReport {
  struct Format {
    std::string name;  // "q4_k"
    uint64_t n_tensors = 0, bytes = 0;
  };
  // Matrices whose rows are no multiple of a block.
  struct Fallback {
    std::string wanted, used;
    uint64_t n_tensors = 0;
  };
  std::string output;
  uint64_t source_bytes = 0, bytes = 0;  // of tensors, of the file
  uint64_t n_parameters = 0;
  std::vector<Format> formats;        // in the order of the file
  std::vector<Fallback> fallbacks;    // likewise
  std::vector<std::string> left_out;  // names of tensors that are not part of the model
  // The context length, if it ends where a sliding window would begin to slide, because GGUF's
  // family has none; else 0.
  uint32_t shortened_context = 0;
  bool was_quantized = false;  // some values of the source were quantized before
};

// Throws Error(kUsage) for an unknown type, and threads out of bounds.
void check_options(const ConversionOptions& options);

// Throws the errors of check_options(), Error(kModel) for a model that cannot be read or
// stated in the format, Error(kOutput) if the file cannot be written.
ConversionReport convert_model(const ConversionOptions& options);

}  // namespace vesper
