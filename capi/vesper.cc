#include "vesper.h"

#include <array>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "error/error.h"
#include "llm/tokenizer/unicode/utf8_stream.h"
#include "session/model_store.h"
#include "session/speech_session.h"

struct vesper_whisper : vesper::SpeechSession {
  using SpeechSession::SpeechSession;
};

namespace {

// An array, because the first use of a thread_local string takes memory, and the process ends if
// there is none.
thread_local std::array<char, 4096> last_error{};

// A longer message is cut before a character of UTF-8.
vesper_status fail(vesper_status status, const char* message) noexcept {
  size_t n = std::strlen(message);
  if (n >= last_error.size()) {
    n = last_error.size() - 1;
    while (n > 0 && (message[n] & 0xc0) == 0x80) --n;
  }
  std::memmove(last_error.data(), message, n);
  last_error[n] = '\0';
  return status;
}

// Runs `work` and returns its error, if any, as a status.
template <class Work>
vesper_status guarded(const Work& work) {
  try {
    work();
    return VESPER_OK;
  } catch (const vesper::Error& error) {
    return fail(static_cast<vesper_status>(vesper::exit_status(error.kind())), error.what());
  } catch (const std::bad_alloc&) {
    return fail(VESPER_ERROR_DEVICE, "out of memory");
  } catch (const std::exception& error) {
    return fail(VESPER_ERROR_INTERNAL, error.what());
  } catch (...) {
    return fail(VESPER_ERROR_INTERNAL, "an exception of an unknown type");
  }
}

vesper::SpeechSessionOptions session_options(const vesper_device_options* given) {
  vesper::SpeechSessionOptions options;
  options.vad_model = vesper::ModelStore().find_installed(vesper::kVadModel).value_or("");
  if (!given) return options;
  if (given->device) options.device = given->device;
  if (given->compute) options.compute = given->compute;
  options.threads = given->threads;
  return options;
}

vesper::SpeechOptions speech_options(const vesper_transcribe_options* given) {
  vesper::SpeechOptions options;
  if (!given) return options;
  if (given->language) options.decoding.language = given->language;
  if (given->initial_prompt) options.decoding.initial_prompt = given->initial_prompt;
  options.decoding.translate = given->translate != 0;
  if (given->vad != 0) options.vad.emplace();
  return options;
}

// `input` returns the vesper::AudioInput.
template <class Input>
vesper_status transcribe(vesper_whisper& whisper, const Input& input,
                         const vesper_transcribe_options* options, vesper_on_segment on_segment,
                         void* user) {
  return guarded([&] {
    vesper::SpeechEvents events;
    events.on_segment = [&](const vesper::Segment& segment) {
      const std::string text = vesper::valid_utf8(segment.text);
      const vesper_segment view{segment.start_s,     segment.end_s,
                                text.c_str(),        segment.language.c_str(),
                                segment.avg_logprob, segment.no_speech_prob};
      if (on_segment && on_segment(&view, user) != 0) {
        throw vesper::Error(vesper::ErrorKind::kStopped, "stopped by the caller");
      }
    };
    whisper.transcribe(input(), speech_options(options), events);
  });
}

}  // namespace

extern "C" {

const char* vesper_version(void) { return VESPER_VERSION; }

const char* vesper_last_error(void) { return last_error.data(); }

vesper_status vesper_whisper_open(const char* path, const vesper_device_options* options,
                                  vesper_whisper** whisper) {
  if (!path || !whisper) return fail(VESPER_ERROR_USAGE, "vesper_whisper_open: NULL argument");
  *whisper = nullptr;
  return guarded([&] { *whisper = new vesper_whisper(path, session_options(options)); });
}

vesper_status vesper_whisper_load_vad(vesper_whisper* whisper, const char* path) {
  if (!whisper) return fail(VESPER_ERROR_USAGE, "vesper_whisper_load_vad: NULL argument");
  return guarded([&] { whisper->load_vad(path ? path : ""); });
}

void vesper_whisper_close(vesper_whisper* whisper) { delete whisper; }

vesper_status vesper_whisper_transcribe_file(vesper_whisper* whisper, const char* audio_path,
                                             const vesper_transcribe_options* options,
                                             vesper_on_segment on_segment, void* user) {
  if (!whisper || !audio_path) {
    return fail(VESPER_ERROR_USAGE, "vesper_whisper_transcribe_file: NULL argument");
  }
  const auto input = [&] { return vesper::AudioInput{.path = audio_path}; };
  return transcribe(*whisper, input, options, on_segment, user);
}

vesper_status vesper_whisper_transcribe_pcm(vesper_whisper* whisper, const float* samples,
                                            size_t n_samples,
                                            const vesper_transcribe_options* options,
                                            vesper_on_segment on_segment, void* user) {
  if (!whisper || (!samples && n_samples > 0)) {
    return fail(VESPER_ERROR_USAGE, "vesper_whisper_transcribe_pcm: NULL argument");
  }
  const auto input = [&] {
    return vesper::AudioInput{.samples = vesper::PcmSamples{{samples, n_samples}}};
  };
  return transcribe(*whisper, input, options, on_segment, user);
}

}  // extern "C"
