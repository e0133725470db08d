// Real speech for tests: recordings of Debian's pocketsphinx-testdata.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "session/speech/speech_session.h"

namespace vesper {

// The file of a sentence of "Sense and Sensibility", such as "0870".
std::string librivox_sentence(const std::string& number);

// The first seconds of a recording, 16 kHz. Throws like AudioReader.
std::vector<float> samples_of(const std::string& path, size_t seconds);

// A session with the model on the CPU. Throws like fetched_model.
std::unique_ptr<SpeechSession> real_session(const std::string& name);

// In lower case, without punctuation.
std::vector<std::string> spoken_words(const std::string& text);

// The number of words to insert, delete or replace.
size_t word_differences(const std::string& a, const std::string& b);

}  // namespace vesper
