// What --detect-language says of a recording.
#pragma once

#include <span>
#include <string>

#include "decoder/transcript/writers.h"
#include "decoder/windows/languages/language_detection.h"

namespace vesper {

// `languages` are ranked, likeliest first. As kTxt a line for each one of at least 1 %, and for the
// first: code, probability, English name, with tabs between, after the file's name if `with_file`.
// As kJson and kJsonl an object in one line with all of them. There are
// no others.
std::string language_report(TranscriptFormat format, const RecordingInfo& recording, bool with_file,
                            std::span<const LanguageProbability> languages);

}  // namespace vesper
