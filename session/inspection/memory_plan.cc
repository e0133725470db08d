#include "session/inspection/memory_plan.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "embedder/sentence_tokenizer.h"
#include "error/error.h"
#include "llm/devices/list_devices.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

namespace {

// Resident memory ("VmRSS:") or its peak ("VmHWM:") of this process. getrusage includes that of the
// parent.
uint64_t memory_bytes(std::string_view key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t digits = std::min(line.find_first_of("0123456789"), line.size());
    uint64_t kib = 0;
    std::from_chars(line.data() + digits, line.data() + line.size(), kib);
    return kib * 1024;
  }
  return 0;
}

// Memory of an encoder's program besides its input, which synthetic input does not need.
void read_vocabulary(const WeightProvider& weights) {
  if (kind_of(weights) != RunnableKind::kTextEncoder) return;
  try {
    const SentenceTokenizer tokenizer(weights);
  } catch (const Error&) {  // `embed` then takes token ids
  }
}

// Adds the buffers besides the weights.
void add_buffers(const ObservedModel& observed, MemoryNeed& need) {
  const bool is_cpu = observed.device().info().kind == "cpu";
  for (const ObservedDevice::Buffer& buffer : observed.device().buffers()) {
    if (buffer.is_weight) continue;
    // Buffers that only a perplexity run writes take no memory of the CPU before.
    if (is_cpu && buffer.label == "logits of a pass") continue;
    const bool is_cache = buffer.label.starts_with("keys and values") ||
                          buffer.label.starts_with("keys of ") ||
                          buffer.label.starts_with("values of ");
    (is_cache ? need.kv_cache : need.scratch) += buffer.bytes;
  }
}

}  // namespace

uint64_t model_bytes(const OpenModel& model, const std::string& device, const std::string& compute,
                     const ModelUse& use) {
  // As open_device(): a hardware GPU before the CPU, which is listed first.
  const std::vector<ListedDevice> devices = list_devices(device);
  const auto gpu = std::ranges::find_if(devices, [](const ListedDevice& listed) {
    return listed.is_hardware_gpu && listed.unusable.empty();
  });
  const ListedDevice& used = gpu != devices.end() ? *gpu : devices.front();
  const ObservedModel observed(model, used.plan(), compute, ObservedDevice::Mode::kPlan, use);
  MemoryNeed need;
  need.weights = observed.device().weight_bytes();
  add_buffers(observed, need);
  return need.total();
}

MemoryNeed plan_memory(const OpenModel& model, std::unique_ptr<Device> device,
                       const std::string& compute, const KvTypes& kv_types) {
  ObservedModel observed(model, std::move(device), compute, ObservedDevice::Mode::kPlan,
                         {.kv_types = kv_types});
  MemoryNeed need;
  need.device = observed.device().info().kind;
  need.compute = observed.compute_text();
  need.weights = observed.device().weight_bytes();
  need.available = observed.device().info().memory_bytes;
  need.n_ctx = observed.n_ctx();
  if (observed.device().info().kind == "cpu") {
    // This process takes as much as the one that will run the model, except for the weights:
    // libraries and, after loading the input, an audio window with its spectrogram for Whisper, or
    // the vocabulary for an encoder.
#ifdef __GLIBC__
    malloc_trim(0);  // releases the memory of reading the description
#endif
    const uint64_t loading = observed.device().peak_loading_bytes() + memory_bytes("VmRSS:");
    observed.read_input("");
    read_vocabulary(*model.weights);
    need.program = memory_bytes("VmHWM:");
    const uint64_t running =
        observed.device().weight_bytes() + observed.device().other_bytes() + need.program;
    need.loading = std::max(loading, running) - running;
  }
  add_buffers(observed, need);
  return need;
}

}  // namespace vesper
