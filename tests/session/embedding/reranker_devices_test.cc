// Rerankers of every kind on Vulkan.
#include "tests/session/embedding/reranker_check.h"

namespace vesper {
namespace {

#ifdef VESPER_HAS_VULKAN
TEST(Rerankers, EqualTransformersOnVulkan) {
  for (const char* kind : kRerankers) check_reranker(kind, "vulkan");
}
#endif

}  // namespace
}  // namespace vesper
