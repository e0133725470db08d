// Keys and values of a stack's layers, in pages.
//
// A page holds kPageRows positions of one layer: [n_kv_heads, kPageRows, head_dim]. A sequence's
// positions lie in the pages that its row of the page table lists; which pages it has is the same
// for every layer, but for those with a sliding window: they have a table of their own, by which a
// sequence reuses its pages as a ring. Filled by write_kv, read by paged_attention. There are
// enough pages for every sequence to be full, and pages of the same index lie together, so that
// memory that is never used is never touched.
//
// Each layer's keys and values are a buffer of their own, or those of all layers that share a page
// table are one, [page][layer][keys, values]: then what a sequence takes lies together, and a
// page's number counts these pieces, so that kernels need not know.
#pragma once

#include <cstdint>
#include <vector>

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
    uint32_t n_positions = 0;  // the most that one sequence can hold
    uint32_t page_rows = kPageRows;
    DType dtype = DType::kF16;
    // Pages that belong to no sequence, after the others; for who writes page tables by itself.
    uint32_t n_extra_pages = 0;
    // Of the layers whose sliding_layers[l] is not 0, only so many latest positions are kept,
    // rounded up to pages. Empty: all layers keep all.
    std::vector<uint8_t> sliding_layers = {};
    uint32_t n_sliding_positions = 0;
    bool keeps_layers_together = false;
  };

  // What all pages of such a cache take.
  static uint64_t bytes(const Shape& shape);

  // Allocates all pages, and gives each sequence its own: page_of(). Throws Error(kDevice).
  KvCache(Device& device, const Shape& shape);

  // Groups of `n` sequences that lie side by side may share pages, with page tables that the caller
  // and a kernel (select_beams) write: a group has n * pages_per_sequence() pages, and n more if
  // the shape has an extra page for each sequence. A group of one has the pages of its sequence.
  int32_t group_page(uint32_t group, uint32_t n, uint32_t index) const {
    return static_cast<int32_t>((index / n * shape_.n_sequences + group * n + index % n) *
                                page_step_);
  }
  // Fills the page table row of the group's i-th sequence, i32 [pages_per_sequence]. The first
  // `n_shared` pages are the group's, the others its own. Returns its spare page.
  int32_t fill_group_row(uint32_t group, uint32_t n, uint32_t i, uint32_t n_shared,
                         int32_t* row) const;

  const Shape& shape() const { return shape_; }
  uint32_t pages_per_sequence() const { return pages_per_sequence_; }
  // [n_pages, n_kv_heads, page_rows, head_dim] of that layer, or, where layers are kept together,
  // from its first page to the end of all.
  const Operand& keys(uint32_t layer) const { return keys_[layer]; }
  const Operand& values(uint32_t layer) const { return values_[layer]; }
  // i32 [n_sequences, pages_per_sequence]
  const Operand& page_table() const { return page_table_; }
  const Operand& page_table(uint32_t layer) const {
    return slides(layer) ? sliding_table_ : page_table_;
  }
  // Where layers keep their latest positions only: how many; 0 where all keep all.
  uint32_t n_kept_positions() const { return n_sliding_pages_ * shape_.page_rows; }
  // The first of the first n_pages pages of a sequence that a layer still has, and where it has
  // one.
  uint32_t first_kept_page(uint32_t layer, uint32_t n_pages) const {
    return slides(layer) && n_pages > n_sliding_pages_ ? n_pages - n_sliding_pages_ : 0;
  }
  // The index-th page of a sequence, or of a group of n sequences what they share of the prompt.
  uint32_t page_of(uint32_t layer, uint32_t group, uint32_t index, uint32_t n = 1) const {
    return static_cast<uint32_t>(slides(layer) ? sliding_page(group, index)
                                               : group_page(group, n, index));
  }

 private:
  void allocate_layers(Device& device);
  int32_t sliding_page(uint32_t sequence, uint32_t index) const {
    return static_cast<int32_t>((sequence * n_sliding_pages_ + index % n_sliding_pages_) *
                                sliding_step_);
  }
  bool slides(uint32_t layer) const { return n_sliding_pages_ > 0 && shape_.sliding_layers[layer]; }

  Shape shape_;
  uint32_t pages_per_sequence_;
  uint32_t n_sliding_pages_ = 0;  // of a sequence, in layers that slide; 0: none does
  // From a page's number to the next one's: 1, or all pieces that lie between.
  uint32_t page_step_ = 1, sliding_step_ = 1;
  std::vector<Operand> keys_, values_;
  Operand page_table_, sliding_table_;
};

}  // namespace vesper
