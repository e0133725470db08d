#include "session/speech/live_vad.h"

#include <memory>

#include "llm/devices/open_device.h"
#include "vad/silero_vad.h"

namespace vesper {

LiveVad open_live_vad(const std::filesystem::path& model) {
  struct State {
    explicit State(const std::filesystem::path& path)
        : device(open_device("cpu", DeviceOptions{.n_threads = 1})), vad(*device, path) {}
    std::unique_ptr<Device> device;
    SileroVad vad;
  };
  return [state = std::make_shared<State>(model)](std::span<const float> samples) {
    state->vad.push(samples.data(), samples.size());
    return state->vad.take();
  };
}

}  // namespace vesper
