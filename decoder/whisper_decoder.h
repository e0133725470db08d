// Whisper's text decoder: encoded windows and prompts in, chosen tokens out.
//
// Each slot of a decoding loop decodes one task at a time: a prompt, searched with one sequence,
// with several samples or with beams, by Whisper's rules for tokens. Used by decoder/whisper_model.
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

// What one sequence starts from.
struct DecodeTask {
  // Previous text if any, the start sequence, and what the answer has to begin with, if anything.
  std::vector<int32_t> prompt;
  uint32_t n_given = 0;              // tokens at the prompt's end that are part of the answer
  uint32_t start_of_transcript = 0;  // where in `prompt` that token is
  uint32_t max_tokens = 0;           // of the answer, end of text included
  bool timestamps = true;            // apply the timestamp rules; without, no timestamp is chosen
  // The latest first timestamp, in steps of 20 ms from the window's start.
  uint32_t max_initial_timestamp = 0;
  // Likewise: no end of text after an earlier timestamp, for speech goes on till then; 0: no rule.
  uint32_t speech_end = 0;
  uint32_t window = 0;  // the slot that the window was encoded to
  uint32_t seed = 0;    // of the sampling noise
};

// How the tokens of a task are found.
struct Search {
  Sampling sampling = {};     // its seed is the task's
  uint32_t n_candidates = 1;  // sequences of a task: samples, of which the best is kept, or beams
  // Above 0: beam search, at temperature 0, that ends when so many texts have ended (select_beams
  // in shaders/kernel_params.h). At most kMostPatience for each beam.
  uint32_t max_finished = 0;
  // The best has the greatest sum of log-probabilities over this power of (5 + length) / 6 (Wu et
  // al. 2016), or over its length if absent.
  std::optional<double> length_penalty = std::nullopt;

  // The step of batches of such searches.
  StepShape shape(uint32_t n_slots) const;
};

struct DecodeResult {
  std::vector<int32_t> tokens;  // without end of text
  double sum_logprob = 0;       // natural logarithm, end of text included if it was chosen
  double no_speech_prob = 0;
  // As the reference has it: over the tokens and end of text, whether it was reached or not.
  double avg_logprob() const { return sum_logprob / static_cast<double>(tokens.size() + 1); }
};

class WhisperDecoder {
 public:
  // Uploads the decoder's weights for `n_windows` windows, of which up to `n_encoded` are encoded
  // at once, and `n_sequences` sequences, and records what every search needs. `blank` is the token
  // of a lone space. Throws Error(kModel, kDevice).
  WhisperDecoder(Device& device, const WeightProvider& provider, Compute compute,
                 const WhisperTokens& tokens, int32_t blank, uint32_t n_windows, uint32_t n_encoded,
                 uint32_t n_sequences);

  // The ids that are never chosen. Throws Error(kUsage) for an id beyond the vocabulary.
  void set_suppressed(std::span<const int32_t> ids) { loop_.set_suppressed(ids); }

  // The best sequence that the search finds for each task. The first search of its kind and size
  // records its tables. Throws Error(kInternal) if a task is empty, too long for the context or has
  // an id beyond the vocabulary, or if there are more tasks or sequences than there is room for.
  std::vector<DecodeResult> decode(std::span<const DecodeTask> tasks, const Search& search = {});

  // The same for tasks that come and go. Begins a batch without tasks; the first of its shape
  // records its tables. Throws Error(kInternal) if there is no room for it.
  void begin(const StepShape& shape);
  // Starts a task in a slot whose task, if any, has ended. Throws as decode() does, and if the
  // batch's shape does not allow for the search.
  void start(uint32_t slot, const DecodeTask& task, const Search& search);
  // Takes up to n_steps steps of all tasks; the slots whose tasks have ended in them, in order.
  std::span<const uint32_t> advance(uint32_t n_steps) { return loop_.advance(n_steps); }
  // What the task that has ended in that slot found.
  DecodeResult result(uint32_t slot);

  // The probability of each language that the model knows, by index, for the window in a free slot
  // of the batch. Throws Error(kInternal) if it is not free.
  std::vector<float> language_probabilities(uint32_t slot);
  // The same for slot 0; ends the batch.
  std::vector<float> language_probabilities();

  const DecoderModel& model() const { return model_; }
  DecoderModel& model() { return model_; }
  uint32_t n_vocab() const { return model_.n_vocab(); }
  uint32_t n_text_ctx() const { return model_.n_ctx(); }
  uint32_t n_windows() const { return model_.options().n_sources; }

  // The most pages of keys and values that a task of several had, each of kv_page_rows() positions,
  // since the batch began.
  uint32_t most_pages() const { return loop_.most_pages(); }
  uint32_t kv_page_rows() const { return model_.cache().shape().page_rows; }

  // For tests: the logits after each token of `prompt`, [prompt.size(), n_vocab].
  std::vector<float> prompt_logits(std::span<const int32_t> prompt);

 private:
  void check(const DecodeTask& task, const Search& search) const;
  void require_free(uint32_t slot) const;
  // The first states of a task's sequences; beams come from the first.
  std::vector<SequenceState> first_states(const DecodeTask& task, const Search& search) const;
  // Makes the sequences of a slot attend to a window.
  void set_window(uint32_t slot, uint32_t window);
  // Computes keys and values of the task's prompt, all but the last token, which the first step
  // takes, unless its own logits are wanted.
  void run_prompt(uint32_t slot, const DecodeTask& task);

  Device& device_;
  WhisperTokens tokens_;
  DecoderModel model_;
  DecodingLoop loop_;
  Operand logit_index_;  // u32: the row of a task's start of transcript
  Operand no_speech_;    // f32 [n_windows]
  Operand languages_;    // f32 [n_languages]
  ProgramId language_choice_ = 0;
  std::vector<ProgramId> no_speech_choices_;  // [n_windows], after a prompt
  std::vector<Search> searches_;              // [n_windows], of the tasks in the slots
  std::vector<int32_t> host_sources_;         // [n_sequences]
};

}  // namespace vesper
