#include "cli/inspect_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "audio/recording.h"
#include "cli/terminal_text.h"
#include "decoder/transcriber.h"
#include "decoder/whisper_model.h"
#include "error/error.h"
#include "llm/inspect/command_cost.h"

namespace vesper {
namespace {

using Mode = ObservedDevice::Mode;

// A model on a device that is watched.
struct Observed {
  ObservedDevice* device;  // the model's
  std::unique_ptr<WhisperModel> model;
};

Observed load(const std::filesystem::path& path, const std::string& device,
              const std::string& compute, Mode mode, uint32_t threads = 0) {
  auto watched = std::make_unique<ObservedDevice>(
      open_device(device, DeviceOptions{.n_threads = threads}), mode);
  ObservedDevice* observed = watched.get();
  return {observed,
          std::make_unique<WhisperModel>(path, std::move(watched), parse_compute(compute))};
}

// What a recording does, told by its kernels.
std::string pass_name(const DispatchTable& table) {
  const auto& commands = table.commands();
  const auto has = [&](Kernel kernel) {
    return std::any_of(commands.begin(), commands.end(),
                       [&](const Command& command) { return command.kernel == kernel; });
  };
  const auto rows = [&] {
    for (const Command& command : commands) {
      if (command.kernel == Kernel::kEmbed) return command.params_as<EmbedParams>().n_rows;
    }
    return 0u;
  };
  if (has(Kernel::kEmbed)) {
    return has(Kernel::kTokenChoose) ? "step" : "prompt of " + std::to_string(rows());
  }
  if (has(Kernel::kTokenChoose)) return "first token";
  return has(Kernel::kRangeProbabilities) ? "language" : "encode";
}

std::string operand_text(const ObservedDevice& device, const Command& command, uint32_t i) {
  const Operand& operand = command.operands[i];
  const ObservedDevice::Buffer* buffer = device.buffer_of(operand);
  if (buffer == nullptr) return "-";
  std::string text = escaped(buffer->label, 60);
  if (operand.offset_bytes != 0) text += "+" + std::to_string(operand.offset_bytes);
  if ((command.writes >> i & 1) != 0) text += (command.reads >> i & 1) != 0 ? " (rw)" : " (w)";
  return text;
}

double weight_bytes(const ObservedDevice& device, const Command& command) {
  const ObservedDevice::Buffer* buffer =
      command.kernel == Kernel::kMatmul ? device.buffer_of(command.operands[2]) : nullptr;
  return buffer == nullptr ? 0 : static_cast<double>(buffer->bytes);
}

// The model's place for a layer: "encoder.3" of "encoder.3.attn.q".
std::string layer_of(const std::string& label) {
  const size_t digit = label.find_first_of("0123456789");
  if (digit == std::string::npos || digit == 0 || label[digit - 1] != '.') {
    return label.substr(0, label.find('.'));
  }
  return label.substr(0, label.find('.', digit));
}

std::string formatted(const char* format, double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// A matrix of that size of ones, uploaded.
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

// Seconds that one product takes, the best of a few.
double product_seconds(Device& device, uint32_t n_rows, uint32_t n_out, uint32_t n_in,
                       WeightUse use, Compute compute, uint64_t* stored) {
  std::vector<float> values;
  const Weight weight = upload_ones(device, values, n_out, n_in, use, compute);
  *stored = std::max<uint64_t>(weight.data.bytes, 1);
  const DType dtype = device.activation_dtype(compute, use);
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
  const RecordingId recording = device.record(table);
  double best_us = 1e30;
  for (int i = 0; i < 5; ++i) best_us = std::min(best_us, device.profile_us(recording)[0]);
  return best_us * 1e-6;
}

void measure_peaks(Device& device, Compute compute, Profile& profile) {
  constexpr uint32_t kRows = 1536, kWide = 4096, kTall = 8192;
  uint64_t bytes = 0;
  const double product =
      product_seconds(device, kRows, kWide, kWide / 2, WeightUse::kManyRows, compute, &bytes);
  profile.peak_flop_per_s = 2.0 * kRows * kWide * (kWide / 2) / product;
  const double stream =
      product_seconds(device, 1, kTall, kWide, WeightUse::kAnyRows, compute, &bytes);
  profile.peak_bytes_per_s = static_cast<double>(bytes) / stream;
}

MelSpectrogram mel_of(const std::string& recording, const WhisperModel& model) {
  const int n_mels = static_cast<int>(model.n_mels());
  if (!recording.empty()) return read_log_mel(AudioReader(recording), n_mels, model.mel_filters());
  constexpr size_t kSamples = 30 * 16000;
  std::mt19937 random(1);
  std::normal_distribution<float> noise(0.0f, 0.1f);
  std::vector<float> samples(kSamples);
  for (float& sample : samples) sample = noise(random);
  MelSpectrogram mel(n_mels, model.mel_filters());
  mel.push(samples.data(), samples.size());
  mel.finish();
  return mel;
}

struct Total {
  uint64_t n_runs = 0;
  double us = 0, flop = 0, bytes = 0;  // of all runs
};
void add(Total& total, const ProfiledCommand& command) {
  const auto runs = static_cast<double>(command.n_runs);
  total.n_runs += command.n_runs;
  total.us += command.us;
  total.flop += command.flop * runs;
  total.bytes += command.bytes * runs;
}

// In the order of their time.
template <class Key>
std::vector<std::pair<std::string, Total>> totals_by(const Profile& profile, const Key& key) {
  std::vector<std::pair<std::string, Total>> rows;
  for (const ProfiledCommand& command : profile.commands) {
    const std::string name = key(command);
    auto found =
        std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.first == name; });
    if (found == rows.end()) found = rows.insert(rows.end(), {name, {}});
    add(found->second, command);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.us > b.second.us; });
  return rows;
}

std::string totals_text(const Profile& profile, const char* title,
                        const std::vector<std::pair<std::string, Total>>& rows) {
  double all_us = 0;
  for (const auto& [name, total] : rows) all_us += total.us;
  TextTable table(0b11111110);
  table.add({title, "runs", "ms", "share", "GFLOP/s", "of peak", "GB/s", "of peak"});
  for (const auto& [name, total] : rows) {
    const double seconds = total.us * 1e-6;
    table.add({escaped(name), grouped(total.n_runs), formatted("%.2f", total.us / 1000),
               formatted("%.1f%%", 100 * total.us / all_us),
               formatted("%.1f", total.flop / seconds / 1e9),
               formatted("%.0f%%", 100 * total.flop / seconds / profile.peak_flop_per_s),
               formatted("%.1f", total.bytes / seconds / 1e9),
               formatted("%.0f%%", 100 * total.bytes / seconds / profile.peak_bytes_per_s)});
  }
  return table.text();
}

std::string kernel_of(const ProfiledCommand& command) {
  return command.kernel + ", " + command.pass;
}

}  // namespace

MemoryNeed plan_memory(const std::filesystem::path& model, const std::string& device,
                       const std::string& compute) {
  const Observed observed = load(model, device, compute, Mode::kPlan);
  MemoryNeed need;
  need.device = observed.device->info().kind;
  need.compute = compute_name(observed.model->compute());
  need.weights = observed.device->weight_bytes();
  need.available = observed.device->info().memory_bytes;
  if (need.device == "cpu") {
    // This program is now what `transcribe` will be, but for the weights: libraries, vocabulary.
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    need.program = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    need.loading = observed.device->peak_shared_bytes() - observed.device->weight_bytes() -
                   observed.device->other_bytes();
  }
  for (const ObservedDevice::Buffer& buffer : observed.device->buffers()) {
    if (buffer.is_weight) continue;
    const bool is_cache =
        buffer.label.starts_with("keys of ") || buffer.label.starts_with("values of ");
    (is_cache ? need.kv_cache : need.scratch) += buffer.bytes;
  }
  return need;
}

std::string table_text(const ObservedDevice& device) {
  std::string text;
  for (const ObservedDevice::Recorded& recording : device.recordings()) {
    const DispatchTable& pass = recording.table;
    const std::vector<uint32_t> stages = pass.stages();
    text += pass_name(pass) + ": " + grouped(pass.commands().size()) + " commands, " +
            grouped(stages.empty() ? 0 : stages.back() + 1) + " stages\n";
    TextTable table(0b1);
    table.add({"stage", "label", "kernel", "parameters", "operands"});
    for (size_t i = 0; i < pass.commands().size(); ++i) {
      const Command& command = pass.commands()[i];
      std::string operands;
      for (uint32_t j = 0; j < command.n_operands; ++j) {
        operands += (j == 0 ? "" : "; ") + operand_text(device, command, j);
      }
      // The number stands where a barrier is.
      const bool is_first = i == 0 || stages[i] != stages[i - 1];
      table.add({is_first ? std::to_string(stages[i]) : "", escaped(pass.labels()[i]),
                 kernel_name(command.kernel), command_text(command), operands});
    }
    text += table.text("  ") + "\n";
  }
  return text;
}

ReportJson table_json(const ObservedDevice& device) {
  ReportJson passes = ReportJson::array();
  for (const ObservedDevice::Recorded& recording : device.recordings()) {
    const DispatchTable& pass = recording.table;
    const std::vector<uint32_t> stages = pass.stages();
    ReportJson commands = ReportJson::array();
    for (size_t i = 0; i < pass.commands().size(); ++i) {
      const Command& command = pass.commands()[i];
      ReportJson operands = ReportJson::array();
      for (uint32_t j = 0; j < command.n_operands; ++j) {
        const Operand& operand = command.operands[j];
        if (!operand.present()) {
          operands.push_back(nullptr);
          continue;
        }
        const ObservedDevice::Buffer* buffer = device.buffer_of(operand);
        operands.push_back({{"buffer", buffer == nullptr ? "" : buffer->label},
                            {"offset", operand.offset_bytes},
                            {"bytes", operand.bytes},
                            {"read", (command.reads >> j & 1) != 0},
                            {"written", (command.writes >> j & 1) != 0}});
      }
      commands.push_back({{"stage", stages[i]},
                          {"label", pass.labels()[i]},
                          {"kernel", kernel_name(command.kernel)},
                          {"parameters", command_text(command)},
                          {"operands", std::move(operands)}});
    }
    passes.push_back({{"pass", pass_name(pass)}, {"commands", std::move(commands)}});
  }
  return {{"passes", std::move(passes)}};
}

ReportJson model_table(const std::filesystem::path& model, const std::string& device,
                       const std::string& compute, std::string* text) {
  const Observed observed = load(model, device, compute, Mode::kRun);
  // What a step records it records when it is first taken: one token, of an empty window.
  DecodeTask task;
  task.prompt = {observed.model->tokens().sot};
  task.max_tokens = 1;
  observed.model->decoder().decode({&task, 1});
  if (text == nullptr) return table_json(*observed.device);
  *text = table_text(*observed.device);
  return {};
}

Profile profile_model(const ProfileOptions& options) {
  const Observed observed =
      load(options.model, options.device, options.compute, Mode::kProfile, options.threads);
  WhisperModel& model = *observed.model;
  Profile profile;
  profile.device = observed.device->info().kind + " (" + observed.device->info().name + ")";
  profile.compute = compute_name(model.compute());
  const MelSpectrogram mel = mel_of(options.recording, model);
  Transcriber transcriber(model);
  DecodingSettings settings;
  // Once to warm up: pages are touched, pipelines are made, clocks go up.
  transcriber.transcribe(mel, settings, [](const Segment&) {}, {});
  observed.device->reset_runs();
  const auto start = std::chrono::steady_clock::now();
  const Transcript transcript = transcriber.transcribe(mel, settings, [](const Segment&) {}, {});
  profile.elapsed_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  profile.audio_s = transcript.duration_s;
  for (const ObservedDevice::Recorded& recording : observed.device->recordings()) {
    if (recording.n_runs == 0) continue;
    const std::string pass = pass_name(recording.table);
    const double n_positions = static_cast<double>(model.decoder().n_text_ctx()) / 4;
    for (size_t i = 0; i < recording.us.size(); ++i) {
      const Command& command = recording.table.commands()[i];
      const CommandCost cost =
          command_cost(command, weight_bytes(*observed.device, command), n_positions);
      profile.commands.push_back({pass, recording.table.labels()[i], kernel_name(command.kernel),
                                  recording.n_runs, recording.us[i], cost.flop, cost.bytes});
    }
  }
  measure_peaks(*observed.device, model.compute(), profile);
  return profile;
}

std::string profile_text(const Profile& profile) {
  TextTable facts;
  double us = 0;
  for (const ProfiledCommand& command : profile.commands) us += command.us;
  facts.add({"device", escaped(profile.device) + ", " + profile.compute});
  facts.add({"peak", formatted("%.0f GFLOP/s, ", profile.peak_flop_per_s / 1e9) +
                         formatted("%.1f GB/s", profile.peak_bytes_per_s / 1e9) +
                         ", measured with products of this format"});
  facts.add({"recording", formatted("%.1f s", profile.audio_s)});
  facts.add({"commands", formatted("%.1f ms", us / 1000) +
                             formatted(" of %.1f ms, each alone", profile.elapsed_s * 1000)});
  std::string text = facts.text() + "\n";
  text += totals_text(profile, "pass",
                      totals_by(profile, [](const ProfiledCommand& c) { return c.pass; })) +
          "\n";
  text += totals_text(profile, "kernel", totals_by(profile, kernel_of)) + "\n";
  return text + totals_text(profile, "layer", totals_by(profile, [](const ProfiledCommand& c) {
                              return layer_of(c.label);
                            }));
}

ReportJson profile_json(const Profile& profile) {
  ReportJson commands = ReportJson::array();
  for (const ProfiledCommand& command : profile.commands) {
    commands.push_back({{"pass", command.pass},
                        {"label", command.label},
                        {"kernel", command.kernel},
                        {"n_runs", command.n_runs},
                        {"us", command.us},
                        {"flop", command.flop},
                        {"bytes", command.bytes}});
  }
  return {{"device", profile.device},
          {"compute", profile.compute},
          {"audio_s", profile.audio_s},
          {"elapsed_s", profile.elapsed_s},
          {"peak_flop_per_s", profile.peak_flop_per_s},
          {"peak_bytes_per_s", profile.peak_bytes_per_s},
          {"commands", std::move(commands)}};
}

std::string profile_csv(const Profile& profile) {
  std::string text = "pass,label,kernel,runs,us_total,us_mean,flop,bytes\n";
  for (const ProfiledCommand& command : profile.commands) {
    text += command.pass + "," + command.label + "," + command.kernel + "," +
            std::to_string(command.n_runs) + formatted(",%.3f", command.us) +
            formatted(",%.3f", command.us / static_cast<double>(command.n_runs)) +
            formatted(",%.0f", command.flop) + formatted(",%.0f", command.bytes) + "\n";
  }
  return text;
}

std::string profile_trace(const Profile& profile) {
  ReportJson events = ReportJson::array();
  std::vector<std::string> passes;
  double at_us = 0;
  for (const ProfiledCommand& command : profile.commands) {
    if (passes.empty() || passes.back() != command.pass) {
      passes.push_back(command.pass);
      at_us = 0;
      events.push_back({{"ph", "M"},
                        {"name", "thread_name"},
                        {"pid", 1},
                        {"tid", passes.size()},
                        {"args", {{"name", command.pass}}}});
    }
    const double mean_us = command.us / static_cast<double>(command.n_runs);
    events.push_back({{"ph", "X"},
                      {"name", command.label},
                      {"cat", command.kernel},
                      {"pid", 1},
                      {"tid", passes.size()},
                      {"ts", at_us},
                      {"dur", mean_us},
                      {"args",
                       {{"kernel", command.kernel},
                        {"runs", command.n_runs},
                        {"flop", command.flop},
                        {"bytes", command.bytes}}}});
    at_us += mean_us;
  }
  return dump({{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}});
}

}  // namespace vesper
