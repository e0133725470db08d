#include "llm/inspect/command_cost.h"

#include <gtest/gtest.h>

namespace vesper {
namespace {

// Operands have room for the largest prompt in every command.
const Operand kLarge{1, 0, 0, uint64_t{1} << 30};

TEST(CommandCost, CountsGatedActivations) {
  GatedActivationParams p{};
  p.n_rows = 3;
  p.d = 100;
  p.in_dtype = kDTypeF32;
  p.out_dtype = kDTypeF16;
  DispatchTable table;
  emit::gated_activation(table, "activation", p, kLarge, kLarge);
  EXPECT_EQ(command_cost(table.commands()[0], 0, 64).bytes, 3 * 100 * (2 * 4 + 2));
}

TEST(CommandCost, CountsRope) {
  RopeParams p{};
  p.n_rows = 5;
  p.n_heads = 6;
  p.n_kv_heads = 2;
  p.head_dim = 8;
  p.dtype = kDTypeF32;
  p.kv_dtypes = kv_dtypes_of(kDTypeF16, kDTypeF16);
  const double queries = 6 * 8 * (4 + 4), keys_and_values = 2 * 2 * 8 * (4 + 2);
  DispatchTable table;
  emit::rope(table, "rope", p, kLarge, kLarge, kLarge, kLarge, kLarge, kLarge, kLarge, kLarge);
  EXPECT_EQ(command_cost(table.commands()[0], 0, 64).bytes, 5 * (queries + keys_and_values));
}

TEST(CommandCost, CountsSharedKeysOnce) {
  PagedAttentionParams p{};
  p.n_heads = 4;
  p.n_kv_heads = 2;
  p.head_dim = 8;
  p.pages_per_sequence = 16;
  p.q_dtype = p.out_dtype = kDTypeF32;
  p.kv_dtypes = kv_dtypes_of(kDTypeF16, kDTypeF16);
  const double keys = 2 * 100.0 * 2 * 8 * 2, row = 4 * 8 * (4 + 4);
  for (const uint32_t n_rows : {1u, 7u}) {
    p.n_rows = n_rows;
    DispatchTable table;
    emit::paged_attention(table, "attention", p, kLarge, kLarge, kLarge, kLarge, kLarge,
                          kLarge.part(0, 16 * sizeof(int32_t)));
    Command command = table.commands()[0];
    EXPECT_EQ(command_cost(command, 0, 100).bytes, keys + n_rows * row);
    EXPECT_EQ(command_cost(command, 0, 100).flop, 4 * n_rows * 100 * 4 * 8);
    command.operands[5].bytes *= 3;
    EXPECT_EQ(command_cost(command, 0, 100).bytes, (n_rows == 1 ? 1 : 3) * keys + n_rows * row);
  }
}

}  // namespace
}  // namespace vesper
