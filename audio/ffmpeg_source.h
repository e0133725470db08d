// Recordings that libsndfile does not read (m4a, mp4, webm, ...), through the program ffmpeg.
#pragma once

#include <memory>
#include <string>

#include "audio/sample_source.h"

namespace vesper {

// True where an executable file named ffmpeg is in a folder of $PATH.
bool ffmpeg_is_on_path();

// Starts ffmpeg, without a shell and without the network, on the file `path`, or where `path` is
// empty on the open file `fd` (seekable; read from its beginning through /dev/fd), and reads the
// audio stream that ffmpeg takes for the best. Throws Error(kInput) with the last line that ffmpeg
// wrote on stderr when it cannot be started, finds no audio, fails, or is killed, now or in a later
// read. The process ends with the source.
std::unique_ptr<SampleSource> open_with_ffmpeg(const std::string& path, int fd,
                                               const std::string& name);

}  // namespace vesper
