#include "llm/generation/sampling_defaults.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "llm/files/json_file.h"

namespace vesper {
namespace {

constexpr uint32_t kWholeText = std::numeric_limits<int32_t>::max();

// The number of a key in a model's files; absent: not stated.
using FindNumber = std::function<std::optional<double>(const char* key)>;

class Reader {
 public:
  Reader(const std::string& name, const FindNumber& find) : name_(name), find_(find) {}

  std::optional<float> number(const char* key, double low, double high) const {
    const auto value = find_(key);
    if (!value) return std::nullopt;
    if (!(*value >= low && *value <= high)) fail(key, low, high, *value);
    return static_cast<float>(*value);
  }
  // Negative: `otherwise`, as in llama.cpp.
  std::optional<uint32_t> count(const char* key, uint32_t otherwise) const {
    const auto value = number(key, -1, kWholeText);
    if (!value) return std::nullopt;
    return *value < 0 ? otherwise : static_cast<uint32_t>(std::min<double>(*value, kWholeText));
  }

 private:
  [[noreturn]] void fail(const char* key, double low, double high, double value) const {
    const auto shown = [](double number) { return nlohmann::json(number).dump(); };
    fail_in_file(name_, std::string("expected ") + key + " from " + shown(low) + " to " +
                            shown(high) + ", found " + shown(value));
  }

  const std::string& name_;
  const FindNumber& find_;
};

// The ranges of session/bounds.h.
constexpr double kMostTemperature = 100, kLeastPenalty = 0.01, kMostPenalty = 100;

SamplingDefaults defaults_of_json(const std::string& source, const nlohmann::json& config) {
  const FindNumber find = [&](const char* key) -> std::optional<double> {
    const nlohmann::json* value = find_member(config, key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) {
      fail_in_file(source,
                   std::string("expected ") + key + " to be a number, found " + shown_json(value));
    }
    return value->get<double>();
  };
  const Reader reader(source, find);
  SamplingDefaults defaults{{}, source};
  Sampling& sampling = defaults.sampling;
  if (const auto penalty = reader.number("repetition_penalty", kLeastPenalty, kMostPenalty)) {
    sampling.repetition_penalty = *penalty;
    sampling.penalty_window = kWholeText;
  }
  if (!truth_member(source, config, "do_sample", false)) return defaults;
  sampling.temperature = reader.number("temperature", 0, kMostTemperature).value_or(1);
  sampling.top_k = reader.count("top_k", 0).value_or(50);
  sampling.top_p = reader.number("top_p", 0, 1).value_or(sampling.top_p);
  sampling.min_p = reader.number("min_p", 0, 1).value_or(sampling.min_p);
  sampling.typical_p = reader.number("typical_p", 0, 1).value_or(sampling.typical_p);
  return defaults;
}

}  // namespace

SamplingDefaults sampling_defaults(const std::string& name, const Gguf& gguf) {
  bool has_any = false;
  const FindNumber find = [&](const char* key) {
    const auto value = gguf.find_number(std::string("general.sampling.") + key);
    has_any = has_any || value.has_value();
    return value;
  };
  const Reader reader(name, find);
  SamplingDefaults defaults;
  Sampling& sampling = defaults.sampling;
  const auto top_k = reader.count("top_k", 0);
  const auto top_p = reader.number("top_p", 0, 1);
  const auto min_p = reader.number("min_p", 0, 1);
  // A file with filters and without a temperature is meant for transformers' default of 1.
  const float unstated = top_k || top_p || min_p ? 1.0f : 0.0f;
  sampling.temperature = reader.number("temp", 0, kMostTemperature).value_or(unstated);
  sampling.top_k = top_k.value_or(sampling.top_k);
  sampling.top_p = top_p.value_or(sampling.top_p);
  sampling.min_p = min_p.value_or(sampling.min_p);
  sampling.repetition_penalty = reader.number("penalty_repeat", kLeastPenalty, kMostPenalty)
                                    .value_or(sampling.repetition_penalty);
  sampling.penalty_window =
      reader.count("penalty_last_n", kWholeText).value_or(sampling.penalty_window);
  if (has_any) defaults.source = "general.sampling.*";
  return defaults;
}

void write_sampling_keys(const SamplingDefaults& defaults, GgufWriter& writer) {
  if (defaults.source.empty()) return;
  const Sampling& sampling = defaults.sampling;
  writer.add("general.sampling.temp", sampling.temperature);
  if (sampling.temperature > 0) {
    writer.add("general.sampling.top_k", static_cast<int32_t>(sampling.top_k));
    writer.add("general.sampling.top_p", sampling.top_p);
    writer.add("general.sampling.min_p", sampling.min_p);
  }
  if (sampling.repetition_penalty != 1) {
    writer.add("general.sampling.penalty_repeat", sampling.repetition_penalty);
    writer.add(
        "general.sampling.penalty_last_n",
        sampling.penalty_window == kWholeText ? -1 : static_cast<int32_t>(sampling.penalty_window));
  }
}

SamplingDefaults sampling_defaults(const std::string& source, std::string_view generation_config) {
  const auto bytes = std::as_bytes(std::span(generation_config));
  return defaults_of_json(
      source, parse_json(source, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}));
}

SamplingDefaults sampling_defaults(const WeightProvider& weights) {
  if (const Gguf* gguf = weights.gguf(); gguf != nullptr) {
    return sampling_defaults(weights.path().string(), *gguf);
  }
  constexpr const char* kFile = "generation_config.json";
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(weights.path(), error);
  const ModelFiles files(is_folder ? weights.path() : weights.path().parent_path());
  if (!files.has(kFile)) return {};
  const auto file = files.open(kFile);
  SamplingDefaults defaults = defaults_of_json(file->name(), parse_json(*file));
  defaults.source = kFile;
  return defaults;
}

}  // namespace vesper
