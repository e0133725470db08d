// The seam between the program and what transcribes: `transcribe` works against this interface, so
// that everything around the engine can be tested without one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decoder/transcript.h"

namespace vesper {

// What is decided once, when the model is loaded.
struct EngineSettings {
  std::filesystem::path model;   // an existing file or folder
  std::string device = "auto";   // "auto", "cpu", "vulkan" or "vulkan:N"
  std::string compute = "auto";  // "auto", "f32", "f16", "bf16" or "int8"
  unsigned threads = 0;          // of the CPU device; 0 takes all cores
};

// What may differ from recording to recording. Names and defaults are openai-whisper's.
struct DecodingSettings {
  std::string language = "auto";  // a code or an English name, lower case; "auto" detects it
  bool translate = false;         // into English
  bool condition_on_previous_text = true;
  std::vector<double> temperatures = {0};  // tried in this order until a window passes
  // A threshold that is absent is not applied.
  std::optional<double> no_speech_threshold = 0.6;          // probability, above it: silence
  std::optional<double> logprob_threshold = -1.0;           // mean log-probability, below: failed
  std::optional<double> compression_ratio_threshold = 2.4;  // above it: repetitive, failed
  std::string initial_prompt;                               // text before the first window
  double max_initial_timestamp_s = 1.0;  // the first timestamp of a window is not later
  bool without_timestamps = false;
  bool suppress_model_tokens = true;     // those that the model's file (or the reference) lists
  std::vector<int32_t> suppress_tokens;  // and these
};

class TranscriptionEngine {
 public:
  virtual ~TranscriptionEngine() = default;

  // One line for --verbose: model, device, precision, threads.
  virtual std::string description() const = 0;

  // Transcribes the file at `input`, or standard input if it is "-". Calls on_segment for each
  // segment as soon as it is final, in order, and on_progress with the seconds done and in total
  // (0 if not known yet). Both are called on the calling thread and may throw, which ends the
  // transcription. Throws Error of any kind.
  virtual Transcript transcribe(
      const std::string& input, const DecodingSettings& settings,
      const std::function<void(const Segment& segment)>& on_segment,
      const std::function<void(double done_s, double total_s)>& on_progress) = 0;
};

// Loads a model. Throws Error(kModel or kDevice).
using EngineLoader =
    std::function<std::unique_ptr<TranscriptionEngine>(const EngineSettings& settings)>;

}  // namespace vesper
