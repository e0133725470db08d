// copy_pages: copies the used rows of a page to another page.
#include <cstring>

#include "llm/cpu/prepared_command.h"

namespace vesper {
namespace {

void run_copy_pages(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<CopyPagesParams>();
  const SequenceState& state = command.operand<const SequenceState>(2)[task];
  if (state.copy_rows == 0) return;
  for (const uint32_t operand : {0u, 1u}) {
    const uint32_t dtype =
        operand == 0 ? key_dtype(params.kv_dtypes) : value_dtype(params.kv_dtypes);
    const size_t row_bytes = kv_row_bytes(dtype, params.head_dim);
    const size_t scale_bytes = kv_scale_bytes(dtype, params.head_dim);
    const size_t head_bytes = kv_head_bytes(dtype, params.page_rows, params.head_dim);
    const size_t scales = params.page_rows * row_bytes;
    std::byte* pages = command.operands[operand];
    for (size_t head = 0; head < params.n_kv_heads; ++head) {
      const auto at = [&](int page) {
        return pages + (static_cast<size_t>(page) * params.n_kv_heads + head) * head_bytes;
      };
      std::byte *to = at(state.copy_to), *from = at(state.copy_from);
      std::memcpy(to, from, state.copy_rows * row_bytes);
      std::memcpy(to + scales, from + scales, state.copy_rows * scale_bytes);
    }
  }
}

}  // namespace

void prepare_copy_pages(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<CopyPagesParams>();
  command.require(params.n_sequences > 0 && params.n_kv_heads > 0 && params.head_dim > 0 &&
                      params.page_rows > 0,
                  "a size is zero");
  command.require_kv_dtypes(params.kv_dtypes, params.head_dim);
  const auto page_bytes = [&](uint32_t dtype) {
    return uint64_t{params.n_kv_heads} * kv_head_bytes(dtype, params.page_rows, params.head_dim);
  };
  command.require_bytes(0, page_bytes(key_dtype(params.kv_dtypes)));
  command.require_bytes(1, page_bytes(value_dtype(params.kv_dtypes)));
  command.require_bytes(2, uint64_t{params.n_sequences} * sizeof(SequenceState));
  prepared.run = run_copy_pages;
  prepared.n_tasks = params.n_sequences;
}

}  // namespace vesper
