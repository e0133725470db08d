// attention: an encoder's, in tasks of encoder_attention.h.
#include "llm/cpu/attention/encoder_attention.h"
#include "llm/cpu/prepared_command.h"

namespace vesper {
namespace {

void run_attention(const PreparedCommand& command, uint32_t task, ThreadScratch& scratch) {
  const auto& tasks = *static_cast<const AttentionTasks*>(command.plan.get());
  const AttentionOperands operands{command.operands[0], command.operands[1], command.operands[2],
                                   command.operands[3], command.operand<const uint32_t>(4)};
  run_attention_task(command.params_as<AttentionParams>(), tasks, operands, task, scratch.data);
}

}  // namespace

void prepare_attention(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<AttentionParams>();
  command.require(params.n_sequences > 0 && params.rows_per_sequence > 0 && params.n_heads > 0 &&
                      params.n_kv_heads > 0 && params.head_dim > 0,
                  "a size is zero");
  const bool packed = command.command().operands[4].present();
  const uint64_t rows = uint64_t{packed ? 1 : params.n_sequences} * params.rows_per_sequence;
  const auto bytes = [&](uint32_t stride, uint32_t n_heads, uint32_t dtype) {
    return ((rows - 1) * stride + uint64_t{n_heads} * params.head_dim) *
           (dtype == kDTypeF32 ? 4 : 2);
  };
  command.require_bytes(0, bytes(params.out_row_stride, params.n_heads, params.out_dtype));
  command.require_bytes(1, bytes(params.q_row_stride, params.n_heads, params.in_dtype));
  command.require_bytes(2, bytes(params.k_row_stride, params.n_kv_heads, params.in_dtype));
  command.require_bytes(3, bytes(params.v_row_stride, params.n_kv_heads, params.in_dtype));
  command.require_bytes(4, (uint64_t{params.n_sequences} + 1) * sizeof(uint32_t), true);
  const AttentionTasks tasks = prepare_attention(params, packed, command.n_threads());
  prepared.plan = std::make_shared<AttentionTasks>(tasks);
  prepared.n_tasks = tasks.n_tasks;
  prepared.scratch_bytes = tasks.scratch_bytes;
  prepared.run = run_attention;
}

}  // namespace vesper
