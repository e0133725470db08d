#include "llm/kv_cache.h"

#include <string>

#include "error/error.h"

namespace vesper {

KvCache::KvCache(Device& device, const Shape& shape) : device_(device), shape_(shape) {
  pages_per_sequence_ = (shape.n_positions + shape.page_rows - 1) / shape.page_rows;
  const uint64_t n_pages = uint64_t{pages_per_sequence_} * shape.n_sequences;
  const uint64_t bytes = (n_pages + shape.n_extra_pages) * shape.n_kv_heads * shape.page_rows *
                         dtype_bytes(shape.dtype, shape.head_dim);
  for (uint32_t layer = 0; layer < shape.n_layers; ++layer) {
    keys_.push_back(device.allocate(bytes, "keys of layer " + std::to_string(layer)));
    values_.push_back(device.allocate(bytes, "values of layer " + std::to_string(layer)));
  }
  page_table_ = device.allocate(n_pages * sizeof(int32_t), "page table");
  table_.assign(n_pages, 0);
  n_sequence_pages_.assign(shape.n_sequences, 0);
  free_pages_.reserve(n_pages);
  for (uint64_t page = n_pages; page-- > 0;) free_pages_.push_back(static_cast<int32_t>(page));
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

void KvCache::release(uint32_t sequence) {
  uint32_t& held = n_sequence_pages_.at(sequence);
  const int32_t* row = table_.data() + size_t{sequence} * pages_per_sequence_;
  while (held > 0) free_pages_.push_back(row[--held]);
}

}  // namespace vesper
