#include "session/inspection/observed_model.h"

#include <algorithm>
#include <random>
#include <span>
#include <sstream>

#include "audio/samples.h"
#include "decoder/decoding_settings.h"
#include "decoder/windows/recording_transcriber.h"
#include "embedder/sentence_tokenizer.h"
#include "error/error.h"
#include "error/number_text.h"
#include "llm/files/text_file.h"
#include "llm/tokenizer/text_tokenizer.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

constexpr size_t kSampleRate = 16000;
// Synthetic texts for an encoder.
constexpr size_t kTexts = 32;
// For planning and profiling a language model: the context that `generate` uses for a short prompt,
// the length of a synthetic prompt or text, and of an answer.
constexpr uint32_t kContext = 3072, kPromptTokens = 128, kAnswerTokens = 64;

std::vector<float> noise() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.1f);
  std::vector<float> samples(30 * kSampleRate);
  for (float& sample : samples) sample = normal(random);
  return samples;
}

std::vector<std::vector<int32_t>> random_texts(size_t n_texts, uint32_t n_vocab,
                                               uint32_t max_tokens) {
  std::mt19937 random(1);
  std::vector<std::vector<int32_t>> texts(n_texts);
  for (auto& text : texts) {
    text.resize(std::min(kPromptTokens, max_tokens));
    for (int32_t& id : text) id = static_cast<int32_t>(random() % n_vocab);
  }
  return texts;
}

std::vector<std::vector<int32_t>> read_texts(const std::string& name, const WeightProvider& model,
                                             uint32_t max_tokens) {
  const SentenceTokenizer tokenizer(model);
  std::istringstream lines(read_text_file(name));
  std::vector<std::vector<int32_t>> texts;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) texts.push_back(tokenizer.encode(line, max_tokens).ids);
  }
  if (texts.empty()) throw Error(ErrorKind::kInput, name + ": expected lines of text, found none");
  return texts;
}

std::string read_prompt(const std::string& name) {
  std::string text = read_text_file(name);
  if (text.empty()) throw Error(ErrorKind::kInput, name + ": expected a text, found none");
  return text;
}

}  // namespace

RunnableKind kind_of(const WeightProvider& provider) {
  if (provider.type() == ModelType::kWhisper) return RunnableKind::kWhisper;
  if (provider.type() == ModelType::kTextEncoder) return RunnableKind::kTextEncoder;
  if (provider.type() == ModelType::kLanguageModel) {
    const StackConfig& stack = provider.stated_config()->decoder();
    const bool embeds = stack.attention == AttentionKind::kBidirectional;
    return embeds ? RunnableKind::kTextEncoder : RunnableKind::kLanguageModel;
  }
  const bool is_silero = provider.find("stft_conv.weight") != nullptr &&
                         provider.find("lstm_cell.weight_ih") != nullptr;
  return is_silero ? RunnableKind::kVoiceActivity : RunnableKind::kNone;
}

OpenModel open_model(const std::filesystem::path& path) { return open_model(open_weights(path)); }

OpenModel open_model(std::shared_ptr<const WeightProvider> weights) {
  OpenModel model{std::move(weights), nullptr};
  if (kind_of(*model.weights) != RunnableKind::kLanguageModel) return model;
  try {
    model.tokenizer = open_text_tokenizer(*model.weights);
  } catch (const Error&) {  // only a prompt needs a tokenizer
  }
  return model;
}

ObservedModel::ObservedModel(OpenModel model, std::unique_ptr<Device> device,
                             const std::string& compute, ObservedDevice::Mode mode,
                             const ModelUse& use)
    : model_(std::move(model)), owned_(std::make_unique<ObservedDevice>(std::move(device), mode)) {
  const WeightProvider& weights = *model_.weights;
  const RunnableKind kind = kind_of(weights);
  device_ = owned_.get();
  const Compute wanted = parse_compute(compute);
  switch (kind) {
    case RunnableKind::kWhisper:
      // A profile and a table need one sequence, a plan all that `transcribe` allocates.
      whisper_ = std::make_unique<WhisperModel>(
          model_.weights, std::move(owned_), wanted, use.n_slots,
          mode == ObservedDevice::Mode::kPlan ? DecodingSettings().best_of : 1, 1, use.kv_types);
      break;
    case RunnableKind::kTextEncoder:
      embedder_ = std::make_unique<Embedder>(weights, std::move(owned_), wanted);
      break;
    case RunnableKind::kLanguageModel:
      load_language_model(wanted, use);
      break;
    case RunnableKind::kVoiceActivity:
      vad_ = std::make_unique<SileroVad>(*owned_, weights);
      break;
    case RunnableKind::kNone:
      throw Error(ErrorKind::kModel,
                  weights.path().string() +
                      ": expected a model that the engine runs (Whisper, a "
                      "text encoder, a language model, Silero VAD), found another");
  }
}

ObservedModel::~ObservedModel() = default;

void ObservedModel::load_language_model(Compute wanted, const ModelUse& use) {
  const WeightProvider& weights = *model_.weights;
  compute_ = device_->resolve(wanted, WeightUse::kAnyRows);
  is_quantized_ = has_quantized_matrices(weights);
  GeneratorOptions options;
  options.n_ctx =
      use.n_ctx != 0 ? use.n_ctx : std::min(kContext, weights.config().decoder().n_positions);
  options.n_slots = use.n_slots;
  options.kv_types = use.kv_types;
  options.has_filters = options.has_penalties = false;
  generator_ = std::make_unique<Generator>(*device_, weights, compute_, options);
  generator_->prepare();
}

Compute ObservedModel::compute() const {
  if (generator_) return compute_;
  if (whisper_) return whisper_->compute();
  return embedder_ ? embedder_->compute() : Compute::kF32;
}

std::string ObservedModel::compute_text() const {
  if (generator_) return device_->info().policy.products(compute_, is_quantized_).activations;
  return std::string(compute_name(compute()));
}

double ObservedModel::n_positions() const {
  if (whisper_) return static_cast<double>(whisper_->decoder().n_text_ctx()) / 4;
  size_t n_tokens = 0;
  for (const auto& text : texts_) n_tokens += text.size();
  // Prompt and answer tokens see the prompt and, on average, half of the answer.
  if (generator_) return static_cast<double>(n_tokens + n_generated_ / 2);
  return texts_.empty() ? 0.0 : static_cast<double>(n_tokens) / static_cast<double>(texts_.size());
}

void ObservedModel::read_input(const std::string& name) {
  if (generator_) {
    if (name.empty()) {
      texts_ = random_texts(1, generator_->n_vocab(), generator_->n_ctx() / 2);
    } else {
      if (!model_.tokenizer) {
        throw Error(ErrorKind::kModel,
                    model_.weights->path().string() + ": expected a tokenizer, found none");
      }
      texts_ = {model_.tokenizer->encode(read_prompt(name), true, false)};
    }
    return;
  }
  if (embedder_) {
    texts_ = name.empty() ? random_texts(kTexts, embedder_->n_vocab(), embedder_->max_tokens())
                          : read_texts(name, *model_.weights, embedder_->max_tokens());
    return;
  }
  if (whisper_) {
    const int n_mels = static_cast<int>(whisper_->n_mels());
    if (!name.empty()) {
      mel_ = read_log_mel(AudioReader(name), n_mels, whisper_->mel_filters());
      return;
    }
    samples_ = noise();
    mel_.emplace(n_mels, whisper_->mel_filters());
    mel_->push(samples_.data(), samples_.size());
    mel_->finish();
    return;
  }
  samples_ = name.empty() ? noise() : read_samples(name);
}

// Greedy without stop tokens; the prompt is computed again each time.
void ObservedModel::generate() {
  generator_->forget(0);
  generator_->start(0, texts_.front(), kAnswerTokens, {});
  while (generator_->advance(kAnswerTokens)) {
  }
  n_generated_ = static_cast<uint32_t>(generator_->sampled(0).size());
}

void ObservedModel::run() {
  if (generator_) {
    generate();
  } else if (whisper_) {
    DecodingSettings greedy;  // the model was opened for one sequence
    greedy.temperatures = {0};
    greedy.beam_size = 1;
    audio_s_ = transcribe_recording(*whisper_, *mel_, greedy, [](const Segment&) {}, {}).duration_s;
  } else if (embedder_) {
    const std::vector<std::span<const int32_t>> texts(texts_.begin(), texts_.end());
    std::vector<float> vectors(texts.size() * embedder_->dimensions());
    embedder_->embed(texts, vectors.data());
  } else {
    vad_->push(samples_.data(), samples_.size());
    vad_->finish();
    audio_s_ = static_cast<double>(samples_.size()) / kSampleRate;
  }
}

std::string ObservedModel::work() const {
  if (generator_) {
    return grouped(n_generated_) + " tokens after " + grouped(texts_.front().size());
  }
  if (embedder_) {
    size_t n_tokens = 0;
    for (const auto& text : texts_) n_tokens += text.size();
    return grouped(texts_.size()) + (texts_.size() == 1 ? " text of " : " texts of ") +
           grouped(n_tokens) + " tokens";
  }
  return formatted("%.1f s of audio", audio_s_);
}

void ObservedModel::record_all() {
  if (whisper_) {
    DecodeTask task;
    task.prompt = {whisper_->tokens().sot};
    task.max_tokens = 1;
    whisper_->decoder().decode({&task, 1});
  } else if (embedder_) {
    read_input("");
    run();
  }
}

std::string pass_name(const DispatchTable& table) {
  const auto& commands = table.commands();
  const auto has = [&](Kernel kernel) {
    return std::any_of(commands.begin(), commands.end(),
                       [&](const Command& command) { return command.kernel == kernel; });
  };
  const auto rows = [&] {
    for (const Command& command : commands) {
      if (command.kernel == Kernel::kEmbed) return command.params_as<EmbedParams>().n_rows;
    }
    return 0u;
  };
  if (has(Kernel::kPool)) return "encode " + std::to_string(rows()) + " tokens";
  if (has(Kernel::kLstm)) return "voice activity";
  if (has(Kernel::kEmbed)) {
    return has(Kernel::kSampleToken) ? "step" : "prompt of " + std::to_string(rows());
  }
  if (has(Kernel::kSampleToken)) return "first token";
  return has(Kernel::kRangeProbabilities) ? "language" : "encode";
}

}  // namespace vesper
