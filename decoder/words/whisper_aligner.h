// Where in the audio each token of a window was said, by one more pass of the decoder.
//
// In come the text tokens of windows that were encoded; the pass over [start sequence,
// no-timestamps, text, end of text] keeps the cross-attention's weights of the model's alignment
// heads and the tokens' probabilities; out go positions (decoder/words/word_times.h makes them of
// the weights). Used by decoder/transcriber. As openai-whisper's timing.py, find_alignment.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "llm/models/decoder_model.h"
#include "llm/table/device.h"
#include "llm/tokenizer/whisper_tokens.h"

namespace vesper {

// What was said in one window.
struct AlignmentTask {
  std::vector<int32_t> start;  // start sequence, without no-timestamps
  std::vector<int32_t> text;   // text tokens alone
  uint32_t n_positions = 0;    // of the encoder's output that hold audio of the program, above 0
  uint32_t window = 0;         // whose place it was encoded to
};

struct TokenAlignment {
  std::vector<uint32_t> positions;   // [text + 1]: where each token begins, and end of text
  std::vector<float> probabilities;  // [text]: of each token among the text tokens
};

class WhisperAligner {
 public:
  // Uses the weights and the windows of `decoder`, which must outlive this, and a cache of its own:
  // sequences of the decoder are not disturbed. `heads` are [layer, head] by rising layer. Throws
  // Error(kDevice).
  WhisperAligner(Device& device, const DecoderModel& decoder, const WhisperTokens& tokens,
                 std::span<const std::array<uint32_t, 2>> heads);

  // The first pass of its size is recorded then. Throws Error(kInternal) for more tasks, a longer
  // text or more positions than there is room for.
  std::vector<TokenAlignment> align(std::span<const AlignmentTask> tasks);

 private:
  // The program for so many rows.
  ProgramId recording_of(uint32_t n_rows);
  void check(std::span<const AlignmentTask> tasks) const;
  // Writes the rows of all tasks; returns how many rows the pass has.
  uint32_t write_rows(std::span<const AlignmentTask> tasks);

  Device& device_;
  const DecoderModel& decoder_;
  WhisperTokens tokens_;
  uint32_t n_heads_;  // of all layers
  uint32_t n_windows_;
  uint32_t n_positions_;  // of a window
  uint32_t max_task_rows_, max_rows_;
  KvCache self_;
  Operand rows_;                          // struct Row [max_rows]
  Operand cross_pages_;                   // i32 [n_windows]
  Operand ids_;                           // u32 [max_rows]: the token after each row
  Operand logits_;                        // f32 [max_logit_rows, n_vocab]
  Operand probabilities_;                 // f32 [max_rows]
  TransformerStack::CrossWeights cross_;  // out: f32 [n_heads, rows of the pass, n_positions]
  std::map<uint32_t, ProgramId> programs_;

  // Reused on the host from call to call.
  std::vector<Row> host_rows_;
  std::vector<int32_t> host_cross_pages_;
  std::vector<uint32_t> host_lengths_, host_ids_;
  std::vector<float> host_weights_, host_probabilities_;
};

}  // namespace vesper
