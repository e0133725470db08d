#include "decoder/whisper_decoder.h"

#include <algorithm>
#include <string>

#include "error/error.h"

namespace vesper {
namespace {

// Prompt passes are recorded for these numbers of rows; a prompt takes the next larger one.
constexpr uint32_t kPromptRows[] = {1, 4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256};
// Steps that are submitted before the host looks whether every sequence has finished.
constexpr uint32_t kChainSteps = 16;
// Token ids that one task of token_partials reduces.
constexpr uint32_t kIdsPerChunk = 1024;

StackShape decoder_shape(const WhisperHyperparameters& model) {
  return {.n_layers = model.n_decoder_layers,
          .d_model = model.d_model,
          .n_heads = model.n_decoder_heads,
          .n_kv_heads = model.n_decoder_heads,
          .head_dim = model.d_model / model.n_decoder_heads,
          .d_ffn = model.d_ffn};
}

uint32_t prompt_rows_limit(uint32_t n_text_ctx, uint32_t n_sequences) {
  return n_text_ctx * n_sequences;
}

KvCache::Shape cache_shape(const StackShape& stack, uint32_t n_sequences, uint32_t n_positions,
                           uint32_t page_rows) {
  return {.n_layers = stack.n_layers,
          .n_kv_heads = stack.n_kv_heads,
          .head_dim = stack.head_dim,
          .n_sequences = n_sequences,
          .n_positions = n_positions,
          .page_rows = page_rows,
          .dtype = DType::kF16};
}

uint32_t n_chunks(uint32_t n_vocab) { return (n_vocab + kIdsPerChunk - 1) / kIdsPerChunk; }

}  // namespace

WhisperDecoder::WhisperDecoder(Device& device, const WeightProvider& provider, Compute compute,
                               const WhisperTokens& tokens, int32_t blank, uint32_t n_sequences)
    : device_(device),
      tokens_(tokens),
      blank_(blank),
      n_vocab_(provider.whisper().n_vocab),
      n_text_ctx_(provider.whisper().n_text_ctx),
      n_sequences_(n_sequences),
      stack_(device, provider, arch_descriptor("whisper.decoder"),
             decoder_shape(provider.whisper()), compute, WeightUse::kAnyRows,
             prompt_rows_limit(n_text_ctx_, n_sequences)),
      self_(device, cache_shape(stack_.shape(), n_sequences, n_text_ctx_, KvCache::kPageRows)),
      cross_(device, cache_shape(stack_.shape(), n_sequences, provider.whisper().n_audio_ctx,
                                 provider.whisper().n_audio_ctx)),
      max_rows_(prompt_rows_limit(n_text_ctx_, n_sequences)) {
  const uint32_t d = stack_.shape().d_model;
  embedding_ = device.upload({{&provider.require("decoder.embed.weight")}, false},
                             WeightUse::kEmbedding, compute);
  const TensorView* untied = provider.find("decoder.output.weight");
  output_ = untied ? device.upload({{untied}, false}, WeightUse::kAnyRows, compute) : embedding_;
  position_ = WeightUploader(device, provider, compute)
                  .vector("decoder.position.weight", uint64_t{n_text_ctx_} * d);

  const uint64_t n = n_sequences, n_logits = 2 * n;
  const auto floats = [&](uint64_t count, const char* label) {
    return device.allocate(count * sizeof(float), label);
  };
  prompt_rows_ = device.allocate(max_rows_ * sizeof(Row), "prompt rows");
  step_rows_ = device.allocate(n * sizeof(Row), "step rows");
  logit_index_ = device.allocate(n_logits * sizeof(uint32_t), "rows that give logits");
  x_ = floats(uint64_t{max_rows_} * d, "decoder residual stream");
  normed_ = device.allocate(dtype_bytes(stack_.activation_dtype(), n_logits * d), "final norm");
  logits_ = floats(n_logits * n_vocab_, "logits");
  no_speech_ = floats(n, "no-speech probabilities");
  languages_ = floats(std::max(1u, tokens.n_languages), "language probabilities");
  partials_ = device.allocate(n * n_chunks(n_vocab_) * sizeof(TokenPartial), "token partials");
  states_ = device.allocate(n * sizeof(SequenceState), "sequence states");
  chosen_ = device.allocate(n * n_text_ctx_ * sizeof(int32_t), "chosen tokens");
  stop_ = device.allocate(sizeof(uint32_t), "stop");
  suppressed_ = device.allocate((n_vocab_ + 31) / 32 * sizeof(uint32_t), "suppressed tokens");
  for (Operand& scratch : cross_scratch_) {
    scratch = floats(n * provider.whisper().n_audio_ctx * 2 * stack_.shape().kv_width(),
                     "cross keys and values");
  }
  for (uint32_t s = 0; s < n_sequences; ++s) cross_.reserve(s, provider.whisper().n_audio_ctx);
  host_rows_.resize(max_rows_);
  host_index_.resize(n_logits);
  host_states_.resize(n);
  host_chosen_.resize(n * n_text_ctx_);
  record();
}

void WhisperDecoder::emit_cross_kv(DispatchTable& table, uint32_t n_windows,
                                   const WhisperEncoder& encoder) const {
  stack_.emit_cross_kv(table, n_windows, encoder.n_audio_ctx(), encoder.output(),
                       encoder.output_dtype(), cross_, cross_scratch_);
}

void WhisperDecoder::emit_rows(DispatchTable& table, uint32_t n_rows, const Operand& rows) const {
  const EmbedParams params{n_rows, stack_.shape().d_model, embedding_.format, 1.0f};
  emit::embed(table, "decoder.embed", params, x_, rows, embedding_.data, position_,
              embedding_.scale);
  stack_.emit_causal(table, n_rows, x_, {rows, &self_, &cross_});
}

void WhisperDecoder::emit_logits(DispatchTable& table, uint32_t n_rows,
                                 const Operand& index) const {
  const DType dtype = stack_.activation_dtype();
  stack_.emit_final_norm(table, n_rows, normed_, dtype, x_, index);
  emit_linear(table, "decoder.logits", {output_, {}}, n_rows, logits_, DType::kF32, normed_, dtype);
}

void WhisperDecoder::emit_choice(DispatchTable& table) const {
  TokenParams params{};
  params.n_sequences = n_sequences_;
  params.n_vocab = params.row_stride = n_vocab_;
  params.n_chunks = n_chunks(n_vocab_);
  params.chunk = kIdsPerChunk;
  params.end_of_text = static_cast<uint32_t>(tokens_.eot);
  params.timestamp_begin = static_cast<uint32_t>(tokens_.timestamp_begin);
  params.no_timestamps = static_cast<uint32_t>(tokens_.notimestamps);
  params.blank = static_cast<uint32_t>(blank_);
  params.max_tokens = n_text_ctx_;
  emit::token_partials(table, "token_partials", params, partials_, logits_, states_, suppressed_);
  emit::token_choose(table, "token_choose", params, states_, step_rows_, chosen_, stop_, partials_);
}

DispatchTable WhisperDecoder::prompt_table(uint32_t n_rows, After after) const {
  DispatchTable table;
  emit_rows(table, n_rows, prompt_rows_);
  RangeProbabilitiesParams range{};
  range.row_stride = n_vocab_;
  if (after == After::kLanguages) {
    emit_logits(table, 1, logit_index_);
    range.n_rows = 1;
    range.softmax_first = static_cast<uint32_t>(tokens_.first_language);
    range.softmax_count = range.out_count = tokens_.n_languages;
    range.out_first = range.softmax_first;
    emit::range_probabilities(table, "language_probabilities", range, languages_, logits_);
    return table;
  }
  emit_logits(table, 2 * n_sequences_, logit_index_);
  range.n_rows = n_sequences_;
  range.softmax_count = n_vocab_;
  range.out_first = static_cast<uint32_t>(tokens_.nospeech);
  range.out_count = 1;
  const uint64_t row_bytes = dtype_bytes(DType::kF32, n_vocab_);
  emit::range_probabilities(table, "no_speech_probability", range, no_speech_,
                            logits_.from(n_sequences_ * row_bytes));
  emit_choice(table);
  return table;
}

void WhisperDecoder::record() {
  for (uint32_t n_rows : kPromptRows) {
    n_rows = std::min(n_rows * n_sequences_, max_rows_);
    if (!prompts_.empty() && prompts_.back().n_rows == n_rows) break;
    const RecordingId choose = device_.record(prompt_table(n_rows, After::kChoose));
    prompts_.push_back({n_rows, choose});
  }
  if (prompts_.back().n_rows < max_rows_) {
    prompts_.push_back({max_rows_, device_.record(prompt_table(max_rows_, After::kChoose))});
  }
  if (tokens_.is_multilingual) languages_pass_ = device_.record(prompt_table(1, After::kLanguages));
  DispatchTable step;
  emit_rows(step, n_sequences_, step_rows_);
  emit_logits(step, n_sequences_, {});
  emit_choice(step);
  step_ = device_.record(step);
}

void WhisperDecoder::set_suppressed(std::span<const int32_t> ids) {
  std::vector<uint32_t> mask((n_vocab_ + 31) / 32, 0);
  for (int32_t id : ids) {
    if (id < 0 || static_cast<uint32_t>(id) >= n_vocab_) {
      throw Error(ErrorKind::kUsage, "suppressed tokens: expected ids below " +
                                         std::to_string(n_vocab_) + ", found " +
                                         std::to_string(id));
    }
    mask[static_cast<uint32_t>(id) / 32] |= 1u << id % 32;
  }
  device_.write(suppressed_, mask.data());
}

void WhisperDecoder::check(const DecodeTask& task) const {
  const auto in_vocabulary = [&](int32_t id) {
    return id >= 0 && static_cast<uint32_t>(id) < n_vocab_;
  };
  if (task.prompt.empty() || task.start_of_transcript >= task.prompt.size() ||
      task.max_tokens == 0 || task.prompt.size() + task.max_tokens - 1 > n_text_ctx_ ||
      !std::all_of(task.prompt.begin(), task.prompt.end(), in_vocabulary)) {
    throw Error(ErrorKind::kInternal, "decoder: a prompt of " + std::to_string(task.prompt.size()) +
                                          " tokens and " + std::to_string(task.max_tokens) +
                                          " more do not fit a context of " +
                                          std::to_string(n_text_ctx_) + " or a vocabulary of " +
                                          std::to_string(n_vocab_));
  }
}

uint32_t WhisperDecoder::write_prompts(std::span<const DecodeTask> tasks) {
  uint32_t n_rows = 0;
  std::vector<uint32_t>& index = host_index_;
  std::fill(index.begin(), index.end(), 0);
  for (uint32_t s = 0; s < tasks.size(); ++s) {
    const DecodeTask& task = tasks[s];
    self_.reserve(s, static_cast<uint32_t>(task.prompt.size()) + task.max_tokens - 1);
    index[n_sequences_ + s] = n_rows + task.start_of_transcript;
    int32_t position = 0;
    for (int32_t token : task.prompt) {
      host_rows_[n_rows++] = {token, static_cast<int32_t>(s), position++, 0};
    }
    index[s] = n_rows - 1;
  }
  device_.write(logit_index_, index.data());
  return n_rows;
}

void WhisperDecoder::run_prompt(RecordingId recording, uint32_t n_rows, uint32_t n_recorded) {
  std::fill(host_rows_.begin() + n_rows, host_rows_.begin() + n_recorded, Row{0, -1, 0, 0});
  device_.write(prompt_rows_.part(0, n_recorded * sizeof(Row)), host_rows_.data());
  device_.run(recording);
}

std::vector<DecodeResult> WhisperDecoder::decode(std::span<const DecodeTask> tasks) {
  if (tasks.size() > n_sequences_) {
    throw Error(ErrorKind::kInternal, "decoder: " + std::to_string(tasks.size()) + " tasks for " +
                                          std::to_string(n_sequences_) + " sequences");
  }
  for (uint32_t s = 0; s < n_sequences_; ++s) {
    SequenceState& state = host_states_[s] = SequenceState{};
    state.finished = 1;
    if (s >= tasks.size()) continue;
    const DecodeTask& task = tasks[s];
    check(task);
    state.finished = 0;
    state.max_sampled = task.max_tokens;
    state.timestamps = task.timestamps;
    state.max_initial_timestamp =
        static_cast<uint32_t>(tokens_.timestamp_begin) + task.max_initial_timestamp;
    state.position = static_cast<int32_t>(task.prompt.size());
  }
  const uint32_t go = 0;
  device_.write(states_, host_states_.data());
  device_.write(stop_, &go);
  const uint32_t n_rows = write_prompts(tasks);
  const auto prompt =
      std::find_if(prompts_.begin(), prompts_.end(),
                   [&](const PromptRecording& recording) { return recording.n_rows >= n_rows; });
  run_prompt(prompt->recording, n_rows, prompt->n_rows);

  uint32_t stopped = 0;
  device_.read(stop_, &stopped);
  while (!stopped) {
    device_.run(step_, kChainSteps, stop_);
    device_.read(stop_, &stopped);
  }
  return read_results(tasks.size());
}

std::vector<DecodeResult> WhisperDecoder::read_results(size_t n_tasks) {
  std::vector<float> no_speech(n_sequences_);
  device_.read(no_speech_, no_speech.data());
  device_.read(states_, host_states_.data());
  device_.read(chosen_, host_chosen_.data());
  std::vector<DecodeResult> results(n_tasks);
  for (uint32_t s = 0; s < n_tasks; ++s) {
    const SequenceState& state = host_states_[s];
    const int32_t* chosen = host_chosen_.data() + size_t{s} * n_text_ctx_;
    const int32_t* end = std::find(chosen, chosen + state.n_sampled, tokens_.eot);
    results[s] = {{chosen, end}, state.sum_logprob, no_speech[s]};
    self_.release(s);
  }
  return results;
}

std::vector<float> WhisperDecoder::language_probabilities() {
  if (!tokens_.is_multilingual) return {};
  const DecodeTask task{.prompt = {tokens_.sot}, .max_tokens = 1};
  const uint32_t n_rows = write_prompts({&task, 1});
  run_prompt(languages_pass_, n_rows, 1);
  std::vector<float> probabilities(tokens_.n_languages);
  device_.read(languages_, probabilities.data());
  self_.release(0);
  return probabilities;
}

std::vector<float> WhisperDecoder::prompt_logits(std::span<const int32_t> prompt) {
  std::vector<float> logits(prompt.size() * n_vocab_);
  for (size_t i = 0; i < prompt.size(); ++i) {
    const DecodeTask task{.prompt = {prompt.begin(), prompt.begin() + i + 1}, .max_tokens = 1};
    decode({&task, 1});
    device_.read(logits_.part(0, n_vocab_ * sizeof(float)), logits.data() + i * n_vocab_);
  }
  return logits;
}

}  // namespace vesper
