#include "cli/inspect/profile.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <numeric>

#include "cli/inspect/observed_model.h"
#include "cli/terminal/terminal_text.h"
#include "llm/devices/open_device.h"
#include "llm/inspect/command_cost.h"

namespace vesper {
namespace {

double weight_bytes(const ObservedDevice& device, const Command& command) {
  const ObservedDevice::Buffer* buffer =
      command.kernel == Kernel::kMatmul ? device.buffer_of(command.operands[2]) : nullptr;
  return buffer == nullptr ? 0 : static_cast<double>(buffer->bytes);
}

// The layer of a label: "encoder.3" of "encoder.3.attn.q".
std::string layer_of(const std::string& label) {
  const size_t digit = label.find_first_of("0123456789");
  if (digit == std::string::npos || digit == 0 || label[digit - 1] != '.') {
    return label.substr(0, label.find('.'));
  }
  return label.substr(0, label.find('.', digit));
}

std::string decimal_text(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
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

struct Total {
  uint64_t n_runs = 0;
  double us = 0, flop = 0, bytes = 0;  // of all runs
};
void add(Total& total, const ProfiledStage& stage) {
  const auto runs = static_cast<double>(stage.n_runs);
  total.n_runs += stage.n_runs;
  total.us += stage.us;
  total.flop += stage.flop * runs;
  total.bytes += stage.bytes * runs;
}

// By descending time.
template <class Key>
std::vector<std::pair<std::string, Total>> totals_by(const Profile& profile, const Key& key) {
  std::vector<std::pair<std::string, Total>> rows;
  for (const ProfiledStage& stage : profile.stages) {
    const std::string name = key(stage);
    auto found =
        std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.first == name; });
    if (found == rows.end()) found = rows.insert(rows.end(), {name, {}});
    add(found->second, stage);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.us > b.second.us; });
  return rows;
}

// "94%", or `above` if it exceeds the peak (of a cache).
std::string share_of_peak(double rate, double peak, const char* above) {
  return rate > peak ? above : decimal_text("%.0f%%", 100 * rate / peak);
}

std::string totals_text(const Profile& profile, const char* title,
                        const std::vector<std::pair<std::string, Total>>& rows) {
  double all_us = 0;
  for (const auto& [name, total] : rows) all_us += total.us;
  TextTable table(0b11111110);
  table.add({title, "runs", "ms", "share", "GFLOP/s", "of peak", "GB/s", "of peak"});
  for (const auto& [name, total] : rows) {
    // A stage may be shorter than a tick of the device's clock.
    const double per_s = total.us > 0 ? 1e6 / total.us : 0;
    const double flop_per_s = total.flop * per_s, bytes_per_s = total.bytes * per_s;
    table.add({escaped(name), grouped(total.n_runs), decimal_text("%.2f", total.us / 1000),
               decimal_text("%.1f%%", all_us > 0 ? 100 * total.us / all_us : 0),
               decimal_text("%.1f", flop_per_s / 1e9),
               share_of_peak(flop_per_s, profile.peak_flop_per_s, "100%"),
               decimal_text("%.1f", bytes_per_s / 1e9),
               share_of_peak(bytes_per_s, profile.peak_bytes_per_s, "cache")});
  }
  return table.text();
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

std::string kernel_of(const ProfiledStage& stage) { return stage.kernel + ", " + stage.pass; }

}  // namespace

Profile profile_model(const ProfileOptions& options) {
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

std::string profile_text(const Profile& profile) {
  TextTable facts;
  double us = 0;
  for (const ProfiledStage& stage : profile.stages) us += stage.us;
  facts.add({"device", escaped(profile.device) + ", " + profile.compute});
  facts.add({"peak", decimal_text("%.0f GFLOP/s, ", profile.peak_flop_per_s / 1e9) +
                         decimal_text("%.1f GB/s", profile.peak_bytes_per_s / 1e9) +
                         ", measured with products of this format"});
  facts.add({"work", profile.work});
  facts.add({"took", decimal_text("%.1f ms", profile.elapsed_s * 1000) +
                         decimal_text(", %.1f ms without the clock", profile.plain_s * 1000) +
                         decimal_text(" (%+.1f%%)", 100 * profile.overhead())});
  facts.add({"on the device", decimal_text("%.1f ms, by a clock ", us / 1000) +
                                  (profile.per_command ? "after each command, with a barrier there"
                                                       : "at the barriers")});
  std::string text = facts.text() + "\n";
  text += totals_text(profile, "pass",
                      totals_by(profile, [](const ProfiledStage& s) { return s.pass; })) +
          "\n";
  text += totals_text(profile, "kernel", totals_by(profile, kernel_of)) + "\n";
  return text + totals_text(profile, "layer", totals_by(profile, [](const ProfiledStage& s) {
                              return layer_of(s.labels.front());
                            }));
}

ReportJson profile_json(const Profile& profile) {
  ReportJson stages = ReportJson::array();
  for (const ProfiledStage& stage : profile.stages) {
    stages.push_back({{"pass", stage.pass},
                      {"labels", stage.labels},
                      {"kernel", stage.kernel},
                      {"n_runs", stage.n_runs},
                      {"us", stage.us},
                      {"flop", stage.flop},
                      {"bytes", stage.bytes}});
  }
  return {{"device", profile.device},
          {"compute", profile.compute},
          {"clock", profile.per_command ? "command" : "stage"},
          {"work", profile.work},
          {"elapsed_s", profile.elapsed_s},
          {"plain_s", profile.plain_s},
          {"overhead", profile.overhead()},
          {"peak_flop_per_s", profile.peak_flop_per_s},
          {"peak_bytes_per_s", profile.peak_bytes_per_s},
          {"stages", std::move(stages)}};
}

std::string profile_csv(const Profile& profile) {
  std::string text = "pass,label,kernel,runs,us_total,us_mean,flop,bytes\n";
  for (const ProfiledStage& stage : profile.stages) {
    text += stage.pass + "," + stage.label() + "," + stage.kernel + "," +
            std::to_string(stage.n_runs) + decimal_text(",%.3f", stage.us) +
            decimal_text(",%.3f", stage.us / static_cast<double>(stage.n_runs)) +
            decimal_text(",%.0f", stage.flop) + decimal_text(",%.0f", stage.bytes) + "\n";
  }
  return text;
}

std::string profile_trace(const Profile& profile) {
  ReportJson events = ReportJson::array();
  std::vector<std::string> passes;
  double at_us = 0;
  for (const ProfiledStage& stage : profile.stages) {
    if (passes.empty() || passes.back() != stage.pass) {
      passes.push_back(stage.pass);
      at_us = 0;
      events.push_back({{"ph", "M"},
                        {"name", "thread_name"},
                        {"pid", 1},
                        {"tid", passes.size()},
                        {"args", {{"name", stage.pass}}}});
    }
    const double mean_us = stage.us / static_cast<double>(stage.n_runs);
    events.push_back({{"ph", "X"},
                      {"name", stage.label()},
                      {"cat", stage.kernel},
                      {"pid", 1},
                      {"tid", passes.size()},
                      {"ts", at_us},
                      {"dur", mean_us},
                      {"args",
                       {{"kernel", stage.kernel},
                        {"runs", stage.n_runs},
                        {"flop", stage.flop},
                        {"bytes", stage.bytes}}}});
    at_us += mean_us;
  }
  return dump({{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}});
}

}  // namespace vesper
