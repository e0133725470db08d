// Recordings that libsndfile reads: WAV, AIFF, FLAC, Ogg Vorbis and Opus, MP3 and two dozen more.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "audio/sample_source.h"

namespace vesper {

// Each opens a recording or returns null with libsndfile's reason in `why`. `name` is for the
// messages of later reads.
std::unique_ptr<SampleSource> open_with_sndfile(const std::string& path, const std::string& name,
                                                std::string& why);
// `fd` must be seekable; it stays the caller's.
std::unique_ptr<SampleSource> open_with_sndfile(int fd, const std::string& name, std::string& why);
// `bytes` must stay as long as the source.
std::unique_ptr<SampleSource> open_with_sndfile(std::span<const uint8_t> bytes,
                                                const std::string& name, std::string& why);

}  // namespace vesper
