// Offsets of the pages of keys and values.
#include "llm/models/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "llm/devices/open_device.h"

namespace vesper::kv_cache_test {
namespace {

// 1 of 3 layers keeps only 4 pages of each sequence.
KvCache::Shape shape(bool keeps_layers_together) {
  KvCache::Shape shape;
  shape.n_layers = 3;
  shape.n_kv_heads = 2;
  shape.head_dim = 8;
  shape.n_sequences = 2;
  shape.n_positions = 10 * KvCache::kPageRows;
  shape.sliding_layers = {0, 1, 0};
  shape.n_sliding_positions = 4 * KvCache::kPageRows;
  shape.keeps_layers_together = keeps_layers_together;
  return shape;
}
// Buffer and offset of the pages of layers without a sliding window, or of the one with it.
std::set<std::pair<BufferId, uint64_t>> places(const KvCache& cache, uint32_t sequence,
                                               uint32_t first, uint32_t end, bool sliding) {
  std::set<std::pair<BufferId, uint64_t>> found;
  for (uint32_t layer = 0; layer < 3; ++layer) {
    if ((layer == 1) != sliding) continue;
    for (uint32_t index = first; index < end; ++index) {
      for (const Operand* pages : {&cache.keys(layer), &cache.values(layer)}) {
        const uint64_t page_bytes =
            pages == &cache.keys(layer) ? cache.key_page_bytes() : cache.value_page_bytes();
        const uint64_t at = cache.page_of(layer, sequence, index) * page_bytes;
        EXPECT_LE(at + page_bytes, pages->bytes);
        const bool is_new = found.emplace(pages->buffer, pages->offset_bytes + at).second;
        EXPECT_TRUE(is_new) << "layer " << layer << ", page " << index;
      }
    }
  }
  return found;
}

TEST(KvCache, PagesDoNotOverlap) {
  const std::unique_ptr<Device> device = open_device("cpu", {});
  for (const bool together : {false, true}) {
    const KvCache cache(*device, shape(together));
    for (const bool sliding : {false, true}) {
      auto all = places(cache, 0, sliding ? 6 : 0, 10, sliding);
      all.merge(places(cache, 1, sliding ? 6 : 0, 10, sliding));
      EXPECT_EQ(all.size(), sliding ? 2u * 4 * 2 : 2u * 10 * 4);
    }
    const auto page = places(cache, 1, 7, 8, false);
    const uint64_t page_bytes = cache.key_page_bytes();
    const uint64_t span = page.rbegin()->second - page.begin()->second + page_bytes;
    EXPECT_EQ(page.rbegin()->first == page.begin()->first, together);
    EXPECT_EQ(together ? span : 4 * page_bytes, 4 * page_bytes);
    // The device's page table equals the host's.
    std::vector<int32_t> table(2 * cache.pages_per_sequence());
    for (const uint32_t layer : {0u, 1u}) {
      device->read(cache.page_table(layer), table.data());
      for (uint32_t sequence = 0; sequence < 2; ++sequence) {
        for (uint32_t index = 0; index < 10; ++index) {
          EXPECT_EQ(table[sequence * cache.pages_per_sequence() + index],
                    static_cast<int32_t>(cache.page_of(layer, sequence, index)));
        }
      }
    }
  }
}

// Keys and values of different sizes are in separate buffers.
TEST(KvCache, SeparatesKeysAndValuesOfDifferentTypes) {
  const std::unique_ptr<Device> device = open_device("cpu", {});
  for (const bool together : {false, true}) {
    KvCache::Shape mixed = shape(together);
    mixed.head_dim = 64;
    mixed.types = {DType::kQ8_0, DType::kQ4_0};
    const KvCache cache(*device, mixed);
    // 32 elements take 34 and 20 bytes.
    EXPECT_EQ(cache.key_page_bytes(), 2u * KvCache::kPageRows * 2 * 34);
    EXPECT_EQ(cache.value_page_bytes(), 2u * KvCache::kPageRows * 2 * 20);
    uint64_t n_bytes = 0;
    std::set<BufferId> buffers;
    for (const bool sliding : {false, true}) {
      auto all = places(cache, 0, sliding ? 6 : 0, 10, sliding);
      all.merge(places(cache, 1, sliding ? 6 : 0, 10, sliding));
      EXPECT_EQ(all.size(), sliding ? 2u * 4 * 2 : 2u * 10 * 4);
      n_bytes += all.size() / 2 * (cache.key_page_bytes() + cache.value_page_bytes());
    }
    for (uint32_t layer = 0; layer < 3; ++layer) {
      buffers.insert({cache.keys(layer).buffer, cache.values(layer).buffer});
    }
    EXPECT_EQ(buffers.size(), together ? 4u : 6u);
    EXPECT_EQ(KvCache::bytes(mixed), n_bytes);
  }
}

TEST(KvCache, HasAPageForTheLastPositions) {
  const std::unique_ptr<Device> device = open_device("cpu", {});
  KvCache::Shape longer = shape(false);
  longer.n_positions += 1;
  EXPECT_EQ(KvCache(*device, longer).pages_per_sequence(), 11u);
  longer.n_sliding_positions += 1;
  EXPECT_EQ(KvCache(*device, longer).n_kept_positions(), 5 * KvCache::kPageRows);
}

}  // namespace
}  // namespace vesper::kv_cache_test
