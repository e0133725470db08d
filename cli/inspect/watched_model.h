// Any model that the engine runs, built on a device that is watched, with something to do: what the
// parts of `inspect` that build a model share.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "audio/mel.h"
#include "decoder/whisper_model.h"
#include "embedder/embedder.h"
#include "llm/generation/generator.h"
#include "llm/inspect/observed_device.h"
#include "llm/tokenizer/text_tokenizer.h"
#include "llm/weights/weight_provider.h"
#include "vad/silero_vad.h"

namespace vesper {

// What the engine does with a model.
enum class RunnableKind { kNone, kWhisper, kTextEncoder, kLanguageModel, kVoiceActivity };
RunnableKind kind_of(const WeightProvider& provider);

// A model's files, opened once for all that is built of them.
struct OpenModel {
  std::shared_ptr<const WeightProvider> weights;
  std::shared_ptr<const TextTokenizer> tokenizer;  // of a language model, if it has one
};
// Throws Error(kModel) if no reader takes the files.
OpenModel open_model(const std::filesystem::path& path);
OpenModel open_model(std::shared_ptr<const WeightProvider> weights);

class ObservedModel {
 public:
  // Throws Error(kModel, kDevice, kUsage).
  ObservedModel(OpenModel model, std::unique_ptr<Device> device, const std::string& compute,
                ObservedDevice::Mode mode);
  ~ObservedModel();

  ObservedDevice& device() { return *device_; }
  const ObservedDevice& device() const { return *device_; }
  Compute compute() const;
  // What its products are made in, for people.
  std::string compute_text() const;
  WhisperModel& whisper() { return *whisper_; }  // if it is of that kind

  // What run() is to work on: a recording, or a text: for an encoder its lines, for a language
  // model a prompt. Noise, if there is no name. Throws Error(kInput).
  void read_input(const std::string& name);
  void run();
  // That run() did: "30.0 s of sound", "32 texts of 4,096 tokens", "64 tokens after 128".
  std::string work() const;
  // What is recorded when it is first wanted, with as little work as there can be.
  void record_all();
  // Positions of a language model's context; 0 for other models.
  uint32_t n_ctx() const { return generator_ ? generator_->n_ctx() : 0; }
  // How far attention looks where its command does not say, on average.
  double n_positions() const;

 private:
  OpenModel model_;
  std::unique_ptr<ObservedDevice> owned_;  // before what is built on it; null where a model owns it
  ObservedDevice* device_ = nullptr;
  // One of these.
  std::unique_ptr<WhisperModel> whisper_;
  std::unique_ptr<Embedder> embedder_;
  std::unique_ptr<SileroVad> vad_;
  std::unique_ptr<Generator> generator_;

  void load_language_model(Compute wanted);
  void generate();

  Compute compute_ = Compute::kF32;  // of a language model
  bool is_quantized_ = false;
  uint32_t n_generated_ = 0;
  std::optional<MelSpectrogram> mel_;
  std::vector<float> samples_;  // 16 kHz mono
  double audio_s_ = 0;
  std::vector<std::vector<int32_t>> texts_;  // token ids; of a prompt the only one
};

// What a recording of a model does, told by its kernels: "encode", "step", ...
std::string pass_name(const DispatchTable& table);

}  // namespace vesper
