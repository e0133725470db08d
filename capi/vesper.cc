#include "vesper.h"

#include <cmath>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "audio/recording.h"
#include "decoder/whisper_model.h"
#include "decoder/windows/recording_transcriber.h"
#include "error/error.h"
#include "llm/devices/open_device.h"
#include "llm/tokenizer/utf8_stream.h"
#include "vad/extract_speech.h"
#include "vad/silero_vad.h"

struct vesper_whisper {
  vesper_whisper(const char* path, const vesper_device_options& options)
      : model(path,
              vesper::open_device(options.device ? options.device : "auto",
                                  vesper::DeviceOptions{.n_threads = options.threads}),
              vesper::parse_compute(options.compute ? options.compute : "auto"), /*n_windows=*/1,
              vesper::most_candidates({})) {}

  vesper::WhisperModel model;
  std::optional<vesper::SileroVad> vad;
};

namespace {

thread_local std::string last_error;

// Thrown through the transcriber when a callback asks to stop.
struct Stopped {};

vesper_status fail(vesper_status status, const char* message) {
  last_error = message;
  return status;
}

// Runs `work` and turns whatever it throws into a status.
template <class Work>
vesper_status guarded(const Work& work) {
  try {
    work();
    return VESPER_OK;
  } catch (const Stopped&) {
    return fail(VESPER_ERROR_STOPPED, "stopped by the caller");
  } catch (const vesper::Error& error) {
    return fail(static_cast<vesper_status>(vesper::exit_status(error.kind())), error.what());
  } catch (const std::bad_alloc&) {
    return fail(VESPER_ERROR_DEVICE, "out of memory");
  } catch (const std::exception& error) {
    return fail(VESPER_ERROR_INTERNAL, error.what());
  }
}

// Transcribes the samples that `for_each_block` hands on.
void transcribe(vesper_whisper& whisper, const vesper::ForEachBlock& for_each_block,
                const vesper_transcribe_options* options, vesper_on_segment on_segment,
                void* user) {
  vesper::DecodingSettings settings;
  if (options) {
    if (options->language) settings.language = options->language;
    if (options->initial_prompt) settings.initial_prompt = options->initial_prompt;
    settings.translate = options->translate != 0;
  }
  const bool speech_only = options && options->vad != 0;
  if (speech_only && !whisper.vad) {
    throw vesper::Error(vesper::ErrorKind::kUsage,
                        "vad: expected a model by vesper_whisper_load_vad");
  }
  vesper::MelSpectrogram mel(static_cast<int>(whisper.model.n_mels()), whisper.model.mel_filters());
  // Of speech alone the times are those within what is kept.
  std::vector<vesper::SpeechSegment> kept;
  if (speech_only) {
    vesper::ExtractedSpeech speech =
        vesper::extract_speech(for_each_block, std::move(mel), *whisper.vad, {});
    mel = std::move(speech.mel);
    kept = std::move(speech.segments);
  } else {
    for_each_block([&](const float* samples, size_t n) { mel.push(samples, n); });
    mel.finish();
  }
  const vesper::SpeechTimeline timeline(kept);
  vesper::transcribe_recording(
      whisper.model, mel, settings,
      [&](const vesper::Segment& segment) {
        const std::string text = vesper::valid_utf8(segment.text);
        const vesper_segment view{speech_only ? timeline.start_s(segment.start_s) : segment.start_s,
                                  speech_only ? timeline.end_s(segment.end_s) : segment.end_s,
                                  text.c_str(),
                                  segment.language.c_str(),
                                  segment.avg_logprob,
                                  segment.no_speech_prob};
        if (on_segment && on_segment(&view, user) != 0) throw Stopped();
      },
      {});
}

}  // namespace

extern "C" {

const char* vesper_version(void) { return VESPER_VERSION; }

const char* vesper_last_error(void) { return last_error.c_str(); }

vesper_status vesper_whisper_open(const char* path, const vesper_device_options* options,
                                  vesper_whisper** whisper) {
  if (!path || !whisper) return fail(VESPER_ERROR_USAGE, "vesper_whisper_open: NULL argument");
  *whisper = nullptr;
  return guarded(
      [&] { *whisper = new vesper_whisper(path, options ? *options : vesper_device_options{}); });
}

vesper_status vesper_whisper_load_vad(vesper_whisper* whisper, const char* path) {
  if (!whisper || !path) return fail(VESPER_ERROR_USAGE, "vesper_whisper_load_vad: NULL argument");
  return guarded([&] { whisper->vad.emplace(whisper->model.device(), path); });
}

void vesper_whisper_close(vesper_whisper* whisper) { delete whisper; }

vesper_status vesper_whisper_transcribe_file(vesper_whisper* whisper, const char* audio_path,
                                             const vesper_transcribe_options* options,
                                             vesper_on_segment on_segment, void* user) {
  if (!whisper || !audio_path) {
    return fail(VESPER_ERROR_USAGE, "vesper_whisper_transcribe_file: NULL argument");
  }
  return guarded([&] {
    const auto for_each_block = [&](const auto& take) {
      vesper::RecordingReader(vesper::AudioReader(audio_path)).read_to_end(take);
    };
    transcribe(*whisper, for_each_block, options, on_segment, user);
  });
}

vesper_status vesper_whisper_transcribe_pcm(vesper_whisper* whisper, const float* samples,
                                            size_t n_samples,
                                            const vesper_transcribe_options* options,
                                            vesper_on_segment on_segment, void* user) {
  if (!whisper || (!samples && n_samples > 0)) {
    return fail(VESPER_ERROR_USAGE, "vesper_whisper_transcribe_pcm: NULL argument");
  }
  return guarded([&] {
    for (size_t i = 0; i < n_samples; ++i) {
      if (!std::isfinite(samples[i])) {
        throw vesper::Error(vesper::ErrorKind::kInput, "samples: expected finite numbers, found " +
                                                           std::to_string(samples[i]) + " at " +
                                                           std::to_string(i));
      }
    }
    const auto for_each_block = [&](const auto& take) { take(samples, n_samples); };
    transcribe(*whisper, for_each_block, options, on_segment, user);
  });
}

}  // extern "C"
