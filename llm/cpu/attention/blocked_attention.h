// softmax(Q K^T) V over blocks of keys: the attention of encoders (attention.cc) and of prompts
// (prompt_attention.cc).
//
// A pass is a list of queries that share their keys and values. These come in blocks of
// kKeyBlock positions, counted from position 0, which are converted once for all queries of the
// pass. Queries meet a block in groups of two vectors, one query a lane, with an online softmax in
// f32: no score leaves the cache. A key that a query does not see adds nothing to its result, which
// therefore depends neither on the other queries nor on how queries are cut into passes.
//
// Adding a variant: a product in attention_block-inl.h and a row of the registry in
// blocked_attention.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vesper {

// Keys whose scores are computed before the running maximum is updated.
inline constexpr uint32_t kKeyBlock = 128;
// Queries of a pass, at most.
inline constexpr uint32_t kMaxPassQueries = 512;

// The keys and values of one head, in pages or one after another. Offsets and strides count
// elements.
struct KeysAndValues {
  const void* keys = nullptr;
  const void* values = nullptr;
  uint32_t dtype = 0;                       // kDType*: F32, F16 or BF16
  size_t first_key = 0, first_value = 0;    // of position 0 of page 0
  size_t key_stride = 0, value_stride = 0;  // from position to position of a page
  const int32_t* pages = nullptr;           // of the sequence; null: all positions are in one page
  uint32_t page_rows = 0;                   // positions of a page
  size_t page_stride = 0;                   // from page to page
};

struct AttentionQuery {
  size_t q, out;        // its first element of AttentionPass::q and ::out
  uint32_t begin, end;  // the positions that it sees
  uint32_t position;    // its own, for AttentionPass::slope
};

struct AttentionPass {
  KeysAndValues kv;
  const void* q = nullptr;
  void* out = nullptr;
  uint32_t q_dtype = 0, out_dtype = 0;  // kDType*: F32, F16 or BF16
  uint32_t head_dim = 0;                // a multiple of 8
  float scale = 1.0f;                   // of scores
  float soft_cap = 0.0f;  // not 0: a scaled score s becomes soft_cap * tanh(s / soft_cap)
  float slope = 0.0f;     // ALiBi: a scaled score falls by this for each position of distance
  std::span<const AttentionQuery> queries;  // 1 to kMaxPassQueries
};

struct AttentionVariant {
  const char* name;  // for people
  void (*attend)(const AttentionPass& pass, std::byte* scratch);
};

// The fastest variant on this CPU. `in_bf16`: queries, keys, values and probabilities may be
// rounded to bf16.
const AttentionVariant& choose_attention_variant(bool in_bf16);

// Scratch of a pass of any variant, in bytes, aligned to 64.
size_t blocked_attention_scratch_bytes(uint32_t head_dim);

}  // namespace vesper
