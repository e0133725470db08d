// softmax(Q K^T) V over blocks of keys, for encoders (attention.cc) and prompts
// (prompt_attention.cc).
//
// A pass is a list of queries with the same keys and values. Blocks of kKeyBlock positions, counted
// from position 0, are converted once for all queries of the pass. Groups of two vectors, one query
// per lane, process a block with an online softmax in f32, and scores stay in the cache. Keys that
// a query does not see add nothing. So a query's result does not depend on the other queries, or on
// how queries are grouped into passes.
//
// A new variant is a product in attention_block-inl.h and a row of the registry in
// blocked_attention.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vesper {

// Keys per update of the running maximum.
inline constexpr uint32_t kKeyBlock = 128;
// The most queries of a pass.
inline constexpr uint32_t kMaxPassQueries = 512;

// The keys or the values of one head. Offsets and strides are in elements, for Q8_0 and Q4_0 in
// bytes.
struct HeadRows {
  const void* data = nullptr;
  uint32_t dtype = 0;                        // kDType*: F32, F16, BF16, Q8_0 or Q4_0
  size_t first = 0;                          // of position 0 in page 0
  size_t stride = 0;                         // between positions of a page
  size_t page_stride = 0;                    // between pages
  size_t first_scale = 0, scale_stride = 0;  // of Q8_0 and Q4_0
};

// The keys and values of one head, in pages or contiguous.
struct KeysAndValues {
  HeadRows keys, values;
  const int32_t* pages = nullptr;  // of the sequence; null: one page for all positions
  uint32_t page_rows = 0;          // positions per page
};

struct AttentionQuery {
  size_t q, out;        // its first element in AttentionPass::q and ::out
  uint32_t begin, end;  // visible positions
  uint32_t position;    // for AttentionPass::bias
  uint32_t head;        // for AttentionPass::sinks
};

struct AttentionPass {
  KeysAndValues kv;
  const void* q = nullptr;
  void* out = nullptr;
  uint32_t q_dtype = 0, out_dtype = 0;  // kDType*: F32, F16 or BF16
  uint32_t head_dim = 0;                // a multiple of 8
  float scale = 1.0f;                   // of scores
  float soft_cap = 0.0f;  // not 0: a scaled score s becomes soft_cap * tanh(s / soft_cap)
  // bias[query - key] is added to a scaled score; the queries have successive positions. Null:
  // none.
  const float* bias = nullptr;
  // A logit of each head that adds to the sum of probabilities. Null: none.
  const float* sinks = nullptr;
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
