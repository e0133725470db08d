#include "decoder/whisper_decoder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "error/error.h"

namespace vesper {
namespace {

// Prompt passes are recorded for these numbers of rows; a prompt takes the next larger one.
constexpr uint32_t kPromptRows[] = {1, 4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256};
// Steps that are submitted before the host looks whether every sequence has finished.
constexpr uint32_t kChainSteps = 16;
// Token ids that one task of token_partials reduces.
constexpr uint32_t kIdsPerChunk = 1024;
static_assert(kMostBeamSize == kMostBeams);

StackShape decoder_shape(const WhisperHyperparameters& model) {
  return {.n_layers = model.n_decoder_layers,
          .d_model = model.d_model,
          .n_heads = model.n_decoder_heads,
          .n_kv_heads = model.n_decoder_heads,
          .head_dim = model.d_model / model.n_decoder_heads,
          .d_ffn = model.d_ffn};
}

// The most rows that a pass has: those of all prompts, or one a sequence.
uint32_t most_rows(uint32_t n_text_ctx, uint32_t n_windows, uint32_t n_sequences) {
  return std::max(n_text_ctx * n_windows, n_sequences);
}

KvCache::Shape cache_shape(const StackShape& stack, uint32_t n_sequences, uint32_t n_positions,
                           uint32_t page_rows, uint32_t n_extra_pages = 0) {
  return {.n_layers = stack.n_layers,
          .n_kv_heads = stack.n_kv_heads,
          .head_dim = stack.head_dim,
          .n_sequences = n_sequences,
          .n_positions = n_positions,
          .page_rows = page_rows,
          .dtype = DType::kF16,
          .n_extra_pages = n_extra_pages};
}

// openai-whisper, decoding.py: MaximumLikelihoodRanker.
double rank(const DecodeResult& result, const Search& search) {
  const double length = static_cast<double>(result.tokens.size());
  if (!search.length_penalty) return result.sum_logprob / std::max(1.0, length);
  return result.sum_logprob / std::pow((5 + length) / 6, *search.length_penalty);
}

uint32_t n_chunks(uint32_t n_vocab) { return (n_vocab + kIdsPerChunk - 1) / kIdsPerChunk; }

}  // namespace

WhisperDecoder::WhisperDecoder(Device& device, const WeightProvider& provider, Compute compute,
                               const WhisperTokens& tokens, int32_t blank, uint32_t n_windows,
                               uint32_t n_sequences)
    : device_(device),
      tokens_(tokens),
      blank_(blank),
      n_vocab_(provider.whisper().n_vocab),
      n_text_ctx_(provider.whisper().n_text_ctx),
      n_windows_(n_windows),
      n_sequences_(n_sequences),
      stack_(device, provider, arch_descriptor("whisper.decoder"),
             decoder_shape(provider.whisper()), compute, WeightUse::kAnyRows,
             most_rows(n_text_ctx_, n_windows, n_sequences)),
      self_(device,
            cache_shape(stack_.shape(), n_sequences, n_text_ctx_, KvCache::kPageRows, n_sequences)),
      cross_(device, cache_shape(stack_.shape(), n_windows, provider.whisper().n_audio_ctx,
                                 provider.whisper().n_audio_ctx)),
      max_rows_(most_rows(n_text_ctx_, n_windows, n_sequences)) {
  const uint32_t d = stack_.shape().d_model;
  const WeightUploader upload(device, provider, compute);
  embedding_ =
      upload.matrix({{&provider.require("decoder.embed.weight")}, false}, WeightUse::kEmbedding);
  const TensorView* untied = provider.find("decoder.output.weight");
  output_ = untied ? upload.matrix({{untied}, false}, WeightUse::kAnyRows) : embedding_;
  position_ = upload.vector("decoder.position.weight", uint64_t{n_text_ctx_} * d);

  const uint64_t n = n_sequences, n_logits = n + n_windows;
  const auto floats = [&](uint64_t count, const char* label) {
    return device.allocate(count * sizeof(float), label);
  };
  cross_pages_ = device.allocate(n * sizeof(int32_t), "windows of the sequences");
  prompt_rows_ = device.allocate(max_rows_ * sizeof(Row), "prompt rows");
  step_rows_ = device.allocate(n * sizeof(Row), "step rows");
  logit_index_ = device.allocate(n_logits * sizeof(uint32_t), "rows that give logits");
  x_ = floats(uint64_t{max_rows_} * d, "decoder residual stream");
  normed_ = device.allocate(dtype_bytes(stack_.activation_dtype(), n_logits * d), "final norm");
  logits_ = floats(n_logits * n_vocab_, "logits");
  no_speech_ = floats(n_windows, "no-speech probabilities");
  languages_ = floats(std::max(1u, tokens.n_languages), "language probabilities");
  partials_ = device.allocate(n * n_chunks(n_vocab_) * sizeof(TokenPartial), "token partials");
  states_ = device.allocate(n * sizeof(SequenceState), "sequence states");
  chosen_ = device.allocate(n * n_text_ctx_ * sizeof(int32_t), "chosen tokens");
  candidates_ =
      device.allocate(n * n_chunks(n_vocab_) * 2 * (most_beams() + 1) * sizeof(TokenCandidate),
                      "candidates of beams");
  const uint64_t n_finished = n * kMostPatience;
  finished_ = device.allocate(n_finished * sizeof(FinishedText), "finished texts");
  finished_tokens_ =
      device.allocate(n_finished * n_text_ctx_ * sizeof(int32_t), "tokens of finished texts");
  stop_ = device.allocate(sizeof(uint32_t), "stop");
  suppressed_ = device.allocate((n_vocab_ + 31) / 32 * sizeof(uint32_t), "suppressed tokens");
  for (Operand& scratch : cross_scratch_) {
    scratch =
        floats(uint64_t{n_windows} * provider.whisper().n_audio_ctx * 2 * stack_.shape().kv_width(),
               "cross keys and values");
  }
  for (uint32_t w = 0; w < n_windows; ++w) cross_.reserve(w, provider.whisper().n_audio_ctx);
  host_rows_.resize(max_rows_);
  host_index_.resize(n_logits);
  host_states_.resize(n);
  host_chosen_.resize(n * n_text_ctx_);
  host_finished_.resize(n_finished);
  host_finished_tokens_.resize(n_finished * n_text_ctx_);
  host_pages_.resize(n * self_.pages_per_sequence());
  host_cross_pages_.resize(n);
  host_no_speech_.resize(n_windows);
  record_prompts();
  recordings_of({1, 1, false, false});
}

uint32_t WhisperDecoder::most_beams() const { return std::min(n_sequences_, kMostBeams); }

void WhisperDecoder::emit_cross_kv(DispatchTable& table, uint32_t n_windows,
                                   const WhisperEncoder& encoder) const {
  stack_.emit_cross_kv(table, n_windows, encoder.n_audio_ctx(), encoder.output(),
                       encoder.output_dtype(), cross_, cross_scratch_);
}

void WhisperDecoder::emit_rows(DispatchTable& table, uint32_t n_rows, const Operand& rows) const {
  const EmbedParams params{n_rows, stack_.shape().d_model, embedding_.format, 1.0f};
  emit::embed(table, "decoder.embed", params, x_, rows, embedding_.data, position_,
              embedding_.scale);
  stack_.emit_causal(table, n_rows, x_, {rows, &self_, &cross_, cross_pages_});
}

void WhisperDecoder::emit_logits(DispatchTable& table, uint32_t n_rows,
                                 const Operand& index) const {
  const DType dtype = stack_.activation_dtype();
  stack_.emit_final_norm(table, n_rows, normed_, dtype, x_, index);
  emit_linear(table, "decoder.logits", {output_, {}}, n_rows, logits_, DType::kF32, normed_, dtype);
}

void WhisperDecoder::emit_choice(DispatchTable& table, const StepKind& kind) const {
  TokenParams params{};
  params.n_sequences = kind.n_sequences();
  params.n_vocab = params.row_stride = n_vocab_;
  params.n_chunks = n_chunks(n_vocab_);
  params.chunk = kIdsPerChunk;
  params.end_of_text = static_cast<uint32_t>(tokens_.eot);
  params.timestamp_begin = static_cast<uint32_t>(tokens_.timestamp_begin);
  params.no_timestamps = static_cast<uint32_t>(tokens_.notimestamps);
  params.blank = static_cast<uint32_t>(blank_);
  params.max_tokens = n_text_ctx_;
  params.n_candidates = kind.has_beams ? kind.n_candidates + 1 : 0;
  if (kind.has_penalties) {
    const PenaltyParams penalties{params.n_sequences, n_vocab_, n_vocab_, n_text_ctx_};
    emit::token_penalties(table, "token_penalties", penalties, logits_, states_, chosen_);
  }
  emit::token_partials(table, "token_partials", params, partials_, logits_, states_, suppressed_,
                       kind.has_beams ? candidates_ : Operand{});
  if (kind.has_beams) {
    BeamParams beams{};
    beams.n_groups = kind.n_tasks;
    beams.beam_size = kind.n_candidates;
    beams.most_finished = kind.n_candidates * kMostPatience;
    beams.n_chunks = params.n_chunks;
    beams.end_of_text = params.end_of_text;
    beams.timestamp_begin = params.timestamp_begin;
    beams.max_tokens = n_text_ctx_;
    beams.page_rows = self_.shape().page_rows;
    beams.pages_per_sequence = self_.pages_per_sequence();
    emit::beam_choose(table, "beam_choose", beams, states_, step_rows_, chosen_, finished_,
                      finished_tokens_, partials_, candidates_, self_.page_table());
  }
  emit::token_choose(table, "token_choose", params, states_, step_rows_, chosen_, stop_, partials_);
  if (kind.has_beams) emit_copy_pages(table, params.n_sequences);
}

void WhisperDecoder::emit_copy_pages(DispatchTable& table, uint32_t n_sequences) const {
  CopyPagesParams params{};
  params.n_sequences = n_sequences;
  params.n_kv_heads = self_.shape().n_kv_heads;
  params.head_dim = self_.shape().head_dim;
  params.page_rows = self_.shape().page_rows;
  params.kv_dtype = static_cast<uint32_t>(self_.shape().dtype);
  for (uint32_t layer = 0; layer < self_.shape().n_layers; ++layer) {
    emit::copy_pages(table, "copy_pages." + std::to_string(layer), params, self_.keys(layer),
                     self_.values(layer), states_);
  }
}

void WhisperDecoder::record_prompts() {
  const auto record = [&](uint32_t n_rows) {
    DispatchTable table;
    emit_rows(table, n_rows, prompt_rows_);
    prompts_.push_back({n_rows, device_.record(table)});
  };
  for (uint32_t n_rows : kPromptRows) {
    n_rows = std::min(n_rows * n_windows_, max_rows_);
    if (!prompts_.empty() && prompts_.back().n_rows == n_rows) break;
    record(n_rows);
  }
  if (prompts_.back().n_rows < max_rows_) record(max_rows_);
  if (!tokens_.is_multilingual) return;
  DispatchTable table;
  emit_logits(table, 1, logit_index_);
  RangeProbabilitiesParams range{};
  range.n_rows = 1;
  range.row_stride = n_vocab_;
  range.softmax_first = range.out_first = static_cast<uint32_t>(tokens_.first_language);
  range.softmax_count = range.out_count = tokens_.n_languages;
  emit::range_probabilities(table, "language_probabilities", range, languages_, logits_);
  language_choice_ = device_.record(table);
}

const WhisperDecoder::StepRecordings& WhisperDecoder::recordings_of(const StepKind& kind) {
  const auto [place, is_new] = steps_.try_emplace(kind);
  if (!is_new) return place->second;
  const uint32_t n = kind.n_sequences();
  DispatchTable first;
  emit_logits(first, n + kind.n_tasks, logit_index_);
  RangeProbabilitiesParams range{};
  range.n_rows = kind.n_tasks;
  range.row_stride = n_vocab_;
  range.softmax_count = n_vocab_;
  range.out_first = static_cast<uint32_t>(tokens_.nospeech);
  range.out_count = 1;
  emit::range_probabilities(first, "no_speech_probability", range, no_speech_,
                            logits_.from(n * dtype_bytes(DType::kF32, n_vocab_)));
  // What is drawn starts from a copy of the prompt's last page; beams copy when they part.
  if (kind.n_candidates > 1 && !kind.has_beams) emit_copy_pages(first, n);
  emit_choice(first, kind);
  DispatchTable step;
  emit_rows(step, n, step_rows_);
  emit_logits(step, n, {});
  emit_choice(step, kind);
  place->second = {device_.record(first), device_.record(step)};
  return place->second;
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

void WhisperDecoder::check(std::span<const DecodeTask> tasks, const Search& search) const {
  if (tasks.size() > n_windows_ || search.n_candidates == 0 ||
      search.n_candidates > n_sequences_ / std::max<size_t>(1, tasks.size())) {
    throw Error(ErrorKind::kInternal, "decoder: " + std::to_string(tasks.size()) + " tasks of " +
                                          std::to_string(search.n_candidates) +
                                          " sequences each, but it has room for " +
                                          std::to_string(n_windows_) + " and " +
                                          std::to_string(n_sequences_) + " in all");
  }
  if (search.max_finished > search.n_candidates * kMostPatience ||
      (search.max_finished > 0 && (search.n_candidates > kMostBeams || search.temperature > 0))) {
    throw Error(ErrorKind::kInternal,
                "decoder: expected beam search at temperature 0 with up to " +
                    std::to_string(kMostBeams) + " beams and " + std::to_string(kMostPatience) +
                    " texts for each, found temperature " + std::to_string(search.temperature) +
                    ", " + std::to_string(search.n_candidates) + " and " +
                    std::to_string(search.max_finished) + " in all");
  }
  const auto in_vocabulary = [&](int32_t id) {
    return id >= 0 && static_cast<uint32_t>(id) < n_vocab_;
  };
  for (const DecodeTask& task : tasks) {
    if (!task.prompt.empty() && task.start_of_transcript < task.prompt.size() &&
        task.n_given < task.prompt.size() - task.start_of_transcript &&
        task.max_tokens > task.n_given &&
        task.prompt.size() - task.n_given + task.max_tokens - 1 <= n_text_ctx_ &&
        task.window < n_windows_ &&
        std::all_of(task.prompt.begin(), task.prompt.end(), in_vocabulary)) {
      continue;
    }
    throw Error(ErrorKind::kInternal,
                "decoder: a prompt of " + std::to_string(task.prompt.size()) + " tokens and " +
                    std::to_string(task.max_tokens) + " more for window " +
                    std::to_string(task.window) + " do not fit a context of " +
                    std::to_string(n_text_ctx_) + ", a vocabulary of " + std::to_string(n_vocab_) +
                    " and " + std::to_string(n_windows_) + " windows");
  }
}

void WhisperDecoder::write_sequences(std::span<const DecodeTask> tasks, const Search& search) {
  const uint32_t n_pages = self_.pages_per_sequence(), page_rows = self_.shape().page_rows;
  const auto own_page = [&](uint32_t sequence, uint32_t page) {
    return static_cast<int32_t>(sequence * n_pages + page);
  };
  uint32_t s = 0;
  for (const DecodeTask& task : tasks) {
    const uint32_t first = s, n_prompt = static_cast<uint32_t>(task.prompt.size());
    for (uint32_t i = 0; i < search.n_candidates; ++i, ++s) {
      SequenceState& state = host_states_[s] = SequenceState{};
      state.max_sampled = task.max_tokens;
      state.timestamps = task.timestamps;
      state.max_initial_timestamp =
          static_cast<uint32_t>(tokens_.timestamp_begin) + task.max_initial_timestamp;
      state.position = static_cast<int32_t>(n_prompt);
      state.temperature = static_cast<float>(search.temperature);
      state.seed = mix_bits(task.seed + i * kDrawStride);
      state.repetition_penalty = static_cast<float>(search.repetition_penalty);
      state.no_repeat_ngram_size = search.no_repeat_ngram_size;
      for (uint32_t given = 0; given < task.n_given; ++given) {
        const int32_t token = task.prompt[n_prompt - task.n_given + given];
        host_chosen_[s * n_text_ctx_ + given] = token;
        const bool is_timestamp = token >= tokens_.timestamp_begin;
        state.penultimate_was_timestamp = given == 0 || state.last_was_timestamp;
        state.last_was_timestamp = is_timestamp;
        if (is_timestamp) state.last_timestamp = static_cast<uint32_t>(token);
      }
      state.n_sampled = task.n_given;
      // The prompt's full pages are the first sequence's; of its last each has a copy.
      const uint32_t n_full = n_prompt / page_rows;
      for (uint32_t page = 0; page < n_pages; ++page) {
        host_pages_[s * n_pages + page] = own_page(page < n_full ? first : s, page);
      }
      if (search.max_finished > 0) {
        state.is_beam = 1;
        state.spare_page = static_cast<int32_t>(n_sequences_ * n_pages + s);
        state.max_finished = search.max_finished;
        // The others come from the first.
        state.finished = i > 0;
        if (i > 0) state.sum_logprob = -INFINITY;
      } else if (i > 0 && n_full < n_pages) {
        state.copy_from = own_page(first, n_full);
        state.copy_to = own_page(s, n_full);
        state.copy_rows = n_prompt % page_rows;
      }
      host_cross_pages_[s] = static_cast<int32_t>(task.window);
    }
  }
  device_.write(states_.part(0, s * sizeof(SequenceState)), host_states_.data());
  device_.write(self_.page_table().part(0, uint64_t{s} * n_pages * sizeof(int32_t)),
                host_pages_.data());
  device_.write(chosen_.part(0, uint64_t{s} * n_text_ctx_ * sizeof(int32_t)), host_chosen_.data());
  device_.write(cross_pages_.part(0, s * sizeof(int32_t)), host_cross_pages_.data());
  const uint32_t go = 0;
  device_.write(stop_, &go);
}

void WhisperDecoder::run_prompts(std::span<const DecodeTask> tasks, uint32_t n_candidates) {
  const uint32_t n_tasks = static_cast<uint32_t>(tasks.size());
  uint32_t n_rows = 0;
  for (uint32_t t = 0; t < n_tasks; ++t) {
    const DecodeTask& task = tasks[t];
    host_index_[n_tasks * n_candidates + t] = n_rows + task.start_of_transcript;
    int32_t position = 0;
    for (int32_t token : task.prompt) {
      host_rows_[n_rows++] = {token, static_cast<int32_t>(t * n_candidates), position++, 0};
    }
    std::fill_n(host_index_.begin() + t * n_candidates, n_candidates, n_rows - 1);
  }
  device_.write(logit_index_.part(0, n_tasks * (n_candidates + 1) * sizeof(uint32_t)),
                host_index_.data());
  const auto prompt =
      std::find_if(prompts_.begin(), prompts_.end(),
                   [&](const PromptRecording& recording) { return recording.n_rows >= n_rows; });
  std::fill(host_rows_.begin() + n_rows, host_rows_.begin() + prompt->n_rows, Row{0, -1, 0, 0});
  device_.write(prompt_rows_.part(0, prompt->n_rows * sizeof(Row)), host_rows_.data());
  device_.run(prompt->recording);
}

std::vector<DecodeResult> WhisperDecoder::decode(std::span<const DecodeTask> tasks,
                                                 const Search& search) {
  if (tasks.empty()) return {};
  check(tasks, search);
  const StepKind kind{static_cast<uint32_t>(tasks.size()), search.n_candidates,
                      search.max_finished > 0,
                      search.repetition_penalty != 1 || search.no_repeat_ngram_size > 0};
  const StepRecordings& recordings = recordings_of(kind);
  write_sequences(tasks, search);
  run_prompts(tasks, search.n_candidates);
  device_.run(recordings.first_choice);
  uint32_t stopped = 0;
  device_.read(stop_, &stopped);
  while (!stopped) {
    device_.run(recordings.step, kChainSteps, stop_);
    device_.read(stop_, &stopped);
  }
  return read_results(kind, search);
}

std::vector<DecodeResult> WhisperDecoder::read_results(const StepKind& kind, const Search& search) {
  device_.read(no_speech_, host_no_speech_.data());
  device_.read(states_, host_states_.data());
  device_.read(chosen_, host_chosen_.data());
  if (kind.has_beams) {
    device_.read(finished_, host_finished_.data());
    device_.read(finished_tokens_, host_finished_tokens_.data());
  }
  std::vector<DecodeResult> results(kind.n_tasks);
  for (uint32_t t = 0; t < kind.n_tasks; ++t) {
    std::vector<DecodeResult> found;
    if (kind.has_beams) {
      found = finished_texts(t, kind.n_candidates);
    } else {
      for (uint32_t i = 0; i < kind.n_candidates; ++i) {
        found.push_back(text_of(t * kind.n_candidates + i));
      }
    }
    const auto is_worse = [&](const DecodeResult& a, const DecodeResult& b) {
      return rank(a, search) < rank(b, search);
    };
    // The first of equals.
    results[t] = std::move(*std::max_element(found.begin(), found.end(), is_worse));
    results[t].no_speech_prob = host_no_speech_[t];
  }
  return results;
}

DecodeResult WhisperDecoder::text_of(uint32_t s) const {
  const SequenceState& state = host_states_[s];
  const int32_t* chosen = host_chosen_.data() + size_t{s} * n_text_ctx_;
  return {{chosen, std::find(chosen, chosen + state.n_sampled, tokens_.eot)}, state.sum_logprob, 0};
}

// openai-whisper, decoding.py: BeamSearchDecoder.finalize. Where too few texts have ended, the best
// of those under way count as well.
std::vector<DecodeResult> WhisperDecoder::finished_texts(uint32_t g, uint32_t n_beams) const {
  std::vector<DecodeResult> found;
  const size_t first_finished = size_t{g} * n_beams * kMostPatience;
  for (size_t f = first_finished; f < first_finished + host_states_[g * n_beams].n_finished; ++f) {
    const int32_t* tokens = host_finished_tokens_.data() + f * n_text_ctx_;
    found.push_back(
        {{tokens, tokens + host_finished_[f].n_tokens}, host_finished_[f].sum_logprob, 0});
  }
  // Beams are in falling order.
  for (uint32_t s = g * n_beams; s < (g + 1) * n_beams && found.size() < n_beams; ++s) {
    if (host_states_[s].sum_logprob > -INFINITY) found.push_back(text_of(s));
  }
  // Not even one token could be chosen.
  if (found.empty()) found.emplace_back();
  return found;
}

std::vector<float> WhisperDecoder::language_probabilities() {
  if (!tokens_.is_multilingual) return {};
  const DecodeTask task{.prompt = {tokens_.sot}, .max_tokens = 1};
  write_sequences({&task, 1}, {});
  run_prompts({&task, 1}, 1);
  device_.run(language_choice_);
  std::vector<float> probabilities(tokens_.n_languages);
  device_.read(languages_, probabilities.data());
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
