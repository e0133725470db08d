// The settings of a SpeechSession and of a transcription: their defaults, with sources.
// DecodingSettings has further settings, session/bounds.h the ranges.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "audio/sources/input.h"
#include "decoder/decoding_settings.h"
#include "llm/conversion/changed_weights.h"
#include "llm/dtype/kv_types.h"
#include "session/bounds.h"
#include "session/speech/channels.h"
#include "vad/speech_segments.h"

namespace vesper {

// Settings of a loaded model.
struct SpeechSessionOptions {
  std::string device = "auto";  // "auto" (a GPU if there is one), "cpu", "vulkan" or "vulkan:N"
  std::string compute =
      "auto";            // precision: "auto" (the device's best), "f32", "f16", "bf16", "int8"
  uint32_t threads = 0;  // of the CPU device; 0: one for each core
  WeightOptions weights = {};  // changes of the weights while they are loaded
  // Memory is reserved for this many beams or samples of a window: the limit of
  // DecodingSettings::beam_size and best_of. Both are 5 by default, as in openai-whisper.
  uint32_t max_candidates = 5;
  // Windows that are decoded in one batch, of several recordings; with SpeechOptions::vad also of
  // several speech segments of one. 1: no batches. faster-whisper's BatchedInferencePipeline
  // uses 8.
  uint32_t batch_size = 1;
  KvTypes kv_type = {};  // of keys and values; quantized ones need heads of a multiple of 32
  // A file or folder with a Silero VAD model; empty: none until load_vad(). The model is also used
  // without SpeechOptions::vad if speech is in doubt (WindowPolicy::ask_vad).
  std::filesystem::path vad_model = {};
};

// Settings of a transcription.
struct SpeechOptions {
  DecodingSettings decoding = {};
  // Transcribe only the speech that the VAD model finds (faster-whisper's vad_filter). Absent, as
  // in openai-whisper: transcribe everything.
  std::optional<SpeechSettings> vad = {};
  Channels channels = Channels::kMix;
};

// What a session can do with a recording.
enum class SpeechTask { kTranscribe, kLiveCaptions, kDetectLanguage };

// Throw Error(kUsage) for the first setting that is out of bounds, or that another setting or the
// task excludes. The session checks what depends on the model, such as the language.
void check_options(const SpeechSessionOptions& options);
void check_options(const SpeechOptions& options, SpeechTask task = SpeechTask::kTranscribe);
void check_format(const PcmFormat& format);
// Checks the format of an input of samples.
void check_samples(const AudioInput& input);

}  // namespace vesper
