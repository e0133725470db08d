// A command of a table as prepared for replay on the CPU.
//
// Each kernel file has one prepare function. It checks the operands against the parameters, cuts
// the command into tasks and selects the function that runs a task.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "llm/table/dispatch_table.h"
#include "shaders/kernel_params.h"

namespace vesper {

struct PreparedCommand;

// Scratch memory of a thread. Kernels that convert a command's input keep the result for the next
// task of the same command on the same thread.
class ThreadScratch {
 public:
  std::byte* data = nullptr;  // aligned to 64 bytes; the largest size of all commands

  // Starts a task. `data` is invalid if the previous task belonged to another command or stage.
  void begin_task(const PreparedCommand& command, uint32_t serial) {
    if (command_ == &command && serial_ == serial) return;
    command_ = &command;
    serial_ = serial;
    kept_block_ = kNothing;
  }
  // Whether `data` has block `block` of the command's input from an earlier task; it will
  // afterwards.
  bool keep(uint32_t block) {
    const bool kept = kept_block_ == block;
    kept_block_ = block;
    return kept;
  }

 private:
  static constexpr uint32_t kNothing = UINT32_MAX;
  const PreparedCommand* command_ = nullptr;
  uint32_t serial_ = 0;  // of the stage, different in every replay
  uint32_t kept_block_ = kNothing;
};

struct PreparedCommand {
  void (*run)(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) = nullptr;
  // Null for an absent operand.
  std::array<std::byte*, kMaxOperands> operands{};
  alignas(8) std::array<unsigned char, kMaxParamBytes> params{};
  uint32_t n_tasks = 0;
  size_t scratch_bytes = 0;  // per thread
  // Tasks have `rows_per_task` rows by `columns_per_task` columns (or heads, or chunks). The
  // columns of a block of rows are consecutive tasks.
  uint32_t rows_per_task = 1, columns_per_task = 1;
  uint32_t tasks_per_row_block = 1;
  // Results of prepare without a member above.
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

// Results of threads that share a row and head of attention. Commands with the same output share
// them, because they never run at once.
struct AttentionParts {
  std::vector<float> numbers;                      // grows while commands are prepared
  std::unique_ptr<std::atomic<uint32_t>[]> ended;  // finished threads per shared row and head
  size_t n_ended = 0;
};

// Interface of prepare functions.
class CommandToPrepare {
 public:
  CommandToPrepare(const Command& command, const std::string& label, uint32_t n_threads)
      : command_(command), label_(label), n_threads_(n_threads) {}

  const Command& command() const { return command_; }
  uint32_t n_threads() const { return n_threads_; }
  // For the command's output.
  std::shared_ptr<AttentionParts> attention_parts;

  // Throws Error(kInternal) naming the command and `what`.
  [[noreturn]] void fail(const std::string& what) const;
  void require(bool condition, const char* what) const {
    if (!condition) fail(what);
  }
  // Throws unless pages can have this format.
  void require_kv_dtype(uint32_t dtype, uint32_t head_dim) const {
    require(dtype == kDTypeF32 || dtype == kDTypeF16 || kv_is_quantized(dtype),
            "pages must be f32, f16, q8_0 or q4_0");
    require(!kv_is_quantized(dtype) || head_dim % 32 == 0, "quantized rows have whole blocks");
  }
  void require_kv_dtypes(uint32_t kv_dtypes, uint32_t head_dim) const {
    require_kv_dtype(key_dtype(kv_dtypes), head_dim);
    require_kv_dtype(value_dtype(kv_dtypes), head_dim);
  }
  // Throws unless operand `index` has at least `bytes` bytes; `optional`: it may be absent.
  void require_bytes(uint32_t index, uint64_t bytes, bool optional = false) const;

 private:
  const Command& command_;
  const std::string& label_;
  uint32_t n_threads_;
};

// prepare_embed(), prepare_norm() and so on: one function for each kernel.
#define VESPER_DECLARE_PREPARE(id, name, params) \
  void prepare_##name(PreparedCommand& prepared, const CommandToPrepare& command);
VESPER_KERNELS(VESPER_DECLARE_PREPARE)
#undef VESPER_DECLARE_PREPARE

// From this number of rows on, a paged_attention is treated as a prompt.
inline constexpr uint32_t kPromptRows = 16;
// Replaces a paged_attention that was prepared for few rows, if it has many.
void prepare_prompt_attention(PreparedCommand& prepared, const CommandToPrepare& command);
// The variant of an attention, for people; empty for paged_attention of few rows.
const char* attention_variant_name(const AttentionParams& params);
const char* attention_variant_name(const PagedAttentionParams& params);

}  // namespace vesper
