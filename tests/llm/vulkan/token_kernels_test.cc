#include <algorithm>
#include <cmath>
#include <limits>

#include "llm/dtype/kv_types.h"
#include "tests/llm/kernels/adjust_logits_check.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::token_kernels_test {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// A bit mask with one id.
std::vector<uint32_t> mask_of(uint32_t n_vocab, uint32_t id) {
  std::vector<uint32_t> mask((n_vocab + 31) / 32, 0);
  mask[id / 32] = 1u << id % 32;
  return mask;
}

// The token rules and greedy sampling by definition over the whole vocabulary (openai-whisper,
// decoding.py: SuppressTokens, SuppressBlank, ApplyTimestampRules, GreedyDecoder).
struct Choice {
  uint32_t token;
  double logprob;
};
Choice plain_choice(std::vector<double> logits, const std::vector<uint32_t>& mask,
                    const SequenceState& state, const SamplingParams& p) {
  const auto forbid = [&](uint32_t from, uint32_t to) {
    for (uint32_t id = from; id < to; ++id) logits[id] = kNone;
  };
  for (uint32_t id = 0; id < p.n_vocab; ++id) {
    if (mask[id / 32] >> (id % 32) & 1) logits[id] = kNone;
  }
  forbid(p.no_timestamps, p.no_timestamps + 1);
  if (state.n_sampled == 0) {
    forbid(p.blank, p.blank + 1);
    forbid(p.end_of_text, p.end_of_text + 1);
  }
  if (!state.timestamps) {
    forbid(p.timestamp_begin, p.n_vocab);
  } else {
    if (state.last_was_timestamp) {
      if (state.penultimate_was_timestamp) {
        forbid(p.timestamp_begin, p.n_vocab);
      } else {
        forbid(0, p.end_of_text);
      }
      if (state.last_timestamp < state.speech_end) forbid(p.end_of_text, p.end_of_text + 1);
    }
    if (state.last_timestamp) {
      const bool open = state.last_was_timestamp && !state.penultimate_was_timestamp;
      forbid(p.timestamp_begin, state.last_timestamp + (open ? 0 : 1));
    }
    if (state.n_sampled == 0) {
      forbid(0, p.timestamp_begin);
      forbid(state.max_initial_timestamp + 1, p.n_vocab);
    }
  }
  const auto log_sum = [&](uint32_t from, uint32_t to) {
    const double greatest = *std::max_element(logits.begin() + from, logits.begin() + to);
    if (greatest == kNone) return kNone;
    double sum = 0;
    for (uint32_t id = from; id < to; ++id) sum += std::exp(logits[id] - greatest);
    return greatest + std::log(sum);
  };
  const double text_max = *std::max_element(logits.begin(), logits.begin() + p.timestamp_begin);
  if (log_sum(p.timestamp_begin, p.n_vocab) > text_max) forbid(0, p.timestamp_begin);
  const auto best = std::max_element(logits.begin(), logits.end());
  return {static_cast<uint32_t>(best - logits.begin()), *best - log_sum(0, p.n_vocab)};
}

class TokenKernels : public VulkanTest {};

TEST_F(TokenKernels, SampleTokensAsPlainRulesDo) {
  constexpr uint32_t kSequences = 40, kVocabulary = 51865, kChunk = 1024;
  SamplingParams p{};
  p.n_sequences = kSequences;
  p.n_vocab = kVocabulary;
  p.row_stride = kVocabulary + 3;
  p.chunk = kChunk;
  p.end_of_text = 50257;
  p.timestamp_begin = 50364;
  p.n_chunks = n_token_chunks(kVocabulary, p.timestamp_begin, kChunk);
  p.no_timestamps = 50363;
  p.blank = 220;
  p.max_tokens = 16;
  std::vector<uint32_t> mask((kVocabulary + 31) / 32);
  for (int i = 0; i < 2000; ++i) {
    const uint32_t id = static_cast<uint32_t>(engine_() % kVocabulary);
    mask[id / 32] |= 1u << (id % 32);
  }
  std::vector<float> logits = random(size_t{kSequences} * p.row_stride, 3.0f);
  std::vector<SequenceState> states(kSequences);
  std::vector<Row> rows(kSequences);
  for (uint32_t s = 0; s < kSequences; ++s) {
    SequenceState& state = states[s];
    state.finished = s == 7;
    state.max_sampled = s == 9 ? 4 : 12;
    state.timestamps = s % 4 != 0;
    state.max_initial_timestamp = p.timestamp_begin + 50;
    state.speech_end = s % 7 < 4 ? p.timestamp_begin + 120 : 0;
    state.n_sampled = s % 5 == 0 ? 0 : 3;
    state.position = static_cast<int>(10 + s);
    if (state.n_sampled) {
      state.last_was_timestamp = s >> 1 & 1;
      state.penultimate_was_timestamp = s >> 2 & 1;
      state.last_timestamp = s % 3 ? p.timestamp_begin + 100 + s : 0;
    }
    state.sum_logprob = -0.5f * static_cast<float>(s);
    rows[s] = {1, static_cast<int>(s), static_cast<int>(9 + s), 0};
    float* row = &logits[size_t{s} * p.row_stride];
    if (s % 6 == 1) row[p.end_of_text] = 40.0f;
    if (s % 6 == 2) row[123] = row[45000] = 30.0f;  // ties: the lowest id
    if (s % 6 == 3) row[p.timestamp_begin + 300] = 35.0f;
  }
  mask[123 / 32] &= ~(1u << (123 % 32));
  const Operand state_buffer = store_structs(states), row_buffer = store_structs(rows);
  const Operand tokens = store_structs(std::vector<int32_t>(kSequences * p.max_tokens, -7));
  const Operand stop = store_structs(std::vector<uint32_t>{0});
  const Operand partials =
      device().allocate(kSequences * p.n_chunks * sizeof(TokenPartial), "partials");
  DispatchTable table;
  emit::sample_partials(table, "partials", p, partials, store(logits, DType::kF32), state_buffer,
                        store_structs(mask), {});
  emit::sample_token(table, "token", p, state_buffer, row_buffer, tokens, {}, stop, partials,
                     store_structs(mask_of(kVocabulary, p.end_of_text)));
  run(table);

  const auto new_states = load_structs<SequenceState>(state_buffer);
  const auto new_rows = load_structs<Row>(row_buffer);
  const auto found = load_structs<int32_t>(tokens);
  uint32_t n_text = 0, n_timestamps = 0, n_ends = 0;
  for (uint32_t s = 0; s < kSequences; ++s) {
    SCOPED_TRACE("sequence " + std::to_string(s));
    const SequenceState &before = states[s], &after = new_states[s];
    if (before.finished) {
      EXPECT_EQ(after.n_sampled, before.n_sampled);
      EXPECT_EQ(after.sum_logprob, before.sum_logprob);
      EXPECT_EQ(new_rows[s].position, rows[s].position);
      continue;
    }
    const float* row = &logits[size_t{s} * p.row_stride];
    const Choice wanted = plain_choice({row, row + kVocabulary}, mask, before, p);
    const bool is_timestamp = wanted.token >= p.timestamp_begin;
    n_text += wanted.token < p.end_of_text;
    n_timestamps += is_timestamp;
    n_ends += wanted.token == p.end_of_text;
    EXPECT_EQ(found[s * p.max_tokens + before.n_sampled], static_cast<int32_t>(wanted.token));
    EXPECT_EQ(after.n_sampled, before.n_sampled + 1);
    EXPECT_NEAR(after.sum_logprob, before.sum_logprob + wanted.logprob, 2e-4);
    EXPECT_EQ(after.last_was_timestamp, is_timestamp);
    if (before.n_sampled == 0) {
      EXPECT_EQ(after.penultimate_was_timestamp, 1u);
    } else {
      EXPECT_EQ(after.penultimate_was_timestamp, before.last_was_timestamp);
    }
    EXPECT_EQ(after.last_timestamp, is_timestamp ? wanted.token : before.last_timestamp);
    const bool finished =
        wanted.token == p.end_of_text || before.n_sampled + 1 == before.max_sampled;
    EXPECT_EQ(after.finished, finished);
    EXPECT_EQ(after.position, before.position + 1);
    EXPECT_EQ(new_rows[s].sequence, finished ? -1 : static_cast<int>(s));
    EXPECT_EQ(new_rows[s].token, finished ? 0 : static_cast<int>(wanted.token));
    EXPECT_EQ(new_rows[s].position, finished ? 0 : before.position);
  }
  EXPECT_GT(n_text, 3u);
  EXPECT_GT(n_timestamps, 3u);
  EXPECT_GT(n_ends, 1u);
  EXPECT_EQ(load_structs<uint32_t>(stop)[0], 0u);
}

TEST_F(TokenKernels, StopIsSetWhenAllSequencesHaveEnded) {
  SamplingParams p{};
  p.n_vocab = p.row_stride = 40;
  p.chunk = 16;
  p.end_of_text = 20;
  p.timestamp_begin = 30;
  p.n_chunks = n_token_chunks(p.n_vocab, p.timestamp_begin, p.chunk);
  p.no_timestamps = 29;
  p.blank = 40;
  p.max_tokens = 8;
  // 70 sequences have several workgroups. One sequence has a token more than the others.
  for (const auto& [n, longest] :
       std::vector<std::pair<uint32_t, uint32_t>>{{3, 0}, {70, 0}, {70, 35}, {70, 69}}) {
    SCOPED_TRACE(std::to_string(n) + " sequences, longest " + std::to_string(longest));
    p.n_sequences = n;
    std::vector<SequenceState> states(n);
    for (SequenceState& state : states) state.max_sampled = 1;
    states[longest].max_sampled = 2;
    states[1].finished = 1;
    const Operand stop = store_structs(std::vector<uint32_t>{0});
    const Operand state_buffer = store_structs(states);
    const Operand partials = device().allocate(n * p.n_chunks * sizeof(TokenPartial), "partials");
    std::vector<float> logits = random(size_t{n} * p.row_stride);
    DispatchTable table;
    emit::sample_partials(table, "partials", p, partials, store(logits, DType::kF32), state_buffer,
                          store_structs(std::vector<uint32_t>{0, 0}), {});
    emit::sample_token(table, "token", p, state_buffer, store_structs(std::vector<Row>(n)),
                       store_structs(std::vector<int32_t>(n * p.max_tokens)), {}, stop, partials,
                       store_structs(mask_of(p.n_vocab, p.end_of_text)));
    const ProgramId program = device().record(table);
    for (const uint32_t wanted : {0u, 1u}) {
      device().run(program);
      EXPECT_EQ(load_structs<uint32_t>(stop)[0], wanted);
    }
    const uint32_t go = 0;
    device().write(stop, &go);
    device().run(program);  // finds the counter of workgroups as the first run did
    EXPECT_EQ(load_structs<uint32_t>(stop)[0], 1u);
  }
}

// The kernels of both devices use the same hash; only the last bits of logarithms differ.
TEST_F(TokenKernels, SampleAtATemperatureAsPlainCodeDoes) {
  constexpr uint32_t kSequences = 200, kVocabulary = 700;
  SamplingParams p{};
  p.n_sequences = kSequences;
  p.n_vocab = p.row_stride = kVocabulary;
  p.chunk = 256;
  p.n_chunks = 3;
  p.end_of_text = p.blank = p.no_timestamps = p.timestamp_begin = kVocabulary;
  p.max_tokens = 4;
  std::vector<float> logits = random(size_t{kSequences} * kVocabulary, 2.0f);
  std::vector<SequenceState> states(kSequences);
  for (uint32_t s = 0; s < kSequences; ++s) {
    states[s] = {};
    states[s].max_sampled = 9;
    states[s].n_sampled = s % 3;
    states[s].temperature = s % 2 ? 0.2f : 1.0f;
    states[s].seed = static_cast<uint32_t>(engine_());
  }
  const Operand state_buffer = store_structs(states);
  const Operand tokens = store_structs(std::vector<int32_t>(kSequences * p.max_tokens, -7));
  const Operand partials =
      device().allocate(kSequences * p.n_chunks * sizeof(TokenPartial), "partials");
  DispatchTable table;
  const Operand no_ids = store_structs(std::vector<uint32_t>((kVocabulary + 31) / 32));
  emit::sample_partials(table, "partials", p, partials, store(logits, DType::kF32), state_buffer,
                        no_ids, {});
  emit::sample_token(table, "token", p, state_buffer, store_structs(std::vector<Row>(kSequences)),
                     tokens, {}, store_structs(std::vector<uint32_t>{0}), partials, no_ids);
  run(table);
  const auto found = load_structs<int32_t>(tokens);
  const auto new_states = load_structs<SequenceState>(state_buffer);
  uint32_t n_greedy = 0;
  for (uint32_t s = 0; s < kSequences; ++s) {
    SCOPED_TRACE("sequence " + std::to_string(s));
    const float* row = &logits[size_t{s} * kVocabulary];
    const uint32_t base = noise_base(states[s].seed, states[s].n_sampled);
    std::vector<double> keys(kVocabulary);
    double sum = 0;
    for (uint32_t id = 0; id < kVocabulary; ++id) {
      const double uniform = ((mix_bits(base + id * kNoiseStride) >> 9) + 0.5) / 8388608.0;
      keys[id] = row[id] / double{states[s].temperature} - std::log(-std::log(uniform));
      sum += std::exp(row[id]);
    }
    const auto wanted = std::max_element(keys.begin(), keys.end());
    const auto token = static_cast<uint32_t>(found[s * p.max_tokens + states[s].n_sampled]);
    ASSERT_LT(token, kVocabulary);
    EXPECT_NEAR(keys[token], *wanted, 1e-4);
    EXPECT_NEAR(new_states[s].sum_logprob, row[token] - std::log(sum), 1e-3);
    n_greedy += std::max_element(row, row + kVocabulary) - row == token;
  }
  EXPECT_LT(n_greedy, kSequences / 2);
}

TEST_F(TokenKernels, CopyPagesCopiesTheFirstRowsOfEachHead) {
  constexpr uint32_t kHeads = 3, kDim = 8, kRows = 32, kPages = 5;
  constexpr size_t kHead = kRows * kDim, kPage = kHeads * kHead;
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    std::vector<float> keys = random(kPages * kPage), values = random(kPages * kPage);
    std::vector<SequenceState> states(3);
    states[1].copy_from = states[2].copy_from = 4;
    states[1].copy_to = 1;
    states[1].copy_rows = 7;
    states[2].copy_to = 3;
    states[2].copy_rows = 32;
    const Operand k = store(keys, dtype), v = store(values, dtype);
    DispatchTable table;
    emit::copy_pages(table, "copy", {3, kHeads, kDim, kRows, KvTypes(dtype).codes()}, k, v,
                     store_structs(states));
    run(table);
    const std::vector<float> found_k = load(k, dtype), found_v = load(v, dtype);
    for (size_t i = 0; i < kPages * kPage; ++i) {
      const size_t page = i / kPage, row = i % kHead / kDim;
      const bool copied = (page == 1 && row < 7) || page == 3;
      const size_t from = copied ? 4 * kPage + i % kPage : i;
      ASSERT_EQ(found_k[i], keys[from]) << i;
      ASSERT_EQ(found_v[i], values[from]) << i;
    }
  }
}

TEST_F(TokenKernels, PenaltiesEqualPlainLoops) {
  for (uint32_t seed = 1; seed <= 4; ++seed) test::check_adjust_logits(device(), seed, 1e-6f);
}

}  // namespace
}  // namespace vesper::token_kernels_test
