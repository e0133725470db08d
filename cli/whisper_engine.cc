#include "cli/whisper_engine.h"

#include <utility>

#include "audio/recording.h"
#include "decoder/transcriber.h"
#include "decoder/whisper_model.h"

namespace vesper {
namespace {

class WhisperEngine final : public TranscriptionEngine {
 public:
  explicit WhisperEngine(const EngineSettings& settings)
      : model_(settings.model,
               open_device(settings.device, DeviceOptions{.n_threads = settings.threads}),
               parse_compute(settings.compute), 1, settings.n_candidates),
        transcriber_(model_) {}

  std::string description() const override {
    const DeviceInfo& device = model_.device().info();
    return device.kind + " (" + device.name + "), " + std::string(compute_name(model_.compute()));
  }

  Transcript transcribe(const std::string& input, const DecodingSettings& settings,
                        const std::function<void(const Segment&)>& on_segment,
                        const std::function<void(double, double)>& on_progress) override {
    const MelSpectrogram mel =
        read_log_mel(AudioReader(input), static_cast<int>(model_.n_mels()), model_.mel_filters());
    return transcriber_.transcribe(mel, settings, on_segment, on_progress);
  }

 private:
  WhisperModel model_;
  Transcriber transcriber_;
};

}  // namespace

std::unique_ptr<TranscriptionEngine> load_whisper_engine(const EngineSettings& settings) {
  return std::make_unique<WhisperEngine>(settings);
}

}  // namespace vesper
