// inspect: describes a model's files, its memory and its commands. Parses the command line and
// prints reports.

#include "cli/terminal/program.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "cli/inspect/model_plan.h"
#include "cli/inspect/observed_model.h"
#include "cli/inspect/options.h"
#include "cli/inspect/profile.h"
#include "cli/inspect/report.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/terminal_text.h"
#include "error/error.h"
#include "llm/cpu/cpu_device.h"
#include "llm/cpu/cpu_features.h"
#include "llm/files/folder_names.h"
#include "llm/tokenizer/files/open_text_tokenizer.h"
#include "llm/tokenizer/whisper_tokens.h"
#include "llm/weights/model_families.h"
#include "session/digest.h"
#ifdef VESPER_HAS_VULKAN
#include "llm/devices/open_device.h"
#include "llm/vulkan/vulkan_device.h"
#include "llm/weights/weight_provider.h"
#endif

namespace vesper {
namespace {

constexpr int kModelsDiffer = 1;

// Whether a format without a reader has integers.
bool has_integers(const std::string& format) {
  constexpr std::array<std::string_view, 9> kFormats = {"i8",  "u8",  "i16", "u16", "i32",
                                                        "u32", "i64", "u64", "bool"};
  return std::find(kFormats.begin(), kFormats.end(), format) != kFormats.end();
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

class Run {
 public:
  explicit Run(InspectArguments arguments) : arguments_(std::move(arguments)) {}

  int run() {
    switch (arguments_.mode) {
      case InspectMode::kSummary:
        return summary();
      case InspectMode::kMetadata: {
        const ModelDescription model = described(0);
        print([&] { return metadata_text(model, arguments_.filters); },
              [&] { return metadata_json(model, arguments_.filters); });
        return 0;
      }
      case InspectMode::kTensors:
        return tensors();
      case InspectMode::kTokenizer:
        return tokenizer();
      case InspectMode::kChecksum:
        return checksum();
      case InspectMode::kVerify:
        return verify();
      case InspectMode::kDiff: {
        const ModelDescription a = described(0), b = described(1);
        const ModelDifference difference = model_difference(a, b, arguments_.threads);
        print([&] { return difference_text(difference); },
              [&] { return difference_json(difference); });
        return difference.empty() ? 0 : kModelsDiffer;
      }
      case InspectMode::kDevices:
        return devices();
      case InspectMode::kModels:
        return models();
      case InspectMode::kTable: {
        std::string text;
        const ReportJson json = model_table(path_of(0), arguments_.device, arguments_.compute,
                                            arguments_.json ? nullptr : &text);
        print([&] { return text; }, [&] { return json; });
        return 0;
      }
      case InspectMode::kProfile:
        return profile();
    }
    return 0;
  }

 private:
  template <class Text, class Json>
  void print(const Text& text, const Json& json) {
    write_to_stdout(arguments_.json ? dump(json()) : text());
  }

  std::filesystem::path path_of(size_t index) const {
    return find_model_showing("inspect", arguments_.models[index], ModelKind::kSpeech,
                              arguments_.offline);
  }

  int models() {
    const std::vector<StoredModel> models = ModelStore().list();
    const auto kind_of = [](const StoredModel& model) -> std::string {
      if (!model.kind) return "unknown";
      switch (*model.kind) {
        case ModelKind::kSpeech:
          return "speech";
        case ModelKind::kVad:
          return "voice activity";
        case ModelKind::kTextEncoder:
          return "text encoder";
        case ModelKind::kLanguage:
          return "language";
      }
      return "unknown";
    };
    TextTable table;
    ReportJson list = ReportJson::array();
    for (const StoredModel& model : models) {
      table.add({escaped(model.name), kind_of(model), escaped(model.path.string())});
      list.push_back(
          {{"name", model.name}, {"kind", kind_of(model)}, {"path", model.path.string()}});
    }
    print([&] { return table.text(); }, [&] { return list; });
    return 0;
  }
  ModelDescription described(size_t index) const { return describe_model(path_of(index)); }

  int summary() {
    // Vulkan drivers load more slowly than a model's header.
    std::future<std::vector<PresentDevice>> devices =
        std::async(std::launch::async, [this] { return present_devices(); });
    ModelDescription model = described(0);
    if (!model.provider && model.problems.empty() && model.unknown.empty()) {
      try {
        // In a folder, finds the file that programs would open.
        std::error_code error;
        const bool is_read = model.gguf && !std::filesystem::is_directory(model.path, error);
        model.provider = is_read ? open_weights(model.path, model.gguf) : open_weights(model.path);
      } catch (const Error&) {  // not a model for the engine; why_not has the reason
      }
    }
    Summary summary{model, why_not(model), kv_bytes_per_1000(model), {}};
    if (!model.tensors.empty()) {
      OpenModel opened;
      if (runs_as(model) != RunnableKind::kNone && model.unknown.empty()) {
        opened = open_model(model.provider);
      }
      for (const PresentDevice& device : devices.get()) {
        summary.memory.push_back(memory_on(device, opened, summary));
      }
    }
    print([&] { return summary_text(summary); }, [&] { return summary_json(summary); });
    return 0;
  }

  // A device of this machine that can run the engine.
  struct PresentDevice {
    std::string name;
    uint64_t memory_bytes;  // 0: unknown
    // A device to plan on, not opened if that takes time. Throws Error(kUsage, kDevice).
    std::function<std::unique_ptr<Device>()> plan;
  };
  // The devices selected by --device. Throws Error(kUsage, kDevice) if there is none.
  std::vector<PresentDevice> present_devices() const {
    std::vector<PresentDevice> devices;
    const bool all = arguments_.device == "auto";
    if (all || arguments_.device == "cpu") {
      const uint64_t memory_bytes = available_memory_bytes();
      devices.push_back({"cpu", memory_bytes == UINT64_MAX ? 0 : memory_bytes,
                         [] { return open_cpu_device({}); }});
    }
    if (arguments_.device == "cpu") return devices;
#ifdef VESPER_HAS_VULKAN
    const std::vector<VulkanListing> listings = list_vulkan_devices();
    const auto add = [&](uint32_t number) {
      devices.push_back({"vulkan:" + std::to_string(number), listings[number].memory_bytes,
                         [device = listings[number]] { return plan_vulkan_device(device); }});
    };
    if (!all) add(choose_vulkan_device(arguments_.device, listings));
    for (uint32_t i = 0; all && i < listings.size(); ++i) {
      if (listings[i].unusable.empty()) add(i);
    }
#else
    if (!all) open_device(arguments_.device);  // throws
#endif
    return devices;
  }

  // `opened` is empty if the engine cannot run the model.
  MemoryNeed memory_on(const PresentDevice& device, const OpenModel& opened,
                       const Summary& summary) const {
    const ModelDescription& model = summary.model;
    MemoryNeed need;
    need.device = device.name;
    need.available = device.memory_bytes;
    if (opened.weights) {
      try {
        need = plan_memory(opened, device.plan(), arguments_.compute);
        need.device = device.name;
        return need;
      } catch (const Error& error) {
        need.problem = first_line(error.what());
        return need;
      }
    }
    need.at_least = true;
    for (const TensorClass& row : tensor_classes(model)) need.weights += row.bytes;
    // For the whole context, if both are known.
    if (__builtin_mul_overflow(summary.kv_bytes_per_1000 / 1000, model.count("n_ctx"),
                               &need.kv_cache)) {
      need.kv_cache = 0;
    }
    return need;
  }

  static RunnableKind runs_as(const ModelDescription& model) {
    return model.provider ? kind_of(*model.provider) : RunnableKind::kNone;
  }

  // "yes", or the reason why the model does not run.
  static std::string why_not(const ModelDescription& model) {
    if (!model.problems.empty()) return "no: the files are damaged";
    if (!model.unknown.empty()) return "no: it has features that the engine does not know";
    // Files may have unneeded tensors in other formats.
    if (model.provider && model.provider->stated_config() != nullptr) {
      const std::string& problem = model.provider->stated_config()->problem;
      return problem.empty() ? "yes" : "no: " + problem;
    }
    if (runs_as(model) != RunnableKind::kNone) return "yes";
    if (model.family.empty()) return "no: the files state no model family";
    if (!is_family(model.family)) return "no: the engine does not know family " + model.family;
    for (const DescribedTensor& tensor : model.tensors) {
      if (tensor.has_reader) continue;
      return "no: tensor " + tensor.view.name + " is in format " + tensor.format +
             ", which the engine has no kernels for";
    }
    return "yes";
  }

  static uint64_t kv_bytes_per_1000(const ModelDescription& model) {
    constexpr uint64_t kKeyAndValue = 2, kF16 = 2, kTokens = 1000;
    const uint64_t n_layers = std::max(model.count("n_layers"), model.count("n_decoder_layers"));
    const uint64_t n_heads =
        model.count("n_kv_heads") != 0 ? model.count("n_kv_heads") : model.count("n_heads");
    // A text encoder has no cache.
    if (runs_as(model) == RunnableKind::kTextEncoder) return 0;
    if (model.family.ends_with("bert")) return 0;
    uint64_t bytes = kKeyAndValue * kF16 * kTokens;
    for (const uint64_t factor : {n_layers, n_heads, model.count("head_dim")}) {
      if (__builtin_mul_overflow(bytes, factor, &bytes)) return 0;
    }
    return bytes;
  }

  int tensors() {
    const ModelDescription model = described(0);
    TensorList list;
    std::vector<const TensorView*> views;
    for (const DescribedTensor& tensor : model.tensors) {
      if (!matches(arguments_.filters, tensor.view.name)) continue;
      list.tensors.push_back(&tensor);
      views.push_back(&tensor.view);
    }
    if (arguments_.statistics) list.statistics = tensor_statistics(views, arguments_.threads);
    print([&] { return tensors_text(list); }, [&] { return tensors_json(list); });
    return 0;
  }

  // Ids and their bytes. `kind`: the kind of tokenizer, for people.
  static std::vector<std::pair<int32_t, std::string>> tokens_of(const ModelDescription& model,
                                                                const std::string& text,
                                                                std::string& kind) {
    std::unique_ptr<const TextTokenizer> tokenizer;
    const bool is_whisper = runs_as(model) == RunnableKind::kWhisper;
    if (is_whisper) {
      const auto special = WhisperTokens::of_vocabulary_size(model.provider->config().n_vocab);
      tokenizer =
          whisper_tokenizer(model.provider->vocabulary(), static_cast<uint32_t>(special.eot));
    } else {
      // A tokenizer needs no readable weights.
      tokenizer = open_text_tokenizer(model.path);
    }
    std::vector<std::pair<int32_t, std::string>> tokens;
    for (const int32_t id : tokenizer->encode(text, !is_whisper, !is_whisper)) {
      tokens.emplace_back(id, tokenizer->bytes_of(id));
    }
    kind = tokenizer->kind();
    return tokens;
  }

  int tokenizer() {
    TextTable table(0b1);
    ReportJson json = ReportJson::array();
    table.add({"id", "token", "bytes"});
    std::string kind;
    for (const auto& [id, bytes] : tokens_of(described(0), arguments_.text, kind)) {
      std::string hex;
      for (const char c : bytes) {
        static constexpr std::string_view kDigits = "0123456789abcdef";
        if (!hex.empty()) hex += ' ';
        hex += kDigits[static_cast<unsigned char>(c) >> 4];
        hex += kDigits[static_cast<unsigned char>(c) & 15];
      }
      table.add({std::to_string(id), "\"" + escaped(bytes) + "\"", hex});
      json.push_back({{"id", id}, {"text", std::string(bytes)}, {"bytes", hex}});
    }
    print([&] { return table.text(); },
          [&] {
            return ReportJson{{"tokenizer", kind}, {"tokens", json}};
          });
    return 0;
  }

  int checksum() {
    const std::filesystem::path path = path_of(0);
    std::vector<std::filesystem::path> files = {path};
    if (std::filesystem::is_directory(path)) {
      files.clear();
      std::error_code error;
      for (const std::string& name : names_in_folder(path, error)) {
        if (std::filesystem::is_regular_file(path / name)) files.push_back(path / name);
      }
      if (error) throw Error(ErrorKind::kModel, path.string() + ": " + error.message());
    }
    std::string text;
    ReportJson json = ReportJson::array();
    for (const auto& file : files) {
      const std::string hex = digest_of_file(file, DigestAlgorithm::kSha256).hex;
      text += hex + "  " + escaped(file.string()) + "\n";
      json.push_back({{"file", file.string()}, {"sha256", hex}});
    }
    print([&] { return text; }, [&] { return ReportJson{{"files", json}}; });
    return 0;
  }

  int verify() {
    const std::filesystem::path path = path_of(0);
    std::vector<std::string> problems;
    size_t n_tensors = 0;
    uint64_t n_numbers = 0;
    try {
      const ModelDescription model = describe_model(path);
      problems = model.problems;
      for (const std::string& part : model.unknown) problems.push_back("not known: " + part);
      std::vector<const TensorView*> views;
      for (const DescribedTensor& tensor : model.tensors) {
        views.push_back(&tensor.view);
        // Integers, such as positions in older checkpoints, may have any value.
        if (!tensor.has_reader && !has_integers(tensor.format)) {
          problems.push_back("tensor " + tensor.view.name + ": format " + tensor.format +
                             " has no reader, its elements were not checked");
        }
      }
      const auto statistics = tensor_statistics(views, arguments_.threads);
      for (size_t i = 0; i < views.size(); ++i) {
        n_numbers += statistics[i].n;
        if (statistics[i].n_nan + statistics[i].n_infinite == 0) continue;
        problems.push_back("tensor " + views[i]->name + ": " + grouped(statistics[i].n_nan) +
                           " NaN and " + grouped(statistics[i].n_infinite) + " infinite of " +
                           grouped(statistics[i].n) + " numbers");
      }
      n_tensors = model.tensors.size();
    } catch (const Error& error) {
      problems.push_back(first_line(error.what()));
    }
    print(
        [&] {
          std::string text;
          for (const std::string& problem : problems) text += escaped(problem) + "\n";
          if (problems.empty()) {
            return "sound: " + grouped(n_tensors) + " tensors, " + grouped(n_numbers) +
                   " numbers read\n";
          }
          return text + grouped(problems.size()) +
                 (problems.size() == 1 ? " problem\n" : " problems\n");
        },
        [&] {
          return ReportJson{{"sound", problems.empty()},
                            {"n_tensors", n_tensors},
                            {"n_numbers", n_numbers},
                            {"problems", problems}};
        });
    return problems.empty() ? 0 : exit_status(ErrorKind::kModel);
  }

  int profile() {
    const Profile profile =
        profile_model({path_of(0), arguments_.recording, arguments_.device, arguments_.compute,
                       arguments_.threads, arguments_.per_command});
    const auto write = [](const std::string& path, const std::string& text) {
      if (path.empty()) return;
      AtomicFile file(path);
      file.write(text);
      file.commit();
    };
    write(arguments_.trace, profile_trace(profile));
    write(arguments_.csv, profile_csv(profile));
    print([&] { return profile_text(profile); }, [&] { return profile_json(profile); });
    return 0;
  }

  // Properties of a device, as text and JSON.
  static void add_device(const std::string& name, const char* type, const Device& device,
                         std::string& text, ReportJson& json) {
    const DeviceInfo& info = device.info();
    std::string computes;
    ReportJson list = ReportJson::array(), capabilities = ReportJson::object();
    for (const Compute compute : {Compute::kF32, Compute::kF16, Compute::kBF16, Compute::kI8}) {
      try {
        device.resolve(compute, WeightUse::kManyRows);
      } catch (const Error&) {
        continue;
      }
      computes += (computes.empty() ? "" : ", ") + std::string(compute_name(compute));
      list.push_back(compute_name(compute));
    }
    const std::string chosen(compute_name(device.resolve(Compute::kAuto, WeightUse::kManyRows)));
    TextTable table;
    table.add({"memory", info.memory_bytes == 0 ? "not known" : bytes_text(info.memory_bytes)});
    table.add({"computes in", computes + "; by itself in " + chosen});
    for (const DeviceInfo::Capability& ability : info.capabilities) {
      table.add({ability.name, ability.what});
      capabilities[ability.name] = ability.what;
    }
    text += (text.empty() ? "" : "\n") + name + ": " + escaped(info.name) + ", " + type + "\n" +
            table.text("  ");
    json.push_back({{"device", name},
                    {"name", info.name},
                    {"type", type},
                    {"is_hardware_gpu", info.is_hardware_gpu},
                    {"memory_bytes", info.memory_bytes},
                    {"computes", std::move(list)},
                    {"compute", chosen},
                    {"capabilities", std::move(capabilities)}});
  }

  int devices() {
    ReportJson json = ReportJson::array();
    std::string text;
    add_device("cpu", "CPU", *open_cpu_device({}), text, json);
#ifdef VESPER_HAS_VULKAN
    uint32_t number = 0;
    for (const VulkanListing& listing : list_vulkan_devices()) {
      const std::string name = "vulkan:" + std::to_string(number++);
      if (listing.unusable.empty()) {
        add_device(name, listing.type.c_str(), *plan_vulkan_device(listing), text, json);
        continue;
      }
      text += "\n" + name + ": " + escaped(listing.name) + ", " + listing.type +
              "\n  not usable: " + escaped(listing.unusable) + "\n";
      json.push_back({{"device", name},
                      {"name", listing.name},
                      {"type", listing.type},
                      {"is_hardware_gpu", listing.is_hardware_gpu},
                      {"memory_bytes", listing.memory_bytes},
                      {"unusable", listing.unusable}});
    }
#endif
    print([&] { return text; }, [&] { return ReportJson{{"devices", json}}; });
    return 0;
  }

  InspectArguments arguments_;
};

}  // namespace

}  // namespace vesper

int main(int argc, char** argv) {
  return vesper::run_program("inspect", argc, argv, [](int n, char** words) {
    vesper::InspectArguments arguments;
    if (const auto answer = vesper::parse_inspect_options(n, words, arguments)) {
      vesper::write_to_stdout(*answer);
      return 0;
    }
    return vesper::Run(std::move(arguments)).run();
  });
}
