#include "cli/inspect/report.h"

#include <algorithm>

#include "cli/terminal/terminal_text.h"
#include "error/number_text.h"

namespace vesper {
namespace {

constexpr size_t kMaxValue = 100;  // characters of a value in a list, in text reports
constexpr uint64_t kMaxElements = 8;

std::string number_text(double value) { return formatted("%.6g", value); }

std::string value_text(const nlohmann::json& value, size_t max_characters = kMaxValue) {
  if (value.is_string()) return escaped(value.get_ref<const std::string&>(), max_characters);
  if (value.is_number_float()) return number_text(value.get<double>());
  // Not only ASCII: escaped() makes it safe for terminals.
  return escaped(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                 max_characters);
}

// A count with separators; other values unchanged.
std::string fact_text(const Fact& fact) {
  if (fact.value.is_number_unsigned()) return grouped(fact.value.get<uint64_t>());
  if (fact.value.is_boolean()) return fact.value.get<bool>() ? "yes" : "no";
  if (fact.key == "alignment_heads") {
    return fact.value.empty() ? "none in the files"
                              : std::to_string(fact.value.size()) + ": " + value_text(fact.value);
  }
  return value_text(fact.value);
}

std::string parameters_text(uint64_t n) {
  const auto value = static_cast<double>(n);
  if (n >= 1'000'000'000) return grouped(n) + formatted(" (%.2f billion)", value / 1e9);
  if (n >= 1'000'000) return grouped(n) + formatted(" (%.1f million)", value / 1e6);
  return grouped(n);
}

std::string memory_text(const MemoryNeed& need) {
  if (!need.problem.empty()) return escaped(need.problem);
  std::string parts;
  const auto add = [&](const char* name, uint64_t bytes) {
    if (bytes != 0) parts += (parts.empty() ? "" : ", ") + std::string(name) + bytes_text(bytes);
  };
  add("weights ", need.weights);
  const std::string of = need.n_ctx == 0 ? "" : "of " + grouped(need.n_ctx) + " tokens ";
  add(("KV cache " + of).c_str(), need.kv_cache);
  add("scratch ", need.scratch);
  add("program ", need.program);
  add("loading ", need.loading);
  std::string text = (need.at_least ? "at least " : "") + bytes_text(need.total()) +
                     (need.compute.empty() ? "" : " at " + need.compute) + " (" + parts + ")";
  if (need.available == 0) return text;
  const std::string limit = bytes_text(need.available) + " available";
  return text + (need.total() <= need.available ? ": fits, " : ": does not fit, ") + limit;
}

std::string operand_text(const std::optional<TableOperand>& operand) {
  if (!operand || operand->buffer.empty()) return "-";
  std::string text = escaped(operand->buffer, 60);
  if (operand->offset_bytes != 0) text += "+" + std::to_string(operand->offset_bytes);
  if (operand->is_written) text += operand->is_read ? " (rw)" : " (w)";
  return text;
}

// The layer of a label: "encoder.3" of "encoder.3.attn.q".
std::string layer_of(const std::string& label) {
  const size_t digit = label.find_first_of("0123456789");
  if (digit == std::string::npos || digit == 0 || label[digit - 1] != '.') {
    return label.substr(0, label.find('.'));
  }
  return label.substr(0, label.find('.', digit));
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
  return rate > peak ? above : formatted("%.0f%%", 100 * rate / peak);
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
    table.add({escaped(name), grouped(total.n_runs), formatted("%.2f", total.us / 1000),
               formatted("%.1f%%", all_us > 0 ? 100 * total.us / all_us : 0),
               formatted("%.1f", flop_per_s / 1e9),
               share_of_peak(flop_per_s, profile.peak_flop_per_s, "100%"),
               formatted("%.1f", bytes_per_s / 1e9),
               share_of_peak(bytes_per_s, profile.peak_bytes_per_s, "cache")});
  }
  return table.text();
}

std::string kernel_of(const ProfiledStage& stage) { return stage.kernel + ", " + stage.pass; }

}  // namespace

std::string summary_text(const ModelSummary& summary) {
  const ModelDescription& model = summary.model;
  TextTable facts;
  facts.add({"file", escaped(model.path.string())});
  facts.add({"format", escaped(model.format)});
  facts.add({"family", model.family.empty() ? "not stated" : escaped(model.family, kMaxValue)});
  if (!model.tensors.empty()) {
    const uint64_t n = model.n_parameters(), n_active = model.n_active_parameters();
    facts.add(
        {"parameters", parameters_text(n) + " in " + grouped(model.tensors.size()) + " tensors" +
                           (n_active == n ? "" : ", a token uses " + parameters_text(n_active))});
  }
  for (const Fact& fact : model.facts) facts.add({fact.label, fact_text(fact)});
  facts.add({"chat template", model.chat_template.empty()
                                  ? "none"
                                  : grouped(model.chat_template.size()) + " characters"});
  facts.add({"on disk",
             bytes_text(model.bytes_on_disk()) +
                 (model.files.size() > 1 ? " in " + std::to_string(model.files.size()) + " files"
                                         : std::string())});
  if (summary.kv_bytes_per_1000 != 0) {
    facts.add({"KV cache", bytes_text(summary.kv_bytes_per_1000) + " for 1,000 tokens in " +
                               kv_types_text(summary.kv_types)});
  }
  for (const MemoryNeed& need : summary.memory) {
    facts.add({"memory, " + need.device, memory_text(need)});
  }
  facts.add({"runs here", escaped(summary.runs)});
  for (const std::string& part : model.unknown) facts.add({"not known", escaped(part)});
  for (const std::string& problem : model.problems) facts.add({"damaged", escaped(problem)});
  std::string text = facts.text();

  const std::vector<TensorClass> classes = tensor_classes(model);
  if (classes.empty()) return text;
  TextTable table(0b111100);
  table.add({"weights", "format", "tensors", "parameters", "bytes", "bits per weight"});
  for (const TensorClass& row : classes) {
    table.add({row.name, escaped(row.format), grouped(row.n_tensors), grouped(row.n_parameters),
               bytes_text(row.bytes), formatted("%.2f", row.bits_per_weight())});
  }
  table.add({"all", "", grouped(model.tensors.size()), grouped(model.n_parameters()),
             bytes_text(model.tensor_bytes()), formatted("%.2f", model.bits_per_weight())});
  return text + "\n" + table.text();
}

std::string metadata_text(const ModelDescription& model, const std::vector<std::string>& globs) {
  TextTable table;
  for (const MetadataEntry& entry : model.metadata) {
    if (!matches(globs, entry.key)) continue;
    std::string value = value_text(entry.value(kMaxElements));
    if (entry.n_values > kMaxElements) value += " of " + grouped(entry.n_values);
    table.add({escaped(entry.key), entry.type, std::move(value)});
  }
  return table.text();
}

std::string tensors_text(const TensorList& list) {
  const bool has_statistics = !list.statistics.empty();
  TextTable table(0b111111000);
  table.add({"name", "format", "shape", "offset", "bytes"});
  if (has_statistics) {
    table = TextTable(0b1111111000);
    table.add(
        {"name", "format", "shape", "bytes", "min", "max", "mean", "deviation", "NaN", "infinite"});
  }
  for (size_t i = 0; i < list.model.tensors.size(); ++i) {
    const DescribedTensor& tensor = list.model.tensors[i];
    std::vector<std::string> cells = {escaped(tensor.view.name, kMaxValue), escaped(tensor.format),
                                      shape_text(tensor.view.shape)};
    if (has_statistics) {
      const TensorStatistics& row = list.statistics[i];
      cells.insert(cells.end(),
                   {grouped(tensor.view.bytes), number_text(row.min), number_text(row.max),
                    number_text(row.mean), number_text(row.standard_deviation), grouped(row.n_nan),
                    grouped(row.n_infinite)});
      if (row.n == 0) cells.resize(4);
    } else {
      cells.push_back(std::to_string(tensor.offset));
      cells.push_back(grouped(tensor.view.bytes));
    }
    table.add(std::move(cells));
  }
  return table.text();
}

std::string conversion_text(const ConversionReport& report) {
  const auto tensors = [](uint64_t n) { return grouped(n) + (n == 1 ? " tensor" : " tensors"); };
  TextTable table(0b110);
  for (const auto& row : report.formats) {
    table.add({row.name, tensors(row.n_tensors), bytes_text(row.bytes)});
  }
  std::string text = escaped(report.output) + ": " + bytes_text(report.bytes) + ", from " +
                     bytes_text(report.source_bytes) + "\n" + table.text("  ");
  for (const auto& row : report.fallbacks) {
    text += tensors(row.n_tensors) + " in " + row.used + " instead of " + row.wanted +
            ", because the length of a row is no multiple of its block\n";
  }
  if (!report.left_out.empty()) {
    constexpr size_t kMostNames = 3;
    text += "left out " + tensors(report.left_out.size()) + " that the format has no name for:";
    for (size_t i = 0; i < std::min(report.left_out.size(), kMostNames); ++i) {
      text += (i == 0 ? " " : ", ") + escaped(report.left_out[i], kMaxValue);
    }
    text += report.left_out.size() > kMostNames ? ", ...\n" : "\n";
  }
  if (report.shortened_context != 0) {
    text += "the context ends after " + grouped(report.shortened_context) +
            " tokens, because this family has no sliding windows in GGUF\n";
  }
  if (report.was_quantized) {
    text += "the model was quantized before: converting its original loses less\n";
  }
  return text;
}

std::string difference_text(const ModelDifference& difference) {
  const auto shown = [](const nlohmann::json& value) {
    return value.is_null() ? std::string("-") : value_text(value, 40);
  };
  std::string text;
  for (const auto* values : {&difference.facts, &difference.metadata}) {
    TextTable table;
    for (const auto& row : *values) table.add({escaped(row.key), shown(row.a), shown(row.b)});
    text += table.text();
  }
  TextTable table(0b1000);
  for (const auto& row : difference.tensors) {
    table.add({escaped(row.name, kMaxValue), row.a.empty() ? "-" : escaped(row.a),
               row.b.empty() ? "-" : escaped(row.b),
               row.largest ? "largest difference " + number_text(*row.largest) : ""});
  }
  text += table.text();
  return text + grouped(difference.n_equal_tensors) + " tensors are equal, " +
         grouped(difference.tensors.size()) + " are not\n";
}

std::string models_text(const std::vector<StoredModel>& models) {
  TextTable table;
  for (const StoredModel& model : models) {
    table.add({escaped(model.name), model.kind_text(), escaped(model.path.string())});
  }
  return table.text();
}

std::string tokens_text(const TextTokens& text) {
  TextTable table(0b1);
  table.add({"id", "token", "bytes"});
  for (const TextTokens::Token& token : text.tokens) {
    table.add({std::to_string(token.id), "\"" + escaped(token.bytes) + "\"", token.hex()});
  }
  return table.text();
}

std::string checksums_text(const std::vector<FileChecksum>& checksums) {
  std::string text;
  for (const FileChecksum& row : checksums) {
    text += row.sha256 + "  " + escaped(row.file.string()) + "\n";
  }
  return text;
}

std::string verification_text(const ModelVerification& verification) {
  if (verification.is_sound()) {
    return "sound: " + grouped(verification.n_tensors) + " tensors, " +
           grouped(verification.n_numbers) + " numbers read\n";
  }
  const size_t n = verification.problems.size();
  std::string text;
  for (const std::string& problem : verification.problems) text += escaped(problem) + "\n";
  return text + grouped(n) + (n == 1 ? " problem\n" : " problems\n");
}

std::string devices_text(const std::vector<DeviceDescription>& devices) {
  std::string text;
  for (const DeviceDescription& device : devices) {
    const ListedDevice& listing = device.listing;
    text += (text.empty() ? "" : "\n") + listing.device + ": " + escaped(listing.name) + ", " +
            listing.type + "\n";
    if (!listing.unusable.empty()) {
      text += "  not usable: " + escaped(listing.unusable) + "\n";
      continue;
    }
    std::string computes;
    for (const std::string& compute : device.computes) {
      computes += (computes.empty() ? "" : ", ") + compute;
    }
    TextTable table;
    table.add(
        {"memory", listing.memory_bytes == 0 ? "not known" : bytes_text(listing.memory_bytes)});
    table.add({"computes in", computes + "; by itself in " + device.compute});
    for (const DeviceInfo::Capability& capability : device.capabilities) {
      table.add({capability.name, capability.what});
    }
    text += table.text("  ");
  }
  return text;
}

std::string table_text(const std::vector<TablePass>& passes) {
  std::string text;
  for (const TablePass& pass : passes) {
    text += pass.name + ": " + grouped(pass.commands.size()) + " commands, " +
            grouped(pass.commands.back().stage + 1) + " stages, a barrier between stages\n";
    TextTable table(0b10001);
    table.add({"stage", "label", "kernel", "variant", "grid", "parameters", "operands"});
    for (const TableCommand& command : pass.commands) {
      std::string operands;
      for (const std::optional<TableOperand>& operand : command.operands) {
        operands += (operands.empty() ? "" : "; ") + operand_text(operand);
      }
      // The stage number is printed at a barrier.
      const bool is_first = command.has_barrier_before || &command == pass.commands.data();
      table.add({is_first ? std::to_string(command.stage) : "", escaped(command.label),
                 command.kernel, command.variant,
                 std::to_string(command.grid[0]) + "x" + std::to_string(command.grid[1]) + "x" +
                     std::to_string(command.grid[2]),
                 command.parameters, operands});
    }
    text += table.text("  ") + "\n";
  }
  return text;
}

std::string profile_text(const Profile& profile) {
  TextTable facts;
  double us = 0;
  for (const ProfiledStage& stage : profile.stages) us += stage.us;
  facts.add({"device", escaped(profile.device) + ", " + profile.compute});
  facts.add({"peak", formatted("%.0f GFLOP/s, ", profile.peak_flop_per_s / 1e9) +
                         formatted("%.1f GB/s", profile.peak_bytes_per_s / 1e9) +
                         ", measured with products of this format"});
  facts.add({"work", profile.work});
  facts.add({"took", formatted("%.1f ms", profile.elapsed_s * 1000) +
                         formatted(", %.1f ms without the clock", profile.plain_s * 1000) +
                         formatted(" (%+.1f%%)", 100 * profile.overhead())});
  facts.add({"on the device", formatted("%.1f ms, by a clock ", us / 1000) +
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

}  // namespace vesper
