#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <vector>

#include "error/error.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::vulkan_device_test {
namespace {

class VulkanDeviceTest : public VulkanTest {};

TEST_F(VulkanDeviceTest, ListsTheDeviceThatItOpens) {
  const std::vector<VulkanListing> devices = list_vulkan_devices();
  const uint32_t index = test_device_index();
  ASSERT_LT(index, devices.size());
  EXPECT_EQ(device().info().name, devices[index].name);
  EXPECT_EQ(device().info().kind, "vulkan");
  EXPECT_GT(device().info().memory_bytes, 0u);
}

// A process can load NVIDIA's driver only about 30 times, see VulkanInstance::destroy().
TEST(VulkanDrivers, ListDevicesHoweverOften) {
  const size_t n_devices = list_vulkan_devices().size();
  for (int i = 0; i < 60; ++i) ASSERT_EQ(list_vulkan_devices().size(), n_devices) << i;
}

// `inspect` plans with it, because opening a device takes longer than reading a model's header.
TEST_F(VulkanDeviceTest, IsPlannedAsItIsOpened) {
  const std::unique_ptr<Device> planned =
      plan_vulkan_device(list_vulkan_devices().at(test_device_index()));
  const std::unique_ptr<Device> opened = open({});
  EXPECT_EQ(planned->info().name, opened->info().name);
  EXPECT_EQ(planned->info().memory_bytes, opened->info().memory_bytes);
  EXPECT_EQ(planned->info().is_hardware_gpu, opened->info().is_hardware_gpu);
  const std::vector<float> ones(100 * 36, 1.0f);
  TensorView view;
  view.name = view.file_name = "ones";
  view.shape = {100, 36};
  view.data = ones.data();
  view.bytes = ones.size() * sizeof(float);
  for (const Compute compute : {Compute::kAuto, Compute::kF32, Compute::kF16, Compute::kI8}) {
    for (const WeightUse use : {WeightUse::kManyRows, WeightUse::kAnyRows}) {
      const Compute resolved = opened->resolve(compute, use);
      EXPECT_EQ(planned->resolve(compute, use), resolved);
      EXPECT_EQ(planned->activation_dtype(resolved, use, 64),
                opened->activation_dtype(resolved, use, 64));
      EXPECT_EQ(planned->stored_bytes({{&view}}, use, resolved),
                opened->stored_bytes({{&view}}, use, resolved));
    }
  }
  EXPECT_THROW(planned->allocate(4, "nothing"), Error);
}

TEST(VulkanDeviceNames, SelectListedDevices) {
  VulkanListing software, old_gpu, gpu;
  software.name = "software";
  old_gpu.name = "old GPU";
  old_gpu.is_hardware_gpu = gpu.is_hardware_gpu = true;
  old_gpu.unusable = "Vulkan 1.3";
  const std::vector<VulkanListing> all = {software, old_gpu, gpu, gpu};
  EXPECT_EQ(choose_vulkan_device("auto", all), 2u);
  EXPECT_EQ(choose_vulkan_device("vulkan", all), 2u);
  EXPECT_EQ(choose_vulkan_device("vulkan:3", all), 3u);
  EXPECT_EQ(choose_vulkan_device("vulkan", {old_gpu, software}), 1u);
  const auto message = [](const char* name, const std::vector<VulkanListing>& devices) {
    try {
      choose_vulkan_device(name, devices);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("auto", {software, old_gpu}),
            "no usable Vulkan device; software is no GPU; old GPU lacks Vulkan 1.3");
  EXPECT_EQ(message("vulkan:1", all), "vulkan:1 (old GPU) lacks Vulkan 1.3");
  EXPECT_EQ(message("vulkan:4", all), "vulkan:4: there are 4 Vulkan devices");
  EXPECT_EQ(message("vulkan", {}), "no Vulkan device: there is no driver, or it sees none");
}

TEST_F(VulkanDeviceTest, RefusesInvalidDeviceNames) {
  const auto kind_of = [](const char* name) {
    try {
      open_vulkan_device(name, DeviceOptions{});
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::kInternal;
  };
  EXPECT_EQ(kind_of("vulkan:99"), ErrorKind::kDevice);
  EXPECT_EQ(kind_of("vulkan:"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of("vulkan:1x"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of("gpu"), ErrorKind::kUsage);
}

TEST_F(VulkanDeviceTest, NewBuffersAreZeroAndKeepWrittenData) {
  for (const bool host_visible : {true, false}) {
    VulkanOptions options;
    options.host_visible = host_visible;
    const std::unique_ptr<Device> device = open(options);
    const size_t n = 9'000'001;  // odd, more than twice the staging memory
    const Operand big = device->allocate(n * 4, "big"), small = device->allocate(12, "small");
    std::vector<uint32_t> values(n, 1), back(n, 1);
    device->read(big, back.data());
    EXPECT_EQ(back, std::vector<uint32_t>(n, 0));
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<uint32_t>(i * 2654435761u);
    device->write(big, values.data());
    const uint32_t three[3] = {7, 8, 9};
    device->write(small, three);
    device->read(big, back.data());
    EXPECT_EQ(back, values);
    uint32_t two[2] = {};
    device->read(small.from(4), two);
    EXPECT_EQ(two[0], 8u);
    EXPECT_EQ(two[1], 9u);
    device->write(big.part(400, 8), three);
    device->read(big.part(396, 16), back.data());
    EXPECT_EQ(back[0], values[99]);
    EXPECT_EQ(back[1], 7u);
    EXPECT_EQ(back[2], 8u);
    EXPECT_EQ(back[3], values[102]);
  }
}

// Short writes are commands, long ones go through staging memory. Nothing is read in between, so
// that the device is busy.
TEST_F(VulkanDeviceTest, WritesAndRunsHaveTheirEffectsInOrder) {
  for (const uint32_t n : {4u, 50000u, 4000000u}) {
    SCOPED_TRACE(n);
    const Operand in = device().allocate(n * sizeof(float), "in");
    const std::array<Operand, 2> out = {device().allocate(n * sizeof(float), "first"),
                                        device().allocate(n * sizeof(float), "second")};
    std::array<ProgramId, 2> copies{};
    for (size_t i = 0; i < 2; ++i) {
      DispatchTable table;
      emit::activation(table, "copy", {n, kActivationRelu, 0}, out[i], in);
      copies[i] = device().record(table);
    }
    const auto write = [&](float value) {
      const std::vector<float> values(n, value);
      device().write(in, values.data());
    };
    for (float value = 1; value < 10; value += 2) {
      write(value);
      device().run(copies[0]);
      write(value + 1);
      device().run(copies[1]);
      write(-1);
    }
    const auto expect_all = [&](const Operand& operand, float wanted) {
      std::vector<float> found(n);
      device().read(operand, found.data());
      EXPECT_EQ(std::ranges::count(found, wanted), n) << wanted;
    };
    expect_all(out[0], 9);
    expect_all(out[1], 10);
    expect_all(in, -1);
    if (n > 4) continue;
    // More writes than one submission has.
    device().run(copies[0]);
    for (int i = 0; i < 1000; ++i) write(static_cast<float>(i));
    expect_all(in, 999);
  }
}

TEST_F(VulkanDeviceTest, ReportsHowMuchMemoryIsMissing) {
  const std::unique_ptr<Device> device = open({});
  try {
    device->allocate(uint64_t{1} << 50, "the moon");
    FAIL() << "a pebibyte was allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDevice);
    EXPECT_THAT(error.what(), testing::HasSubstr("the moon"));
    EXPECT_THAT(error.what(), testing::HasSubstr("1073741824 MiB"));
  }
}

// A chain of dependent products: x = x + W gelu(V norm(x)).
struct Chain {
  DispatchTable table;
  Operand x;
};
Chain make_chain(Device& device, std::mt19937& engine, uint32_t n_rows, uint32_t d, int n_layers) {
  std::normal_distribution<float> normal(0.0f, 0.05f);
  const auto numbers = [&](size_t n) {
    std::vector<float> values(n);
    for (float& value : values) value = normal(engine);
    return values;
  };
  Chain chain;
  const auto store = [&](const std::vector<float>& values) {
    const Operand buffer = device.allocate(values.size() * 4, "numbers");
    device.write(buffer, values.data());
    return buffer;
  };
  chain.x = store(numbers(size_t{n_rows} * d));
  const Operand normed = device.allocate(size_t{n_rows} * d * 4, "normed");
  const Operand hidden = device.allocate(size_t{n_rows} * 4 * d * 4, "hidden");
  const Operand weight = store(std::vector<float>(d, 1.0f));
  for (int layer = 0; layer < n_layers; ++layer) {
    const auto upload = [&](uint32_t n_out, uint32_t n_in) {
      const std::vector<float> values = numbers(size_t{n_out} * n_in);
      TensorView tensor;
      tensor.shape = {n_out, n_in};
      tensor.data = values.data();
      tensor.bytes = values.size() * 4;
      return device.upload({{&tensor}}, WeightUse::kAnyRows, Compute::kF32);
    };
    const Weight up = upload(4 * d, d), down = upload(d, 4 * d);
    emit::norm(chain.table, "norm", {n_rows, d, 1e-5f, kNormLayer, kDTypeF32, kDTypeF32, d}, normed,
               chain.x, weight, {}, {});
    MatmulParams p{};
    p.n_rows = p.rows_per_batch = n_rows;
    p.n_out = p.out_row_stride = 4 * d;
    p.n_in = p.in_row_stride = d;
    p.weight_format = up.format;
    p.activation = kActivationGelu;
    emit::matmul(chain.table, "up", p, hidden, normed, up.data, {}, {}, up.scale);
    p.n_out = p.out_row_stride = d;
    p.n_in = p.in_row_stride = 4 * d;
    p.weight_format = down.format;
    p.activation = kActivationNone;
    emit::matmul(chain.table, "down", p, chain.x, hidden, down.data, {}, chain.x, down.scale);
  }
  return chain;
}

TEST_F(VulkanDeviceTest, DerivedBarriersGiveTheSameBitsAsFullBarriers) {
  for (const uint32_t n_rows : {1u, 5u, 70u}) {
    std::vector<std::vector<float>> results;
    for (const bool full : {false, true}) {
      VulkanOptions options;
      options.full_barriers = full;
      const std::unique_ptr<Device> device = open(options);
      std::mt19937 engine(5);
      const Chain chain = make_chain(*device, engine, n_rows, 96, 6);
      const ProgramId program = device->record(chain.table);
      device->run(program, 3);
      std::vector<float>& result = results.emplace_back(size_t{n_rows} * 96);
      device->read(chain.x, result.data());
      for (const float value : result) ASSERT_TRUE(std::isfinite(value));
    }
    EXPECT_EQ(0, std::memcmp(results[0].data(), results[1].data(), results[0].size() * 4));
  }
}

// sample_token over one sequence that ends after `max_sampled` tokens; counts the replays.
TEST_F(VulkanDeviceTest, ReplaysAfterTheStopDoNothing) {
  for (const bool conditional : {true, false}) {
    VulkanOptions options;
    options.conditional_rendering = conditional;
    const std::unique_ptr<Device> device = open(options);
    std::mt19937 engine(5);
    Chain chain = make_chain(*device, engine, 1, 64, 1);
    SamplingParams p{};
    p.n_sequences = 1;
    p.n_vocab = p.row_stride = 64;
    p.chunk = 64;
    p.n_chunks = 1;
    p.end_of_text = p.timestamp_begin = p.no_timestamps = p.blank = 64;
    p.max_tokens = 200;
    SequenceState state{};
    state.max_sampled = 5;
    const Operand states = device->allocate(sizeof state, "states");
    const Operand rows = device->allocate(sizeof(Row), "rows");
    const Operand tokens = device->allocate(200 * 4, "tokens");
    const Operand words = device->allocate(8, "words"), stop = words.from(4);
    const Operand partials = device->allocate(sizeof(TokenPartial), "partials");
    const Operand mask = device->allocate(8, "mask");
    device->write(states, &state);
    emit::sample_partials(chain.table, "partials", p, partials, chain.x, states, mask, {});
    emit::sample_token(chain.table, "token", p, states, rows, tokens, {}, stop, partials, mask);
    const ProgramId program = device->record(chain.table);
    const auto x = [&] {
      std::vector<float> values(64);
      device->read(chain.x, values.data());
      return values;
    };
    device->run(program, 5, stop);
    uint32_t stopped = 0;
    device->read(stop, &stopped);
    EXPECT_EQ(stopped, 1u);
    const std::vector<float> after_five = x();
    device->run(program, 100, stop);
    EXPECT_EQ(x(), after_five);
    device->read(states, &state);
    EXPECT_EQ(state.n_sampled, 5u);
    const uint32_t zero = 0;
    device->write(stop, &zero);
    device->run(program, 1, stop);
    EXPECT_NE(x(), after_five);
    // A clock does not count them either.
    for (const Clock clock : {Clock::kPerStage, Clock::kPerCommand}) {
      SequenceState again{};
      again.max_sampled = 5;
      device->write(states, &again);
      device->write(stop, &zero);
      device->set_clock(clock);
      device->run(program, 40, stop);
      EXPECT_EQ(device->replay_times(program).n_runs, 5u);
      device->run(program, 3, stop);
      EXPECT_EQ(device->replay_times(program).n_runs, 5u);
    }
  }
}

TEST_F(VulkanDeviceTest, TimesStagesOrCommandsOfReplays) {
  const std::unique_ptr<Device> device = open({});
  std::mt19937 engine(5);
  const Chain chain = make_chain(*device, engine, 1, 64, 2);
  const ProgramId program = device->record(chain.table);
  const std::vector<uint32_t> stages = chain.table.stages();
  for (const Clock clock : {Clock::kPerStage, Clock::kPerCommand}) {
    device->set_clock(clock);
    for (const uint32_t n : {3, 150, 47}) device->run(program, n);  // more than the slots
    const ReplayTimes times = device->replay_times(program);
    EXPECT_EQ(times.n_runs, 200u);
    ASSERT_EQ(times.us.size(),
              clock == Clock::kPerStage ? stages.back() + 1 : chain.table.commands().size());
    for (const double us : times.us) EXPECT_GT(us, 0.0);
  }
  device->set_clock(Clock::kOff);
  device->run(program);
  EXPECT_EQ(device->replay_times(program).n_runs, 0u);
}

// Alternating long and short stages: a stage's time is its own, not that of the next one.
TEST_F(VulkanDeviceTest, TimesEachStageSeparately) {
  const std::unique_ptr<Device> device = open({});
  constexpr uint32_t kManyRows = 20000, kWidth = 512, kRounds = 4;
  const uint64_t bytes = uint64_t{kManyRows} * kWidth * sizeof(float);
  const Operand x = device->allocate(bytes, "x"), y = device->allocate(bytes, "y");
  const Operand weight = device->allocate(kWidth * sizeof(float), "weight");
  DispatchTable table;
  for (uint32_t i = 0; i < kRounds; ++i) {
    NormParams params{};
    params.d = params.row_stride = kWidth;
    params.kind = kNormRms;
    params.epsilon = 1e-5f;
    params.out_dtype = kDTypeF32;
    params.n_rows = kManyRows;
    emit::norm(table, "long", params, y, x, weight, {}, {});
    params.n_rows = 1;
    emit::norm(table, "short", params, x.part(0, kWidth * sizeof(float)),
               y.part(0, kWidth * sizeof(float)), weight, {}, {});
  }
  const ProgramId program = device->record(table);
  device->run(program, 2);  // warm-up
  device->set_clock(Clock::kPerStage);
  device->run(program, 5);
  const ReplayTimes times = device->replay_times(program);
  ASSERT_EQ(times.us.size(), 2 * kRounds);
  double long_us = 0, short_us = 0;
  for (uint32_t i = 0; i < 2 * kRounds; ++i) (i % 2 == 0 ? long_us : short_us) += times.us[i];
  EXPECT_LT(short_us, 0.2 * long_us);
}

TEST_F(VulkanDeviceTest, WorksBesideAnotherOfTheSameHardware) {
  EXPECT_EQ(open({})->open_beside(), nullptr);
  VulkanOptions options;
  options.opens_beside = true;
  std::unique_ptr<Device> first = open(options);
  std::unique_ptr<Device> beside = first->open_beside();
  ASSERT_NE(beside, nullptr);
  EXPECT_EQ(beside->open_beside(), nullptr);
  // A chain of products, many times, with reads in between.
  const auto run = [](Device& device, uint32_t seed) {
    std::mt19937 engine(seed);
    const Chain chain = make_chain(device, engine, 3, 96, 4);
    const ProgramId program = device.record(chain.table);
    std::vector<float> begin(3 * 96), result(3 * 96);
    device.read(chain.x, begin.data());
    std::vector<std::vector<float>> results;
    for (int i = 0; i < 20; ++i) {
      device.write(chain.x, begin.data());
      device.run(program, 3);
      device.read(chain.x, result.data());
      results.push_back(result);
    }
    return results;
  };
  const std::unique_ptr<Device> alone = open({});
  const auto expected_1 = run(*alone, 1), expected_2 = run(*alone, 2);
  EXPECT_NE(expected_1, expected_2);
  auto other = std::async(std::launch::async, [&] { return run(*beside, 2); });
  EXPECT_EQ(run(*first, 1), expected_1);
  EXPECT_EQ(other.get(), expected_2);
  // Either device may be closed first.
  first.reset();
  EXPECT_EQ(run(*beside, 1), expected_1);
}

TEST_F(VulkanDeviceTest, ReplacesADamagedPipelineCache) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("vesper-cache-" + std::to_string(getpid()));
  ASSERT_EQ(0, setenv("VESPER_CACHE", folder.c_str(), 1));
  const auto run_once = [&] {
    const std::unique_ptr<Device> device = open({});
    std::mt19937 engine(5);
    const Chain chain = make_chain(*device, engine, 1, 64, 1);
    device->run(device->record(chain.table));
    std::vector<float> result(64);
    device->read(chain.x, result.data());
    return result;
  };
  const std::vector<float> wanted = run_once();
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);
  const auto size = std::filesystem::file_size(files[0]);
  const auto content = [&] {
    std::ifstream in(files[0], std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string good = content();
  for (const size_t at : {size_t{3}, size_t{12}, size_t{30}, good.size() - 1}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    std::ofstream(files[0], std::ios::binary) << bad;
    EXPECT_EQ(run_once(), wanted);
    EXPECT_NE(content(), bad);
  }
  std::filesystem::resize_file(files[0], size / 2);
  EXPECT_EQ(run_once(), wanted);
  EXPECT_EQ(run_once(), wanted);
  ASSERT_EQ(0, unsetenv("VESPER_CACHE"));
  std::filesystem::remove_all(folder);
}

TEST_F(VulkanDeviceTest, RefusesAWeightThatIsNotAMatrix) {
  float number = 0;
  TensorView tensor;
  tensor.file_name = "decoder/odd";
  tensor.shape = {1};
  tensor.data = &number;
  tensor.bytes = 4;
  try {
    device().upload({{&tensor}}, WeightUse::kAnyRows, Compute::kF32);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    EXPECT_THAT(error.what(), testing::HasSubstr("decoder/odd"));
  }
}

}  // namespace
}  // namespace vesper::vulkan_device_test
