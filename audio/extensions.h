// Which files of a folder are recordings, by their names alone.
#pragma once

#include <string_view>

namespace vesper {

// True for a file name that ends in the extension of a format that AudioReader reads, whatever its
// case: what libsndfile reads ("talk.wav", "talk.FLAC"), and audio and video that ffmpeg does.
bool has_recording_extension(std::string_view file_name);

}  // namespace vesper
