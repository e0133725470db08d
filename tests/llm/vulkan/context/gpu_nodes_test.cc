#include "llm/vulkan/context/gpu_nodes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "llm/devices/open_device.h"
#include "tests/temporary_folder.h"

namespace vesper::gpu_nodes_test {
namespace {

// Whether a system with these device nodes may have a GPU.
bool shows_gpu(const std::initializer_list<const char*>& nodes) {
  const TemporaryFolder devices;
  for (const char* node : nodes) {
    std::filesystem::create_directories((devices / node).parent_path());
    std::ofstream(devices / node).put('\n');
  }
  return may_have_gpu(devices.path());
}

#ifdef __linux__

TEST(GpuNodes, AreFoundForEachKindOfDriver) {
  for (const char* node :
       {"dri/renderD128", "dri/renderD129", "nvidia0", "nvidiactl", "nvhost-ctrl-gpu",
        "nvgpu/igpu0/ctrl", "dxg", "mali0", "kgsl-3d0", "pvrsrvkm", "pvr_sync", "galcore"}) {
    EXPECT_TRUE(shows_gpu({"null", "tty0", "vga_arbiter", node})) << node;
  }
}

TEST(GpuNodes, AreNotFoundWithoutAGpu) {
  EXPECT_FALSE(shows_gpu({}));
  EXPECT_FALSE(shows_gpu({"null", "tty0", "vga_arbiter", "net/tun", "input/event0", "snd/timer"}));
  // A display controller without a renderer, with its links by path.
  EXPECT_FALSE(shows_gpu({"null", "fb0", "dri/card0", "dri/by-path/pci-0000:00:01.0-card"}));
  EXPECT_FALSE(may_have_gpu("/no/such/folder"));
}

TEST(GpuNodes, AreAssumedIfTheFolderCannotBeRead) {
  const TemporaryFolder devices;
  std::ofstream(devices / "no_folder").put('\n');
  EXPECT_TRUE(may_have_gpu(devices / "no_folder"));
}

// The libraries mapped by this program.
std::set<std::string> libraries() {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path != std::string::npos && line.find(".so") != std::string::npos) {
      found.insert(line.substr(path));
    }
  }
  return found;
}

// A software driver may be unloaded, but its libraries, such as LLVM for Mesa, stay.
TEST(GpuNodes, LoadNoDriversWithoutAGpu) {
  if (may_have_gpu()) GTEST_SKIP() << "this machine shows a GPU";
  const std::set<std::string> before = libraries();
  ASSERT_FALSE(before.empty());
  EXPECT_EQ(open_device("auto")->info().kind, "cpu");
  EXPECT_EQ(libraries(), before);
}

#endif

}  // namespace
}  // namespace vesper::gpu_nodes_test
