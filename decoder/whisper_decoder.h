// Whisper's text decoder: encoded windows and prompts in, chosen tokens out.
//
// A pass over prompts and a step of one token a sequence are tables of commands, recorded once; the
// choice of tokens is kernels over device memory, and the host reads nothing but what was chosen.
// Several sequences decode side by side; sequence s attends to the window in place s. Used by
// decoder/whisper_model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "encoder/whisper_encoder.h"
#include "llm/device.h"
#include "llm/kv_cache.h"
#include "llm/tokenizer/whisper_tokens.h"
#include "llm/transformer.h"

namespace vesper {

// What one sequence starts from.
struct DecodeTask {
  std::vector<int32_t> prompt;       // previous text if any, then the start sequence
  uint32_t start_of_transcript = 0;  // where in `prompt` that token is
  uint32_t max_tokens = 0;           // end of text included
  bool timestamps = true;            // apply the timestamp rules; without, no timestamp is chosen
  // The latest first timestamp, in steps of 20 ms from the window's start.
  uint32_t max_initial_timestamp = 0;
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
  // Uploads the decoder's weights and records its tables for `n_sequences` at once. `blank` is the
  // token of a lone space. Throws Error(kModel, kDevice).
  WhisperDecoder(Device& device, const WeightProvider& provider, Compute compute,
                 const WhisperTokens& tokens, int32_t blank, uint32_t n_sequences);

  // Appends the computation of the cross-attention's keys and values from the encoder's output for
  // places 0 to n_windows - 1.
  void emit_cross_kv(DispatchTable& table, uint32_t n_windows, const WhisperEncoder& encoder) const;

  // The ids that are never chosen. Throws Error(kUsage) for an id beyond the vocabulary.
  void set_suppressed(std::span<const int32_t> ids);

  // Greedy search, one task a sequence from sequence 0 on. Throws Error(kInternal) if a task is
  // empty, too long for the context or has an id beyond the vocabulary.
  std::vector<DecodeResult> decode(std::span<const DecodeTask> tasks);

  // The probability of each language that the model knows, by index, for the window in place 0.
  std::vector<float> language_probabilities();

  uint32_t n_vocab() const { return n_vocab_; }
  uint32_t n_text_ctx() const { return n_text_ctx_; }
  uint32_t n_sequences() const { return n_sequences_; }

  // For tests: the logits after each token of `prompt`, [prompt.size(), n_vocab].
  std::vector<float> prompt_logits(std::span<const int32_t> prompt);

 private:
  // What follows a prompt's pass.
  enum class After { kChoose, kLanguages };
  struct PromptRecording {
    uint32_t n_rows;
    RecordingId recording;
  };

  void record();
  DispatchTable prompt_table(uint32_t n_rows, After after) const;
  void emit_rows(DispatchTable& table, uint32_t n_rows, const Operand& rows) const;
  void emit_logits(DispatchTable& table, uint32_t n_rows, const Operand& index) const;
  void emit_choice(DispatchTable& table) const;

  void check(const DecodeTask& task) const;
  // Fills host_rows_ and writes which rows give logits. Returns the number of rows.
  uint32_t write_prompts(std::span<const DecodeTask> tasks);
  // Runs a prompt's pass that was recorded for n_recorded rows, of which n_rows are in use.
  void run_prompt(RecordingId recording, uint32_t n_rows, uint32_t n_recorded);
  std::vector<DecodeResult> read_results(size_t n_tasks);

  Device& device_;
  WhisperTokens tokens_;
  int32_t blank_;
  uint32_t n_vocab_, n_text_ctx_, n_sequences_;
  TransformerStack stack_;
  Weight embedding_;  // [n_vocab, d_model], also the output projection unless there is another
  Weight output_;
  Operand position_;  // f32 [n_text_ctx, d_model]
  KvCache self_, cross_;

  uint32_t max_rows_;    // of all prompts together
  Operand prompt_rows_;  // struct Row [max_rows]
  Operand step_rows_;    // struct Row [n_sequences]
  Operand logit_index_;  // u32 [2 * n_sequences]: the last rows, then the start-of-transcript rows
  Operand x_;            // f32 [max_rows, d_model]
  Operand normed_;       // [2 * n_sequences, d_model]
  Operand logits_;       // f32 [2 * n_sequences, n_vocab]
  Operand no_speech_;    // f32 [n_sequences]
  Operand languages_;    // f32 [n_languages]
  Operand partials_;     // struct TokenPartial [n_sequences, n_chunks]
  Operand states_;       // struct SequenceState [n_sequences]
  Operand chosen_;       // i32 [n_sequences, n_text_ctx]
  Operand stop_;         // u32
  Operand suppressed_;   // u32 bit mask [(n_vocab + 31) / 32]
  std::array<Operand, 2> cross_scratch_;  // f32 [n_sequences * n_audio_ctx, 2 * kv_width] each
  std::vector<PromptRecording> prompts_;  // by rising n_rows
  RecordingId languages_pass_ = 0, step_ = 0;

  // Reused on the host from call to call.
  std::vector<Row> host_rows_;
  std::vector<uint32_t> host_index_;
  std::vector<SequenceState> host_states_;
  std::vector<int32_t> host_chosen_;
};

}  // namespace vesper
