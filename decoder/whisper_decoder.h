// Whisper's text decoder: encoded windows and prompts in, chosen tokens out.
//
// A pass over prompts and a step of one token a sequence are tables of commands, recorded once; the
// choice of tokens is kernels over device memory, and the host reads nothing but what was chosen.
// Several sequences decode side by side: a task has a group of them that start from one prompt,
// whose keys and values they share, and there is a place for each of several tasks. When a task has
// ended, another may start in its place while the others go on. Used by decoder/whisper_model.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "decoder/decoding_settings.h"
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
  uint32_t window = 0;  // whose place the sequence attends to
  uint32_t seed = 0;    // of the draws
};

// How the tokens are looked for.
struct Search {
  double temperature = 0;     // 0: the likeliest; above: drawn from softmax(logits / temperature)
  uint32_t n_candidates = 1;  // sequences for each task: drawn, of which the best is kept, or beams
  // Above 0: beam search, at temperature 0, that ends when so many texts have ended (select_beams
  // in shaders/kernel_params.h). At most kMostPatience for each beam.
  uint32_t max_finished = 0;
  // The best has the greatest sum of log-probabilities over this power of (5 + length) / 6 (Wu et
  // al. 2016), or over its length if absent.
  std::optional<double> length_penalty = std::nullopt;
  // Against repetition, as CTranslate2 has them (adjust_logits in shaders/kernel_params.h).
  double repetition_penalty = 1;
  uint32_t no_repeat_ngram_size = 0;
};

struct DecodeResult {
  std::vector<int32_t> tokens;  // without end of text
  double sum_logprob = 0;       // natural logarithm, end of text included if it was chosen
  double no_speech_prob = 0;
  // As the reference has it: over the tokens and end of text, whether it was reached or not.
  double avg_logprob() const { return sum_logprob / static_cast<double>(tokens.size() + 1); }
};

// What is computed in each step of a batch, whatever tasks there are: so the result of one does not
// depend on the others.
struct BatchShape {
  uint32_t n_places = 1;      // for a task each
  uint32_t n_candidates = 1;  // sequences of each place, side by side
  uint32_t beam_size = 0;     // of tasks that are searched with beams, if there may be any
  bool has_penalties = false;
  uint32_t n_sequences() const { return n_places * n_candidates; }
  auto operator<=>(const BatchShape&) const = default;
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
  void set_suppressed(std::span<const int32_t> ids);

  // The best sequence that the search finds for each task. The first search of its kind and size
  // records its tables. Throws Error(kInternal) if a task is empty, too long for the context or has
  // an id beyond the vocabulary, or if there are more tasks or sequences than there is room for.
  std::vector<DecodeResult> decode(std::span<const DecodeTask> tasks, const Search& search = {});

  // The same for tasks that come and go. Begins a batch without tasks; the first of its shape
  // records its tables. Throws Error(kInternal) if there is no room for it.
  void begin(const BatchShape& shape);
  // Starts a task in a place whose task, if any, has ended. Throws as decode() does, and if the
  // batch's shape does not allow for the search.
  void start(uint32_t place, const DecodeTask& task, const Search& search);
  // Takes up to n_steps steps of all tasks; the places whose tasks have ended in them, in order.
  std::vector<uint32_t> advance(uint32_t n_steps);
  // What the task that has ended in that place found.
  DecodeResult result(uint32_t place);

  // The probability of each language that the model knows, by index, for the window in a free place
  // of the batch. Throws Error(kInternal) if it is not free.
  std::vector<float> language_probabilities(uint32_t place);
  // The same for place 0; ends the batch.
  std::vector<float> language_probabilities();

  const DecoderModel& model() const { return model_; }
  DecoderModel& model() { return model_; }
  uint32_t n_vocab() const { return model_.n_vocab(); }
  uint32_t n_text_ctx() const { return model_.n_ctx(); }
  uint32_t n_windows() const { return n_windows_; }
  uint32_t n_sequences() const { return n_sequences_; }

  // The most pages of keys and values that a task of several had, each of kv_page_rows() positions,
  // since the batch began.
  uint32_t most_pages() const { return most_pages_; }
  uint32_t kv_page_rows() const { return model_.cache().shape().page_rows; }

  // For tests: the logits after each token of `prompt`, [prompt.size(), n_vocab].
  std::vector<float> prompt_logits(std::span<const int32_t> prompt);

 private:
  struct StepPrograms {
    ProgramId step;
    ProgramId copies;  // of pages of the prompt
  };
  struct PromptProgram {
    uint32_t n_rows;
    ProgramId program;
  };
  struct Place {
    bool is_running = false;
    Search search;
  };

  void record_prompts();
  const StepPrograms& programs_of(const BatchShape& shape);
  void emit_choice(DispatchTable& table, const BatchShape& shape) const;
  void emit_copy_pages(DispatchTable& table, uint32_t n_sequences) const;
  uint32_t max_rows() const { return model_.options().max_rows; }
  // Sequences that a task may be searched with as beams.
  uint32_t most_beams() const;

  void check(const DecodeTask& task, const Search& search) const;
  SequenceState first_state(const DecodeTask& task, const Search& search, uint32_t i) const;
  // Before steps in which a place's beams come to a new page: gives them those that they have all
  // left behind, as far as there are such.
  void reuse_pages(uint32_t place, uint32_t n_steps);
  // Writes the first states of a place's sequences, their pages and rows.
  void write_sequences(uint32_t place, const DecodeTask& task, const Search& search);
  void require_free(uint32_t place) const;
  // Runs the task's prompt, as the first sequence of its place, up to the last layer.
  void run_prompt(uint32_t place, const DecodeTask& task);
  // What sequence s holds, and the texts that ended in a place's beams.
  DecodeResult text_of(uint32_t s) const;
  std::vector<DecodeResult> finished_texts(uint32_t place, uint32_t n_beams) const;

  Device& device_;
  WhisperTokens tokens_;
  int32_t blank_;
  uint32_t n_windows_, n_sequences_;
  DecoderModel model_;
  Operand prompt_rows_;  // struct Row [max_rows]
  Operand step_rows_;    // struct Row [n_sequences]
  Operand logit_index_;  // u32 [n_sequences + n_windows]: the row of each sequence's last token,
                         // then of each task's start of transcript
  Operand logits_;       // f32 [n_sequences + n_windows, n_vocab]
  Operand no_speech_;    // f32 [n_windows]
  Operand languages_;    // f32 [n_languages]
  Operand partials_;     // struct TokenPartial [n_sequences, n_chunks]
  Operand states_;       // struct SequenceState [n_sequences]
  Operand chosen_;       // i32 [n_sequences, n_text_ctx]
  Operand candidates_;   // struct TokenCandidate [n_sequences, n_chunks, the most beams + 1]
  Operand finished_;     // u32 [n_sequences * kMostPatience, kFinishedHeader + n_text_ctx]
  Operand stop_;         // u32
  Operand stop_ids_;     // u32 bit mask [(n_vocab + 31) / 32]: end of text
  Operand suppressed_;   // u32 bit mask [(n_vocab + 31) / 32]
  std::vector<PromptProgram> prompts_;  // by rising n_rows
  ProgramId language_choice_ = 0;
  std::vector<ProgramId> no_speech_choices_;  // [n_windows], after a prompt
  std::map<BatchShape, StepPrograms> steps_;

  BatchShape shape_;
  const StepPrograms* programs_ = nullptr;
  std::vector<Place> places_;
  uint32_t most_pages_ = 0;

  // Reused on the host from call to call.
  std::vector<Row> host_rows_;
  std::vector<SequenceState> host_states_;
  std::vector<int32_t> host_chosen_, host_pages_, host_sources_;
  std::vector<uint32_t> host_finished_;
  std::vector<float> host_no_speech_;
};

}  // namespace vesper
