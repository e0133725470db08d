// A command of a table as the CPU device replays it: everything that can be decided is decided.
//
// Each kernel file has one prepare function, which checks a command's operands against its
// parameters, cuts it into tasks and chooses the function that runs one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "llm/table/dispatch_table.h"

namespace vesper {

struct PreparedCommand;

// What a thread has to itself while it runs tasks. Kernels that convert a command's input before
// they use it keep the result for the next task of the same command on the same thread.
class ThreadScratch {
 public:
  std::byte* data = nullptr;  // aligned to 64 bytes; as much as the hungriest command asked for

  // Says whose task comes next. Another command's, or another stage's, leaves nothing in `data`
  // that is of use.
  void begin_task(const PreparedCommand& command, uint32_t serial) {
    if (command_ == &command && serial_ == serial) return;
    command_ = &command;
    serial_ = serial;
    kept_block_ = kNothing;
  }
  // Whether block `block` of the command's input lies in `data` since an earlier task; notes that
  // it will.
  bool keep(uint32_t block) {
    const bool kept = kept_block_ == block;
    kept_block_ = block;
    return kept;
  }

 private:
  static constexpr uint32_t kNothing = UINT32_MAX;
  const PreparedCommand* command_ = nullptr;
  uint32_t serial_ = 0;  // of the stage: tells one replay from another
  uint32_t kept_block_ = kNothing;
};

struct PreparedCommand {
  void (*run)(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) = nullptr;
  // Null where the operand is absent.
  std::array<std::byte*, kMaxOperands> operands{};
  alignas(8) std::array<unsigned char, kMaxParamBytes> params{};
  uint32_t n_tasks = 0;
  size_t scratch_bytes = 0;  // a thread needs
  // How the command is cut: `rows_per_task` rows by `columns_per_task` columns (or heads, or
  // chunks), the columns of a block of rows one task after another.
  uint32_t rows_per_task = 1, columns_per_task = 1;
  uint32_t tasks_per_row_block = 1;
  // What the kernel found out at prepare that has no place above.
  std::shared_ptr<const void> plan;

  template <class Params>
  const Params& params_as() const {
    return *reinterpret_cast<const Params*>(params.data());
  }
  template <class T>
  T* operand(uint32_t index) const {
    return reinterpret_cast<T*>(operands[index]);
  }
};

// Where threads that share a row and head of attention leave what they found. Commands that write
// the same output have the same: they never run at once.
struct AttentionParts {
  std::vector<float> numbers;                      // grows while commands are prepared
  std::unique_ptr<std::atomic<uint32_t>[]> ended;  // threads that are done, of every shared piece
  size_t n_ended = 0;
};

// What a prepare function may ask.
class CommandToPrepare {
 public:
  CommandToPrepare(const Command& command, const std::string& label, uint32_t n_threads)
      : command_(command), label_(label), n_threads_(n_threads) {}

  const Command& command() const { return command_; }
  uint32_t n_threads() const { return n_threads_; }
  // Of the command's output.
  std::shared_ptr<AttentionParts> attention_parts;

  // Throws Error(kInternal) naming the command, saying `what`.
  [[noreturn]] void fail(const std::string& what) const;
  void require(bool condition, const char* what) const {
    if (!condition) fail(what);
  }
  // Throws unless operand `index` is there and has at least so many bytes; `optional`: may be
  // absent.
  void require_bytes(uint32_t index, uint64_t bytes, bool optional = false) const;

 private:
  const Command& command_;
  const std::string& label_;
  uint32_t n_threads_;
};

void prepare_embed(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_norm(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_matmul(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_write_kv(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_rope(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_gated_activation(PreparedCommand& prepared, const CommandToPrepare& command);
// From so many rows on a paged_attention is one of prompts.
inline constexpr uint32_t kPromptRows = 16;
void prepare_paged_attention(PreparedCommand& prepared, const CommandToPrepare& command);
// Takes a paged_attention over, as prepared for a few rows, where it has many.
void prepare_prompt_attention(PreparedCommand& prepared, const CommandToPrepare& command);
// What an attention multiplies with, for people; empty for paged_attention of a few rows.
const char* attention_variant_name(const AttentionParams& params);
const char* attention_variant_name(const PagedAttentionParams& params);
void prepare_attention_weights(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_attention(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_range_probabilities(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_copy_pages(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_adjust_logits(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_sampling_filters(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_sample_partials(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_select_beams(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_sample_token(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_activation(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_magnitude(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_lstm(PreparedCommand& prepared, const CommandToPrepare& command);
void prepare_pool(PreparedCommand& prepared, const CommandToPrepare& command);

}  // namespace vesper
