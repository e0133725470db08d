// StageCheckDevice reports each mistake that it is for, so that a test that runs on it can fail.
#include "tests/llm/table/stage_check_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "error/error.h"
#include "llm/devices/open_device.h"

namespace vesper::stage_check_device_test {
namespace {

using testing::HasSubstr;

constexpr uint32_t kWidth = 8;
constexpr uint64_t kRowBytes = kWidth * sizeof(float);

// A chain of norms over buffers of one row.
struct Chain {
  explicit Chain(StageCheckOptions options = {})
      : device(open_device("cpu", {.n_threads = 2}), std::move(options)) {
    const std::vector<float> numbers = {1, -2, 3, 0.5f, -4, 2, 7, -1};
    for (Operand* operand : {&in, &ones}) {
      *operand = device.allocate(kRowBytes, "input");
      device.write(*operand, numbers.data());
    }
    for (size_t i = 0; i < 4; ++i) {
      rows.push_back(device.allocate(kRowBytes, "row " + std::to_string(i)));
    }
  }
  void add_norm(const Operand& out, const Operand& from) {
    emit::norm(table, "norm " + std::to_string(table.commands().size()),
               {1, kWidth, 1e-5f, kNormLayer, kDTypeF32, kDTypeF32, kWidth}, out, from, ones, ones,
               {});
  }
  // The error of recording, running and reading a row; empty if none.
  std::string run(const Operand& result, uint32_t times = 2) {
    try {
      device.run(device.record(table), times, {});
      std::vector<float> numbers(kWidth);
      device.read(result, numbers.data());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInternal);
      return error.what();
    }
    return {};
  }

  StageCheckDevice device;
  Operand in, ones;
  std::vector<Operand> rows;
  DispatchTable table;
};

// A write after a read, a read after a write, a write after a write.
void add_hazards(Chain& chain) {
  chain.add_norm(chain.rows[0], chain.in);
  chain.add_norm(chain.in, chain.ones);
  chain.add_norm(chain.rows[1], chain.in);
  chain.add_norm(chain.rows[1], chain.rows[0]);
}

TEST(StageCheckDevice, AcceptsCorrectTables) {
  Chain chain;
  add_hazards(chain);
  ASSERT_EQ(chain.table.stages(), (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(chain.run(chain.rows[1]), "");
  EXPECT_EQ(chain.device.n_checked(), 8u);
}

TEST(StageCheckDevice, ReportsEachMissingBarrier) {
  for (size_t missing = 1; missing < 4; ++missing) {
    const auto stages = [&](const DispatchTable& table) {
      std::vector<uint32_t> all = table.stages();
      for (size_t i = missing; i < all.size(); ++i) --all[i];
      return all;
    };
    Chain chain({.stages = stages});
    add_hazards(chain);
    const std::string number = std::to_string(missing);
    EXPECT_THAT(chain.run(chain.rows[1]), HasSubstr("norm " + number + " (norm) and norm "))
        << number;
  }
}

// Without comparing declarations: by what the commands do.
TEST(StageCheckDevice, FindsAMissingBarrierByRunningInAnotherOrder) {
  const auto one_stage = [](const DispatchTable& table) {
    return std::vector<uint32_t>(table.commands().size(), 0);
  };
  bool is_found = false;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Chain chain({.seed = seed, .stages = one_stage, .checks_declared = false});
    chain.add_norm(chain.rows[0], chain.in);
    chain.add_norm(chain.rows[1], chain.rows[0]);
    is_found |= chain.run(chain.rows[1], 1)
                    .find(
                        "the host reads byte 0 of buffer row 1, which "
                        "depends on memory that nothing has written") != std::string::npos;
  }
  EXPECT_TRUE(is_found);
}

TEST(StageCheckDevice, ReportsAnOperandThatIsNotDeclared) {
  const auto error = [](uint32_t reads, uint32_t writes) {
    Chain chain;
    chain.table.add(Kernel::kNorm, "layer.7.norm",
                    {chain.rows[0], chain.in, chain.ones, chain.ones, {}}, reads, writes,
                    NormParams{1, kWidth, 1e-5f, kNormLayer, kDTypeF32, kDTypeF32, kWidth});
    return chain.run(chain.rows[0]);
  };
  EXPECT_EQ(error(0b1110, 0b1), "");
  EXPECT_THAT(error(0b1100, 0b1), HasSubstr("layer.7.norm (norm) reads undeclared memory, which "
                                            "changes byte 0 of buffer row 0"));
  EXPECT_THAT(error(0b1110, 0b0),
              HasSubstr("layer.7.norm (norm) writes undeclared memory, byte 0 of buffer row 0"));
}

// A command that gathers rows: the declared input is shorter than what it reads.
TEST(StageCheckDevice, ReportsARangeThatIsTooSmall) {
  for (const uint32_t declared : {2u, 1u}) {
    StageCheckDevice device(open_device("cpu"));
    const std::vector<float> numbers = {1, -2, 3, 0.5f, -4, 2, 7, -1, 9, 8, 6, 5, 4, 3, 2, 2};
    const Operand in = device.allocate(2 * kRowBytes, "in"),
                  out = device.allocate(kRowBytes, "out");
    const Operand ones = device.allocate(kRowBytes, "ones"), index = device.allocate(4, "index");
    device.write(in, numbers.data());
    device.write(ones, numbers.data());
    const uint32_t second_row = 1;
    device.write(index, &second_row);
    DispatchTable table;
    emit::norm(table, "gather", {1, kWidth, 1e-5f, kNormLayer, kDTypeF32, kDTypeF32, kWidth}, out,
               in.part(0, declared * kRowBytes), ones, ones, index);
    std::string error;
    try {
      device.run(device.record(table), 1, {});
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    EXPECT_EQ(error.find("gather (norm) reads undeclared memory") == std::string::npos,
              declared == 2)
        << error;
  }
}

TEST(StageCheckDevice, ReportsResultsThatDependOnUnwrittenMemory) {
  Chain chain;
  chain.add_norm(chain.rows[1], chain.rows[0]);
  chain.add_norm(chain.rows[2], chain.rows[1]);
  EXPECT_THAT(chain.run(chain.rows[2]),
              HasSubstr("the host reads byte 0 of buffer row 2, which depends on memory that "
                        "nothing has written"));
  Chain zeroed({.zeroed = {"row 0"}});
  zeroed.add_norm(zeroed.rows[1], zeroed.rows[0]);
  EXPECT_EQ(zeroed.run(zeroed.rows[1]), "");
  Chain varying({.varying = {"row 1"}});
  varying.add_norm(varying.rows[1], varying.rows[0]);
  EXPECT_EQ(varying.run(varying.rows[1]), "");
  Chain unread;
  unread.add_norm(unread.rows[1], unread.rows[0]);
  unread.add_norm(unread.rows[2], unread.in);
  EXPECT_EQ(unread.run(unread.rows[2]), "");
}

// A device that allocates each buffer half over the one before, and runs nothing.
class OverlappingDevice final : public Device {
 public:
  const DeviceInfo& info() const override { return info_; }
  Compute resolve(Compute wanted, WeightUse) const override { return wanted; }
  DType activation_dtype(Compute, WeightUse, uint32_t) const override { return DType::kF32; }
  uint64_t stored_bytes(const MatrixSource&, WeightUse, Compute) const override { return 0; }
  Weight upload(const MatrixSource&, WeightUse, Compute) override { return {}; }
  Operand allocate(uint64_t bytes, std::string_view) override {
    starts_.push_back(starts_.empty() ? 0 : starts_.back() + bytes / 2);
    memory_.resize(starts_.back() + bytes);
    return {static_cast<BufferId>(starts_.size()), 0, 0, bytes};
  }
  void write(const Operand& to, const void* from) override { std::memcpy(at(to), from, to.bytes); }
  void read(const Operand& from, void* to) override { std::memcpy(to, at(from), from.bytes); }
  ProgramId record(const DispatchTable&) override { return 0; }
  std::vector<CommandVariant> variants(ProgramId) const override { return {}; }
  void run(ProgramId, uint32_t, const Operand&) override {}
  void set_clock(Clock) override {}
  ReplayTimes replay_times(ProgramId) override { return {}; }

 private:
  std::byte* at(const Operand& operand) {
    return memory_.data() + starts_.at(operand.buffer - 1) + operand.offset_bytes;
  }
  DeviceInfo info_;
  std::vector<std::byte> memory_;
  std::vector<size_t> starts_;  // by BufferId - 1
};

TEST(StageCheckDevice, ReportsBuffersThatShareMemory) {
  StageCheckDevice device(std::make_unique<OverlappingDevice>());
  const ProgramId nothing = device.record({});
  const uint64_t one = 1, two = 2;
  device.write(device.allocate(sizeof one, "first"), &one);
  device.run(nothing, 1, {});
  device.write(device.allocate(sizeof two, "second"), &two);
  try {
    device.run(nothing, 1, {});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a command changed byte 4 of buffer first"));
  }
}

}  // namespace
}  // namespace vesper::stage_check_device_test
