#include "cli/inspect/report.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/terminal/terminal_text.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

constexpr size_t kMaxValue = 100;  // characters of a value in a list, in text reports
constexpr uint64_t kMaxElements = 8;

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

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

std::string bits_text(double bits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", bits);
  return text.data();
}

std::string parameters_text(uint64_t n) {
  std::array<char, 32> text{};
  const auto value = static_cast<double>(n);
  if (n >= 1'000'000'000) {
    std::snprintf(text.data(), text.size(), " (%.2f billion)", value / 1e9);
  } else if (n >= 1'000'000) {
    std::snprintf(text.data(), text.size(), " (%.1f million)", value / 1e6);
  }
  return grouped(n) + text.data();
}

double bits_per_weight(const ModelDescription& model, uint64_t* bytes) {
  *bytes = 0;
  for (const TensorClass& row : tensor_classes(model)) *bytes += row.bytes;
  const uint64_t n = model.n_parameters();
  return n == 0 ? 0.0 : 8.0 * static_cast<double>(*bytes) / static_cast<double>(n);
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

ReportJson json_of(const nlohmann::json& value) { return ReportJson(value); }

}  // namespace

std::string dump(const ReportJson& json) {
  return json.dump(-1, ' ', true, ReportJson::error_handler_t::replace) + "\n";
}

bool matches(const std::vector<std::string>& globs, const std::string& name) {
  return globs.empty() || std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
           return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
         });
}

std::string summary_text(const Summary& summary) {
  const ModelDescription& model = summary.model;
  TextTable facts;
  facts.add({"file", escaped(model.path.string())});
  facts.add({"format", escaped(model.format)});
  facts.add({"family", model.family.empty() ? "not stated" : escaped(model.family, kMaxValue)});
  uint64_t tensor_bytes = 0;
  const double bits = bits_per_weight(model, &tensor_bytes);
  if (!model.tensors.empty()) {
    facts.add({"parameters", parameters_text(model.n_parameters()) + " in " +
                                 grouped(model.tensors.size()) + " tensors"});
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
    facts.add({"KV cache", bytes_text(summary.kv_bytes_per_1000) + " for 1,000 tokens in f16"});
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
               bytes_text(row.bytes), bits_text(row.bits_per_weight())});
  }
  table.add({"all", "", grouped(model.tensors.size()), grouped(model.n_parameters()),
             bytes_text(tensor_bytes), bits_text(bits)});
  return text + "\n" + table.text();
}

ReportJson summary_json(const Summary& summary) {
  const ModelDescription& model = summary.model;
  ReportJson json;
  json["path"] = model.path.string();
  json["format"] = model.format;
  json["family"] = model.family;
  json["n_parameters"] = model.n_parameters();
  json["n_tensors"] = model.tensors.size();
  for (const Fact& fact : model.facts) json[fact.key] = json_of(fact.value);
  json["has_chat_template"] = !model.chat_template.empty();
  json["bytes_on_disk"] = model.bytes_on_disk();
  for (const auto& file : model.files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  uint64_t tensor_bytes = 0;
  json["bits_per_weight"] = bits_per_weight(model, &tensor_bytes);
  json["tensor_bytes"] = tensor_bytes;
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

ReportJson metadata_json(const ModelDescription& model, const std::vector<std::string>& globs) {
  ReportJson json = ReportJson::object();
  for (const MetadataEntry& entry : model.metadata) {
    if (matches(globs, entry.key)) json[entry.key] = json_of(entry.value(~uint64_t{0}));
  }
  return json;
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
  for (size_t i = 0; i < list.tensors.size(); ++i) {
    const DescribedTensor& tensor = *list.tensors[i];
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

ReportJson tensors_json(const TensorList& list) {
  ReportJson rows = ReportJson::array();
  for (size_t i = 0; i < list.tensors.size(); ++i) {
    const DescribedTensor& tensor = *list.tensors[i];
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

}  // namespace vesper
