// The decoding loop: the host's side of decoder steps, for language models and Whisper.
//
// Sequences decode side by side in slots. A slot has a group of sequences with one prompt: one
// sequence, several samples, or the beams of a search. When a slot has ended, another text may
// start in it while the others continue. Passes over prompts and the step of one token per sequence
// are recorded once and replayed. Kernels sample the tokens, and the host reads them between chains
// of steps. The output of a slot is independent of the others.
//
// Used by llm/generation/generator and decoder/whisper_decoder, which set the start, the token
// rules and the best text of a slot.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "llm/generation/grammar_constraint.h"
#include "llm/models/decoder_model.h"
#include "llm/table/device.h"

namespace vesper {

// Sampling settings; SequenceState (shaders/kernel_params.h) documents the numbers.
struct Sampling {
  float temperature = 0;  // 0: greedy
  uint32_t top_k = 0;
  float typical_p = 1, top_p = 1, min_p = 0;  // 0 in the first two keeps one token
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  uint32_t penalty_window = 64;
  uint32_t no_repeat_ngram_size = 0;  // no n-gram of this size occurs twice; 0: off
  uint32_t seed = 0;

  bool has_filters() const {
    return temperature > 0 && (top_k > 0 || typical_p < 1 || top_p < 1 || min_p > 0);
  }
  bool has_penalties() const {
    return no_repeat_ngram_size > 0 ||
           (penalty_window > 0 &&
            (repetition_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0));
  }
  // The initial state of a sequence, without its limits.
  SequenceState state() const;
};

// What a text may consist of. Both apply to every sequence of a slot.
struct TextConstraints {
  // Added to logits: different tokens of the vocabulary, at most kMostBias.
  std::span<const TokenBias> bias = {};
  const GrammarConstraint* grammar = nullptr;  // null: none. Each sequence gets a copy
};

// The work of the steps of a batch, whatever its slots contain.
struct StepShape {
  uint32_t n_slots = 1;
  uint32_t n_candidates = 1;   // consecutive sequences per slot
  uint32_t beam_size = 0;      // of slots with beam search; 0: none
  bool has_filters = false;    // top-k, typical, top-p, min-p
  bool has_penalties = false;  // including no repeated n-grams
  // Of the texts that are running; set by the loop.
  bool has_bias = false, has_masks = false;
  uint32_t n_sequences() const { return n_slots * n_candidates; }
  auto operator<=>(const StepShape&) const = default;
};

// Drafted tokens of a slot: a guess of the ones that follow its text.
struct Draft {
  uint32_t slot = 0;
  // The last 1 + n_given tokens of the text, then the drafted ones.
  std::span<const int32_t> tokens = {};
  // Tokens before the last one that have no keys and values yet: start() came after a prefill()
  // that ended before them.
  uint32_t n_given = 0;
};

// A text found by a slot's sequences.
struct FoundText {
  std::span<const int32_t> tokens;   // without the stop token if it ended in a beam search
  float sum_logprob = 0;             // natural logarithm, including the stop token
  bool has_ended = false;            // in a beam search
  std::vector<float> logprobs = {};  // of the tokens in a beam search, with keeps_beam_logprobs
};

class DecodingLoop {
 public:
  struct Options {
    uint32_t most_beams = 0;           // per slot; 0: no beam search
    uint32_t finished_per_beam = 1;    // finished hypotheses per beam
    uint32_t n_stop_candidates = 1;    // stop tokens among a beam's continuations
    bool keeps_beam_logprobs = false;  // FoundText::logprobs of beam searches
    // Rows of a pass over drafted tokens: one per running slot, and one per drafted or given token.
    // 0: no drafts. The model has room for this many logits.
    uint32_t most_drafted_rows = 0;
  };
  // Whisper's token ids with special rules (SamplingParams).
  struct TokenRules {
    uint32_t end_of_text, timestamp_begin, no_timestamps, blank;
  };

  // The most rows of a prompt pass on a device for a context of this length.
  static uint32_t most_pass_rows(const Device& device, uint32_t n_ctx);

  // Loops over the sequences of `model`, which has room for passes of most_pass_rows(). Records the
  // passes over prompts. Throws Error(kDevice).
  DecodingLoop(Device& device, const DecoderModel& model, const Options& options,
               const std::optional<TokenRules>& rules = std::nullopt);

  // The tokens that end a text. Ids beyond the vocabulary are ignored.
  void set_stop_ids(std::span<const int32_t> ids);
  // The tokens that are never sampled; with TokenRules only. Throws Error(kUsage) for an id beyond
  // the vocabulary.
  void set_suppressed(std::span<const int32_t> ids);

  // Begins a batch of idle slots. A step computes the slots up to the last one that runs, rounded
  // up to a power of two; if `keeps_bits`, at least as many as give each text the same bits as all
  // slots (DevicePolicy::most_alike_rows). The first step of each size is recorded. Throws
  // Error(kInternal) if the model has too few sequences.
  void begin(const StepShape& shape, bool keeps_bits = true);

  // Ends the text of a slot, allocates pages for `prompt` there, and computes keys and values of
  // tokens [first, end) as rows of the slot's first sequence. Those before `first` must be present.
  // Calls after_pass(first row, n rows) after each pass, and ends early if it returns false.
  // Returns the first token that was not computed.
  uint32_t prefill(uint32_t slot, std::span<const int32_t> prompt, uint32_t first, uint32_t end,
                   const std::function<bool(uint32_t, uint32_t)>& after_pass = nullptr);
  // Starts the first sequences of a slot from their states, after prefill of the prompt without its
  // last token, which the first step runs. The others are unused: a beam search starts from the
  // first. The last state.first_sampled + state.n_sampled tokens of the prompt become the
  // sequence's tokens. The first text with a bias or a grammar records its step. A sequence with a
  // grammar ends where only its end is allowed; beams cannot have one.
  void start(uint32_t slot, std::span<const int32_t> prompt, std::span<const SequenceState> states,
             const TextConstraints& constraints = {});
  // Runs up to n_steps steps of all slots; returns the slots that ended, in order. The host sees
  // the tokens of each step while a text has a grammar. Throws Error(kUsage) if the vocabulary
  // cannot spell what a grammar demands.
  std::span<const uint32_t> advance(uint32_t n_steps);
  // The same for one pass over the drafts of all running slots, in the order of slots. Drafted
  // tokens are taken while the model samples the same ones, then the token that it samples after
  // them: at least one token per slot, the same that steps without drafts would sample. A slot has
  // one sequence and may sample as many tokens as its draft has. Throws Error(kInternal) for more
  // tokens than most_drafted_rows, or for drafts that a grammar does not allow.
  std::span<const uint32_t> advance_with_drafts(std::span<const Draft> drafts);
  // The first tokens of these that may be drafted after the slot's text: those that its grammar
  // allows, up to a place where it demands tokens, which advance() would not sample.
  size_t n_allowed_drafts(uint32_t slot, std::span<const int32_t> drafted);
  // The rows of the pass that runs this many tokens; 0: too many.
  uint32_t drafted_pass_rows(uint32_t n_tokens) const;
  // Ends a slot early.
  void stop(uint32_t slot);

  // After the last advance().
  bool is_running(uint32_t slot) const { return is_running_[slot]; }
  bool any_is_running() const;
  // Whether a running text has a grammar.
  bool any_has_grammar() const { return running_shape().has_masks; }
  const SequenceState& state(uint32_t slot) const { return states_host_[first_sequence(slot)]; }
  // The grammar of a slot's first sequence after its tokens; null: none.
  const GrammarConstraint* grammar(uint32_t slot) const;
  // The sampled tokens of a slot's first sequence, including a stop token, and the log-probability
  // of each. read_sampled() reads both from the device.
  void read_sampled(uint32_t slot);
  std::span<const int32_t> sampled(uint32_t slot) const;
  std::span<const float> logprobs(uint32_t slot) const;
  // The first sequence's tokens from position 0 on: those of start(), then the sampled ones.
  std::span<const int32_t> tokens(uint32_t slot) const;
  // Reads the texts of a slot's sequences; in a beam search the finished ones, then those of beams,
  // up to beam_size in all. Valid until the next read.
  std::vector<FoundText> read_texts(uint32_t slot);

  // Runs `tokens` from position 0 on in a slot, and passes on the logits after each token, a few
  // rows at a time: (first row, n rows, f32 [n, n_vocab]). The first call records its program,
  // and the first one of each size of pass the rest of the last layer.
  void evaluate(uint32_t slot, std::span<const int32_t> tokens,
                const std::function<void(uint32_t, uint32_t, const float*)>& take_rows);

  const StepShape& shape() const { return shape_; }
  uint32_t first_sequence(uint32_t slot) const { return slot * shape_.n_candidates; }
  // f32 [n_sequences, n_vocab] of the last step, with bias and penalties.
  const Operand& logits() const { return logits_; }
  // The largest number of KV pages of the beams of a slot since the batch began, with several
  // slots.
  uint32_t most_pages() const { return most_pages_; }

 private:
  struct PassProgram {
    uint32_t n_rows;
    ProgramId program;
    ProgramId choice = {};               // of a drafted pass with masks: of the tokens
    std::optional<ProgramId> rest = {};  // of a pass over a prompt: PassPart::kRest
  };
  struct StepPrograms {
    ProgramId step;                    // with masks without the choice of the tokens
    ProgramId choice;                  // with masks
    ProgramId copies;                  // of the prompt's last page, for sequences after the first
    std::vector<PassProgram> drafted;  // by ascending n_rows
  };

  void record_passes();
  // The smallest recorded pass over a prompt that has room for n_rows rows.
  PassProgram& pass_of(uint32_t n_rows);
  // Runs what the last pass, of n_rows rows, left out of the last layer. Its result is then in the
  // model, for emit_logits().
  void complete_pass(uint32_t n_rows);
  // Whether the passes over prompts end with the keys and values of the last layer.
  bool passes_end_early() const { return !model_.config().cross_attention; }
  TransformerStack::CausalContext pass_context() const;  // of passes over prompts
  // The number of slots that the next step computes.
  uint32_t slots_needed() const;
  // The shape, with what the running texts need.
  StepShape running_shape() const;
  const StepPrograms& programs_of(const StepShape& shape);
  BeamParams beam_params(const StepShape& shape) const;
  // The sampler chain after the logits of a step, or of `n_drafted` rows.
  void emit_choice(DispatchTable& table, const StepShape& shape, uint32_t n_drafted = 0) const;
  std::vector<PassProgram> record_drafted_passes(const StepShape& shape);
  const PassProgram* drafted_pass(uint32_t n_tokens) const;
  // Reads the states and lists the slots that have ended.
  std::span<const uint32_t> take_states();
  void emit_copy_pages(DispatchTable& table, uint32_t n_sequences) const;
  void give_pages(uint32_t slot, uint32_t n_prompt);
  // Runs `tokens` from a position of a sequence on as passes, and calls after_pass(first token, n)
  // until it returns false. Returns the position after the last pass.
  uint32_t run_passes(uint32_t sequence, std::span<const int32_t> tokens, uint32_t position,
                      const std::function<bool(uint32_t, uint32_t)>& after_pass);
  // Notes the slots whose sequences have all finished.
  void note_ended();
  // Steps of texts with grammars: masked_steps.cc.
  void constrain(uint32_t slot, const TextConstraints& constraints);
  void masked_step();
  void write_masks();
  [[noreturn]] static void throw_unspellable();
  // The masks of drafted rows, one for each token that may be sampled.
  void write_draft_masks(std::span<const Draft> drafts);
  // Moves grammars past the tokens that a pass over drafts has sampled.
  void accept_drafted(std::span<const Draft> drafts);
  // Moves the grammar of a sequence past sampled tokens, and takes what it demands after them.
  void accept_sampled(uint32_t sequence, std::span<const int32_t> tokens);
  // Ends a sequence whose text can only end, or writes the tokens that its grammar demands.
  // `pending`: the token of its next row.
  void take_forced(uint32_t sequence, int32_t pending);
  // Before steps in which a slot's beams reach a new page: gives them pages that all of them have
  // left, if there are any.
  void reuse_pages(uint32_t slot, uint32_t n_steps);
  void write_mask(const Operand& mask, std::span<const int32_t> ids);
  // Writes the slot's part of a buffer with `n` elements per sequence.
  template <class T>
  void write_slot(const Operand& to, const std::vector<T>& from, uint32_t slot, uint64_t n = 1);
  template <class T>
  void read_part(const Operand& from, std::vector<T>& to, uint64_t first, uint64_t n);

  Device& device_;
  const DecoderModel& model_;
  Options options_;
  SamplingParams params_{};  // without the values of a step's shape
  uint32_t n_ctx_, n_vocab_;

  std::vector<PassProgram> passes_;  // by ascending n_rows
  std::map<StepShape, StepPrograms> steps_;
  std::optional<ProgramId> logits_program_;  // of evaluate(), for max_logit_rows rows

  StepShape shape_;
  bool keeps_bits_ = true;
  const StepPrograms* programs_ = nullptr;
  uint32_t most_pages_ = 0;

  Operand pass_rows_;            // struct Row [most_pass_rows]
  Operand step_rows_;            // struct Row [n_sequences]
  Operand draft_rows_;           // struct Row [most_drafted_rows]
  Operand draft_logit_rows_;     // likewise, without the rows of given tokens
  Operand draft_states_;         // struct SequenceState [most_drafted_rows]
  Operand logits_;               // f32 [n_sequences or most_drafted_rows, n_vocab]
  Operand states_;               // struct SequenceState [n_sequences]
  Operand tokens_and_logprobs_;  // contains the next two
  Operand tokens_;               // i32 [n_sequences, n_ctx]
  Operand logprobs_;             // f32 [n_sequences, n_ctx]
  Operand partials_;             // struct TokenPartial [n_sequences, n_chunks]
  Operand candidates_;     // struct TokenCandidate [n_sequences, n_chunks, n_candidates], of beams
  Operand finished_;       // i32 [n_sequences * finished_per_beam, finished_stride()], of beams
  Operand stop_;           // u32
  Operand stop_ids_;       // u32 bit mask [(n_vocab + 31) / 32]
  Operand suppressed_;     // likewise, with TokenRules
  Operand bias_;           // struct TokenBias [n_sequences, kMostBias], from the first bias on
  Operand allowed_;        // u32 [n_sequences, (n_vocab + 31) / 32], from the first grammar on
  Operand draft_allowed_;  // likewise [most_drafted_rows, ...]
  Operand logit_index_;    // u32 [max_logit_rows], of evaluate()
  Operand pass_logits_;    // f32 [max_logit_rows, n_vocab], of evaluate()

  // Reused between calls.
  std::vector<Row> rows_host_, draft_logit_rows_host_;
  std::vector<SequenceState> states_host_, draft_states_host_;
  std::vector<int32_t> tokens_host_, finished_host_, pages_host_;
  std::vector<float> logprobs_host_, pass_logits_host_;
  std::vector<uint8_t> is_running_;                          // [n_slots]
  std::vector<std::optional<GrammarConstraint>> grammars_;   // [n_sequences]
  std::optional<GrammarConstraint> draft_grammar_;           // after drafted tokens
  std::vector<uint32_t> allowed_host_, draft_allowed_host_;  // as allowed_ and draft_allowed_
  std::vector<uint8_t> is_masked_;                           // [n_sequences], in this step
  std::vector<int32_t> sampled_host_;  // [n_sequences], the tokens of this step
  std::vector<uint32_t> ended_;
};

}  // namespace vesper
