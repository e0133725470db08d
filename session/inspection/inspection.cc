#include "session/inspection/inspection.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <future>
#include <string_view>

#include "error/error.h"
#include "error/number_text.h"
#include "llm/files/folder_names.h"
#include "llm/weights/model_families.h"
#include "session/bounds.h"
#include "session/model_tokenizer.h"
#include "session/models/digest.h"
#include "shaders/kernel_params.h"

namespace vesper {
namespace {

// Later in this thread if the system refuses another one.
constexpr std::launch kAnyLaunch = std::launch::async | std::launch::deferred;
constexpr std::string_view kHexDigits = "0123456789abcdef";

// Whether a format without a reader has integers.
bool has_integers(const std::string& format) {
  constexpr std::array<std::string_view, 9> kFormats = {"i8",  "u8",  "i16", "u16", "i32",
                                                        "u32", "i64", "u64", "bool"};
  return std::find(kFormats.begin(), kFormats.end(), format) != kFormats.end();
}

std::vector<const TensorView*> views_of(const ModelDescription& model) {
  std::vector<const TensorView*> views;
  for (const DescribedTensor& tensor : model.tensors) views.push_back(&tensor.view);
  return views;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

RunnableKind runs_as(const ModelDescription& model) {
  return model.provider ? kind_of(*model.provider) : RunnableKind::kNone;
}

// "yes", or the reason why the model does not run.
std::string whether_it_runs(const ModelDescription& model) {
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

uint64_t kv_bytes_per_1000(const ModelDescription& model, const KvTypes& types) {
  constexpr uint64_t kTokens = 1000;
  const uint64_t n_layers = std::max(model.count("n_layers"), model.count("n_decoder_layers"));
  const uint64_t n_heads =
      model.count("n_kv_heads") != 0 ? model.count("n_kv_heads") : model.count("n_heads");
  // A text encoder has no cache.
  if (runs_as(model) == RunnableKind::kTextEncoder) return 0;
  if (model.family.ends_with("bert")) return 0;
  constexpr uint64_t kMostDims = 1 << 20;
  const uint64_t head_dim = model.count("head_dim");
  if (head_dim > kMostDims) return 0;
  uint64_t bytes = 0;  // of a key and a value
  for (const DType dtype : {types.keys, types.values}) {
    bytes += kv_head_bytes(static_cast<uint32_t>(dtype), 1, static_cast<uint32_t>(head_dim));
  }
  for (const uint64_t factor : {n_layers, n_heads, kTokens}) {
    if (__builtin_mul_overflow(bytes, factor, &bytes)) return 0;
  }
  return bytes;
}

// `opened` is empty if the engine cannot run the model.
MemoryNeed memory_on(const ListedDevice& device, const OpenModel& opened,
                     const ModelSummary& summary, const std::string& compute) {
  MemoryNeed need;
  need.device = device.device;
  need.available = device.memory_bytes;
  if (opened.weights) {
    try {
      need = plan_memory(opened, device.plan(), compute, summary.kv_types);
      need.device = device.device;
      return need;
    } catch (const Error& error) {
      need.problem = first_line(error.what());
      return need;
    }
  }
  need.at_least = true;
  for (const TensorClass& row : tensor_classes(summary.model)) need.weights += row.bytes;
  // For the whole context, if both are known.
  if (__builtin_mul_overflow(summary.kv_bytes_per_1000 / 1000, summary.model.count("n_ctx"),
                             &need.kv_cache)) {
    need.kv_cache = 0;
  }
  return need;
}

void check_threads(uint32_t threads) {
  if (threads != 0) check_bounds("threads", bounds::kThreads, threads);
}

}  // namespace

ModelSummary summarize_model(const std::filesystem::path& path, const std::string& device,
                             const std::string& compute, const KvTypes& kv_types) {
  parse_compute(compute);
  // Vulkan drivers load more slowly than a model's header.
  std::future<std::vector<ListedDevice>> devices =
      std::async(kAnyLaunch, [&] { return list_devices(device); });
  ModelSummary summary{describe_model(path), "", kv_types, 0, {}};
  ModelDescription& model = summary.model;
  if (!model.provider && model.problems.empty() && model.unknown.empty()) {
    try {
      // In a folder, finds the file that programs would open.
      std::error_code error;
      const bool is_read = model.gguf && !std::filesystem::is_directory(model.path, error);
      model.provider = is_read ? open_weights(model.path, model.gguf) : open_weights(model.path);
    } catch (const Error&) {  // not a model for the engine; `runs` has the reason
    }
  }
  summary.runs = whether_it_runs(model);
  summary.kv_bytes_per_1000 = kv_bytes_per_1000(model, summary.kv_types);
  if (model.tensors.empty()) return summary;
  OpenModel opened;
  if (runs_as(model) != RunnableKind::kNone && model.unknown.empty()) {
    opened = open_model(model.provider);
  }
  for (const ListedDevice& listed : devices.get()) {
    if (!listed.unusable.empty()) continue;
    summary.memory.push_back(memory_on(listed, opened, summary, compute));
  }
  return summary;
}

bool matches(const std::vector<std::string>& globs, const std::string& name) {
  return globs.empty() || std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
           return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
         });
}

TensorList list_tensors(const std::filesystem::path& path, const std::vector<std::string>& globs,
                        bool with_statistics, uint32_t threads) {
  check_threads(threads);
  TensorList list{describe_model(path), {}};
  std::erase_if(list.model.tensors,
                [&](const DescribedTensor& tensor) { return !matches(globs, tensor.view.name); });
  if (with_statistics)
    list.statistics = tensor_statistics(views_of(list.model), threads, list.model.provider.get());
  return list;
}

std::string TextTokens::Token::hex() const {
  std::string text;
  for (const char c : bytes) {
    if (!text.empty()) text += ' ';
    text += kHexDigits[static_cast<unsigned char>(c) >> 4];
    text += kHexDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

TextTokens tokenize_text(const std::filesystem::path& path, const std::string& text) {
  const ModelTokenizer model(path);
  const bool has_special = model.has_special_spellings();
  TextTokens result{model.text().kind(), {}};
  for (const int32_t id : model.text().encode(text, has_special, has_special)) {
    result.tokens.push_back({id, std::string(model.text().bytes_of(id))});
  }
  return result;
}

std::vector<FileChecksum> file_checksums(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files = {path};
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    files.clear();
    for (const std::string& name : names_in_folder(path, error)) {
      std::error_code ignored;
      if (std::filesystem::is_regular_file(path / name, ignored)) files.push_back(path / name);
    }
    if (error) throw Error(ErrorKind::kModel, path.string() + ": " + error.message());
  }
  std::vector<FileChecksum> checksums;
  for (const auto& file : files) {
    checksums.push_back({file, digest_of_file(file, DigestAlgorithm::kSha256).hex});
  }
  return checksums;
}

ModelVerification verify_model(const std::filesystem::path& path, uint32_t threads) {
  check_threads(threads);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw Error(ErrorKind::kModel, path.string() + ": no such file or folder");
  }
  ModelVerification result;
  try {
    const ModelDescription model = describe_model(path);
    result.problems = model.problems;
    for (const std::string& part : model.unknown) result.problems.push_back("not known: " + part);
    for (const DescribedTensor& tensor : model.tensors) {
      // Integers, such as positions in older checkpoints, may have any value.
      if (!tensor.has_reader && !has_integers(tensor.format)) {
        result.problems.push_back("tensor " + tensor.view.name + ": format " + tensor.format +
                                  " has no reader, its elements were not checked");
      }
    }
    const std::vector<const TensorView*> views = views_of(model);
    const std::vector<TensorStatistics> statistics =
        tensor_statistics(views, threads, model.provider.get());
    for (size_t i = 0; i < views.size(); ++i) {
      result.n_numbers += statistics[i].n;
      if (statistics[i].n_nan + statistics[i].n_infinite == 0) continue;
      result.problems.push_back("tensor " + views[i]->name + ": " + grouped(statistics[i].n_nan) +
                                " NaN and " + grouped(statistics[i].n_infinite) + " infinite of " +
                                grouped(statistics[i].n) + " numbers");
    }
    result.n_tensors = model.tensors.size();
  } catch (const Error& damage) {
    result.problems.push_back(first_line(damage.what()));
  }
  return result;
}

ModelDifference compare_models(const std::filesystem::path& a, const std::filesystem::path& b,
                               uint32_t threads) {
  check_threads(threads);
  return model_difference(describe_model(a), describe_model(b), threads);
}

std::vector<DeviceDescription> describe_devices() {
  std::vector<DeviceDescription> devices;
  for (ListedDevice& listed : list_devices()) {
    DeviceDescription description{std::move(listed), {}, "", {}};
    if (description.listing.unusable.empty()) {
      const std::unique_ptr<Device> device = description.listing.plan();
      for (const Compute compute : {Compute::kF32, Compute::kF16, Compute::kBF16, Compute::kI8}) {
        try {
          device->resolve(compute, WeightUse::kManyRows);
        } catch (const Error&) {
          continue;
        }
        description.computes.emplace_back(compute_name(compute));
      }
      description.compute = compute_name(device->resolve(Compute::kAuto, WeightUse::kManyRows));
      description.listing.name = device->info().name;
      description.listing.memory_bytes = device->info().memory_bytes;
      description.capabilities = device->info().capabilities;
    }
    devices.push_back(std::move(description));
  }
  return devices;
}

}  // namespace vesper
