// What can be set of a SpeechSession and of a transcription. Every default is here, or in
// DecodingSettings, with where it is from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "decoder/decoding_settings.h"
#include "session/channels.h"
#include "vad/speech_segments.h"

namespace vesper {

// What is decided when the model is loaded.
struct SpeechSessionOptions {
  std::string device = "auto";  // "auto" (a GPU if there is one), "cpu", "vulkan" or "vulkan:N"
  std::string compute =
      "auto";            // precision: "auto" (the device's best), "f32", "f16", "bf16", "int8"
  uint32_t threads = 0;  // of the CPU device; 0: one for each core
  // Memory is reserved for this many beams or draws of a window: the limit of
  // DecodingSettings::beam_size and best_of. Both are 5 by default, as in openai-whisper.
  uint32_t max_candidates = 5;
  // Speech segments that are decoded at once, of one recording or of several; with
  // SpeechOptions::vad only. 1: none. faster-whisper's BatchedInferencePipeline takes 8.
  uint32_t batch_size = 1;
  // A file or folder with Silero VAD; empty: none, until load_vad().
  std::filesystem::path vad_model = {};
};

// How a recording is transcribed.
struct SpeechOptions {
  DecodingSettings decoding = {};
  // Transcribe only what is speech, by the VAD model (faster-whisper's vad_filter). Absent, as in
  // openai-whisper: everything.
  std::optional<SpeechSettings> vad = {};
  Channels channels = Channels::kMix;
};

// Throws Error(kUsage) naming the first setting that makes no sense, or that another one excludes.
// What only the model can tell (a language that it does not know) is checked by the session.
void check_options(const SpeechOptions& options, bool is_live = false);

}  // namespace vesper
