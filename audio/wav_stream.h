// WAV from a stream that cannot seek: a pipe, or what ffmpeg writes. Samples come out as they
// arrive, and the lengths in the header decide nothing that the bytes do not confirm.
#pragma once

#include <memory>
#include <string>

#include "audio/byte_stream.h"
#include "audio/reader.h"
#include "audio/sample_source.h"

namespace vesper {

// Reads the header of a RIFF or RF64 WAV from `stream`, up to the first sample. Returns null, with
// the stream rewound, where it is another format or an encoding other than 8 to 32-bit integers
// and 32 and 64-bit floats: libsndfile may know it. `stream` must outlive the source.
//
// The samples end where the data chunk says, so that chunks after it are not heard, or at the end
// of the stream where that comes first. A size that writers use for "unknown" (0, or from
// 0x7FFF0000 up) means the end of the stream.
std::unique_ptr<SampleSource> open_wav_stream(ByteStream& stream);

// Samples without a header, to the end of `stream`, which must outlive the source.
std::unique_ptr<SampleSource> open_raw_stream(ByteStream& stream, const RawPcm& raw);

}  // namespace vesper
