#include "llm/table/dispatch_table.h"

#include <gtest/gtest.h>

namespace vesper::dispatch_table_test {
namespace {

Operand buffer(BufferId id, uint64_t bytes = 64) { return {id, 0, 0, bytes}; }

void add_norm(DispatchTable& table, Operand out, Operand in) {
  emit::norm(table, "norm", NormParams{}, out, in, buffer(90), buffer(91), Operand{});
}

TEST(DispatchTable, CommandsWithoutSharedWritesAreOneStage) {
  DispatchTable table;
  add_norm(table, buffer(1), buffer(3));
  add_norm(table, buffer(2), buffer(3));
  EXPECT_EQ(table.stages(), (std::vector<uint32_t>{0, 0}));
}

TEST(DispatchTable, AReadAfterAWriteStartsAStage) {
  DispatchTable table;
  add_norm(table, buffer(1), buffer(3));
  add_norm(table, buffer(2), buffer(1));
  EXPECT_EQ(table.stages(), (std::vector<uint32_t>{0, 1}));
}

TEST(DispatchTable, AWriteAfterAReadStartsAStage) {
  DispatchTable table;
  add_norm(table, buffer(1), buffer(3));
  add_norm(table, buffer(3), buffer(2));
  EXPECT_EQ(table.stages(), (std::vector<uint32_t>{0, 1}));
}

TEST(DispatchTable, ConflictsAreFoundWithinAStage) {
  DispatchTable table;
  add_norm(table, buffer(1), buffer(3));
  add_norm(table, buffer(2), buffer(3));
  add_norm(table, buffer(4), buffer(1));  // depends on the first command
  add_norm(table, buffer(5), buffer(2));  // of the previous stage: no barrier
  EXPECT_EQ(table.stages(), (std::vector<uint32_t>{0, 0, 1, 1}));
}

TEST(DispatchTable, PartsOfABufferThatDoNotOverlapAreIndependent) {
  DispatchTable table;
  add_norm(table, buffer(1, 128).part(0, 64), buffer(3));
  add_norm(table, buffer(2), buffer(1, 128).part(64, 64));
  add_norm(table, buffer(4), buffer(1, 128).part(60, 8));
  EXPECT_EQ(table.stages(), (std::vector<uint32_t>{0, 0, 1}));
  DispatchTable backwards;
  add_norm(backwards, buffer(1, 128).part(64, 64), buffer(3));
  add_norm(backwards, buffer(2), buffer(1, 128).part(0, 64));
  EXPECT_EQ(backwards.stages(), (std::vector<uint32_t>{0, 0}));
}

TEST(DispatchTable, AbsentOperandsAreNeitherReadNorWritten) {
  DispatchTable table;
  MatmulParams params{};
  emit::matmul(table, "m", params, buffer(1), buffer(2), buffer(3), Operand{}, Operand{},
               Operand{});
  EXPECT_EQ(table.commands()[0].reads, 0b110u);
  EXPECT_EQ(table.commands()[0].writes, 0b1u);
}

}  // namespace
}  // namespace vesper::dispatch_table_test
