// Real speech and real models, for the tests that need them: recordings of Debian's
// pocketsphinx-testdata, models as scripts/fetch-models.sh gets them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "session/speech_session.h"

namespace vesper {

// The file of a sentence of "Sense and Sensibility", such as "0870".
std::string librivox_sentence(const std::string& number);

// The first seconds of a recording, 16 kHz. Throws as AudioReader does.
std::vector<float> samples_of(const std::string& path, size_t seconds);

// The file or folder of a model that is on this machine. Throws Error if it is not.
std::filesystem::path fetched_model(const std::string& name);

// A session with that model on the CPU. Throws as fetched_model does.
std::unique_ptr<SpeechSession> real_session(const std::string& name);

// In lower case, without punctuation.
std::vector<std::string> spoken_words(const std::string& text);

}  // namespace vesper
