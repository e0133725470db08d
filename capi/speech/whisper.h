// A Whisper model of the C API.
#pragma once

#include <vesper/speech.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "capi/objects.h"
#include "session/speech/speech_session.h"

struct vesper_whisper final : vesper::capi::Object {
  static constexpr std::string_view kKind = "a Whisper model";
  vesper_whisper(const std::filesystem::path& model, const vesper::SpeechSessionOptions& options,
                 bool is_offline)
      : Object(kKind),
        session(model, options),
        description(session.description()),
        is_multilingual(session.is_multilingual()),
        never_downloads(is_offline) {}

  vesper::SpeechSession session;
  const std::string description;
  const bool is_multilingual;
  const bool never_downloads;
};
