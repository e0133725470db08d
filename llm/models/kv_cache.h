// Paged keys and values of a stack's layers.
//
// A page holds page_rows positions of one layer: [n_kv_heads, page_rows, head_dim]. A row of the
// page table has the pages of a sequence; it serves all layers without a sliding window. Those with
// one have a second table, which reuses the pages of a sequence as a ring. write_kv fills pages,
// paged_attention reads them. There are enough pages for full sequences. Pages of the same index
// are adjacent, so that unused memory is never touched.
//
// Keys and values of each layer are separate buffers, or all layers with the same page table share
// one buffer, [page][layer][keys, values], so that a sequence's memory is contiguous. Page numbers
// then count the pieces of the buffer, and kernels need no change. All pieces of a buffer have one
// size: keys and values of different formats are in two buffers, [page][layer].
#pragma once

#include <cstdint>
#include <vector>

#include "llm/dtype/kv_types.h"
#include "llm/table/device.h"

namespace vesper {

class KvCache {
 public:
  static constexpr uint32_t kPageRows = 32;

  struct Shape {
    uint32_t n_layers = 0;
    uint32_t n_kv_heads = 0;
    uint32_t head_dim = 0;
    uint32_t n_sequences = 0;
    uint32_t n_positions = 0;  // longest sequence
    uint32_t page_rows = kPageRows;
    KvTypes types = {};
    // Additional pages that belong to no sequence, for callers that write page tables.
    uint32_t n_extra_pages = 0;
    // Layers whose sliding_layers[l] is not 0 keep only the last n_sliding_positions positions,
    // rounded up to pages. Empty: all layers keep all.
    std::vector<uint8_t> sliding_layers = {};
    uint32_t n_sliding_positions = 0;
    bool keeps_layers_together = false;
  };

  // Bytes of all pages of such a cache.
  static uint64_t bytes(const Shape& shape);

  // Allocates all pages and assigns each sequence its own: page_of(). Throws Error(kDevice).
  KvCache(Device& device, const Shape& shape);

  // A group of `n` consecutive sequences may share pages, with page tables written by the caller
  // and select_beams. A group has n * pages_per_sequence() pages, and n more if the shape has an
  // extra page per sequence. A group of one has the pages of its sequence.
  int32_t group_page(uint32_t group, uint32_t n, uint32_t index) const {
    return static_cast<int32_t>((index / n * shape_.n_sequences + owned_[group * n + index % n]) *
                                page_step_);
  }
  // Writes the page table row of the group's i-th sequence, i32 [pages_per_sequence]. The first
  // `n_shared` pages are the group's, the others its own. Returns its spare page.
  int32_t fill_group_row(uint32_t group, uint32_t n, uint32_t i, uint32_t n_shared,
                         int32_t* row) const;

  // Exchanges the pages of two sequences, each a group of one, and writes their page table rows.
  void swap(Device& device, uint32_t a, uint32_t b);

  const Shape& shape() const { return shape_; }
  uint32_t pages_per_sequence() const { return pages_per_sequence_; }
  // [n_pages, n_kv_heads, page_rows, head_dim] of the layer, quantized as in
  // shaders/kernel_params.h; with layers together, from its first page to the end of the buffer.
  const Operand& keys(uint32_t layer) const { return keys_[layer]; }
  const Operand& values(uint32_t layer) const { return values_[layer]; }
  // i32 [n_sequences, pages_per_sequence]
  const Operand& page_table() const { return page_table_; }
  const Operand& page_table(uint32_t layer) const {
    return slides(layer) ? sliding_table_ : page_table_;
  }
  // Bytes of a layer's keys, and of its values, in a page.
  uint64_t key_page_bytes() const;
  uint64_t value_page_bytes() const;
  // Positions kept by layers with a sliding window; 0: all layers keep all.
  uint32_t n_kept_positions() const { return n_sliding_pages_ * shape_.page_rows; }
  // The first of a sequence's first n_pages pages that the layer still has.
  uint32_t first_kept_page(uint32_t layer, uint32_t n_pages) const {
    return slides(layer) && n_pages > n_sliding_pages_ ? n_pages - n_sliding_pages_ : 0;
  }
  // The index-th page of a sequence, or of the shared prompt of a group of n sequences.
  uint32_t page_of(uint32_t layer, uint32_t group, uint32_t index, uint32_t n = 1) const {
    return static_cast<uint32_t>(slides(layer) ? sliding_page(group, index)
                                               : group_page(group, n, index));
  }

 private:
  void allocate_layers(Device& device);
  int32_t sliding_page(uint32_t sequence, uint32_t index) const {
    return static_cast<int32_t>((owned_[sequence] * n_sliding_pages_ + index % n_sliding_pages_) *
                                sliding_step_);
  }
  // Writes the row of a sequence to both page tables.
  void write_row(Device& device, uint32_t sequence) const;
  bool slides(uint32_t layer) const { return n_sliding_pages_ > 0 && shape_.sliding_layers[layer]; }

  Shape shape_;
  uint32_t pages_per_sequence_;
  uint32_t n_sliding_pages_ = 0;  // per sequence, in layers with a sliding window; 0: none
  // Distance of page numbers: 1, or the pieces between two pages.
  uint32_t page_step_ = 1, sliding_step_ = 1;
  std::vector<uint32_t> owned_;  // [n_sequences]: each has the pages of this one before any swap
  std::vector<Operand> keys_, values_;
  Operand page_table_, sliding_table_;
};

}  // namespace vesper
