// What a model is, without loading it, and what the devices of this machine can do.
//
// In: the files of a model. Out: plain data; reports.h writes it as JSON. memory_plan.h,
// command_table.h and profile.h are the parts that build the model. Called by `inspect` and the C
// API. Calls llm/inspect, which reads the files.
//
//   const ModelSummary summary = summarize_model("model.gguf");
//   std::puts(report_text(summary_json(summary)).c_str());
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "llm/devices/list_devices.h"
#include "llm/inspect/model_description.h"
#include "llm/inspect/model_difference.h"
#include "llm/inspect/tensor_statistics.h"
#include "session/inspection/memory_plan.h"

namespace vesper {

struct ModelSummary {
  ModelDescription model;
  std::string runs;                // "yes", or "no: " and the reason
  KvTypes kv_types = {};           // of the planned KV cache
  uint64_t kv_bytes_per_1000 = 0;  // of 1000 tokens; 0: unknown
  std::vector<MemoryNeed> memory;  // one per usable device
};
// `device`: the devices to plan for, "auto": all of this machine. Throws Error(kModel) as
// describe_model() does, Error(kUsage, kDevice) for a device or precision that does not exist.
ModelSummary summarize_model(const std::filesystem::path& path, const std::string& device = "auto",
                             const std::string& compute = "auto", const KvTypes& kv_types = {});

// Whether a name matches one of the globs ("*attn*"), or there are none.
bool matches(const std::vector<std::string>& globs, const std::string& name);

struct TensorList {
  ModelDescription model;                    // its tensors are only those that match the globs
  std::vector<TensorStatistics> statistics;  // empty, or one per tensor
};
// Throws Error(kModel). `threads`: 0: one for each core.
TensorList list_tensors(const std::filesystem::path& path,
                        const std::vector<std::string>& globs = {}, bool with_statistics = false,
                        uint32_t threads = 0);

// The tokens of a text.
struct TextTokens {
  struct Token {
    int32_t id = 0;
    std::string bytes;        // part of a character at times
    std::string hex() const;  // "c3 a9"
  };
  std::string tokenizer;  // its kind, for people: "byte-level BPE, smollm"
  std::vector<Token> tokens;
};
// With the special tokens that the model's tokenizer adds and parses; for Whisper the text only.
// Throws Error(kModel) if the model has no tokenizer.
TextTokens tokenize_text(const std::filesystem::path& path, const std::string& text);

struct FileChecksum {
  std::filesystem::path file;
  std::string sha256;  // lower case hexadecimal
};
// Of the file, or of the files of the folder. Throws Error(kModel).
std::vector<FileChecksum> file_checksums(const std::filesystem::path& path);

struct ModelVerification {
  size_t n_tensors = 0;
  uint64_t n_numbers = 0;
  std::vector<std::string> problems;  // one line each
  bool is_sound() const { return problems.empty(); }
};
// Reads everything. Damage is a problem of the result, not an exception; Error(kModel) is thrown if
// there is no such file. `threads` as above.
ModelVerification verify_model(const std::filesystem::path& path, uint32_t threads = 0);

// What differs between two models, in any formats. Throws Error(kModel). `threads` as above.
ModelDifference compare_models(const std::filesystem::path& a, const std::filesystem::path& b,
                               uint32_t threads = 0);

struct DeviceDescription {
  ListedDevice listing;  // memory_bytes is the limit of the device, if it is usable
  // Of a usable device.
  std::vector<std::string> computes;  // precisions: "f32", "bf16"
  std::string compute;                // the one of "auto"
  std::vector<DeviceInfo::Capability> capabilities;
};
// All devices of this machine, also unusable ones.
std::vector<DeviceDescription> describe_devices();

}  // namespace vesper
