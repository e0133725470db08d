#include "tests/llm/test_devices.h"

#include "llm/devices/open_device.h"
#include "tests/llm/table/stage_check_device.h"

namespace vesper {

std::vector<std::string> plain_test_devices() {
#ifdef VESPER_HAS_VULKAN
  return {"cpu", "vulkan"};
#else
  return {"cpu"};
#endif
}

std::unique_ptr<Device> open_test_device(std::string_view name, uint64_t seed) {
  constexpr std::string_view kChecked = "checked ";
  if (name.starts_with(kChecked)) {
    return std::make_unique<StageCheckDevice>(
        open_device(name.substr(kChecked.size()), {.n_threads = 2}),
        StageCheckOptions{.seed = seed,
                          .zeroed = {"stop ids",  // no id
                                                  // rows of padding
                                     "log-mel windows", "first convolution", "magnitudes", "conv1",
                                     "conv2", "conv3", "state of voice activity"}});
  }
  return open_device(name, {});
}

}  // namespace vesper
