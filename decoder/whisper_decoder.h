// Whisper's text decoder. In: encoded windows and prompts. Out: sampled tokens.
//
// Each slot of a decoding loop decodes one task at a time: a prompt, searched with one sequence,
// several samples or beams, by Whisper's token rules. Used by decoder/whisper_model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decoder/decoding_settings.h"
#include "llm/generation/decoding_loop.h"
#include "llm/models/decoder_model.h"
#include "llm/table/device.h"
#include "llm/tokenizer/whisper_tokens.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// The start of a sequence.
struct DecodeTask {
  // Previous text, the start sequence, and the forced beginning of the answer, each optional.
  std::vector<int32_t> prompt;
  uint32_t n_given = 0;              // forced tokens of the answer at the end of the prompt
  uint32_t start_of_transcript = 0;  // its index in `prompt`
  uint32_t max_tokens = 0;           // of the answer, including end of text
  bool timestamps = true;            // apply the timestamp rules; otherwise no timestamps
  // Limit of the first timestamp, in steps of 20 ms from the start of the window.
  uint32_t max_initial_timestamp = 0;
  // In the same unit: no end of text after an earlier timestamp; 0: off.
  uint32_t speech_end = 0;
  uint32_t window = 0;  // index of the encoded window
  uint32_t seed = 0;    // of the sampling noise
  // The answer is a text of it, the forced tokens included; null: none. Not with beams. Excludes
  // speech_end.
  const GrammarConstraint* grammar = nullptr;
};

// The search for the tokens of a task.
struct Search {
  Sampling sampling = {};     // its seed is ignored; the task has one
  uint32_t n_candidates = 1;  // sequences per task: samples or beams
  // Above 0: beam search at temperature 0 that ends with this many finished hypotheses
  // (select_beams in shaders/kernel_params.h). At most kMostPatience per beam.
  uint32_t max_finished = 0;
  // The best sequence has the greatest sum of log-probabilities / ((5 + length) / 6)^length_penalty
  // (Wu et al. 2016), or / length if absent.
  std::optional<double> length_penalty = std::nullopt;

  // The step of batches of such searches.
  StepShape shape(uint32_t n_slots) const;
};

struct DecodeResult {
  std::vector<int32_t> tokens;  // without end of text
  double sum_logprob = 0;       // natural logarithm, including a sampled end of text
  double no_speech_prob = 0;
  // As in the reference: over the tokens and end of text, even if that was not reached.
  double avg_logprob() const { return sum_logprob / static_cast<double>(tokens.size() + 1); }
};

class WhisperDecoder {
 public:
  // Uploads the decoder's weights for `n_slots` tasks with `n_sequences` sequences in all, and for
  // n_windows() windows, of which up to `n_encoded` are encoded at once. Keys and values of text
  // and windows are stored as `kv_types`. Records the programs of all searches. `blank` is the
  // token of a single space. Throws Error(kModel, kDevice).
  WhisperDecoder(Device& device, const WeightProvider& provider, Compute compute,
                 const WhisperTokens& tokens, int32_t blank, uint32_t n_slots, uint32_t n_encoded,
                 uint32_t n_sequences, const KvTypes& kv_types);

  // The ids that are never sampled. Throws Error(kUsage) for an id beyond the vocabulary.
  void set_suppressed(std::span<const int32_t> ids) { loop_.set_suppressed(ids); }

  // The best sequence for each task. The first search of a kind and size records its programs.
  // Throws Error(kInternal) if a task is empty, too long for the context or has an id beyond the
  // vocabulary, or there are too many tasks or sequences.
  std::vector<DecodeResult> decode(std::span<const DecodeTask> tasks, const Search& search = {});

  // The same for tasks that start and end independently. Begins a batch without tasks as
  // DecodingLoop::begin(). Throws Error(kInternal) if it is too large.
  void begin(const StepShape& shape, bool keeps_bits = true);
  // For up to n_slots() tasks of searches that have the shape of this one. Few sizes are used,
  // because each shape records its programs.
  void begin(size_t n_tasks, const Search& search);
  // Starts a task in a free slot. Throws like decode(), and if the batch's shape does not allow the
  // search; Error(kUsage) if the forced tokens do not begin a text of the grammar.
  void start(uint32_t slot, const DecodeTask& task, const Search& search);
  // Runs up to n_steps steps of all tasks; returns the slots whose tasks ended, in order.
  std::span<const uint32_t> advance(uint32_t n_steps) { return loop_.advance(n_steps); }
  // The result of the task that ended in the slot.
  DecodeResult result(uint32_t slot);

  // The probability of each language by index in a window, computed in a free slot of the batch.
  // Throws Error(kInternal) if the slot is not free.
  std::vector<float> language_probabilities(uint32_t slot, uint32_t window);
  // The same for window 0 in slot 0; ends the batch.
  std::vector<float> language_probabilities();

  const DecoderModel& model() const { return model_; }
  DecoderModel& model() { return model_; }
  uint32_t n_vocab() const { return model_.n_vocab(); }
  uint32_t n_text_ctx() const { return model_.n_ctx(); }
  // Tasks at once.
  uint32_t n_slots() const { return static_cast<uint32_t>(searches_.size()); }
  // Windows that stay encoded: one per slot and, if several are encoded at once, that many more,
  // which wait for a slot.
  uint32_t n_windows() const { return model_.options().n_sources; }

  // The largest number of KV pages of a task with several sequences since the batch began, each of
  // kv_page_rows() positions.
  uint32_t most_pages() const { return loop_.most_pages(); }
  uint32_t kv_page_rows() const { return model_.cache().shape().page_rows; }

  // For tests: the logits after each token of `prompt`, [prompt.size(), n_vocab].
  std::vector<float> prompt_logits(std::span<const int32_t> prompt);

 private:
  void check(const DecodeTask& task, const Search& search) const;
  void require_free(uint32_t slot) const;
  // The initial states of a task's sequences; a beam search starts from the first.
  std::vector<SequenceState> first_states(const DecodeTask& task, const Search& search) const;
  // Makes the sequences of a slot attend to a window.
  void set_window(uint32_t slot, uint32_t window);
  // Computes keys and values of the task's prompt except the last token, which the first step runs,
  // unless its logits are needed.
  void run_prompt(uint32_t slot, const DecodeTask& task);

  Device& device_;
  WhisperTokens tokens_;
  DecoderModel model_;
  DecodingLoop loop_;
  Operand logit_index_;  // u32: row of a task's start of transcript
  Operand no_speech_;    // f32 [n_slots]
  Operand languages_;    // f32 [n_languages]
  ProgramId language_choice_ = 0;
  std::vector<ProgramId> no_speech_choices_;  // [n_slots], run after a prompt
  std::vector<Search> searches_;              // [n_slots], of their tasks
  std::vector<int32_t> host_sources_;         // [n_sequences]
};

}  // namespace vesper
