// Damaged GGUF files give an error or a sound result, never a crash. For the asan preset. The
// address space is limited, so that a length from the file cannot become an allocation.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <random>

#include "error/error.h"
#include "llm/files/gguf_file.h"
#include "llm/weights/gguf/gguf_reader.h"
#include "tests/llm/weights/gguf_bytes.h"

namespace vesper::gguf_damage_test {
namespace {

#if defined(VESPER_SANITIZED)
constexpr bool kCanCapMemory = false;  // the sanitizer maps terabytes
#else
constexpr bool kCanCapMemory = true;
#endif

std::vector<uint8_t> sample() {
  std::vector<uint8_t> nested;
  GgufBytes::put<uint32_t>(nested, 9);
  GgufBytes::put<uint64_t>(nested, 1);
  GgufBytes::put<uint32_t>(nested, 8);
  GgufBytes::put<uint64_t>(nested, 1);
  GgufBytes::put_string(nested, "ab");
  return GgufBytes()
      .string("general.architecture", "llama")
      .scalar<uint32_t>("llama.block_count", 4, 1)
      .scalar<float>("llama.rope.freq_base", 6, 1e4f)
      .scalar<uint8_t>("bool", 7, 1)
      .raw("nested", 9, nested)
      .string("tokenizer.ggml.model", "gpt2")
      .strings("tokenizer.ggml.tokens", {"a",
                                         "\xc4\xa0"
                                         "b",
                                         "<s>"})
      .array<int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 3})
      .alignment(32)
      .tensor("token_embd.weight", {32, 3}, 8, std::vector<uint8_t>(102, 7))
      .tensor("blk.0.attn_q.weight", {256, 2}, 12, std::vector<uint8_t>(288, 9))
      .tensor("output_norm.weight", {8}, 0, std::vector<uint8_t>(32, 0))
      .bytes();
}

// Reads everything in the file. Returns whether it is sound.
bool read_all(std::vector<uint8_t> bytes) {
  const auto file = std::make_shared<const MappedFile>("model.gguf", std::move(bytes));
  const ModelFiles none(".", {});
  try {
    const Gguf gguf = read_gguf_files(none, file);
    for (const GgufEntry& entry : gguf.metadata) {
      GgufElements elements(entry.value);
      GgufValue element;
      while (elements.next(element)) element.as_number();
      entry.value.as_unsigned();
    }
    const ModelContents contents = read_gguf(none, file);
    for (const TensorView& tensor : contents.tensors) read_f32(tensor);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel) << error.what();
    return false;
  }
}

class GgufDamage : public testing::Test {
 protected:
  void SetUp() override {
    getrlimit(RLIMIT_AS, &before_);
    rlimit capped = before_;
    capped.rlim_cur = 1u << 30;
    if (kCanCapMemory) {
      ASSERT_EQ(setrlimit(RLIMIT_AS, &capped), 0);
    }
  }
  void TearDown() override { setrlimit(RLIMIT_AS, &before_); }
  rlimit before_{};
};

TEST_F(GgufDamage, UndamagedFileIsValid) { EXPECT_TRUE(read_all(sample())); }

TEST_F(GgufDamage, TruncatedFileIsAnError) {
  const std::vector<uint8_t> whole = sample();
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto end = whole.begin() + static_cast<std::ptrdiff_t>(length);
    EXPECT_FALSE(read_all({whole.begin(), end})) << length << " bytes of " << whole.size();
  }
}

TEST_F(GgufDamage, ChangedBytesAreAnErrorOrValid) {
  const std::vector<uint8_t> whole = sample();
  std::mt19937 random(20);
  uint32_t n_sound = 0, n_errors = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::vector<uint8_t> bytes = whole;
    for (uint32_t n = 1 + random() % 4; n > 0; --n) {
      bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1 + random() % 255);
    }
    ++(read_all(std::move(bytes)) ? n_sound : n_errors);
  }
  // Both occur: flips in weights and names are harmless, those in lengths are not.
  EXPECT_GT(n_sound, 10'000u);
  EXPECT_GT(n_errors, 10'000u);
}

TEST_F(GgufDamage, HugeLengthsAreAnErrorOrValid) {
  const std::vector<uint8_t> whole = sample();
  const std::vector<uint64_t> edges = {0,
                                       1,
                                       0x7fffffff,
                                       0x80000000,
                                       0xffffffff,
                                       uint64_t{1} << 62,
                                       ~uint64_t{0} >> 1,
                                       ~uint64_t{0} - 31,
                                       ~uint64_t{0}};
  for (size_t at = 0; at + 8 <= whole.size(); ++at) {
    for (const uint64_t edge : edges) {
      std::vector<uint8_t> bytes = whole;
      std::memcpy(bytes.data() + at, &edge, sizeof edge);
      read_all(std::move(bytes));
    }
  }
}

}  // namespace
}  // namespace vesper::gguf_damage_test
