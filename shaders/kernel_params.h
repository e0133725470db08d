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

// What a sequence carries from token to token (array over sequences, in device memory).
struct SequenceState {
  uint finished;            // 1: end of text chosen, limit reached, or never started
  uint n_sampled;           // tokens chosen so far in this window
  uint max_sampled;         // the limit: n_text_ctx / 2 in the reference
  uint last_was_timestamp;  // of the chosen tokens, as the reference's timestamp rules say
  uint penultimate_was_timestamp;
  uint last_timestamp;         // the latest timestamp token chosen, 0 if none
  uint max_initial_timestamp;  // the highest token id a first timestamp may have
  uint timestamps;             // 1: timestamp rules apply; 0: no timestamp is allowed
  uint speech_end;             // no end of text after a timestamp below this one; 0: after any
  float sum_logprob;           // of the chosen tokens, end of text included
  int position;                // of the next token to be chosen
  float temperature;           // 0: the likeliest token; above: drawn from softmax(logits / it)
  uint seed;                   // of the draws
  // What token_penalties does to its logits.
  float repetition_penalty;   // 1: nothing
  uint no_repeat_ngram_size;  // 0: nothing
  // What copy_pages copies for this sequence: the first `copy_rows` rows of a page.
  int copy_from, copy_to;
  uint copy_rows;
  // A beam is chosen by beam_choose, together with the others of its group, else token_choose does
  // it. `finished` says of a beam that nothing is to be computed for it: it holds no text, or its
  // whole group has ended. Its sum_logprob is -inf if it holds no text.
  uint is_beam;
  int spare_page;     // a page of the group's own that no page table names
  uint n_finished;    // texts of the group that have ended
  uint max_finished;  // the group ends with so many
};

// A hash of 32 bits (Wellons' lowbias32): each bit of x counts in each bit of it.
VESPER_FUNCTION uint mix_bits(uint x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}
// Draws by counter instead of a generator's state, so that a sequence's do not depend on what else
// is decoded: that of token `id` is mix_bits(draw_base(seed, n_sampled) + id * kDrawStride), and
// gives a uniform number ((draw >> 9) + 0.5) / 2^23.
VESPER_CONST(kDrawStride, 0x9e3779b9u);
VESPER_FUNCTION uint draw_base(uint seed, uint n_sampled) {
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

// What token_partials finds in one chunk of one sequence's logits: apart for text and timestamps.
// The key of a token is its logit at temperature 0, else logit / temperature + Gumbel noise: the
// token with the greatest key is a draw from softmax(logits / temperature).
struct TokenPartial {
  float text_max;    // the greatest logit, -inf if no text token of the chunk is allowed
  float text_sum;    // sum of exp(logit - text_max)
  float text_key;    // the greatest key
  float text_logit;  // of the token that has it
  uint text_token;   // the lowest id that has it
  float timestamp_max;
  float timestamp_sum;
  float timestamp_key;
  float timestamp_logit;
  uint timestamp_token;
};

// A token that may be chosen; those of a list are in falling order, of equals the lowest id first.
struct TokenCandidate {
  float logit;  // -inf: none, nor any after it
  uint token;
};

// token_penalties: against repetition, as CTranslate2 does it, of the tokens chosen so far. The
// logit of each is divided by repetition_penalty if it is above 0, else multiplied by it; then
// what would end a run of no_repeat_ngram_size tokens that has been before gets -inf.
// operands: 0 logits f32, row_stride apart (rw)  1 states [n_sequences]
//           2 tokens i32 [n_sequences, max_tokens]
struct PenaltyParams {
  uint n_sequences, n_vocab, row_stride;
  uint max_tokens;
};

// token_partials: applies the token rules to the logits of each sequence and reduces each chunk.
// Rules (openai-whisper, decoding.py): ids in the suppressed bit mask never; at the first token no
// blank and no end of text; with timestamps: they come in pairs, never decrease, a first token is
// one and at most max_initial_timestamp; no_timestamps never. One more: no end of text after a
// timestamp below speech_end.
// operands: 0 partials [n_sequences, n_chunks] (w)  1 logits f32, row_stride apart
//           2 states [n_sequences]  3 suppressed bit mask u32 [(n_vocab + 31) / 32]
//           4 candidates [n_sequences, n_chunks, 2, n_candidates] (w) (?): of beams only, the
//           tokens of the chunk with the greatest logits, text before timestamps
// token_choose: merges the partials, takes a timestamp if their probability together exceeds that
// of the likeliest text token, else any token: the one with the greatest key (the lowest id of
// equals); adds its log-probability (at temperature 1, as the reference has it), notes it in
// tokens[s, n_sampled], advances the state, and writes the row of the next step: {token, s,
// state.position, 0}, after which position counts one up. A sequence finishes with end of text or
// its max_sampled'th token; its row becomes {0, -1, 0, 0}. One that had finished before is left as
// it is, and so are beams. Sets `stop` to 1 when every sequence has finished.
// operands: 0 states (rw)  1 rows [n_sequences] (w)  2 tokens i32 [n_sequences, max_tokens] (w)
//           3 stop u32 (w)  4 partials
struct TokenParams {
  uint n_sequences, n_vocab, row_stride;
  uint n_chunks, chunk;  // chunk = ids a chunk
  uint end_of_text, timestamp_begin, no_timestamps, blank;
  uint max_tokens;
  uint n_candidates;  // of token_partials, 1 to kMostBeams + 1; 0 without that operand
};

// A text that has ended; its tokens, without end of text, lie in a buffer of their own.
struct FinishedText {
  float sum_logprob;  // of its tokens and end of text
  uint n_tokens;
};

// beam_choose: one step of openai-whisper's BeamSearchDecoder (decoding.py) for each group of
// beam_size sequences that lie side by side, the groups group_sequences apart. The beam_size + 1
// likeliest continuations of each beam (as token_choose sees them) compete by their sums of
// log-probabilities, of equals those of the lower beam and the lower id first: those with end of
// text finish, up to max_finished in all, until beam_size others are found, which are the next
// beams. The group ends with max_finished texts, at max_sampled tokens, or when no beam is left.
// Each beam takes over the tokens, the state and the pages of the one that it continues. Pages that
// are full are shared; of the one under way the first beam takes it over, the others a spare page
// into which copy_pages, which has to follow, copies it. At the start one beam holds text.
// operands: 0 states (rw)  1 rows [n_sequences] (w)  2 tokens i32 [n_sequences, max_tokens] (rw)
//           3 finished [n_groups, most_finished] (w)
//           4 finished tokens i32 [n_groups, most_finished, max_tokens] (w)
//           5 partials [n_sequences, n_chunks]
//           6 candidates [n_sequences, n_chunks, 2, beam_size + 1]
//           7 page_table i32 [n_sequences, pages_per_sequence] (rw)
VESPER_CONST(kMostBeams, 16u);
struct BeamParams {
  uint n_groups, group_sequences, beam_size;
  uint most_finished;  // that there is room for, at least every group's max_finished
  uint n_chunks;
  uint end_of_text, timestamp_begin;
  uint max_tokens;
  uint page_rows, pages_per_sequence;
};

// What a sequence of a language model carries from token to token, and how its tokens are chosen.
// The filters are those of llama.cpp, in its order: penalties, top-k, typical, top-p, min-p, and
// the temperature last.
struct GenerationState {
  uint finished;      // 1: an end or the limit was reached, or it never started
  uint n_tokens;      // of the prompt and chosen ones, in `tokens`
  uint max_tokens;    // the limit of n_tokens
  uint n_drawn;       // tokens chosen so far
  uint seed;          // of the draws
  float temperature;  // 0: the likeliest token
  uint top_k;         // only the so many likeliest, and their equals; 0: all
  float typical_p;    // only those whose surprise is nearest to the mean, that have so much; 1: all
  float top_p;        // only the likeliest that have so much together; 1: all
  float min_p;        // only those with so much of the likeliest's probability; 0: all
  float repetition_penalty;  // logits above 0 are divided by it, others multiplied; 1: nothing
  float frequency_penalty;   // taken from the logit for each time that a token was there
  float presence_penalty;    // taken once
  uint penalty_window;       // tokens that the penalties look back at
  float lowest, highest;     // logits that may be chosen; logit_bounds writes them
};

// adjust_logits: bias[i] is added to the logit of token i of every sequence, then come the
// penalties, where `counts` says how often a token was among the last ones.
// operands: 0 logits f32 [n_sequences, n_vocab] (rw)  1 states
//           2 counts i32 [n_sequences, n_vocab] (?)  3 bias f32 [n_vocab] (?)
// logit_bounds: writes what the filters of each sequence leave to its state: they are all
// intervals of logits. operands: 0 states (rw)  1 logits
// draw_partials: what each chunk of each sequence's logits comes to.
// operands: 0 partials [n_sequences, n_chunks] (w)  1 logits  2 states
// draw_token: merges the partials: the token with the greatest key (of equals the lowest id) is
// noted in tokens[s, n_tokens] and its log-probability (at temperature 1, before filters) in
// logprobs at the same place; the row of the next step is {token, s, its place, 0}. A sequence
// finishes with a token that is in the bit mask of ends, or at max_tokens; its row becomes {0, -1,
// 0, 0}. One that had finished before is left as it is. Sets `stop` to 1 when all have finished.
// operands: 0 states (rw)  1 rows [n_sequences] (w)
//           2 tokens i32 [n_sequences, token_stride] (rw)
//           3 logprobs f32 [n_sequences, token_stride] (w)  4 stop u32 (w)  5 partials
//           6 ends u32 [(n_vocab + 31) / 32]  7 counts (rw) (?)
struct DrawParams {
  uint n_sequences, n_vocab;
  uint n_chunks, chunk;  // ids a chunk
  uint token_stride;
};

// One chunk of one sequence's logits. The key of a token is its logit at temperature 0, else logit
// / temperature + Gumbel noise, as of TokenPartial.
struct DrawPartial {
  float greatest;  // logit of all
  float sum;       // of exp(logit - greatest)
  float key;       // the greatest of those that may be chosen; -inf if there are none
  float logit;     // of the token that has it
  uint token;      // the lowest id that has it
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
