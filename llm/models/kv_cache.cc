#include "llm/models/kv_cache.h"

#include <string>

#include "error/error.h"

namespace vesper {

namespace {

uint32_t pages_of(uint32_t n_positions, uint32_t page_rows) {
  return (n_positions + page_rows - 1) / page_rows;
}

// Of a sequence, in layers that slide; 0 where none does.
uint32_t n_sliding_pages(const KvCache::Shape& shape) {
  const uint32_t n = pages_of(shape.n_sliding_positions, shape.page_rows);
  const bool is_less = n < pages_of(shape.n_positions, shape.page_rows);
  return !shape.sliding_layers.empty() && is_less ? n : 0;
}

// Of the keys of a layer's page; as many of its values.
uint64_t page_bytes(const KvCache::Shape& shape) {
  return uint64_t{shape.n_kv_heads} * shape.page_rows * dtype_bytes(shape.dtype, shape.head_dim);
}

// Of the keys of a layer; as many of its values.
uint64_t layer_bytes(const KvCache::Shape& shape, uint32_t layer) {
  const uint32_t n_sliding = n_sliding_pages(shape);
  const uint64_t n_pages =
      n_sliding > 0 && shape.sliding_layers[layer]
          ? uint64_t{n_sliding} * shape.n_sequences
          : uint64_t{pages_of(shape.n_positions, shape.page_rows)} * shape.n_sequences +
                shape.n_extra_pages;
  return n_pages * page_bytes(shape);
}

}  // namespace

uint64_t KvCache::bytes(const Shape& shape) {
  uint64_t n = 0;
  for (uint32_t layer = 0; layer < shape.n_layers; ++layer) n += 2 * layer_bytes(shape, layer);
  return n;
}

KvCache::KvCache(Device& device, const Shape& shape) : device_(device), shape_(shape) {
  pages_per_sequence_ = pages_of(shape.n_positions, shape.page_rows);
  n_sliding_pages_ = n_sliding_pages(shape);
  const uint64_t n_pages = uint64_t{pages_per_sequence_} * shape.n_sequences;
  allocate_layers();
  if (n_sliding_pages_ > 0) {
    sliding_table_ = device.allocate(n_pages * sizeof(int32_t), "page table of sliding windows");
    std::vector<int32_t> table(n_pages);
    for (uint64_t i = 0; i < n_pages; ++i) {
      const uint64_t sequence = i / pages_per_sequence_, index = i % pages_per_sequence_;
      table[i] = static_cast<int32_t>((sequence * n_sliding_pages_ + index % n_sliding_pages_) *
                                      sliding_step_);
    }
    device.write(sliding_table_, table.data());
  }
  page_table_ = device.allocate(n_pages * sizeof(int32_t), "page table");
  table_.assign(n_pages, 0);
  n_sequence_pages_.assign(shape.n_sequences, 0);
  free_pages_.reserve(n_pages);
  for (uint64_t page = n_pages; page-- > 0;) {
    free_pages_.push_back(static_cast<int32_t>(page * page_step_));
  }
}

void KvCache::allocate_layers() {
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
      const uint64_t bytes = layer_bytes(shape_, layer);
      keys_[layer] = device_.allocate(bytes, "keys of layer " + std::to_string(layer));
      values_[layer] = device_.allocate(bytes, "values of layer " + std::to_string(layer));
    }
    return;
  }
  for (const bool slide : {false, true}) {
    const std::vector<uint32_t> layers = layers_that(slide);
    if (layers.empty()) continue;
    const auto step = static_cast<uint32_t>(2 * layers.size());
    (slide ? sliding_step_ : page_step_) = step;
    const Operand all = device_.allocate(
        step * layer_bytes(shape_, layers.front()),
        slide ? "keys and values of layers with a sliding window" : "keys and values");
    for (size_t i = 0; i < layers.size(); ++i) {
      keys_[layers[i]] = all.from(2 * i * page_bytes(shape_));
      values_[layers[i]] = all.from((2 * i + 1) * page_bytes(shape_));
    }
  }
}

void KvCache::reserve(uint32_t sequence, uint32_t n_positions) {
  if (sequence >= shape_.n_sequences || n_positions > shape_.n_positions) {
    throw Error(ErrorKind::kInternal, "key-value cache: sequence " + std::to_string(sequence) +
                                          " with " + std::to_string(n_positions) +
                                          " positions is beyond " +
                                          std::to_string(shape_.n_sequences) + " sequences of " +
                                          std::to_string(shape_.n_positions));
  }
  const uint32_t wanted = (n_positions + shape_.page_rows - 1) / shape_.page_rows;
  uint32_t& held = n_sequence_pages_[sequence];
  if (held >= wanted) return;
  int32_t* row = table_.data() + size_t{sequence} * pages_per_sequence_;
  while (held < wanted) {
    row[held++] = free_pages_.back();
    free_pages_.pop_back();
  }
  const uint64_t row_bytes = pages_per_sequence_ * sizeof(int32_t);
  device_.write(page_table_.part(sequence * row_bytes, row_bytes), row);
}

int32_t KvCache::fill_group_row(uint32_t group, uint32_t n, uint32_t i, uint32_t n_shared,
                                int32_t* row) const {
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

void KvCache::release(uint32_t sequence) {
  uint32_t& held = n_sequence_pages_.at(sequence);
  const int32_t* row = table_.data() + size_t{sequence} * pages_per_sequence_;
  while (held > 0) free_pages_.push_back(row[--held]);
}

}  // namespace vesper
