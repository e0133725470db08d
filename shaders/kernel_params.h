// The parameters of every kernel, defined once for C++ and GLSL.
//
// A command has one of these structs (at most 64 bytes) and up to eight operands. The comment above
// each struct lists the operands in order with their shapes: (w) written, (rw) read and written,
// (?) optional. Sizes and strides are in elements unless stated otherwise. `rows` is the table of
// the token rows of a decoder pass (struct Row).
#ifndef VESPER_SHADERS_KERNEL_PARAMS_H_
#define VESPER_SHADERS_KERNEL_PARAMS_H_

#ifdef __cplusplus
#include <cstdint>
namespace vesper {
using uint = uint32_t;
#define VESPER_CONST(name, value) inline constexpr uint name = value
#define VESPER_FUNCTION constexpr
#else
#define VESPER_CONST(name, value) const uint name = value
#define VESPER_FUNCTION
#endif

// Number formats of buffers between commands: the first values of vesper::DType. Rows of int8 have
// blocks of 32 columns with a scale (shaders/int8_rows.glsl); only products of few rows read them.
VESPER_CONST(kDTypeF32, 0u);
VESPER_CONST(kDTypeF16, 1u);
VESPER_CONST(kDTypeBF16, 2u);
VESPER_CONST(kDTypeI8, 3u);

// Formats of keys and values in pages, besides F32 and F16: codes with an f16 scale. An element is
// scale * code (8 bits, a scale per 32 elements) or scale * (code - 8) (4 bits, a scale per 16).
VESPER_CONST(kDTypeQ4_0, 4u);
VESPER_CONST(kDTypeQ8_0, 8u);

// A page of keys or values is [n_kv_heads, page_rows, head_dim]. A head's part of a quantized page
// is the codes of its rows, [page_rows, kv_row_bytes], then their scales, f16 [page_rows,
// kv_row_scales]. Byte j of 32 4-bit codes has elements j (low bits) and j + 16.
VESPER_FUNCTION bool kv_is_quantized(uint dtype) {
  return dtype == kDTypeQ8_0 || dtype == kDTypeQ4_0;
}
// Bytes of a row's numbers or codes.
VESPER_FUNCTION uint kv_row_bytes(uint dtype, uint head_dim) {
  if (dtype == kDTypeQ4_0) return head_dim / 2u;
  if (dtype == kDTypeQ8_0) return head_dim;
  return dtype == kDTypeF16 ? head_dim * 2u : head_dim * 4u;
}
// Elements that share a scale.
VESPER_FUNCTION uint kv_block(uint dtype) { return dtype == kDTypeQ4_0 ? 16u : 32u; }
// Scales of the first n elements of a row. Divided by constants: with a division by kv_block() the
// attention of a step took almost twice as long on an H100, also with f16 pages.
VESPER_FUNCTION uint kv_row_scales(uint dtype, uint n) {
  if (dtype == kDTypeQ8_0) return n / 32u;
  return dtype == kDTypeQ4_0 ? n / 16u : 0u;
}
VESPER_FUNCTION uint kv_scale_bytes(uint dtype, uint head_dim) {
  return kv_row_scales(dtype, head_dim) * 2u;
}
// Bytes of a head's part of a page.
VESPER_FUNCTION uint kv_head_bytes(uint dtype, uint page_rows, uint head_dim) {
  return page_rows * (kv_row_bytes(dtype, head_dim) + kv_scale_bytes(dtype, head_dim));
}
// The formats of keys and of values in one parameter.
VESPER_FUNCTION uint kv_dtypes_of(uint keys, uint values) { return keys | values << 8; }
VESPER_FUNCTION uint key_dtype(uint kv_dtypes) { return kv_dtypes & 255u; }
VESPER_FUNCTION uint value_dtype(uint kv_dtypes) { return kv_dtypes >> 8; }

// One token row of a decoder pass. `sequence` is -1 for an unused row of a bucket: kernels that
// index by it skip the row, and others may write any result.
struct Row {
  int token;
  int sequence;
  int position;
  int unused;
};

// The state of a sequence between steps, in device memory, and its sampling settings. A kernel
// changes only the fields that it needs.
struct SequenceState {
  uint finished;       // 1: stop token sampled, limit reached, or never started
  uint n_sampled;      // tokens sampled so far
  uint max_sampled;    // limit of n_sampled
  uint first_sampled;  // index of the first sampled token in `tokens`, after the prompt
  int position;        // of the next token
  float sum_logprob;   // of the sampled tokens, stop token included; -inf: unused beam
  uint seed;           // of the sampling noise
  float temperature;   // 0: greedy; above 0: sample from softmax(logits / temperature)
  // adjust_logits. The history is tokens[0, first_sampled + n_sampled).
  uint n_bias;                // entries of the sequence's list of biases, at most kMostBias
  float repetition_penalty;   // divides logits above 0, multiplies the others; 1: off
  float frequency_penalty;    // subtracted once per occurrence in the window
  float presence_penalty;     // subtracted once
  uint penalty_window;        // last tokens of the history that these three penalties use
  uint no_repeat_ngram_size;  // no n-gram of this size occurs twice in the history; 0: off
  // sampling_filters
  uint top_k;       // keep the k most probable tokens, and ties; 0: all
  float typical_p;  // keep tokens nearest to the mean surprise, up to this probability; 1: all
  float top_p;      // keep the most probable tokens up to this probability; 1: all
  float min_p;      // keep tokens with this share of the highest probability; 0: all
  float lowest, highest;  // interval of allowed logits, written by sampling_filters
  uint has_mask;          // 1: only the tokens of the sequence's bit mask `allowed` are sampled
  // Whisper's timestamp rules
  uint timestamps;          // 1: apply the timestamp rules; 0: no timestamps
  uint last_was_timestamp;  // of the sampled tokens
  uint penultimate_was_timestamp;
  uint last_timestamp;         // latest timestamp token sampled, 0 if none
  uint max_initial_timestamp;  // highest token id for the first timestamp
  uint speech_end;             // no end of text after a timestamp below this one; 0: no limit
  // Beams. A beam is `finished` if it is unused or its whole group has ended.
  uint is_beam;       // 1: select_beams advances the sequence; 0: sample_token
  uint n_finished;    // finished hypotheses of the group
  uint max_finished;  // the group ends with this many
  int spare_page;     // page of the group that is in no page table
  // copy_pages copies the first copy_rows rows of page copy_from to page copy_to.
  int copy_from, copy_to;
  uint copy_rows;
};

// 32-bit hash (Wellons' lowbias32). Every bit of x affects every bit of the result.
VESPER_FUNCTION uint mix_bits(uint x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}
// Counter-based sampling noise, independent of the rest of the batch. Token `id` has the bits
// mix_bits(noise_base(seed, n_sampled) + id * kNoiseStride) and the uniform number ((bits >> 9) +
// 0.5) / 2^23.
VESPER_CONST(kNoiseStride, 0x9e3779b9u);
VESPER_FUNCTION uint noise_base(uint seed, uint n_sampled) {
  return mix_bits(seed ^ mix_bits(n_sampled + 1u));
}

// Elementwise functions of matmul, gated_activation and activation.
VESPER_CONST(kActivationNone, 0u);
VESPER_CONST(kActivationGelu, 1u);      // exact: x * (1 + erf(x / sqrt 2)) / 2
VESPER_CONST(kActivationGeluTanh, 2u);  // x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2
VESPER_CONST(kActivationSilu, 3u);      // x / (1 + exp(-x))
VESPER_CONST(kActivationRelu, 4u);
VESPER_CONST(kActivationSigmoid, 5u);
VESPER_CONST(kActivationSoftCap, 6u);  // limit * tanh(x / limit); only in the kernel activation
// Only in gated_activation, of gpt-oss, with g and u limited to at most `limit`, u also to at least
// -limit: g / (1 + exp(-1.702 g)) * (u + 1)
VESPER_CONST(kActivationClampedSwiGlu, 7u);

// embed: out[r] = embedding[rows[r].token] * scale + position[rows[r].position]
// operands: 0 out f32 [n_rows, d_model] (w)  1 rows [n_rows]  2 embedding weight [n_vocab, d_model]
//           3 position f32 [n_ctx, d_model] (?)  4 weight scale f32 [n_vocab] (?)
struct EmbedParams {
  uint n_rows, d_model;
  uint weight_format;  // returned by Device::upload
  float scale;
};

// norm: layer norm or RMS norm of each row, plus a residual. Rows of out and in are row_stride
// apart. With an index, row r reads in[index[r]]. Without an index, out may alias an in of its
// format. out may alias the residual.
// operands: 0 out [n_rows, d] (w)  1 in [*, d]  2 weight f32 [d]  3 bias f32 [d] (?)
//           4 index u32 [n_rows] (?)  5 residual f32 [n_rows, d] (?)
VESPER_CONST(kNormLayer, 0u);
VESPER_CONST(kNormRms, 1u);
struct NormParams {
  uint n_rows, d;
  float epsilon;
  uint kind;       // kNorm*
  uint out_dtype;  // kDTypeF32, F16, BF16 or I8
  uint in_dtype;   // kDTypeF32, F16 or BF16
  uint row_stride;
};

// matmul: out[r, o] = residual + activation(bias[o] + sum_i in[r, i] * weight[o, i])
// Row r is row r % rows_per_batch of batch r / rows_per_batch. It starts at batch * batch_stride +
// row * row_stride. Rows may overlap: a convolution over a padded [frames, channels] buffer is a
// product with a row stride of stride * channels.
// operands: 0 out (w)  1 in  2 weight  3 bias f32 [n_out] (?)  4 residual f32 (?)
//           5 weight scale f32 [n_out] (?)
//           6 struct Row [n_rows] (?): results of unused rows may be skipped
//           7 norm weight f32 [n_in] (?): an RMS norm of the rows of in, f32, before the product;
//             with kMatmulLayerNorm weight and bias f32 [2, n_in]: a layer norm
// Weight::int8_rows, gate_rows, gate_from_rows, norm_rows and layer_norm_rows say for how many
// contiguous rows there are int8 rows, gates and norms.
VESPER_CONST(kMatmulResidualByRow, 1u);  // residual is [rows_per_batch, n_out] for every batch;
                                         // otherwise it has the layout of out and may alias it
VESPER_CONST(kMatmulGated, 2u);          // out[r, o] = activation(sum of o) * sum of n_out + o: the
                                         // weight and the bias have 2 * n_out rows
VESPER_CONST(kMatmulLayerNorm, 4u);      // operand 7 has weight and bias of a layer norm
struct MatmulParams {
  uint n_rows, n_out, n_in;
  uint in_row_stride, out_row_stride;
  uint rows_per_batch, in_batch_stride, out_batch_stride;
  uint in_dtype, out_dtype;  // F32, F16, BF16 or I8
  uint weight_format;        // returned by Device::upload
  uint flags;                // kMatmul*
  uint activation;           // kActivation*, up to kActivationSigmoid
  float norm_epsilon;        // of the norm, if there is one
};

// write_kv: copies keys and values to the pages of their sequences. Position p of sequence s is row
// p % page_rows of page page_table[s * pages_per_sequence + p / page_rows]. If rows_per_sequence is
// not 0, there is no row table: row r is position r % rows_per_sequence of sequence r /
// rows_per_sequence.
// operands: 0 k pages (w)  1 v pages (w)  2 k in, in_row_stride apart  3 v in, likewise
//           4 rows (?)  5 page_table i32
struct WriteKvParams {
  uint n_rows, n_kv_heads, head_dim;
  uint in_row_stride;
  uint page_rows, pages_per_sequence;
  uint rows_per_sequence;
  uint in_dtype;
  uint kv_dtypes;  // kv_dtypes_of F32, F16, Q8_0 or Q4_0
};

// rope: rotary embedding (Su et al., "RoFormer", 2021), optionally after an RMS norm of each query
// and key head. A row of qkv has queries, keys, values. The first 2 * n_pairs elements of every
// query and key head are rotated. Queries stay in qkv. Keys and values are written to the pages of
// the row's sequence (see write_kv), or stay in qkv if there are no pages. Unused rows are not
// changed.
// operands: 0 qkv, row_stride apart (rw)  1 rows
//           2 angles f32 [n_positions, n_pairs, 2]: cosine and sine (?)
//           3 weight of queries f32 [head_dim] (?)  4 weight of keys f32 [head_dim] (?)
//           5 k pages (w) (?)  6 v pages (w) (?)  7 page_table i32 (?)
struct RopeParams {
  uint n_rows, n_heads, n_kv_heads, head_dim;
  uint row_stride;
  uint n_pairs;      // 0: no rotation
  uint interleaved;  // 1: pair i is elements 2 i and 2 i + 1; 0: elements i and i + n_pairs
  float norm_epsilon;
  uint dtype;      // of qkv: F32, F16 or BF16
  uint kv_dtypes;  // kv_dtypes_of F32, F16, Q8_0 or Q4_0
  uint page_rows, pages_per_sequence;
};

// gated_activation: out[r, i] = f(in[r, i]) * in[r, d + i]
// operands: 0 out [n_rows, d] (w)  1 in [n_rows, 2 * d]
struct GatedActivationParams {
  uint n_rows, d;
  uint activation;           // kActivation*, up to kActivationSigmoid, or ClampedSwiGlu
  uint in_dtype, out_dtype;  // F32, F16 or BF16
  float limit;               // of ClampedSwiGlu
};

// Mixtures of experts: route_experts, (group_experts,) expert_matmul, combine_experts. Row r of a
// pass has the slots r * n_used to r * n_used + n_used - 1, one for each of its experts.

VESPER_CONST(kMostExperts, 512u);
VESPER_CONST(kMostUsedExperts, 32u);

// route_experts: chooses for each row the n_used experts with the highest logits, in descending
// order (ties: lower id first). Their weights are the softmax over all logits, or, with
// `normalizes`, the same divided by the sum of the chosen, which is the softmax over these. Ids are
// valid for any logits. With has_shared each row has one more logit, that of the shared expert. The
// last weight of the row is its sigmoid.
// operands: 0 ids u32 [n_rows, n_used] (w)  1 weights f32 [n_rows, n_used + has_shared] (w)
//           2 logits f32 [n_rows, n_experts + has_shared]
struct RouteExpertsParams {
  uint n_rows, n_experts, n_used;
  uint normalizes;
  uint has_shared;  // 0 or 1
};

// group_experts: orders the slots by expert, for expert_matmul of many rows. Slots of unused rows
// are left out. The slots of an expert are cut into tiles of at most kExpertTileRows; tiles after
// the last one have no slots.
// operands: 0 groups u32 (w): slots by expert [n_slots], then struct ExpertTile [n_tiles]
//           1 ids u32 [n_slots]  2 rows [n_slots / n_used] (?)
VESPER_CONST(kExpertTileRows, 64u);
struct ExpertTile {
  uint expert;
  uint first, n;  // in the slots by expert
};
struct GroupExpertsParams {
  uint n_slots, n_used, n_experts;
  uint n_tiles;  // most_expert_tiles()
};
VESPER_FUNCTION uint most_expert_tiles(uint n_slots, uint n_experts) {
  uint full = n_slots / kExpertTileRows;
  return n_experts < n_slots ? full + n_experts : n_slots;
}

// expert_matmul: out[s, o] = bias[e, o] + sum_i in[s, i] * weight[e, o, i], with the expert e =
// ids[s] of slot s. Reads only the weights of chosen experts.
// operands: 0 out [n_slots, n_out] (w)
//           1 in [n_slots, n_in], or without in_per_slot [n_slots / n_used, n_in]
//           2 weight [n_experts * n_out, n_in]  3 bias f32 [n_experts * n_out] (?)
//           4 weight scale f32 [n_experts * n_out] (?)  5 ids u32 [n_slots]
//           6 rows [n_slots / n_used] (?): slots of unused rows may be skipped
//           7 groups of group_experts (?): an expert's weights are read once for a tile of slots
struct ExpertMatmulParams {
  uint n_slots, n_used, n_experts;
  uint n_out, n_in;  // of an expert; n_out is a multiple of 16
  uint in_per_slot;
  uint in_dtype, out_dtype;  // F32, F16 or BF16
  uint weight_format;        // returned by Device::upload
  uint n_tiles;              // of groups
};

// combine_experts: x[r] += sum_c weights[r, c] * in[r * n_used + c], in the order of c; then the
// output of the shared expert, if present, with the last weight of the row
// operands: 0 x f32 [n_rows, d] (rw)  1 in f32 [n_rows * n_used, d]
//           2 weights f32 [n_rows, n_used], or [n_rows, n_used + 1] with operand 3
//           3 output of the shared expert f32 [n_rows, d] (?)
struct CombineExpertsParams {
  uint n_rows, n_used, d;
};

// paged_attention: each row attends to the positions of its sequence: [0, position] if kv_length is
// 0, otherwise [0, kv_length); with a window, to the last `window` of them.
// operands: 0 out [n_rows, n_heads * head_dim] (w)  1 q  2 k pages  3 v pages  4 rows  5 page_table
//           6 sinks f32 [n_heads] (?): a logit of each head that adds to the denominator of its
//             softmax, but has no value
//           with kAttentionWritesKv, as in rope: 7 angles f32 [n_positions, n_pairs, 2] (?)
//           8 weight of the norm of q heads f32 [head_dim] (?)  9 of k heads (?)
VESPER_CONST(kAttentionOneSequence, 1u);  // rows are successive positions of one sequence, unused
                                          // rows last
VESPER_CONST(kAttentionRounds, 2u);       // products may round their inputs to bf16
VESPER_CONST(kAttentionWritesKv, 4u);     // no two rows have the same sequence, and a row of q
                                          // continues with the keys and values of its position.
                                          // Heads of q and k are normed and rotated; keys and
                                          // values are written to the pages (rw), f32 or f16
// Whether attention can write these keys and values and rotate their heads: a lane has eight
// dimensions, which are rotated with each other (interleaved) or with eight others.
VESPER_FUNCTION bool attention_can_write_kv(uint kv_dtypes, uint n_pairs, bool interleaved) {
  return !kv_is_quantized(key_dtype(kv_dtypes)) && !kv_is_quantized(value_dtype(kv_dtypes)) &&
         n_pairs % (interleaved ? 4u : 8u) == 0u;
}
// What shaders do not have as constants.
struct PagedAttentionValues {
  uint n_rows;
  uint q_row_stride, out_row_stride;
  uint pages_per_sequence;
  uint kv_length;
  uint window;  // 0: all positions
};
#ifdef __cplusplus
struct PagedAttentionParams : PagedAttentionValues {
  float scale;     // on q . k, usually 1 / sqrt(head_dim)
  float soft_cap;  // not 0: a score s becomes soft_cap * tanh(s / soft_cap)
  uint n_heads, n_kv_heads, head_dim, page_rows;
  uint q_dtype, kv_dtypes, out_dtype;
  uint flags;  // kAttention*
  // With kAttentionWritesKv, as in RopeParams.
  uint n_pairs, interleaved;
  float norm_epsilon;
};
#endif

// attention_weights: attention probabilities of selected heads. out[i, r, t] = softmax over t of
// scale * q . k for head heads[i] and t in [0, lengths[sequence of row r]). Elements after the
// length are not written.
// operands: 0 out f32 [n_selected, n_rows, kv_length] (w)  1 q  2 k pages  3 rows  4 page_table
//           5 heads u32 [n_selected]  6 lengths u32 [n_sequences], each from 1 to kv_length
struct AttentionWeightsParams {
  uint n_rows, n_selected;
  uint n_heads, n_kv_heads, head_dim;
  uint q_row_stride;
  uint page_rows, pages_per_sequence;
  uint kv_length;
  float scale;
  uint q_dtype, k_dtype;
};

// attention: each row attends to the rows of its sequence, limited by `causal` and `window`.
// Sequences have rows_per_sequence rows each. With `starts` they are packed and of any length:
// sequence s has rows [starts[s], starts[s + 1]), and rows_per_sequence is the total number of
// rows. Rows after the last packed sequence have undefined results.
// operands: 0 out (w)  1 q  2 k  3 v; heads are consecutive within a row
//           4 starts u32 [n_sequences + 1], ascending, at most rows_per_sequence (?)
//           5 bias f32 [n_heads, 2 * bias_reach + 1] (?): added to a scaled score, the element of
//             the query's row minus the key's plus bias_reach. Sequences have at most bias_reach +
//             1 rows.
//           6 sinks f32 [n_heads] (?): see paged_attention
struct AttentionParams {
  uint n_sequences, rows_per_sequence;
  uint n_heads, n_kv_heads, head_dim;
  uint q_row_stride, k_row_stride, v_row_stride, out_row_stride;
  float scale;
  uint in_dtype, out_dtype;
  uint causal;  // 1: only rows up to the query's
  uint window;  // sliding window: only rows at most this far from the query; 0: all
  uint bias_reach;
};

// pool: one vector per packed sequence (see attention): mean, first or last row, its first n_out
// elements, with `normalize` divided by their L2 norm. A sequence without rows gives zeros. Without
// `starts` each sequence has one row. With a dtype other than f32 rows are copied: kind is first or
// last, and normalize 0.
// operands: 0 out of dtype [n_sequences, n_out] (w)  1 in of dtype [*, d]
//           2 starts u32 [n_sequences + 1] (?)
VESPER_CONST(kPoolMean, 0u);
VESPER_CONST(kPoolFirst, 1u);
VESPER_CONST(kPoolLast, 2u);
#ifdef __cplusplus
inline constexpr float kPoolLeastLength = 1e-12f;  // lower limit of the L2 norm
#else
const float kPoolLeastLength = 1e-12;
#endif
struct PoolParams {
  uint n_sequences, d, n_out;
  uint kind;  // kPool*
  uint normalize;
  uint dtype;
};

// range_probabilities: out[r, j] = softmax over logits[r, softmax_first .. +softmax_count) at
// out_first + j, or at ids[r] + j.
// operands: 0 out f32 [n_rows, out_count] (w)  1 logits f32, row_stride apart
//           2 ids u32 [n_rows] (?)
struct RangeProbabilitiesParams {
  uint n_rows, row_stride;
  uint softmax_first, softmax_count;
  uint out_first, out_count;
};

// copy_pages: copies, for each sequence, the first copy_rows rows of every head from page copy_from
// to page copy_to, keys and values.
// operands: 0 k pages (rw)  1 v pages (rw)  2 states [n_sequences]
struct CopyPagesParams {
  uint n_sequences, n_kv_heads, head_dim;
  uint page_rows;
  uint kv_dtypes;  // kv_dtypes_of F32, F16, Q8_0 or Q4_0
};

// The sampler chain, from logits to the next token of each sequence:
//   adjust_logits     (optional) bias, penalties, no repeated n-grams
//   sampling_filters  (optional) top-k, typical, top-p, min-p, in llama.cpp's order
//   sample_partials   per chunk of the vocabulary: maximum, sum of exponentials, best token
//   select_beams      (optional) the next beams of each group
//   sample_token      the next token of every sequence that is not a beam
//   copy_pages        (optional) follows select_beams
// A pass over drafted tokens gives several rows of logits per sequence: of its next token, and of
// the tokens after each drafted one. The chain then runs once per row. `states` has a copy of the
// sequence's state per row, with n_sampled of that row, and the operand `drafts`, struct Row
// [n_sequences], has the row's token and sequence; n_sequences counts rows.
// With the operand `suppressed`, Whisper's token rules (openai-whisper, decoding.py) mask the
// logits of sampling_filters and sample_partials:
//   - tokens in the bit mask `suppressed` and `no_timestamps` are masked;
//   - the first token is neither `blank` nor `end_of_text`;
//   - with timestamps: they come in pairs, never decrease, and the first token is one, at most
//     max_initial_timestamp; otherwise all timestamps are masked;
//   - no end_of_text after a timestamp below speech_end (not in openai-whisper).
// With the operand `allowed`, sequences with has_mask have a logit of -inf for tokens outside of
// their bit mask. Tokens in it have at least kLeastAllowedLogit: one of them is sampled whatever
// bias and penalties say. The log-probability is then that among the allowed tokens.
// Filters and temperature do not change the stored log-probability.
struct SamplingParams {
  uint n_sequences, n_vocab;
  uint row_stride;       // between the logits of two sequences
  uint n_chunks, chunk;  // n_token_chunks(), ids per chunk
  // Ids from timestamp_begin on are timestamps; n_vocab: none. end_of_text is sampled if every
  // token is masked.
  uint end_of_text, timestamp_begin, no_timestamps, blank;
  uint max_tokens;    // row length of `tokens` and `logprobs`
  uint n_candidates;  // of sample_partials, 1 to kMostCandidates; 0 without candidates
  uint has_filters;   // 1: only tokens with lowest <= logit <= highest are allowed
};

// Chunks of a vocabulary: text, then timestamps. Chunks begin at multiples of `chunk`, except the
// first of the timestamps, which begins at timestamp_begin.
VESPER_FUNCTION uint n_text_chunks(uint timestamp_begin, uint chunk) {
  return (timestamp_begin + chunk - 1u) / chunk;
}
VESPER_FUNCTION uint n_token_chunks(uint n_vocab, uint timestamp_begin, uint chunk) {
  return n_text_chunks(timestamp_begin, chunk) +
         (timestamp_begin < n_vocab ? (n_vocab + chunk - 1u) / chunk - timestamp_begin / chunk
                                    : 0u);
}

// One chunk of one sequence's masked logits. The key of a token is its logit at temperature 0,
// otherwise logit / temperature + Gumbel noise. The token with the highest key is then a sample
// from softmax(logits / temperature).
struct TokenPartial {
  float max;    // highest logit; -inf: every token is masked
  float sum;    // of exp(logit - max)
  float key;    // highest key among the tokens that the filters keep; -inf: none
  float logit;  // of the token with that key
  uint token;   // lowest id with that key
};

// A token that may continue a beam. Lists have descending logits; ties have ascending ids.
struct TokenCandidate {
  float logit;  // -inf: end of the list
  uint token;
};

// The bias of a token's logit. The tokens of a list are different.
VESPER_CONST(kMostBias, 1024u);  // entries of a list
struct TokenBias {
  uint token;
  float bias;
};
#ifdef __cplusplus
inline constexpr float kLeastAllowedLogit = -1e20f;
#else
const float kLeastAllowedLogit = -1e20;
#endif

// adjust_logits: adds the bias, then applies the penalties of each sequence. Repetition, frequency
// and presence penalty are llama.cpp's. With a window over all sampled tokens, the first equals
// CTranslate2's. A token that would complete a repeated n-gram gets -inf.
// operands: 0 logits f32, row_stride apart (rw)  1 states [n_sequences]
//           2 tokens i32 [n_sequences, max_tokens] (?): absent: no penalties
//           3 bias struct TokenBias [n_sequences, kMostBias] (?)
//           4 drafts (?): row r has the tokens and the bias of its sequence

// sampling_filters: writes the interval of logits that the filters of each sequence keep to its
// state.
// operands: 0 states [n_sequences] (rw)  1 logits  2 suppressed u32 [(n_vocab + 31) / 32] (?)
//           3 allowed u32 [n_sequences, (n_vocab + 31) / 32] (?)

// sample_partials
// operands: 0 partials [n_sequences, n_chunks] (w)  1 logits  2 states  3 suppressed (?)
//           4 candidates [n_sequences, n_chunks, n_candidates] (w) (?): for beams only
//           5 allowed u32 [n_sequences, (n_vocab + 31) / 32] (?)

// sample_token: samples the token with the highest key (ties: lowest id). It samples a timestamp if
// all timestamps together are likelier than the best text token and the filters keep one. Writes
// the token to tokens[s, first_sampled + n_sampled], its log-probability at temperature 1 to
// logprobs, the advanced state, and the row of the next step {token, s, position, 0}. A sequence
// finishes with a token of the bit mask stop_ids or its max_sampled-th token; its row is then {0,
// -1, 0, 0}. Finished sequences and beams are skipped. `stop` becomes 1 when every sequence has
// finished.
// With `drafts`, states, rows, tokens and logprobs are those of sequences. The rows of logits of a
// sequence are consecutive and successive positions. Each row after the first is sampled from only
// if the token sampled before it is the row's token in `drafts`, and the sequence has not finished.
// `stop` is not written.
// operands: 0 states (rw)  1 rows [n_sequences] (w)  2 tokens i32 [n_sequences, max_tokens] (w)
//           3 logprobs f32 [n_sequences, max_tokens] (w) (?)  4 stop u32 (w)  5 partials
//           6 stop_ids u32 [(n_vocab + 31) / 32]  7 drafts (?)

// select_beams: one step of openai-whisper's BeamSearchDecoder (decoding.py) for groups of
// beam_size consecutive sequences, group_sequences apart. The n_candidates likeliest continuations
// of each beam are ordered by their sum of log-probabilities (ties: lower beam, then lower id).
// Those with a stop token finish, at most max_finished in all. The first beam_size others are the
// next beams. The group ends with max_finished hypotheses, at max_sampled tokens, or without beams.
// Each beam gets the tokens, state and pages of its parent. Full pages are shared. The first child
// of a parent keeps its current page; the others get a spare page, which copy_pages fills. At the
// start one beam is used.
// operands: 0 states (rw)  1 rows [n_sequences] (w)  2 tokens i32 [n_sequences, max_tokens] (rw)
//           3 finished u32 [n_groups, most_finished, kFinishedHeader + max_tokens] (w): bits of
//             the f32 sum of log-probabilities, number of tokens, tokens without the stop token;
//             with log-probabilities of tokens, max_tokens more: the bits of each
//           4 partials [n_sequences, n_chunks]
//           5 candidates [n_sequences, n_chunks, n_candidates]
//           6 page_table i32 [n_sequences, pages_per_sequence] (rw)
//           7 stop_ids u32 [(n_vocab + 31) / 32]
VESPER_CONST(kMostBeams, 16u);
VESPER_CONST(kMostCandidates, 32u);
VESPER_CONST(kFinishedHeader, 2u);
struct BeamParams {
  uint n_groups, group_sequences, beam_size;
  uint n_candidates;   // beam_size + number of stop tokens, at most kMostCandidates
  uint most_finished;  // capacity of `finished`, at least max_finished of every group
  uint n_chunks, chunk;
  uint timestamp_begin;
  uint max_tokens;
  uint page_rows, pages_per_sequence;
  // From a token in operand 2 to its f32 log-probability in the same operand; 0: they are not kept.
  uint logprobs_offset;
};
VESPER_FUNCTION uint finished_stride(BeamParams p) {
  return kFinishedHeader + (p.logprobs_offset > 0u ? 2u : 1u) * p.max_tokens;
}

// activation: out[i] = f(in[i]); out may alias in.
// operands: 0 out f32 [n] (w)  1 in f32 [n]
struct ActivationParams {
  uint n;
  uint activation;  // kActivation*
  float limit;      // of kActivationSoftCap
};

// magnitude: out[r, i] = sqrt(in[r, i]^2 + in[r, n_bins + i]^2): real parts, then imaginary parts.
// Row r is row r % rows_per_batch of batch r / rows_per_batch; batches of out are out_batch_stride
// apart.
// operands: 0 out f32 (w)  1 in f32 [n_rows, 2 * n_bins]
struct MagnitudeParams {
  uint n_rows, n_bins;
  uint rows_per_batch, out_batch_stride;
};

// lstm: the recurrent half of an LSTM over n_steps of every sequence. With the state h, c and (i,
// f, g, o) = in[s, t] + weight h: c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c),
// out[s, t] = h. The weight is stored in panels of kLstmPanel outputs: output j of input k is
// weight[(j / kLstmPanel * n_hidden + k) * kLstmPanel + j % kLstmPanel], outputs in the order i, f,
// g, o.
// operands: 0 out f32 [n_sequences, n_steps, n_hidden] (w)
//           1 state f32 [n_sequences, 2, n_hidden] (rw): h, c
//           2 in f32 [n_sequences, n_steps, 4 * n_hidden]: input products plus biases
//           3 weight f32 [4 * n_hidden / kLstmPanel, n_hidden, kLstmPanel]
VESPER_CONST(kLstmPanel, 64u);
struct LstmParams {
  uint n_sequences, n_steps;
  uint n_hidden;  // a multiple of 16
};

// The order of dispatches without barriers between them (shaders/stage_order.glsl).
VESPER_CONST(kOrderBarriers, 0u);  // a barrier before and after the dispatch
VESPER_CONST(kOrderCounts, 1u);    // its workgroups count themselves
VESPER_CONST(kOrderWaits, 2u);     // they also wait for those of the dispatch before
// The counter of a dispatch. It has 128 bytes of memory, so that no cache line has two.
struct StageCounter {
  uint n_done;             // each replay adds 2^31
  uint waited_in_vain[2];  // the address of a word, its low half first
  uint unused[29];
};

#ifdef __cplusplus
}  // namespace vesper
#endif
#endif  // VESPER_SHADERS_KERNEL_PARAMS_H_
