#include "audio/mel/mel_rows.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <numeric>

#include "tests/audio/made_recordings.h"
#include "tests/temporary_folder.h"

namespace vesper::mel_rows_test {
namespace {

constexpr size_t kMels = 3;

// Rows of distinct values, appended in parts of various sizes.
MelRows counted_rows(size_t n) {
  MelRows rows(kMels);
  std::vector<float> part;
  for (size_t at = 0, size = 1; at < n; at += size, size = size % 4000 + 37) {
    size = std::min(size, n - at);
    part.resize(size * kMels);
    std::iota(part.begin(), part.end(), static_cast<float>(at * kMels));
    rows.append(part.data(), size);
  }
  return rows;
}

void expect_counted(const MelRows& rows, size_t first, size_t n) {
  std::vector<float> found(n * kMels, -1.0f), expected(n * kMels);
  rows.read(first, n, found.data());
  std::iota(expected.begin(), expected.end(), static_cast<float>(first * kMels));
  EXPECT_EQ(found, expected) << first << ", " << n;
}

void expect_all(const MelRows& rows) {
  for (const size_t n : {size_t{1}, size_t{3000}, size_t{7001}}) {
    for (size_t first = 0; first + n <= rows.size(); first += n + 1499) {
      expect_counted(rows, first, n);
    }
    expect_counted(rows, rows.size() - n, n);
  }
  expect_counted(rows, 0, rows.size());
}

TEST(MelRows, AreInMemoryForAShortRecording) {
  const ScopedEnvironment nowhere("TMPDIR", "/no/such/folder");
  const MelRows rows = counted_rows(MelRows::kMostInMemory);
  EXPECT_EQ(rows.n_in_memory(), MelRows::kMostInMemory);
  expect_all(rows);
}

TEST(MelRows, AreInAFileForALongRecording) {
  const TemporaryFolder folder;
  const ScopedEnvironment here("TMPDIR", folder.path().string());
  const MelRows rows = counted_rows(100000);
  EXPECT_LE(rows.n_in_memory(), MelRows::kMostInMemory);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  expect_all(rows);
}

TEST(MelRows, StayInMemoryIfNoFileCanBeWritten) {
  const ScopedEnvironment nowhere("TMPDIR", "/no/such/folder");
  const MelRows rows = counted_rows(50000);
  EXPECT_EQ(rows.n_in_memory(), 50000u);
  expect_all(rows);
}

TEST(MelRows, StayInMemoryIfTheFileIsFull) {
  const TemporaryFolder folder;
  const ScopedEnvironment here("TMPDIR", folder.path().string());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{20000 * kMels * sizeof(float), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const MelRows rows = counted_rows(50000);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_LT(rows.n_in_memory(), 50000u);
  EXPECT_GT(rows.n_in_memory(), 30000u - 1);
  expect_all(rows);
}

}  // namespace
}  // namespace vesper::mel_rows_test
