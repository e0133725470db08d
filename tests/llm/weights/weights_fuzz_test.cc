// Damaged model files: truncated or with flipped bytes, opening gives an error or a sound model,
// and takes a limited amount of memory.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>

#include "error/error.h"
#include "llm/weights/weight_provider.h"
#include "tests/damage_rounds.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace {

// The memory limit: allocations above it fail, as on a full machine.
constexpr int64_t kMemoryCap = 64 << 20;
std::atomic<int64_t> memory_in_use{0};

}  // namespace

// Not inlined: the compiler would see malloc and free instead of new and delete.
[[gnu::noinline]] void* operator new(size_t size) {
  void* memory = size <= size_t{kMemoryCap} ? std::malloc(size) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  const auto taken = static_cast<int64_t>(malloc_usable_size(memory));
  if ((memory_in_use += taken) > kMemoryCap) {
    memory_in_use -= taken;
    std::free(memory);
    throw std::bad_alloc();
  }
  return memory;
}

[[gnu::noinline]] void operator delete(void* memory) noexcept {
  if (memory != nullptr) memory_in_use -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace vesper {
namespace {

using test::FileSet;
using test::TinyWhisper;

// The smallest model with rows of one block.
const TinyWhisper& smallest_quantized_model() {
  static const TinyWhisper model({.seed = 6,
                                  .n_mels = 1,
                                  .n_audio_ctx = 1,
                                  .n_text_ctx = 1,
                                  .n_vocab = 12,
                                  .d_model = 32,
                                  .n_heads = 1,
                                  .n_encoder_layers = 1,
                                  .n_decoder_layers = 1,
                                  .d_ffn = 32});
  return model;
}

// Assumptions of later code.
void expect_sound(const WeightProvider& weights) {
  if (weights.family() != "whisper") return;
  const ModelConfig& facts = weights.config(ModelType::kWhisper);
  const StackConfig &encoder = facts.encoder(), &decoder = facts.decoder();
  EXPECT_EQ(encoder.d_model % encoder.n_heads, 0u);
  EXPECT_EQ(decoder.d_model % decoder.n_heads, 0u);
  EXPECT_LE(weights.vocabulary().size(), facts.n_vocab);
  for (const int32_t id : facts.suppress_tokens)
    EXPECT_LT(static_cast<uint32_t>(id), facts.n_vocab);
  EXPECT_EQ(weights.require("decoder.embed.weight").n_elements(),
            uint64_t{facts.n_vocab} * decoder.d_model);
  for (const TensorView& tensor : weights.tensors()) read_f32(tensor);  // asan detects stray reads
}

// True if it opened.
bool open_or_error(const FileSet& files) {
  try {
    expect_sound(*open_weights(ModelFiles("folder", files)));
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel) << error.what();
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
    return false;
  }
}

FileSet with_bytes(FileSet files, size_t place, std::vector<uint8_t> bytes) {
  files[place] = std::make_shared<const MappedFile>(files[place]->name(), std::move(bytes));
  return files;
}

void cut_everywhere(const FileSet& files, const char* weights_file) {
  ASSERT_TRUE(open_or_error(files));
  for (size_t place = 0; place < files.size(); ++place) {
    const auto bytes = files[place]->bytes();
    for (size_t length = 0; length < bytes.size(); ++length) {
      const bool has_opened = open_or_error(with_bytes(
          files, place, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)}));
      if (files[place]->name() == weights_file) {
        ASSERT_FALSE(has_opened) << "cut to " << length << " of " << bytes.size();
      }
    }
  }
}

void flip_bytes(const FileSet& files, size_t n_trials, uint32_t seed) {
  std::mt19937 random(seed);
  size_t n_opened = 0;
  for (size_t trial = 0; trial < n_trials; ++trial) {
    // The weights' file more often than the files beside it.
    const size_t place = random() % 2 == 0 ? 0 : random() % files.size();
    std::vector<uint8_t> bytes(files[place]->bytes().begin(), files[place]->bytes().end());
    const uint32_t n_flips = 1 + random() % 3;
    for (uint32_t i = 0; i < n_flips; ++i) {
      uint8_t& byte = bytes[random() % bytes.size()];
      // One bit, the extremes, or any value.
      switch (random() % 4) {
        case 0:
          byte = 0xff;
          break;
        case 1:
          byte = 0;
          break;
        case 2:
          byte = static_cast<uint8_t>(random());
          break;
        default:
          byte ^= static_cast<uint8_t>(1u << random() % 8);
      }
    }
    n_opened += open_or_error(with_bytes(files, place, std::move(bytes)));
    ASSERT_FALSE(testing::Test::HasFailure()) << "trial " << trial;
  }
  // Both outcomes must occur, or the test checks nothing.
  EXPECT_GT(n_opened, n_trials / 100);
  EXPECT_LT(n_opened, n_trials);
}

TEST(DamagedGgml, TruncatedFileIsAnError) {
  // A cut between two tensors is detected by the missing tensors.
  cut_everywhere(test::smallest_whisper().ggml(DType::kF16), "ggml.bin");
}

TEST(DamagedGgml, ChangedBytesAreAnErrorOrValid) {
  flip_bytes(test::smallest_whisper().ggml(DType::kF16), damage_rounds(80'000), 1);
  flip_bytes(smallest_quantized_model().ggml(DType::kQ5_1), damage_rounds(20'000), 2);
}

TEST(DamagedCTranslate2, TruncatedFileIsAnError) {
  cut_everywhere(test::smallest_whisper().ctranslate2(DType::kI8), "model.bin");
}

TEST(DamagedCTranslate2, ChangedBytesAreAnErrorOrValid) {
  flip_bytes(test::smallest_whisper().ctranslate2(DType::kI8), damage_rounds(100'000), 3);
}

TEST(DamagedOpenAi, TruncatedFileIsAnError) {
  cut_everywhere(test::smallest_whisper().openai(DType::kF16), "tiny.pt");
}

TEST(DamagedOpenAi, ChangedBytesAreAnErrorOrValid) {
  flip_bytes(test::smallest_whisper().openai(DType::kF16), damage_rounds(100'000), 6);
}

TEST(DamagedSafetensors, TruncatedFileIsAnError) {
  cut_everywhere(test::smallest_whisper().safetensors(DType::kF16), "model.safetensors");
}

TEST(DamagedSafetensors, ChangedBytesAreAnErrorOrValid) {
  flip_bytes(test::smallest_whisper().safetensors(DType::kF16), damage_rounds(80'000), 4);
  flip_bytes(test::smallest_whisper().safetensors(DType::kF16, 2), damage_rounds(20'000), 5);
}

}  // namespace
}  // namespace vesper
