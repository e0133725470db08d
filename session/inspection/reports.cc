#include "session/inspection/reports.h"

#include "error/number_text.h"

namespace vesper {
namespace {

ReportJson json_of(const nlohmann::json& value) { return ReportJson(value); }

}  // namespace

std::string report_text(const ReportJson& json) {
  return json.dump(-1, ' ', true, ReportJson::error_handler_t::replace);
}

ReportJson summary_json(const ModelSummary& summary) {
  const ModelDescription& model = summary.model;
  ReportJson json;
  json["path"] = model.path.string();
  json["format"] = model.format;
  json["family"] = model.family;
  json["n_parameters"] = model.n_parameters();
  if (model.n_active_parameters() != model.n_parameters()) {
    json["n_active_parameters"] = model.n_active_parameters();
  }
  json["n_tensors"] = model.tensors.size();
  for (const Fact& fact : model.facts) json[fact.key] = json_of(fact.value);
  json["has_chat_template"] = !model.chat_template.empty();
  json["bytes_on_disk"] = model.bytes_on_disk();
  for (const auto& file : model.files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  json["bits_per_weight"] = model.bits_per_weight();
  json["tensor_bytes"] = model.tensor_bytes();
  json["weights"] = ReportJson::array();
  for (const TensorClass& row : tensor_classes(model)) {
    json["weights"].push_back({{"class", row.name},
                               {"format", row.format},
                               {"n_tensors", row.n_tensors},
                               {"n_parameters", row.n_parameters},
                               {"bytes", row.bytes},
                               {"bits_per_weight", row.bits_per_weight()}});
  }
  json["kv_bytes_per_1000_tokens"] = summary.kv_bytes_per_1000;
  json["memory"] = ReportJson::array();
  for (const MemoryNeed& need : summary.memory) {
    if (!need.problem.empty()) {
      json["memory"].push_back({{"device", need.device}, {"problem", need.problem}});
      continue;
    }
    json["memory"].push_back({{"device", need.device},
                              {"compute", need.compute},
                              {"weights", need.weights},
                              {"kv_cache", need.kv_cache},
                              {"n_ctx", need.n_ctx},
                              {"scratch", need.scratch},
                              {"program", need.program},
                              {"loading", need.loading},
                              {"total", need.total()},
                              {"at_least", need.at_least},
                              {"available", need.available},
                              {"fits", need.available == 0 || need.total() <= need.available}});
  }
  json["runs"] = summary.runs == "yes";
  if (summary.runs != "yes") json["why_not"] = summary.runs;
  json["unknown"] = model.unknown;
  json["problems"] = model.problems;
  return json;
}

ReportJson metadata_json(const ModelDescription& model, const std::vector<std::string>& globs) {
  ReportJson json = ReportJson::object();
  for (const MetadataEntry& entry : model.metadata) {
    if (matches(globs, entry.key)) json[entry.key] = json_of(entry.value(~uint64_t{0}));
  }
  return json;
}

ReportJson tensors_json(const TensorList& list) {
  ReportJson rows = ReportJson::array();
  for (size_t i = 0; i < list.model.tensors.size(); ++i) {
    const DescribedTensor& tensor = list.model.tensors[i];
    ReportJson row = {{"name", tensor.view.name},   {"file_name", tensor.view.file_name},
                      {"format", tensor.format},    {"shape", tensor.view.shape},
                      {"file", tensor.file},        {"offset", tensor.offset},
                      {"bytes", tensor.view.bytes}, {"class", tensor_class(tensor.view.name)}};
    if (!list.statistics.empty() && list.statistics[i].n != 0) {
      const TensorStatistics& from = list.statistics[i];
      row["min"] = from.min;
      row["max"] = from.max;
      row["mean"] = from.mean;
      row["standard_deviation"] = from.standard_deviation;
      row["n_nan"] = from.n_nan;
      row["n_infinite"] = from.n_infinite;
      row["n_zero"] = from.n_zero;
    }
    rows.push_back(std::move(row));
  }
  return {{"tensors", std::move(rows)}};
}

ReportJson tokens_json(const TextTokens& text) {
  ReportJson tokens = ReportJson::array();
  for (const TextTokens::Token& token : text.tokens) {
    tokens.push_back({{"id", token.id}, {"text", token.bytes}, {"bytes", token.hex()}});
  }
  return {{"tokenizer", text.tokenizer}, {"tokens", std::move(tokens)}};
}

ReportJson checksums_json(const std::vector<FileChecksum>& checksums) {
  ReportJson files = ReportJson::array();
  for (const FileChecksum& row : checksums) {
    files.push_back({{"file", row.file.string()}, {"sha256", row.sha256}});
  }
  return {{"files", std::move(files)}};
}

ReportJson verification_json(const ModelVerification& verification) {
  return {{"sound", verification.is_sound()},
          {"n_tensors", verification.n_tensors},
          {"n_numbers", verification.n_numbers},
          {"problems", verification.problems}};
}

ReportJson conversion_json(const ConversionReport& report) {
  ReportJson formats = ReportJson::array(), fallbacks = ReportJson::array();
  for (const auto& row : report.formats) {
    formats.push_back({{"format", row.name}, {"n_tensors", row.n_tensors}, {"bytes", row.bytes}});
  }
  for (const auto& row : report.fallbacks) {
    fallbacks.push_back({{"wanted", row.wanted}, {"used", row.used}, {"n_tensors", row.n_tensors}});
  }
  return {{"output", report.output},
          {"bytes", report.bytes},
          {"source_bytes", report.source_bytes},
          {"n_parameters", report.n_parameters},
          {"formats", formats},
          {"fallbacks", fallbacks},
          {"left_out", report.left_out},
          {"shortened_context", report.shortened_context},
          {"was_quantized", report.was_quantized}};
}

ReportJson difference_json(const ModelDifference& difference) {
  ReportJson json;
  for (const auto& [name, values] :
       {std::pair("facts", &difference.facts), std::pair("metadata", &difference.metadata)}) {
    json[name] = ReportJson::array();
    for (const auto& row : *values) {
      json[name].push_back({{"key", row.key}, {"a", json_of(row.a)}, {"b", json_of(row.b)}});
    }
  }
  json["tensors"] = ReportJson::array();
  for (const auto& row : difference.tensors) {
    ReportJson tensor = {{"name", row.name}, {"a", row.a}, {"b", row.b}};
    if (row.largest) tensor["largest_difference"] = *row.largest;
    json["tensors"].push_back(std::move(tensor));
  }
  json["n_equal_tensors"] = difference.n_equal_tensors;
  return json;
}

ReportJson devices_json(const std::vector<DeviceDescription>& devices) {
  ReportJson list = ReportJson::array();
  for (const DeviceDescription& device : devices) {
    const ListedDevice& listing = device.listing;
    ReportJson row = {{"device", listing.device},
                      {"name", listing.name},
                      {"type", listing.type},
                      {"is_hardware_gpu", listing.is_hardware_gpu},
                      {"memory_bytes", listing.memory_bytes}};
    if (!listing.unusable.empty()) {
      row["unusable"] = listing.unusable;
    } else {
      row["computes"] = device.computes;
      row["compute"] = device.compute;
      row["capabilities"] = ReportJson::object();
      for (const DeviceInfo::Capability& capability : device.capabilities) {
        row["capabilities"][capability.name] = capability.what;
      }
    }
    list.push_back(std::move(row));
  }
  return {{"devices", std::move(list)}};
}

ReportJson stored_models_json(const std::vector<StoredModel>& models) {
  ReportJson list = ReportJson::array();
  for (const StoredModel& model : models) {
    list.push_back(
        {{"name", model.name}, {"kind", model.kind_text()}, {"path", model.path.string()}});
  }
  return list;
}

ReportJson known_models_json() {
  ReportJson list = ReportJson::array();
  for (const KnownModel& model : known_models()) {
    ReportJson files = ReportJson::array();
    const auto add = [&](const ModelFile& file) {
      ReportJson row = {{"name", file.name}};
      if (const auto digest = published_digest(file)) {
        row[digest->algorithm == DigestAlgorithm::kSha1 ? "sha1" : "sha256"] = digest->hex;
      }
      files.push_back(std::move(row));
    };
    for (const ModelFile& file : model.beside) add(file);
    add(model.weights);
    list.push_back({{"name", model.name},
                    {"kind", kind_name(model.kind)},
                    {"repository", model.repository},
                    {"revision", model.revision},
                    {"files", std::move(files)}});
  }
  return list;
}

ReportJson table_json(const std::vector<TablePass>& passes) {
  ReportJson list = ReportJson::array();
  for (const TablePass& pass : passes) {
    ReportJson commands = ReportJson::array();
    for (const TableCommand& command : pass.commands) {
      ReportJson operands = ReportJson::array();
      for (const std::optional<TableOperand>& operand : command.operands) {
        if (!operand) {
          operands.push_back(nullptr);
          continue;
        }
        operands.push_back({{"buffer", operand->buffer},
                            {"offset", operand->offset_bytes},
                            {"bytes", operand->bytes},
                            {"read", operand->is_read},
                            {"written", operand->is_written}});
      }
      commands.push_back({{"stage", command.stage},
                          {"barrier_before", command.has_barrier_before},
                          {"label", command.label},
                          {"kernel", command.kernel},
                          {"variant", command.variant},
                          {"grid", command.grid},
                          {"parameters", command.parameters},
                          {"operands", std::move(operands)}});
    }
    list.push_back({{"pass", pass.name}, {"commands", std::move(commands)}});
  }
  return {{"passes", std::move(list)}};
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
            std::to_string(stage.n_runs) + formatted(",%.3f", stage.us) +
            formatted(",%.3f", stage.us / static_cast<double>(stage.n_runs)) +
            formatted(",%.0f", stage.flop) + formatted(",%.0f", stage.bytes) + "\n";
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
  return report_text({{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}) + "\n";
}

}  // namespace vesper
