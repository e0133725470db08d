#include "llm/models/kv_cache.h"

#include <numeric>
#include <string>
#include <utility>

#include "shaders/kernel_params.h"

namespace vesper {

namespace {

uint32_t pages_of(uint32_t n_positions, uint32_t page_rows) {
  return (n_positions + page_rows - 1) / page_rows;
}

// Per sequence, in layers with a sliding window; 0: none.
uint32_t n_sliding_pages(const KvCache::Shape& shape) {
  const uint32_t n = pages_of(shape.n_sliding_positions, shape.page_rows);
  const bool is_less = n < pages_of(shape.n_positions, shape.page_rows);
  return !shape.sliding_layers.empty() && is_less ? n : 0;
}

uint64_t page_bytes(const KvCache::Shape& shape, DType dtype) {
  return uint64_t{shape.n_kv_heads} *
         kv_head_bytes(static_cast<uint32_t>(dtype), shape.page_rows, shape.head_dim);
}

uint64_t n_pages(const KvCache::Shape& shape, uint32_t layer) {
  const uint32_t n_sliding = n_sliding_pages(shape);
  return n_sliding > 0 && shape.sliding_layers[layer]
             ? uint64_t{n_sliding} * shape.n_sequences
             : uint64_t{pages_of(shape.n_positions, shape.page_rows)} * shape.n_sequences +
                   shape.n_extra_pages;
}

}  // namespace

uint64_t KvCache::bytes(const Shape& shape) {
  uint64_t n = 0;
  for (uint32_t layer = 0; layer < shape.n_layers; ++layer) n += n_pages(shape, layer);
  return n * (page_bytes(shape, shape.types.keys) + page_bytes(shape, shape.types.values));
}

KvCache::KvCache(Device& device, const Shape& shape) : shape_(shape) {
  pages_per_sequence_ = pages_of(shape.n_positions, shape.page_rows);
  n_sliding_pages_ = n_sliding_pages(shape);
  allocate_layers(device);
  owned_.resize(shape.n_sequences);
  std::iota(owned_.begin(), owned_.end(), 0u);
  const uint64_t table_bytes = uint64_t{pages_per_sequence_} * shape.n_sequences * sizeof(int32_t);
  page_table_ = device.allocate(table_bytes, "page table");
  if (n_sliding_pages_ > 0) {
    sliding_table_ = device.allocate(table_bytes, "page table of sliding windows");
  }
  for (uint32_t s = 0; s < shape.n_sequences; ++s) write_row(device, s);
}

void KvCache::write_row(Device& device, uint32_t sequence) const {
  std::vector<int32_t> row(pages_per_sequence_);
  const uint64_t bytes = row.size() * sizeof(int32_t);
  const auto write = [&](const Operand& table, const auto& page) {
    for (uint32_t i = 0; i < row.size(); ++i) row[i] = page(i);
    device.write(table.part(sequence * bytes, bytes), row.data());
  };
  write(page_table_, [&](uint32_t i) { return group_page(sequence, 1, i); });
  if (n_sliding_pages_ == 0) return;
  write(sliding_table_, [&](uint32_t i) { return sliding_page(sequence, i); });
}

void KvCache::swap(Device& device, uint32_t a, uint32_t b) {
  std::swap(owned_[a], owned_[b]);
  write_row(device, a);
  write_row(device, b);
}

void KvCache::allocate_layers(Device& device) {
  const auto layers_that = [&](bool slide) {
    std::vector<uint32_t> layers;
    for (uint32_t l = 0; l < shape_.n_layers; ++l) {
      if (slides(l) == slide) layers.push_back(l);
    }
    return layers;
  };
  keys_.resize(shape_.n_layers);
  values_.resize(shape_.n_layers);
  if (!shape_.keeps_layers_together) {
    for (uint32_t layer = 0; layer < shape_.n_layers; ++layer) {
      const uint64_t n = n_pages(shape_, layer);
      const std::string of_layer = " of layer " + std::to_string(layer);
      keys_[layer] = device.allocate(n * key_page_bytes(), "keys" + of_layer);
      values_[layer] = device.allocate(n * value_page_bytes(), "values" + of_layer);
    }
    return;
  }
  for (const bool slide : {false, true}) {
    const std::vector<uint32_t> layers = layers_that(slide);
    if (layers.empty()) continue;
    const bool is_shared = shape_.types.keys == shape_.types.values;
    const auto step = static_cast<uint32_t>((is_shared ? 2 : 1) * layers.size());
    (slide ? sliding_step_ : page_step_) = step;
    const uint64_t n_pieces = step * n_pages(shape_, layers.front());
    const auto allocate = [&](const std::string& what, uint64_t piece_bytes) {
      return device.allocate(n_pieces * piece_bytes,
                             what + (slide ? " of layers with a sliding window" : ""));
    };
    const Operand keys = allocate(is_shared ? "keys and values" : "keys of all", key_page_bytes());
    const Operand values =
        is_shared ? keys.from(key_page_bytes()) : allocate("values of all", value_page_bytes());
    for (size_t i = 0; i < layers.size(); ++i) {
      const size_t piece = is_shared ? 2 * i : i;
      keys_[layers[i]] = keys.from(piece * key_page_bytes());
      values_[layers[i]] = values.from(piece * value_page_bytes());
    }
  }
}

uint64_t KvCache::key_page_bytes() const { return page_bytes(shape_, shape_.types.keys); }
uint64_t KvCache::value_page_bytes() const { return page_bytes(shape_, shape_.types.values); }

int32_t KvCache::fill_group_row(uint32_t group, uint32_t n, uint32_t i, uint32_t n_shared,
                                int32_t* row) const {
  if (n == 1) n_shared = pages_per_sequence_;
  for (uint32_t page = 0; page < pages_per_sequence_; ++page) {
    if (page < n_shared) {
      row[page] = group_page(group, n, page);
    } else if (page == n_shared) {
      row[page] = group_page(group, n, n_shared + i);
    } else {
      row[page] = group_page(group, n, n_shared + (page - n_shared + 1) * n + i);
    }
  }
  return group_page(group, n, n_shared + n + i);
}

}  // namespace vesper
