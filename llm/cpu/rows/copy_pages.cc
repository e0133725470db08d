// copy_pages: copies the used rows of a page to another page.
#include <cstring>

#include "llm/cpu/prepared_command.h"

namespace vesper {
namespace {

void run_copy_pages(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  const auto& params = command.params_as<CopyPagesParams>();
  const SequenceState& state = command.operand<const SequenceState>(2)[task];
  const size_t row_bytes = params.head_dim * (params.kv_dtype == kDTypeF32 ? 4u : 2u);
  const size_t head_bytes = params.page_rows * row_bytes;
  if (state.copy_rows == 0) return;
  for (const uint32_t operand : {0u, 1u}) {
    std::byte* pages = command.operands[operand];
    for (size_t head = 0; head < params.n_kv_heads; ++head) {
      const auto at = [&](int page) {
        return pages + (static_cast<size_t>(page) * params.n_kv_heads + head) * head_bytes;
      };
      std::memcpy(at(state.copy_to), at(state.copy_from), state.copy_rows * row_bytes);
    }
  }
}

}  // namespace

void prepare_copy_pages(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<CopyPagesParams>();
  command.require(params.n_sequences > 0 && params.n_kv_heads > 0 && params.head_dim > 0 &&
                      params.page_rows > 0,
                  "a size is zero");
  command.require(params.kv_dtype == kDTypeF32 || params.kv_dtype == kDTypeF16,
                  "pages must be f32 or f16");
  const uint64_t page_bytes = uint64_t{params.n_kv_heads} * params.page_rows * params.head_dim *
                              (params.kv_dtype == kDTypeF32 ? 4 : 2);
  command.require_bytes(0, page_bytes);
  command.require_bytes(1, page_bytes);
  command.require_bytes(2, uint64_t{params.n_sequences} * sizeof(SequenceState));
  prepared.run = run_copy_pages;
  prepared.n_tasks = params.n_sequences;
}

}  // namespace vesper
