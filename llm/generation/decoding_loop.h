// The decoding loop: the host's side of a decoder's steps, for language models and for Whisper.
//
// Sequences decode side by side in slots. A slot has a group of sequences that start from one
// prompt: one, several samples, or the beams of a search. When a slot has ended, another text may
// start there while the others go on. Passes over prompts and the step of one token a sequence are
// tables that are recorded once and replayed; kernels choose the tokens, and the host reads the
// chosen ones between chains of steps. The output of a slot is independent of the others.
//
// Used by llm/generation/generator and decoder/whisper_decoder, which say what a slot starts from,
// which rules its tokens follow and which of its texts is the best.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "llm/models/decoder_model.h"
#include "llm/table/device.h"

namespace vesper {

// How tokens are chosen; what the numbers mean stands beside SequenceState
// (shaders/kernel_params.h).
struct Sampling {
  float temperature = 0;  // 0: the likeliest token, always
  uint32_t top_k = 0;
  float typical_p = 1, top_p = 1, min_p = 0;  // of the first two 0 leaves one token
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  uint32_t penalty_window = 64;
  uint32_t no_repeat_ngram_size = 0;  // no run of this many tokens occurs twice; 0: any may
  uint32_t seed = 0;

  bool has_filters() const {
    return temperature > 0 && (top_k > 0 || typical_p < 1 || top_p < 1 || min_p > 0);
  }
  bool has_penalties() const {
    return no_repeat_ngram_size > 0 ||
           (penalty_window > 0 &&
            (repetition_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0));
  }
  // The state of a sequence that has chosen nothing yet, without its limits.
  SequenceState state() const;
};

// What every step of a batch computes, whatever runs in its slots.
struct StepShape {
  uint32_t n_slots = 1;
  uint32_t n_candidates = 1;   // sequences of a slot, side by side
  uint32_t beam_size = 0;      // of slots that are searched with beams, if any may be
  bool has_filters = false;    // top-k, typical, top-p, min-p
  bool has_penalties = false;  // and no repeated n-grams
  uint32_t n_sequences() const { return n_slots * n_candidates; }
  auto operator<=>(const StepShape&) const = default;
};

// A text that a slot's sequences have found.
struct FoundText {
  std::span<const int32_t> tokens;  // without the stop token if the text has ended in a beam search
  float sum_logprob = 0;            // natural logarithm, the stop token included
  bool has_ended = false;           // in a beam search
};

class DecodingLoop {
 public:
  struct Options {
    uint32_t most_beams = 0;         // of a slot; 0: there is no beam search
    uint32_t finished_per_beam = 1;  // texts of a search that may end, for each beam
    uint32_t n_stop_candidates = 1;  // stop tokens that may be among a beam's continuations
  };
  // Token ids of Whisper that have rules of their own (SamplingParams).
  struct TokenRules {
    uint32_t end_of_text, timestamp_begin, no_timestamps, blank;
  };

  // Rows of a pass over a prompt, at most, for contexts of that length.
  static uint32_t most_pass_rows(uint32_t n_ctx);

  // Loops over the sequences of `model`, which has room for passes of most_pass_rows(). Records the
  // passes over prompts. Throws Error(kDevice).
  DecodingLoop(Device& device, const DecoderModel& model, const Options& options,
               const std::optional<TokenRules>& rules = std::nullopt);

  // The tokens that end a text. Ids beyond the vocabulary are left out.
  void set_stop_ids(std::span<const int32_t> ids);
  // The tokens that are never chosen; with TokenRules only. Throws Error(kUsage) for an id beyond
  // the vocabulary.
  void set_suppressed(std::span<const int32_t> ids);
  // What is added to the logits, f32 [n_vocab]; before the first begin().
  void set_bias(std::span<const float> bias);

  // Begins a batch of idle slots. The first of its shape records its step. Throws Error(kInternal)
  // if the model has too few sequences.
  void begin(const StepShape& shape);

  // Gives a slot the pages for `prompt`, and computes keys and values of tokens [first, end), as
  // rows of the slot's first sequence. Those before `first` must be there. after_pass(first row, n
  // rows) is called after each pass.
  void prefill(uint32_t slot, std::span<const int32_t> prompt, uint32_t first, uint32_t end,
               const std::function<void(uint32_t, uint32_t)>& after_pass = nullptr);
  // Starts the first sequences of a slot from their states, after prefill of all but the prompt's
  // last token, which the first step takes. The others hold no text: beams come from the first. The
  // last state.first_sampled + state.n_sampled tokens of the prompt become the sequence's tokens.
  void start(uint32_t slot, std::span<const int32_t> prompt, std::span<const SequenceState> states);
  // Takes up to n_steps steps of all slots; returns the slots that have ended in them, in order.
  std::span<const uint32_t> advance(uint32_t n_steps);
  // Ends a slot before its time.
  void stop(uint32_t slot);

  // As of the last advance().
  bool is_running(uint32_t slot) const { return is_running_[slot]; }
  bool any_is_running() const;
  const SequenceState& state(uint32_t slot) const { return states_host_[first_sequence(slot)]; }
  // What the first sequence of a slot has chosen, a stop token included, and the log-probability of
  // each token. read_chosen() reads both from the device.
  void read_chosen(uint32_t slot);
  std::span<const int32_t> chosen(uint32_t slot) const;
  std::span<const float> logprobs(uint32_t slot) const;
  // The first sequence's tokens from position 0 on: those of start(), then the chosen ones.
  std::span<const int32_t> tokens(uint32_t slot) const;
  // Reads what a slot has found: the texts of its sequences; in a beam search those that have
  // ended, then those of beams, up to beam_size in all. Valid until the next read.
  std::vector<FoundText> read_texts(uint32_t slot);

  // Runs all of `tokens` from position 0 on in a slot, and hands over the logits after each token,
  // a few rows at a time: (first row, n rows, f32 [n, n_vocab]). The first call records what it
  // needs.
  void evaluate(uint32_t slot, std::span<const int32_t> tokens,
                const std::function<void(uint32_t, uint32_t, const float*)>& take_rows);

  const StepShape& shape() const { return shape_; }
  uint32_t first_sequence(uint32_t slot) const { return slot * shape_.n_candidates; }
  // f32 [n_sequences, n_vocab]: of the latest step, bias and penalties applied.
  const Operand& logits() const { return logits_; }
  // The most pages of keys and values that the beams of a slot had since the batch began, where
  // there are several slots.
  uint32_t most_pages() const { return most_pages_; }

 private:
  struct StepPrograms {
    ProgramId step, copies;  // copies: of the prompt's last page, for sequences beyond the first
  };
  struct PassProgram {
    uint32_t n_rows;
    ProgramId program;
  };

  void record_passes();
  const StepPrograms& programs_of(const StepShape& shape);
  void emit_choice(DispatchTable& table, const StepShape& shape) const;
  void emit_copy_pages(DispatchTable& table, uint32_t n_sequences) const;
  void give_pages(uint32_t slot, uint32_t n_prompt);
  // Before steps in which a slot's beams come to a new page: gives them pages that they have all
  // left behind, as far as there are such.
  void reuse_pages(uint32_t slot, uint32_t n_steps);
  void write_mask(const Operand& mask, std::span<const int32_t> ids);
  // Writes the slot's part of a buffer with `n` elements a sequence.
  template <class T>
  void write_slot(const Operand& to, const std::vector<T>& from, uint32_t slot, uint64_t n = 1);
  template <class T>
  void read_part(const Operand& from, std::vector<T>& to, uint64_t first, uint64_t n);

  Device& device_;
  const DecoderModel& model_;
  Options options_;
  SamplingParams params_{};  // but for what the shape of a step says
  uint32_t n_ctx_, n_vocab_;
  bool has_bias_ = false;

  std::vector<PassProgram> passes_;  // by rising n_rows
  std::map<StepShape, StepPrograms> steps_;
  std::optional<ProgramId> logits_program_;  // of evaluate(), for max_logit_rows rows

  StepShape shape_;
  const StepPrograms* programs_ = nullptr;
  uint32_t most_pages_ = 0;

  Operand pass_rows_;    // struct Row [most_pass_rows]
  Operand step_rows_;    // struct Row [n_sequences]
  Operand logits_;       // f32 [n_sequences, n_vocab]
  Operand states_;       // struct SequenceState [n_sequences]
  Operand tokens_;       // i32 [n_sequences, n_ctx]
  Operand logprobs_;     // f32 [n_sequences, n_ctx]
  Operand partials_;     // struct TokenPartial [n_sequences, n_chunks]
  Operand candidates_;   // struct TokenCandidate [n_sequences, n_chunks, n_candidates], of beams
  Operand finished_;     // i32 [n_sequences * finished_per_beam, kFinishedHeader + n_ctx], of beams
  Operand stop_;         // u32
  Operand stop_ids_;     // u32 bit mask [(n_vocab + 31) / 32]
  Operand suppressed_;   // likewise, with TokenRules
  Operand bias_;         // f32 [n_vocab], if there is one
  Operand logit_index_;  // u32 [max_logit_rows], of evaluate()
  Operand pass_logits_;  // f32 [max_logit_rows, n_vocab], of evaluate()

  // Reused on the host from call to call.
  std::vector<Row> rows_host_;
  std::vector<SequenceState> states_host_;
  std::vector<int32_t> tokens_host_, finished_host_, pages_host_;
  std::vector<float> logprobs_host_, pass_logits_host_;
  std::vector<uint8_t> is_running_;  // [n_slots]
  std::vector<uint32_t> ended_;
};

}  // namespace vesper
