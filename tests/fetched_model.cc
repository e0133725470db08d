#include "tests/fetched_model.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "error/error.h"
#include "session/models/model_store.h"

namespace vesper {

std::filesystem::path fetched_model(const std::string& name) {
  if (std::getenv("VESPER_TEST_WITHOUT_MODELS") != nullptr) {
    const std::string why = "VESPER_TEST_WITHOUT_MODELS is set";
    [&] { GTEST_SKIP() << why; }();
    // GoogleTest ends the test and reports nothing more.
    throw testing::AssertionException(
        {testing::TestPartResult::kSkip, __FILE__, __LINE__, why.c_str()});
  }
  try {
    return ModelStore({.offline = true}).find(name);
  } catch (const Error& error) {
    throw Error(error.kind(), "scripts/fetch-models.sh " + name +
                                  " fetches the model of this test (" + error.what() + ")");
  }
}

}  // namespace vesper
