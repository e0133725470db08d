#include "audio/extensions.h"

#include <algorithm>
#include <string>

namespace vesper {
namespace {

// Formats that a recording is kept in. Raw samples without a header (.raw, .gsm, .vox) are not
// among them: nothing says what they are.
constexpr std::string_view kExtensions[] = {
    // libsndfile
    "aif", "aifc", "aiff", "au", "avr", "caf", "flac", "iff", "mp1", "mp2", "mp3", "mpga", "nist",
    "oga", "ogg", "opus", "paf", "rf64", "sd2", "snd", "sph", "svx", "voc", "w64", "wav", "wave",
    "wve",
    // ffmpeg: sound
    "3ga", "aac", "ac3", "amr", "ape", "awb", "dts", "eac3", "m4a", "m4b", "m4r", "mka", "mpc",
    "ra", "spx", "tta", "weba", "wma", "wv",
    // ffmpeg: video
    "3gp", "asf", "avi", "flv", "m2ts", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "mts", "ogv",
    "vob", "webm", "wmv"};

}  // namespace

bool has_recording_extension(std::string_view file_name) {
  const size_t dot = file_name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  std::string extension(file_name.substr(dot + 1));
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::ranges::find(kExtensions, extension) != std::end(kExtensions);
}

}  // namespace vesper
