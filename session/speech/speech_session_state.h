// What a SpeechSession has: its models, and how it reads recordings and decodes them. For
// speech_session.cc, speech_session_state.cc and speech_stream.cc only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "audio/mel/mel.h"
#include "audio/samples.h"
#include "decoder/whisper_model.h"
#include "decoder/windows/batch_transcriber.h"
#include "decoder/windows/live/live_transcriber.h"
#include "decoder/windows/recording_transcriber.h"
#include "session/speech/job_queue.h"
#include "session/speech/speech_session.h"
#include "vad/extract_speech.h"
#include "vad/silero_vad.h"

namespace vesper {

// Throws Error(kStopped) if the caller has cancelled.
void check_cancelled(const SpeechEvents& events);
// What a transcriber calls with a segment, and between windows. The second throws Error(kStopped)
// if the caller has cancelled. Both refer to `events`, which must outlive them.
OnSegment segment_event(const SpeechEvents& events);
OnProgress progress_event(const SpeechEvents& events);

// Clips choose what is read. What has been read is decoded whole.
DecodingSettings without_clips(DecodingSettings settings);

struct SpeechSession::State {
  State(std::shared_ptr<const WeightProvider> weights, const SpeechSessionOptions& wanted);

  // Null if `path` is empty.
  std::unique_ptr<SileroVad> open_vad(const std::filesystem::path& path);

  // Throws Error(kUsage) if the options are invalid or this session does not have what they need.
  void check(const SpeechOptions& speech, SpeechTask task = SpeechTask::kTranscribe) const;

  // With the model's number of mels and filters; no samples have been added.
  MelSpectrogram empty_mel() const;
  // read_log_mel() with the model's number of mels and filters.
  MelSpectrogram log_mel(SampleReader reader, const std::function<void(double)>& on_progress) const;

  // Reads what is decoded of a recording: with SpeechOptions::vad its speech, within the clips if
  // there are any; without it the whole recording, with its speech segments if the VAD model is
  // asked. `on_progress` as for read_log_mel(). With `events`, throws Error(kStopped) if the caller
  // cancels.
  ExtractedSpeech read_recording(SampleReader reader, const SpeechOptions& speech,
                                 const std::function<void(double)>& on_progress);
  ExtractedSpeech read_recording(SampleReader reader, const SpeechOptions& speech,
                                 const SpeechEvents& events);
  // For the thread of a JobQueue, which `of_call` outlives.
  ExtractFrom extract_from(const SpeechOptions& of_call);

  // Whether the VAD model decides if speech is in doubt.
  bool asks_vad(const SpeechOptions& speech) const { return vad && speech.decoding.policy.ask_vad; }
  // Finds speech in the windows of a live stream; absent if the VAD model is not asked.
  FindSpeech speech_finder(const SpeechOptions& speech);

  // Reads a recording, and decodes it by itself. Calls back with times in the recording.
  Transcript transcribe_reader(SampleReader reader, const SpeechOptions& speech,
                               const SpeechEvents& events, const OnSegment& on_segment,
                               const OnProgress& on_progress);
  // A recording whose windows are decoded in batches with those of others. If it cannot be read, it
  // has no windows, and its job fails when its turn comes.
  BatchRecording batch_recording(OpenedJob opened, const SpeechOptions& of_call);

  SpeechSessionOptions options;
  WhisperModel model;
  // Of the VAD model, if it can work beside the other model: null otherwise.
  std::unique_ptr<Device> vad_device;
  std::unique_ptr<SileroVad> vad;

 private:
  State(std::shared_ptr<const WeightProvider> weights, const SpeechSessionOptions& wanted,
        std::unique_ptr<Device> device);

  // The speech segments that are decoded in batches.
  std::vector<SpeechSegment> segments_of(const ExtractedSpeech& kept) const;
  // The speech in a recording that is decoded whole, if the VAD model is asked.
  std::optional<std::vector<SpeechSegment>> speech_of(const ExtractedSpeech& read,
                                                      const SpeechOptions& speech) const;
};

}  // namespace vesper
