// A model of any kind, built on an ObservedDevice, with input to run on: shared by the parts of
// the inspection that build a model.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "audio/mel/mel.h"
#include "decoder/whisper_model.h"
#include "embedder/embedder.h"
#include "llm/generation/generator.h"
#include "llm/inspect/observed_device.h"
#include "llm/tokenizer/text_tokenizer.h"
#include "llm/weights/weight_provider.h"
#include "vad/silero_vad.h"

namespace vesper {

// How the engine runs a model.
enum class RunnableKind { kNone, kWhisper, kTextEncoder, kLanguageModel, kVoiceActivity };
RunnableKind kind_of(const WeightProvider& provider);

// A model's files, opened once for all uses.
struct OpenModel {
  std::shared_ptr<const WeightProvider> weights;
  std::shared_ptr<const TextTokenizer> tokenizer;  // of a language model, if it has one
};
// Throws Error(kModel) if no reader knows the files.
OpenModel open_model(const std::filesystem::path& path);
OpenModel open_model(std::shared_ptr<const WeightProvider> weights);

// What a model is loaded for.
struct ModelUse {
  KvTypes kv_types = {};  // of a language model
  uint32_t n_ctx = 0;     // of a language model; 0: 3072, or the model's if that is less
  uint32_t n_slots = 1;   // answers, or windows of Whisper, at once
};

class ObservedModel {
 public:
  // Throws Error(kModel, kDevice, kUsage).
  ObservedModel(OpenModel model, std::unique_ptr<Device> device, const std::string& compute,
                ObservedDevice::Mode mode, const ModelUse& use = {});
  ~ObservedModel();

  ObservedDevice& device() { return *device_; }
  const ObservedDevice& device() const { return *device_; }
  Compute compute() const;
  // Precision of its products, for people.
  std::string compute_text() const;
  WhisperModel& whisper() { return *whisper_; }  // of a Whisper model

  // The input of run(): audio for Whisper, lines for a text encoder, a prompt for a language model.
  // Noise if `name` is empty. Throws Error(kInput).
  void read_input(const std::string& name);
  void run();
  // The work of run(): "30.0 s of audio", "32 texts of 4,096 tokens", "64 tokens after 128".
  std::string work() const;
  // Records programs that are recorded on first use, with minimal input.
  void record_all();
  // Context of a language model; 0 for other models.
  uint32_t n_ctx() const { return generator_ ? generator_->n_ctx() : 0; }
  // Mean number of positions of attention, if its command does not have it.
  double n_positions() const;

 private:
  OpenModel model_;
  std::unique_ptr<ObservedDevice> owned_;  // declared before the models on it; null if a model owns
                                           // it
  ObservedDevice* device_ = nullptr;
  // One of these is set.
  std::unique_ptr<WhisperModel> whisper_;
  std::unique_ptr<Embedder> embedder_;
  std::unique_ptr<SileroVad> vad_;
  std::unique_ptr<Generator> generator_;

  void load_language_model(Compute wanted, const ModelUse& use);
  void generate();

  Compute compute_ = Compute::kF32;  // of a language model
  bool is_quantized_ = false;
  uint32_t n_generated_ = 0;
  std::optional<MelSpectrogram> mel_;
  std::vector<float> samples_;  // 16 kHz mono
  double audio_s_ = 0;
  std::vector<std::vector<int32_t>> texts_;  // token ids; of a language model one prompt
};

// The purpose of a program by its kernels: "encode", "step", ...
std::string pass_name(const DispatchTable& table);

}  // namespace vesper
