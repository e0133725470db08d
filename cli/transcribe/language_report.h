// The output of --detect-language for a recording.
#pragma once

#include <span>
#include <string>

#include "decoder/transcript/writers.h"
#include "decoder/windows/languages/language_detection.h"

namespace vesper {

// `languages` are ranked, most probable first. kTxt: one line per language of at least 1%, and for
// the first: code, probability, English name, separated by tabs, after the file name if
// `with_file`. kJson and kJsonl: one line with an object of all languages. Other formats are
// errors.
std::string language_report(TranscriptFormat format, const RecordingInfo& recording, bool with_file,
                            std::span<const LanguageProbability> languages);

}  // namespace vesper
