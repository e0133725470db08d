// The engine behind `transcribe`: a Whisper model on a device.
#pragma once

#include <memory>

#include "session/transcription_engine.h"

namespace vesper {

// Throws Error(kModel, kDevice, kUsage).
std::unique_ptr<TranscriptionEngine> load_whisper_engine(const EngineSettings& settings);

}  // namespace vesper
