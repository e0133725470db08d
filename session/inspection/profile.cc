#include "session/inspection/profile.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "llm/devices/open_device.h"
#include "llm/inspect/command_cost.h"
#include "session/bounds.h"
#include "session/inspection/observed_model.h"

namespace vesper {
namespace {

double weight_bytes(const ObservedDevice& device, const Command& command) {
  const ObservedDevice::Buffer* buffer =
      command.kernel == Kernel::kMatmul ? device.buffer_of(command.operands[2]) : nullptr;
  return buffer == nullptr ? 0 : static_cast<double>(buffer->bytes);
}

// Uploads a matrix of ones.
Weight upload_ones(Device& device, std::vector<float>& values, uint32_t n_out, uint32_t n_in,
                   WeightUse use, Compute compute) {
  values.assign(size_t{n_out} * n_in, 1.0f);
  TensorView view;
  view.name = view.file_name = "ones";
  view.shape = {n_out, n_in};
  view.data = values.data();
  view.bytes = values.size() * sizeof(float);
  return device.upload({{&view}}, use, compute);
}

// Seconds of one product, the best of a few.
double product_seconds(Device& device, uint32_t n_rows, uint32_t n_out, uint32_t n_in,
                       WeightUse use, Compute compute, uint64_t* stored) {
  std::vector<float> values;
  const Weight weight = upload_ones(device, values, n_out, n_in, use, compute);
  *stored = std::max<uint64_t>(weight.data.bytes, 1);
  const DType dtype = device.activation_dtype(compute, use, n_rows);
  const uint64_t element = dtype_descriptor(dtype).block_bytes;
  MatmulParams params{};
  params.n_rows = params.rows_per_batch = n_rows;
  params.n_out = params.out_row_stride = n_out;
  params.n_in = params.in_row_stride = n_in;
  params.in_batch_stride = n_rows * n_in;
  params.out_batch_stride = n_rows * n_out;
  params.in_dtype = static_cast<uint32_t>(dtype);
  params.out_dtype = kDTypeF32;
  params.weight_format = weight.format;
  DispatchTable table;
  emit::matmul(table, "peak", params,
               device.allocate(uint64_t{n_rows} * n_out * sizeof(float), "peak out"),
               device.allocate(uint64_t{n_rows} * n_in * element, "peak in"), weight.data, {}, {},
               weight.scale);
  const ProgramId recording = device.record(table);
  double best_us = 1e30;
  for (int i = 0; i < 5; ++i) {
    device.set_clock(Clock::kPerCommand);
    device.run(recording, 1, {});
    best_us = std::min(best_us, device.replay_times(recording).us.at(0));
  }
  return best_us * 1e-6;
}

void measure_peaks(Device& device, Compute compute, Profile& profile) {
  // A software Vulkan device would take minutes for a matrix that occupies a GPU.
  const bool slow = device.info().policy.is_emulated_gpu;
  const uint32_t rows = slow ? 128 : 1536, wide = slow ? 1024 : 4096, tall = slow ? 1024 : 8192;
  uint64_t bytes = 0;
  const double product =
      product_seconds(device, rows, wide, wide / 2, WeightUse::kManyRows, compute, &bytes);
  profile.peak_flop_per_s = 2.0 * rows * wide * (wide / 2) / product;
  const double stream =
      product_seconds(device, 1, tall, wide, WeightUse::kAnyRows, compute, &bytes);
  profile.peak_bytes_per_s = static_cast<double>(bytes) / stream;
}

// Adds the stages of a program with their commands.
void add_stages(const ObservedDevice& device, ProgramId id, const ReplayTimes& times,
                double n_positions, Profile& profile) {
  const DispatchTable& table = device.programs()[id];
  std::vector<uint32_t> stages = table.stages();
  if (profile.per_command) std::iota(stages.begin(), stages.end(), 0u);
  const size_t first = profile.stages.size();
  profile.stages.resize(first + times.us.size());
  for (size_t i = 0; i < stages.size(); ++i) {
    ProfiledStage& stage = profile.stages[first + stages[i]];
    const Command& command = table.commands()[i];
    const CommandCost cost = command_cost(command, weight_bytes(device, command), n_positions);
    stage.pass = pass_name(table);
    stage.labels.push_back(table.labels()[i]);
    const std::string kernel = kernel_name(command.kernel);
    if (stage.kernel.empty()) {
      stage.kernel = kernel;
    } else if ((stage.kernel + " + ").find(kernel + " + ") == std::string::npos) {
      stage.kernel += " + " + kernel;
    }
    stage.n_runs = times.n_runs;
    stage.us = times.us[stages[i]];
    stage.flop += cost.flop;
    stage.bytes += cost.bytes;
  }
}

}  // namespace

Profile profile_model(const ProfileOptions& options) {
  if (options.threads != 0) check_bounds("threads", bounds::kThreads, options.threads);
  ObservedModel model(open_model(options.model),
                      open_device(options.device, {.n_threads = options.threads}), options.compute,
                      ObservedDevice::Mode::kRun);
  ObservedDevice& device = model.device();
  Profile profile;
  profile.device = device_text(device.info());
  profile.compute = model.compute_text();
  profile.per_command = options.per_command;
  model.read_input(options.input);
  const auto seconds_of_a_run = [&](Clock clock) {
    device.set_clock(clock);
    const auto start = std::chrono::steady_clock::now();
    model.run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const Clock clock = options.per_command ? Clock::kPerCommand : Clock::kPerStage;
  // Warm-up: touches pages, makes pipelines and command buffers, raises clock rates.
  double spent_s = seconds_of_a_run(Clock::kOff) + seconds_of_a_run(clock);
  // Alternating runs, the best of each, so that other load affects both alike.
  constexpr int kMostRuns = 9;
  std::vector<ReplayTimes> times(device.programs().size());
  for (int i = 0; i == 0 || (i < kMostRuns && spent_s < options.enough_s); ++i) {
    const double plain_s = seconds_of_a_run(Clock::kOff);
    const double clocked_s = seconds_of_a_run(clock);
    spent_s += plain_s + clocked_s;
    if (i == 0 || plain_s < profile.plain_s) profile.plain_s = plain_s;
    if (i > 0 && clocked_s >= profile.elapsed_s) continue;
    profile.elapsed_s = clocked_s;
    for (ProgramId id = 0; id < times.size(); ++id) times[id] = device.replay_times(id);
  }
  for (ProgramId id = 0; id < times.size(); ++id) {
    if (times[id].n_runs != 0) add_stages(device, id, times[id], model.n_positions(), profile);
  }
  profile.work = model.work();
  measure_peaks(device, model.compute(), profile);
  // Other load may have slowed down the measurement, and a reached rate is a lower limit of the
  // peak.
  for (const ProfiledStage& stage : profile.stages) {
    const double flop = stage.flop * static_cast<double>(stage.n_runs);
    if (stage.us > 0) {
      profile.peak_flop_per_s = std::max(profile.peak_flop_per_s, flop / (stage.us * 1e-6));
    }
  }
  return profile;
}

std::string ProfiledStage::label() const {
  std::string text;
  for (const std::string& label : labels) text += (text.empty() ? "" : " + ") + label;
  return text;
}

}  // namespace vesper
