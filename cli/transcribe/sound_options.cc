#include "cli/transcribe/sound_options.h"

#include "cli/terminal/command_line.h"
#include "cli/terminal/option_values.h"
#include "error/error.h"

namespace vesper {

SoundOptions::SoundOptions(CommandLine& line) {
  line.add_value("--channels", [this](const std::string& text) {
    is_split_ = text == "split";
    reader_.channel.reset();
    if (text == "split" || text == "mix") return;
    const bool is_named = text == "left" || text == "right";
    reader_.channel =
        is_named ? text == "right"
                 : static_cast<int>(parse_integer("--channels", text, 1, AudioReader::kMaxChannels,
                                                  "mix, split, left, right, or a number from 1")) -
                       1;
  });
  line.add_value("--diarize", [this](const std::string& text) {
    is_diarized_ = parse_choice("--diarize", text, {"stereo", "none"}) == "stereo";
  });
  line.add_value("--pcm", [this](const std::string& text) {
    is_raw_ = true;
    raw_.encoding = parse_choice("--pcm", text, {"s16le", "f32le"}) == "s16le"
                        ? RawPcm::Encoding::kS16Le
                        : RawPcm::Encoding::kF32Le;
  });
  line.add_value("--pcm-rate", [this](const std::string& text) {
    raw_detail_ = "--pcm-rate";
    raw_.sample_rate_hz = static_cast<uint32_t>(parse_integer(
        raw_detail_, text, AudioReader::kMinSampleRateHz, AudioReader::kMaxSampleRateHz));
  });
  line.add_value("--pcm-channels", [this](const std::string& text) {
    raw_detail_ = "--pcm-channels";
    raw_.channels =
        static_cast<uint32_t>(parse_integer(raw_detail_, text, 1, AudioReader::kMaxChannels));
  });
}

void SoundOptions::finish(ReaderOptions& reader, Channels& channels) const {
  if (is_diarized_ && (is_split_ || reader_.channel)) {
    throw Error(ErrorKind::kUsage, "--diarize: expected without --channels");
  }
  if (!is_raw_ && !raw_detail_.empty()) {
    throw Error(ErrorKind::kUsage, raw_detail_ + ": expected together with --pcm");
  }
  reader = reader_;
  if (is_raw_) reader.raw = raw_;
  channels = is_split_ ? Channels::kSplit : is_diarized_ ? Channels::kDiarize : Channels::kMix;
}

}  // namespace vesper
