// Aligns the tokens of a window with its audio, by one more decoder pass.
//
// In: the text tokens of encoded windows. The pass over [start sequence, no-timestamps, text, end
// of text] stores the cross-attention probabilities of the alignment heads, and the token
// probabilities. Out: positions (from decoder/words/alignment_path.h). Used by
// decoder/windows/window_decoder. As in openai-whisper's timing.py, find_alignment.
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

// The text of one window.
struct AlignmentTask {
  std::vector<int32_t> start;  // start sequence, without no-timestamps
  std::vector<int32_t> text;   // text tokens only
  uint32_t n_positions = 0;    // encoder positions with audio, above 0
  uint32_t window = 0;         // slot of the encoded window
};

struct TokenAlignment {
  std::vector<uint32_t> positions;   // [text + 1]: start of each token, and of end of text
  std::vector<float> probabilities;  // [text]: of each token among the text tokens
};

class WhisperAligner {
 public:
  // Uses the weights and windows of `decoder`, which must outlive this object, with a separate
  // cache. `heads` are [layer, head] in ascending order. Throws Error(kDevice).
  WhisperAligner(Device& device, const DecoderModel& decoder, const WhisperTokens& tokens,
                 std::span<const std::array<uint32_t, 2>> heads);

  // A pass aligns as many windows as are encoded at once. The first pass of a size is recorded.
  // Throws Error(kInternal) for a task with too many tokens or positions.
  std::vector<TokenAlignment> align(std::span<const AlignmentTask> tasks);

 private:
  // The tasks at the beginning of `tasks` that fit in one pass: at least one.
  std::span<const AlignmentTask> of_one_pass(std::span<const AlignmentTask> tasks) const;
  void align_pass(std::span<const AlignmentTask> tasks, std::vector<TokenAlignment>& alignments);
  // The program for `n_rows` rows.
  ProgramId program_of(uint32_t n_rows);
  void check(const AlignmentTask& task) const;
  // Writes the rows of all tasks; returns the rows of the pass.
  uint32_t write_rows(std::span<const AlignmentTask> tasks);

  Device& device_;
  const DecoderModel& decoder_;
  WhisperTokens tokens_;
  uint32_t n_heads_;  // of all layers
  uint32_t n_windows_;
  uint32_t n_positions_;  // per window
  uint32_t max_tasks_;    // of a pass
  uint32_t max_task_rows_, max_rows_;
  KvCache self_;
  Operand rows_;                          // struct Row [max_rows]
  Operand cross_pages_;                   // i32 [max_tasks]
  Operand ids_;                           // u32 [max_rows]: the next token of each row
  Operand logits_;                        // f32 [max_logit_rows, n_vocab]
  Operand probabilities_;                 // f32 [max_rows]
  TransformerStack::CrossWeights cross_;  // out: f32 [n_heads, rows of the pass, n_positions]
  std::map<uint32_t, ProgramId> programs_;

  // Reused between calls.
  std::vector<Row> host_rows_;
  std::vector<int32_t> host_cross_pages_;
  std::vector<uint32_t> host_lengths_, host_ids_;
  std::vector<float> host_weights_, host_probabilities_;
};

}  // namespace vesper
