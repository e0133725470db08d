#include "llm/vulkan/kernels/pipelines.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "error/error.h"
#include "error/tasks.h"

namespace vesper {
namespace {

constexpr char kMagic[8] = {'V', 'E', 'S', 'P', 'P', 'I', 'P', '2'};
constexpr uint64_t kMaxCacheBytes = uint64_t{256} << 20;

struct CacheHeader {
  char magic[8];
  uint64_t bytes;
  uint64_t checksum;
};

// FNV-1a, 64 bits, of words of eight bytes; the last is filled with zeros.
uint64_t checksum(std::span<const std::byte> data) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t at = 0; at < data.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data.data() + at, std::min<size_t>(8, data.size() - at));
    hash = (hash ^ word) * 0x100000001b3u;
  }
  return hash;
}

// The cache folder: VESPER_CACHE, or vesper/ in the user's (XDG base directory specification).
std::filesystem::path cache_folder() {
  if (const char* folder = std::getenv("VESPER_CACHE"); folder && *folder) return folder;
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder && *folder == '/') {
    return std::filesystem::path(folder) / "vesper";
  }
  if (const char* home = std::getenv("HOME"); home && *home == '/') {
    return std::filesystem::path(home) / ".cache" / "vesper";
  }
  return {};
}

std::filesystem::path cache_file(const VkPhysicalDeviceProperties& device) {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return {};
  std::string name = "pipelines-";
  for (const uint8_t byte : device.pipelineCacheUUID) {
    constexpr char kDigits[] = "0123456789abcdef";
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return folder / (name + ".bin");
}

std::vector<std::byte> read_cache(const std::filesystem::path& path,
                                  const VkPhysicalDeviceProperties& device) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes > kMaxCacheBytes) return {};
  std::vector<std::byte> file(bytes);
  std::ifstream in(path, std::ios::binary);
  if (!in.read(reinterpret_cast<char*>(file.data()), static_cast<std::streamsize>(bytes)))
    return {};
  return unwrap_pipeline_cache(file, device);
}

// Failing to write the cache is no error: the next start only takes longer.
void write_cache(const std::filesystem::path& path, std::span<const std::byte> driver_data) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  const std::vector<std::byte> file = wrap_pipeline_cache(driver_data);
  std::filesystem::path temporary = path;
  temporary += ".";
  temporary += std::to_string(getpid());
  std::ofstream out(temporary, std::ios::binary);
  out.write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  out.close();
  if (out) {
    std::filesystem::rename(temporary, path, error);
  } else {
    error = std::make_error_code(std::errc::io_error);
  }
  if (error) std::filesystem::remove(temporary, error);
}

}  // namespace

std::vector<std::byte> wrap_pipeline_cache(std::span<const std::byte> driver_data) {
  CacheHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.bytes = driver_data.size();
  header.checksum = checksum(driver_data);
  std::vector<std::byte> file(sizeof header + driver_data.size());
  std::memcpy(file.data(), &header, sizeof header);
  std::copy(driver_data.begin(), driver_data.end(), file.begin() + sizeof header);
  return file;
}

std::vector<std::byte> unwrap_pipeline_cache(std::span<const std::byte> file,
                                             const VkPhysicalDeviceProperties& device) {
  CacheHeader header;
  VkPipelineCacheHeaderVersionOne driver;
  if (file.size() < sizeof header + sizeof driver) return {};
  std::memcpy(&header, file.data(), sizeof header);
  const std::span<const std::byte> data = file.subspan(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.bytes != data.size() ||
      header.checksum != checksum(data)) {
    return {};
  }
  std::memcpy(&driver, data.data(), sizeof driver);
  if (driver.headerSize != sizeof driver ||
      driver.headerVersion != VK_PIPELINE_CACHE_HEADER_VERSION_ONE ||
      driver.vendorID != device.vendorID || driver.deviceID != device.deviceID ||
      std::memcmp(driver.pipelineCacheUUID, device.pipelineCacheUUID, VK_UUID_SIZE) != 0) {
    return {};
  }
  return {data.begin(), data.end()};
}

Pipelines::Pipelines(VulkanContext& context)
    : context_(context), cache_path_(cache_file(context.properties())) {
  VkPushConstantRange range{};
  range.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  range.size = kPushBytes;
  VkPipelineLayoutCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &range;
  check_vulkan(vkCreatePipelineLayout(context.device(), &info, nullptr, &layout_),
               "vkCreatePipelineLayout");
  std::vector<std::byte> kept;
  if (!cache_path_.empty()) kept = read_cache(cache_path_, context.properties());
  VkPipelineCacheCreateInfo cache_info{};
  cache_info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  cache_info.initialDataSize = kept.size();
  cache_info.pInitialData = kept.data();
  check_vulkan(vkCreatePipelineCache(context.device(), &cache_info, nullptr, &cache_),
               "vkCreatePipelineCache");
}

Pipelines::~Pipelines() {
  // After an error, work that uses them may still run.
  context_.wait_for_queue();
  for (const auto& [key, pipeline] : pipelines_) {
    vkDestroyPipeline(context_.device(), pipeline, nullptr);
  }
  if (cache_) vkDestroyPipelineCache(context_.device(), cache_, nullptr);
  if (layout_) vkDestroyPipelineLayout(context_.device(), layout_, nullptr);
}

std::pair<VkPipeline, bool> Pipelines::make(const PipelineKey& key) const {
  std::span<const uint32_t> code;
  if (context_.matrix_model()) code = context_.matrix_model()(key.shader);
  if (code.empty()) code = shader_code(key.shader);
  if (code.empty()) throw Error(ErrorKind::kInternal, "a shader that this build left out");
  VkShaderModuleCreateInfo module_info{};
  module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  module_info.codeSize = code.size_bytes();
  module_info.pCode = code.data();
  VkShaderModule module = VK_NULL_HANDLE;
  check_vulkan(vkCreateShaderModule(context_.device(), &module_info, nullptr, &module),
               "vkCreateShaderModule");

  std::array<VkSpecializationMapEntry, PipelineKey::kMaxConstants> entries;
  for (uint32_t i = 0; i < entries.size(); ++i) entries[i] = {i, i * 4, 4};
  const VkSpecializationInfo specialization{PipelineKey::kMaxConstants, entries.data(),
                                            sizeof key.constants, key.constants.data()};
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroups{};
  subgroups.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
  subgroups.requiredSubgroupSize = context_.capabilities().subgroup_size;
  VkPipelineCreationFeedback feedback{}, stage_feedback{};
  VkPipelineCreationFeedbackCreateInfo feedback_info{};
  feedback_info.sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO;
  feedback_info.pPipelineCreationFeedback = &feedback;
  feedback_info.pipelineStageCreationFeedbackCount = 1;
  feedback_info.pPipelineStageCreationFeedbacks = &stage_feedback;
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.pNext = &feedback_info;
  if (context_.pipeline_statistics()) {
    info.flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
  }
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &specialization;
  if (context_.capabilities().fixed_subgroups) {
    info.stage.pNext = &subgroups;
    info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  }
  info.layout = layout_;
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult result =
      vkCreateComputePipelines(context_.device(), cache_, 1, &info, nullptr, &pipeline);
  vkDestroyShaderModule(context_.device(), module, nullptr);
  check_vulkan(result, "vkCreateComputePipelines");
  constexpr VkPipelineCreationFeedbackFlags kHit =
      VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT |
      VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT;
  return {pipeline, (feedback.flags & kHit) == kHit};
}

void Pipelines::prepare(const std::vector<PipelineKey>& keys) {
  for (const PipelineKey& key : keys) pipelines_.try_emplace(key, VK_NULL_HANDLE);
  std::vector<std::pair<const PipelineKey*, VkPipeline*>> wanted;
  for (auto& [key, pipeline] : pipelines_) {
    if (!pipeline) wanted.emplace_back(&key, &pipeline);
  }
  if (wanted.empty()) return;
  std::atomic<bool> cache_grows = false;
  run_tasks(wanted.size(), 0, [&](size_t i) {
    const auto [pipeline, was_cached] = make(*wanted[i].first);
    *wanted[i].second = pipeline;
    if (!was_cached) cache_grows = true;
  });

  if (cache_path_.empty() || !cache_grows) return;
  size_t bytes = 0;
  if (vkGetPipelineCacheData(context_.device(), cache_, &bytes, nullptr) != VK_SUCCESS) return;
  std::vector<std::byte> data(bytes);
  if (vkGetPipelineCacheData(context_.device(), cache_, &bytes, data.data()) != VK_SUCCESS) return;
  write_cache(cache_path_, std::span(data).first(bytes));
}

VkPipeline Pipelines::get(const PipelineKey& key) const {
  const auto found = pipelines_.find(key);
  if (found == pipelines_.end() || !found->second)
    throw Error(ErrorKind::kInternal, "a pipeline not prepared");
  return found->second;
}

uint64_t Pipelines::spilled_bytes(const PipelineKey& key) const {
  if (!context_.pipeline_statistics()) return 0;
  const auto statistics = reinterpret_cast<PFN_vkGetPipelineExecutableStatisticsKHR>(
      vkGetDeviceProcAddr(context_.device(), "vkGetPipelineExecutableStatisticsKHR"));
  // A compute pipeline has one executable.
  VkPipelineExecutableInfoKHR info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR;
  info.pipeline = get(key);
  uint32_t n = 0;
  check_vulkan(statistics(context_.device(), &info, &n, nullptr),
               "vkGetPipelineExecutableStatisticsKHR");
  VkPipelineExecutableStatisticKHR empty{};
  empty.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
  std::vector<VkPipelineExecutableStatisticKHR> found(n, empty);
  check_vulkan(statistics(context_.device(), &info, &n, found.data()),
               "vkGetPipelineExecutableStatisticsKHR");
  for (const VkPipelineExecutableStatisticKHR& statistic : found) {
    // NVIDIA's name. The driver writes 32 bits, in which the upper half of u64 is undefined.
    if (std::string_view(statistic.name) == "Local Memory Size") {
      return static_cast<uint32_t>(statistic.value.u64);
    }
  }
  return 0;
}

}  // namespace vesper
