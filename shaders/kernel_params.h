// The parameters of every kernel, defined once for C++ and GLSL.
//
// A command carries one of these structs (at most 64 bytes) and up to eight operands; the operands'
// order and shapes stand above each struct, with (w) written, (rw) read and written, (?) optional.
// All sizes and strides are in elements unless a name says otherwise. `rows` is the row table that
// says which token, sequence and position each row of a decoder pass is (struct Row).
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

// Number formats of buffers between commands: the first values of vesper::DType.
VESPER_CONST(kDTypeF32, 0u);
VESPER_CONST(kDTypeF16, 1u);
VESPER_CONST(kDTypeBF16, 2u);
VESPER_CONST(kDTypeI8, 3u);

// One row of a decoder pass. `sequence` is -1 for a row of a bucket that holds nothing: kernels
// that index by it skip the row, the others may compute anything there.
struct Row {
  int token;
  int sequence;
  int position;
  int unused;
};

// What a sequence carries from token to token (an array over sequences, in device memory), and how
// its tokens are chosen. Kernels that are not in a step's chain leave their fields alone.
struct SequenceState {
  uint finished;       // 1: a stop token was chosen, the limit was reached, or it never started
  uint n_sampled;      // tokens chosen so far
  uint max_sampled;    // the limit of n_sampled
  uint first_sampled;  // index of the first chosen token in `tokens`; the prompt may stand before it
  int position;        // of the next token to be chosen
  float sum_logprob;   // of the chosen tokens, stop token included; -inf: a beam without text
  uint seed;           // of the sampling noise
  float temperature;   // 0: the likeliest token; above: sampled from softmax(logits / temperature)
  // adjust_logits. The history is tokens[0, first_sampled + n_sampled).
  float repetition_penalty;   // logits above 0 are divided by it, others multiplied; 1: off
  float frequency_penalty;    // subtracted for each occurrence in the window
  float presence_penalty;     // subtracted once
  uint penalty_window;        // tokens at the history's end that these three look at
  uint no_repeat_ngram_size;  // no run of this many tokens occurs twice in the history; 0: off
  // sampling_filters
  uint top_k;             // keeps the k likeliest tokens and their equals; 0: all
  float typical_p;        // keeps the tokens nearest to the mean surprise, up to this mass; 1: all
  float top_p;            // keeps the likeliest tokens up to this mass; 1: all
  float min_p;            // keeps tokens with this part of the likeliest one's probability; 0: all
  float lowest, highest;  // logits that may be chosen: the result of sampling_filters
  // The timestamp rules of Whisper
  uint timestamps;          // 1: they apply; 0: no timestamp is allowed
  uint last_was_timestamp;  // of the chosen tokens
  uint penultimate_was_timestamp;
  uint last_timestamp;         // the latest timestamp token chosen, 0 if none
  uint max_initial_timestamp;  // the highest token id that a first timestamp may have
  uint speech_end;             // no end of text after a timestamp below this one; 0: after any
  // Beams. `finished` of a beam: it holds no text, or its whole group has ended.
  uint is_beam;       // 1: select_beams advances the sequence; 0: sample_token
  uint n_finished;    // texts of the group that have ended
  uint max_finished;  // the group ends with this many
  int spare_page;     // a page of the group that no page table names
  // copy_pages copies the first copy_rows rows of page copy_from to page copy_to.
  int copy_from, copy_to;
  uint copy_rows;
};

// A hash of 32 bits (Wellons' lowbias32): each bit of x counts in each bit of it.
VESPER_FUNCTION uint mix_bits(uint x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}
// Sampling noise by counter, so that a sequence's noise is independent of the rest of the batch. The
// bits of token `id` are mix_bits(noise_base(seed, n_sampled) + id * kNoiseStride); they give the
// uniform number ((bits >> 9) + 0.5) / 2^23.
VESPER_CONST(kNoiseStride, 0x9e3779b9u);
VESPER_FUNCTION uint noise_base(uint seed, uint n_sampled) {
  return mix_bits(seed ^ mix_bits(n_sampled + 1u));
}

// Functions of one number: what matmul, gated_activation and activation apply.
VESPER_CONST(kActivationNone, 0u);
VESPER_CONST(kActivationGelu, 1u);      // exact: x * (1 + erf(x / sqrt 2)) / 2
VESPER_CONST(kActivationGeluTanh, 2u);  // x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2
VESPER_CONST(kActivationSilu, 3u);      // x / (1 + exp(-x))
VESPER_CONST(kActivationRelu, 4u);
VESPER_CONST(kActivationSigmoid, 5u);
VESPER_CONST(kActivationSoftCap, 6u);  // limit * tanh(x / limit); of the kernel activation only

// embed: out[r] = embedding[rows[r].token] * scale + position[rows[r].position]
// operands: 0 out f32 [n_rows, d_model] (w)  1 rows [n_rows]  2 embedding weight [n_vocab, d_model]
//           3 position f32 [n_ctx, d_model] (?)  4 weight scale f32 [n_vocab] (?)
struct EmbedParams {
  uint n_rows, d_model;
  uint weight_format;  // what Device::upload answered
  float scale;
};

// norm: layer norm or RMS norm of each row; with an index, row r reads in[index[r]]. Without one,
// out may be in, in f32. With a residual, that is added to the result; it may be out. operands: 0
// out [n_rows, d] (w)  1 in f32 [*, d]  2 weight f32 [d]  3 bias f32 [d] (?)
//           4 index u32 [n_rows] (?)  5 residual f32 [n_rows, d] (?)
VESPER_CONST(kNormLayer, 0u);
VESPER_CONST(kNormRms, 1u);
struct NormParams {
  uint n_rows, d;
  float epsilon;
  uint kind;       // kNorm*
  uint out_dtype;  // kDTypeF32, F16 or BF16
};

// matmul: out[r, o] = residual + activation(bias[o] + sum_i in[r, i] * weight[o, i])
// Row r is row r % rows_per_batch of batch r / rows_per_batch; it starts, in its buffer, at
// batch * batch_stride + row * row_stride. Rows may overlap: a convolution over a padded
// [frames, channels] buffer is a product whose rows start stride * channels apart.
// operands: 0 out (w)  1 in  2 weight  3 bias f32 [n_out] (?)  4 residual f32 (?)
//           5 weight scale f32 [n_out] (?)
//           6 struct Row [n_rows] (?): what a row without a sequence gives need not be computed
VESPER_CONST(kMatmulResidualByRow, 1u);  // residual is [rows_per_batch, n_out], added to each
                                         // batch; else it lies as out does, and may be out itself
struct MatmulParams {
  uint n_rows, n_out, n_in;
  uint in_row_stride, out_row_stride;
  uint rows_per_batch, in_batch_stride, out_batch_stride;
  uint in_dtype, out_dtype;  // F32, F16 or BF16
  uint weight_format;        // what Device::upload answered
  uint flags;                // kMatmul*
  uint activation;           // kActivation*, up to kActivationSigmoid
};

// write_kv: copies the key and value parts of each row to the pages of its sequence.
// A page is [n_kv_heads, page_rows, head_dim]; position p of sequence s lies in page
// page_table[s * pages_per_sequence + p / page_rows], at row p % page_rows.
// With rows_per_sequence != 0 there is no row table: row r is position r % rows_per_sequence of
// sequence r / rows_per_sequence.
// operands: 0 k pages (w)  1 v pages (w)  2 k in [n_rows] rows, in_row_stride apart  3 v in,
// likewise
//           4 rows (?)  5 page_table i32
struct WriteKvParams {
  uint n_rows, n_kv_heads, head_dim;
  uint in_row_stride;
  uint page_rows, pages_per_sequence;
  uint rows_per_sequence;
  uint in_dtype;
  uint kv_dtype;  // F16, or F32
};

// rope: prepares the heads of each row, which lies in `qkv` as queries, keys, values: an RMS norm
// of every head of queries and keys where there are weights, then a rotation (Su et al.,
// "RoFormer", 2021) of the first 2 * n_pairs numbers of each by the angles of the row's position.
// Queries stay in place; keys and values go to the pages of the row's sequence (see write_kv), or
// stay in place without pages. Rows without a sequence are left as they are. operands: 0 qkv (rw):
// rows row_stride apart  1 rows
//           2 angles f32 [n_positions, n_pairs, 2]: cosine and sine (?)
//           3 weight of queries f32 [head_dim] (?)  4 weight of keys f32 [head_dim] (?)
//           5 k pages (w) (?)  6 v pages (w) (?)  7 page_table i32 (?)
struct RopeParams {
  uint n_rows, n_heads, n_kv_heads, head_dim;
  uint row_stride;
  uint n_pairs;      // 0: nothing is rotated
  uint interleaved;  // 1: pair i is numbers 2 i and 2 i + 1; 0: numbers i and i + n_pairs
  float norm_epsilon;
  uint dtype;     // of qkv: F32, F16 or BF16
  uint kv_dtype;  // of pages: F16, or F32
  uint page_rows, pages_per_sequence;
};

// gated_activation: out[r, i] = f(in[r, i]) * in[r, d + i]
// operands: 0 out [n_rows, d] (w)  1 in [n_rows, 2 * d]
struct GatedActivationParams {
  uint n_rows, d;
  uint activation;           // kActivation*, up to kActivationSigmoid
  uint in_dtype, out_dtype;  // F32, F16 or BF16
};

// paged_attention: each row attends to the positions of its own sequence: [0, position] if
// kv_length is 0, else [0, kv_length). With a window, to the last `window` of them.
// operands: 0 out [n_rows, n_heads * head_dim] (w)  1 q  2 k pages  3 v pages  4 rows  5 page_table
VESPER_CONST(kAttentionOneSequence, 1u);  // the rows are successive positions of one sequence;
                                          // those without a sequence come last
VESPER_CONST(kAttentionRounds, 2u);       // what is multiplied may be rounded to bf16
struct PagedAttentionParams {
  uint n_rows, n_heads, n_kv_heads, head_dim;
  uint q_row_stride, out_row_stride;
  uint page_rows, pages_per_sequence;
  uint kv_length;
  float scale;  // on q . k, 1 / sqrt(head_dim) as a rule
  uint q_dtype, kv_dtype, out_dtype;
  uint window;     // 0: all positions
  float soft_cap;  // not 0: a score s becomes soft_cap * tanh(s / soft_cap)
  uint flags;      // kAttention*
};

// attention_weights: where some heads look: out[i, r, t] = softmax over t of scale * q . k, of head
// heads[i], for t in [0, lengths[sequence of row r]); what lies behind is left as it was.
// operands: 0 out f32 [n_selected, n_rows, kv_length] (w)  1 q  2 k pages  3 rows  4 page_table
//           5 heads u32 [n_selected]  6 lengths u32 [n_sequences], each from 1 to kv_length
struct AttentionWeightsParams {
  uint n_rows, n_selected;
  uint n_heads, n_kv_heads, head_dim;
  uint q_row_stride;
  uint page_rows, pages_per_sequence;
  uint kv_length;
  float scale;
  uint q_dtype, kv_dtype;
};

// attention: every row attends to the rows of its own sequence: all of them, or those that `causal`
// and `window` leave. Sequences have rows_per_sequence rows each; with `starts` they are packed
// instead, of any lengths: sequence s has rows starts[s] .. starts[s + 1] - 1 (none if these are
// equal), and rows_per_sequence is the number of rows of the whole. Packed rows after the last
// sequence may become anything.
// operands: 0 out (w)  1 q  2 k  3 v; heads lie side by side in a row
//           4 starts u32 [n_sequences + 1], ascending, at most rows_per_sequence (?)
struct AttentionParams {
  uint n_sequences, rows_per_sequence;
  uint n_heads, n_kv_heads, head_dim;
  uint q_row_stride, k_row_stride, v_row_stride, out_row_stride;
  float scale;
  uint in_dtype, out_dtype;
  uint causal;  // 1: a row does not see those after it
  uint window;  // not 0: a row sees those at most so many rows away
  // 1: a score falls with the distance of its rows, by alibi_slope(head) a row.
  uint alibi;
};

// pool: one vector a packed sequence (see attention), from its rows: their mean, the first or the
// last; of it the first n_out numbers, with `normalize` divided by the root of their sum of
// squares. A sequence without rows gives zeros. operands: 0 out f32 [n_sequences, n_out] (w)  1 in
// f32 [*, d]  2 starts u32 [n_sequences + 1]
VESPER_CONST(kPoolMean, 0u);
VESPER_CONST(kPoolFirst, 1u);
VESPER_CONST(kPoolLast, 2u);
#ifdef __cplusplus
inline constexpr float kPoolLeastLength = 1e-12f;  // what a vector is divided by at least
#else
const float kPoolLeastLength = 1e-12;
#endif
struct PoolParams {
  uint n_sequences, d, n_out;
  uint kind;  // kPool*
  uint normalize;
};

// range_probabilities: out[r, j] = softmax over logits[r, softmax_first .. +softmax_count) at
// out_first + j; with ids, at ids[r] + j.
// operands: 0 out f32 [n_rows, out_count] (w)  1 logits f32, row_stride apart  2 ids u32 [n_rows]
// (?)
struct RangeProbabilitiesParams {
  uint n_rows, row_stride;
  uint softmax_first, softmax_count;
  uint out_first, out_count;
};

// copy_pages: for each sequence, the first copy_rows rows of every head from page copy_from to page
// copy_to, keys and values.
// operands: 0 k pages (rw)  1 v pages (rw)  2 states [n_sequences]
struct CopyPagesParams {
  uint n_sequences, n_kv_heads, head_dim;
  uint page_rows;
  uint kv_dtype;  // F16, or F32
};

// The sampler chain. From the logits of every sequence to its next token:
//   adjust_logits     (optional) bias, penalties, no repeated n-grams
//   sampling_filters  (optional) top-k, typical, top-p, min-p, in llama.cpp's order
//   sample_partials   per chunk of the vocabulary: maximum, sum of exponentials, best token
//   select_beams      (optional) the next beams of each group
//   sample_token      the next token of every sequence that is not a beam
//   copy_pages        (optional) follows select_beams
// With the operand `suppressed` the token rules of Whisper (openai-whisper, decoding.py) apply to
// the logits that sampling_filters and sample_partials see:
//   - a token of the bit mask `suppressed` is never chosen, nor is `no_timestamps`;
//   - the first token is neither `blank` nor `end_of_text`;
//   - with timestamps: they come in pairs, never decrease, and the first token is one, at most
//     max_initial_timestamp; without: none;
//   - no end_of_text after a timestamp below speech_end (this rule is ours).
// Filters and the temperature change what is chosen, not the log-probability that is noted.
struct SamplingParams {
  uint n_sequences, n_vocab;
  uint row_stride;       // from one sequence's logits to the next one's
  uint n_chunks, chunk;  // n_token_chunks(), ids of a chunk
  // Ids from timestamp_begin on are timestamps; n_vocab: there are none. end_of_text is also chosen
  // where no token is allowed.
  uint end_of_text, timestamp_begin, no_timestamps, blank;
  uint max_tokens;    // row length of `tokens` and `logprobs`
  uint n_candidates;  // of sample_partials, 1 to kMostCandidates; 0 without that operand
  uint has_filters;   // 1: only tokens with lowest <= logit <= highest may be chosen
};

// Chunks of a vocabulary: first those of text, then those of timestamps. All begin at multiples of
// `chunk`, but for the first of the timestamps, which begins with them.
VESPER_FUNCTION uint n_text_chunks(uint timestamp_begin, uint chunk) {
  return (timestamp_begin + chunk - 1u) / chunk;
}
VESPER_FUNCTION uint n_token_chunks(uint n_vocab, uint timestamp_begin, uint chunk) {
  return n_text_chunks(timestamp_begin, chunk) +
         (timestamp_begin < n_vocab ? (n_vocab + chunk - 1u) / chunk - timestamp_begin / chunk : 0u);
}

// One chunk of one sequence's logits, as the rules leave them. The key of a token is its logit at
// temperature 0, else logit / temperature + Gumbel noise: the token with the greatest key is a
// sample from softmax(logits / temperature).
struct TokenPartial {
  float max;    // the greatest logit; -inf: no token is allowed
  float sum;    // of exp(logit - max)
  float key;    // the greatest key of the tokens that the filters keep; -inf: none
  float logit;  // of the token with that key
  uint token;   // the lowest id with that key
};

// A token that may continue a beam. Lists are in falling order, equals by rising id.
struct TokenCandidate {
  float logit;  // -inf: none, nor any after it
  uint token;
};

// adjust_logits: adds the bias, then applies the penalties of each sequence's state. Repetition,
// frequency and presence penalty are those of llama.cpp; with a window over all chosen tokens the
// first is CTranslate2's. A token that would complete a repeated n-gram gets -inf.
// operands: 0 logits f32, row_stride apart (rw)  1 states [n_sequences]
//           2 tokens i32 [n_sequences, max_tokens] (?): without, there are no penalties
//           3 bias f32 [n_vocab] (?)

// sampling_filters: writes the interval of logits that each sequence's filters keep to its state.
// operands: 0 states [n_sequences] (rw)  1 logits  2 suppressed u32 [(n_vocab + 31) / 32] (?)

// sample_partials
// operands: 0 partials [n_sequences, n_chunks] (w)  1 logits  2 states  3 suppressed (?)
//           4 candidates [n_sequences, n_chunks, n_candidates] (w) (?): of beams only

// sample_token: chooses the token with the greatest key (of equals the lowest id), but a timestamp
// if all timestamps together are likelier than the likeliest text token and the filters keep one.
// Notes the token in tokens[s, first_sampled + n_sampled] and its log-probability (at temperature
// 1) in logprobs, advances the state, and writes the row of the next step: {token, s, position, 0}.
// A sequence finishes with a token of the bit mask stop_ids or its max_sampled-th token; its row
// becomes {0, -1, 0, 0}. Leaves finished sequences and beams alone. Sets `stop` to 1 when every
// sequence has finished.
// operands: 0 states (rw)  1 rows [n_sequences] (w)  2 tokens i32 [n_sequences, max_tokens] (w)
//           3 logprobs f32 [n_sequences, max_tokens] (w) (?)  4 stop u32 (w)  5 partials
//           6 stop_ids u32 [(n_vocab + 31) / 32]

// select_beams: one step of openai-whisper's BeamSearchDecoder (decoding.py) for each group of
// beam_size sequences that lie side by side, the groups group_sequences apart. The n_candidates
// likeliest continuations of each beam compete by their sums of log-probabilities, of equals those
// of the lower beam and the lower id first: those that end with a stop token finish, up to
// max_finished in all, until beam_size others are found, which are the next beams. The group ends
// with max_finished texts, at max_sampled tokens, or when no beam is left. Each beam takes over the
// tokens, the state and the pages of the one that it continues. Full pages are shared; of the
// current page the first beam takes it over, the others get a spare page into which copy_pages
// copies it. At the start one beam holds text.
// operands: 0 states (rw)  1 rows [n_sequences] (w)  2 tokens i32 [n_sequences, max_tokens] (rw)
//           3 finished u32 [n_groups, most_finished, kFinishedHeader + max_tokens] (w): bits of the
//           sum of log-probabilities, number of tokens, tokens without the stop token
//           4 partials [n_sequences, n_chunks]
//           5 candidates [n_sequences, n_chunks, n_candidates]
//           6 page_table i32 [n_sequences, pages_per_sequence] (rw)
//           7 stop_ids u32 [(n_vocab + 31) / 32]
VESPER_CONST(kMostBeams, 16u);
VESPER_CONST(kMostCandidates, 32u);
VESPER_CONST(kFinishedHeader, 2u);
struct BeamParams {
  uint n_groups, group_sequences, beam_size;
  uint n_candidates;   // beam_size + the stop tokens that may compete, at most kMostCandidates
  uint most_finished;  // that there is room for, at least every group's max_finished
  uint n_chunks, chunk;
  uint timestamp_begin;
  uint max_tokens;
  uint page_rows, pages_per_sequence;
};

// activation: out[i] = f(in[i]); out may be in.
// operands: 0 out f32 [n] (w)  1 in f32 [n]
struct ActivationParams {
  uint n;
  uint activation;  // kActivation*
  float limit;      // of the soft cap
};

// magnitude: out[r, i] = sqrt(in[r, i]^2 + in[r, n_bins + i]^2), the real parts of a spectrum
// beside the imaginary ones. Row r is row r % rows_per_batch of batch r / rows_per_batch, where out
// has batches out_batch_stride apart. operands: 0 out f32 (w)  1 in f32 [n_rows, 2 * n_bins]
struct MagnitudeParams {
  uint n_rows, n_bins;
  uint rows_per_batch, out_batch_stride;
};

// lstm: the recurrent half of a long short-term memory, n_steps of every sequence one after
// another. With h and c the state and (i, f, g, o) = in[s, t] + weight h: c = sigmoid(f) c +
// sigmoid(i) tanh(g), h = sigmoid(o) tanh(c), out[s, t] = h. The weight lies in panels of
// kLstmPanel outputs: output j of input k is weight[(j / kLstmPanel * n_hidden + k) * kLstmPanel +
// j % kLstmPanel]; outputs are i, f, g, o. operands: 0 out f32 [n_sequences, n_steps, n_hidden] (w)
//           1 state f32 [n_sequences, 2, n_hidden] (rw): h, c
//           2 in f32 [n_sequences, n_steps, 4 * n_hidden]: the products with the input, and biases
//           3 weight f32 [4 * n_hidden / kLstmPanel, n_hidden, kLstmPanel]
VESPER_CONST(kLstmPanel, 64u);
struct LstmParams {
  uint n_sequences, n_steps;
  uint n_hidden;  // a multiple of 16
};

#ifdef __cplusplus
}  // namespace vesper
#endif
#endif  // VESPER_SHADERS_KERNEL_PARAMS_H_
