// Generators with a quantized KV cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "error/error.h"
#include "llm/devices/open_device.h"
#include "llm/generation/generator.h"
#include "llm/generation/ngram_drafts.h"
#include "llm/weights/weight_provider.h"
#include "tests/llm/models/wide_heads.h"
#include "tests/llm/test_devices.h"

namespace vesper::quantized_cache_test {
namespace {

using testing::ElementsAreArray;
using testing::FloatNear;
using testing::Pointwise;
using Ids = std::vector<int32_t>;

const KvTypes kBoth[] = {KvTypes(DType::kQ8_0), KvTypes(DType::kQ8_0, DType::kQ4_0)};

Ids text_of(size_t n) {
  Ids text(n);
  for (size_t i = 0; i < n; ++i) text[i] = static_cast<int32_t>((i * i + i / 7) % 60 + 1);
  return text;
}

class QuantizedCache : public testing::Test {
 protected:
  static GeneratorOptions options(const KvTypes& types) {
    GeneratorOptions options;
    options.n_ctx = 96;
    options.kv_types = types;
    return options;
  }
  Generator open(Device& device, const GeneratorOptions& options, DraftSource* drafts = nullptr) {
    return {device, *provider_, Compute::kF32, options, drafts};
  }
  std::vector<float> logits_of(Generator& generator, const Ids& text) {
    std::vector<float> all;
    generator.evaluate(text, [&](uint32_t, uint32_t n, const float* logits) {
      all.insert(all.end(), logits, logits + size_t{n} * generator.n_vocab());
    });
    return all;
  }
  static Ids answer(Generator& generator, const Ids& prompt, uint32_t n) {
    generator.start(0, prompt, n, {});
    while (generator.advance(5)) {
    }
    return {generator.sampled(0).begin(), generator.sampled(0).end()};
  }
  static double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double squares = 0;
    for (size_t i = 0; i < a.size(); ++i) squares += std::pow(double{a[i]} - b[i], 2);
    return std::sqrt(squares / static_cast<double>(a.size()));
  }

  WideHeads folder_{std::filesystem::path(VESPER_TEST_DATA) / "language_models"};
  std::unique_ptr<WeightProvider> provider_ = open_weights(folder_.path());
};

// Distances are root mean squares.
TEST_F(QuantizedCache, IsNearF32OnEachDevice) {
  const Ids text = text_of(80);
  std::vector<std::vector<float>> of_cpu;
  for (const std::string& name : plain_test_devices()) {
    SCOPED_TRACE(name);
    const auto device = open_test_device(name);
    Generator exact = open(*device, options(DType::kF32));
    const std::vector<float> wanted = logits_of(exact, text);
    for (size_t i = 0; i < std::size(kBoth); ++i) {
      Generator generator = open(*device, options(kBoth[i]));
      const std::vector<float> logits = logits_of(generator, text);
      const double found = distance(logits, wanted);
      EXPECT_GT(found, i == 0 ? 0.01 : 0.1);
      EXPECT_LT(found, i == 0 ? 0.03 : 0.25);
      if (name == "cpu") of_cpu.push_back(logits);
      EXPECT_LT(distance(logits, of_cpu[i]), 1e-3);
      // Steps read the same keys and values as the prompt's passes.
      generator.start(0, text, 1, {});
      generator.advance(1);
      std::vector<float> last(generator.n_vocab());
      generator.read_logits(0, last.data());
      EXPECT_LT(distance(last, {wanted.end() - generator.n_vocab(), wanted.end()}), 3 * found);
    }
  }
}

TEST_F(QuantizedCache, AccessesOnlyDeclaredMemory) {
  for (const std::string& name : plain_test_devices()) {
    for (const KvTypes& types : kBoth) {
      for (const uint32_t beam_size : {1u, 3u}) {
        GeneratorOptions with_beams = options(types);
        with_beams.beam_size = beam_size;
        Ids answers[2];
        for (const bool is_checked : {false, true}) {
          const auto device = open_test_device(is_checked ? "checked " + name : name);
          Generator generator = open(*device, with_beams);
          answers[is_checked] = answer(generator, text_of(40), 12);
        }
        EXPECT_EQ(answers[0], answers[1]);
      }
    }
  }
}

#ifdef VESPER_HAS_VULKAN
TEST_F(QuantizedCache, IsCleanUnderTheValidationLayers) {
  const auto plain = open_test_device("vulkan"), validated = open_test_device("validated vulkan");
  GeneratorOptions with_beams = options(kBoth[1]);
  with_beams.beam_size = 3;
  Generator first = open(*plain, with_beams), second = open(*validated, with_beams);
  EXPECT_EQ(answer(first, text_of(40), 12), answer(second, text_of(40), 12));
}
#endif

// Beams copy pages; the log-probabilities are those of the text computed token by token. Each start
// reuses the rows of the one before, so that a step computes the last token's. Passes of many rows
// would not do: their attention differs from a step's by 1e-5, which moves a value between two
// codes to the other one, and with int4 values a log-probability by 0.01. For the same reason,
// products of any number of rows apply the norm before them.
TEST_F(QuantizedCache, SearchesWithBeams) {
  for (const std::string& name : plain_test_devices()) {
    setenv("VESPER_TUNING", "vector_rows=8x8", 1);
    const auto device = open_test_device(name);
    unsetenv("VESPER_TUNING");
    for (const KvTypes& types : kBoth) {
      GeneratorOptions with_beams = options(types);
      with_beams.beam_size = 4;
      Generator beams = open(*device, with_beams), plain = open(*device, options(types));
      Ids text = text_of(39);
      const Ids found = answer(beams, text, 40);
      EXPECT_EQ(found.size(), 40u);
      std::vector<float> wanted, row(plain.n_vocab());
      for (const int32_t id : found) {
        answer(plain, text, 1);
        plain.read_logits(0, row.data());
        double sum = 0;
        for (const float logit : row) sum += std::exp(double{logit});
        wanted.push_back(static_cast<float>(row[id] - std::log(sum)));
        text.push_back(id);
      }
      EXPECT_THAT(beams.logprobs(0), Pointwise(FloatNear(1e-5f), wanted)) << name;
    }
  }
}

TEST_F(QuantizedCache, AnswersTheSameInABatchAndWithDrafts) {
  const auto device = open_device("cpu", {});
  for (const KvTypes& types : kBoth) {
    Generator alone = open(*device, options(types));
    Ids repeated = text_of(20);
    repeated.insert(repeated.end(), repeated.begin(), repeated.end());
    const std::vector<Ids> prompts = {text_of(30), text_of(5), repeated};
    std::vector<Ids> wanted;
    for (const Ids& prompt : prompts) wanted.push_back(answer(alone, prompt, 30));
    GeneratorOptions many = options(types);
    many.n_slots = 3;
    Generator batch = open(*device, many);
    for (uint32_t slot = 0; slot < 3; ++slot) batch.start(slot, prompts[slot], 30, {});
    while (batch.advance(4)) {
    }
    for (uint32_t slot = 0; slot < 3; ++slot) {
      EXPECT_THAT(batch.sampled(slot), ElementsAreArray(wanted[slot])) << slot;
    }
    NgramDrafts drafts;
    Generator drafted = open(*device, options(types), &drafts);
    EXPECT_EQ(answer(drafted, repeated, 30), wanted[2]);
    EXPECT_GT(drafted.speculation(0).n_drafted, 0u);
  }
}

TEST_F(QuantizedCache, ReusesSavesAndRestores) {
  const auto device = open_device("cpu", {});
  const Ids text = text_of(80);
  for (const KvTypes& types : kBoth) {
    Generator first = open(*device, options(types));
    const Ids wanted = answer(first, text, 10);
    EXPECT_EQ(answer(first, text, 10), wanted);
    EXPECT_EQ(first.n_reused(0), 79u);
    const std::vector<std::byte> saved = first.save(0);
    Generator second = open(*device, options(types));
    second.restore(0, saved);
    EXPECT_EQ(answer(second, text, 10), wanted);
    EXPECT_EQ(second.n_reused(0), 79u);
    // A file of another type.
    Generator third = open(*device, options(DType::kF16));
    EXPECT_THROW(third.restore(0, saved), Error);
    EXPECT_LT(saved.size() * 3, second.save(0).size() * 4);
  }
}

TEST_F(QuantizedCache, RecyclesThePagesOfSlidingWindows) {
  const auto device = open_device("cpu", {});
  const Ids text = text_of(1000);
  for (const KvTypes& types : kBoth) {
    GeneratorOptions long_context = options(types);
    long_context.n_ctx = 1200;
    Generator recycling = open(*device, long_context);
    long_context.recycles_pages = false;
    Generator keeping = open(*device, long_context);
    EXPECT_EQ(logits_of(recycling, text), logits_of(keeping, text));
    EXPECT_LT(recycling.save(0).size(), keeping.save(0).size() * 3 / 4);
    EXPECT_EQ(answer(recycling, text, 20), answer(keeping, text, 20));
  }
}

// Blocks have 32 elements.
TEST(QuantizedCacheOfNarrowHeads, IsRefused) {
  const auto device = open_device("cpu", {});
  const auto provider =
      open_weights(std::filesystem::path(VESPER_TEST_DATA) / "language_models/gemma2");
  GeneratorOptions options;
  options.kv_types = DType::kQ8_0;
  try {
    Generator(*device, *provider, Compute::kF32, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.setting(), "kv type");
    EXPECT_THAT(error.what(), testing::HasSubstr("heads of 16 elements"));
  }
}

}  // namespace
}  // namespace vesper::quantized_cache_test
