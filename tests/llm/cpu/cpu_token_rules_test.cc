// sample_partials and sample_token of the CPU device compared with the reference's rules
// (openai-whisper, decoding.py), which keep all sampled tokens and fill logits with -inf.
#include <algorithm>
#include <cmath>
#include <set>

#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/kernels/adjust_logits_check.h"

namespace vesper::testing::cpu_token_rules_test {
namespace {

constexpr uint32_t kVocab = 1000, kEndOfText = 800, kNoTimestamps = 820, kTimestampBegin = 821,
                   kBlank = 220, kMaxTokens = 12;

struct ReferenceSequence {
  std::vector<uint32_t> tokens;
  bool timestamps = true;
  uint32_t max_initial_timestamp = 0, max_sampled = 0, speech_end = 0;
  double sum_logprob = 0;
  bool finished = false;
};

// A bit mask with one id.
std::vector<uint32_t> mask_of(uint32_t n_vocab, uint32_t id) {
  std::vector<uint32_t> mask((n_vocab + 31) / 32, 0);
  mask[id / 32] = 1u << id % 32;
  return mask;
}

// One step of the reference, on logits in double precision.
uint32_t reference_step(ReferenceSequence& sequence, const float* logits,
                        const std::set<uint32_t>& suppressed) {
  std::vector<double> filtered(logits, logits + kVocab);
  const auto forbid = [&](uint32_t first, uint32_t end) {
    for (uint32_t id = first; id < std::min(end, kVocab); ++id) filtered[id] = -INFINITY;
  };
  for (const uint32_t id : suppressed) filtered[id] = -INFINITY;
  const std::vector<uint32_t>& tokens = sequence.tokens;
  if (tokens.empty()) {
    forbid(kBlank, kBlank + 1);
    forbid(kEndOfText, kEndOfText + 1);
  }
  forbid(kNoTimestamps, kNoTimestamps + 1);
  if (sequence.timestamps) {
    const size_t n = tokens.size();
    const bool last_was = n >= 1 && tokens[n - 1] >= kTimestampBegin;
    const bool penultimate_was = n < 2 || tokens[n - 2] >= kTimestampBegin;
    if (last_was) {
      if (penultimate_was) {
        forbid(kTimestampBegin, kVocab);
      } else {
        forbid(0, kEndOfText);
      }
      if (tokens[n - 1] < sequence.speech_end) forbid(kEndOfText, kEndOfText + 1);
    }
    std::vector<uint32_t> stamps;
    for (const uint32_t token : tokens) {
      if (token >= kTimestampBegin) stamps.push_back(token);
    }
    if (!stamps.empty()) {
      const bool may_repeat = last_was && !penultimate_was;
      forbid(kTimestampBegin, may_repeat ? stamps.back() : stamps.back() + 1);
    }
    if (tokens.empty()) {
      forbid(0, kTimestampBegin);
      forbid(sequence.max_initial_timestamp + 1, kVocab);
    }
    double stamp_sum = 0, best_text = -INFINITY;
    for (uint32_t id = kTimestampBegin; id < kVocab; ++id) stamp_sum += std::exp(filtered[id]);
    for (uint32_t id = 0; id < kTimestampBegin; ++id) {
      best_text = std::max(best_text, filtered[id]);
    }
    if (std::log(stamp_sum) > best_text) forbid(0, kTimestampBegin);
  } else {
    forbid(kTimestampBegin, kVocab);
  }
  double sum = 0;
  for (const double logit : filtered) sum += std::exp(logit);
  const auto best = std::max_element(filtered.begin(), filtered.end());
  const auto token = static_cast<uint32_t>(best - filtered.begin());
  sequence.sum_logprob += *best - std::log(sum);
  sequence.tokens.push_back(token);
  sequence.finished = token == kEndOfText || sequence.tokens.size() == sequence.max_sampled;
  return token;
}

class TokenRules : public ::testing::TestWithParam<uint32_t> {};

TEST_P(TokenRules, SampleWhatTheReferenceSamples) {
  const uint32_t chunk = GetParam();
  const auto device = cpu();
  std::mt19937 random(chunk);
  for (int trial = 0; trial < 40; ++trial) {
    const uint32_t n_sequences = 1 + random() % 5, stride = kVocab + 3;
    std::set<uint32_t> suppressed;
    for (int i = 0; i < 60; ++i) suppressed.insert(random() % kVocab);
    suppressed.erase(kEndOfText);
    std::vector<uint32_t> mask((kVocab + 31) / 32, 0);
    for (const uint32_t id : suppressed) mask[id / 32] |= 1u << id % 32;

    std::vector<ReferenceSequence> reference(n_sequences);
    std::vector<SequenceState> states(n_sequences);
    std::vector<Row> rows(n_sequences);
    for (uint32_t s = 0; s < n_sequences; ++s) {
      reference[s].timestamps = random() % 4 != 0;
      reference[s].max_initial_timestamp = kTimestampBegin + random() % 60;
      reference[s].max_sampled = 1 + random() % kMaxTokens;
      reference[s].speech_end = random() % 2 ? kTimestampBegin + random() % 100 : 0;
      reference[s].finished = random() % 6 == 0;
      states[s] = {};
      states[s].finished = reference[s].finished;
      states[s].timestamps = reference[s].timestamps;
      states[s].max_initial_timestamp = reference[s].max_initial_timestamp;
      states[s].speech_end = reference[s].speech_end;
      states[s].max_sampled = reference[s].max_sampled;
      states[s].position = static_cast<int>(10 + s);
      rows[s] = {7, static_cast<int>(s), 9, 0};
    }
    SamplingParams params{};
    params.n_sequences = n_sequences;
    params.n_vocab = kVocab;
    params.row_stride = stride;
    params.chunk = chunk;
    params.n_chunks = n_token_chunks(kVocab, kTimestampBegin, chunk);
    params.end_of_text = kEndOfText;
    params.timestamp_begin = kTimestampBegin;
    params.no_timestamps = kNoTimestamps;
    params.blank = kBlank;
    params.max_tokens = kMaxTokens;
    const Operand logits = device->allocate(size_t{n_sequences} * stride * 4, "logits");
    const Operand partials =
        device->allocate(size_t{n_sequences} * params.n_chunks * sizeof(TokenPartial), "partials");
    const Operand state_buffer = store(*device, states), row_buffer = store(*device, rows);
    const Operand stop = device->allocate(4, "stop");
    const Operand tokens = store(*device, std::vector<int32_t>(n_sequences * kMaxTokens, -7));
    DispatchTable table;
    emit::sample_partials(table, "partials", params, partials, logits, state_buffer,
                          store(*device, mask), {});
    emit::sample_token(table, "token", params, state_buffer, row_buffer, tokens, {}, stop, partials,
                       store(*device, mask_of(kVocab, kEndOfText)));
    const ProgramId program = device->record(table);

    for (uint32_t step = 0; step < kMaxTokens; ++step) {
      std::vector<float> numbers = random_numbers(size_t{n_sequences} * stride, random(), 8.0f);
      for (uint32_t s = 0; s < n_sequences; ++s) {
        float* row = &numbers[s * stride];
        // All rules together: timestamps that are probable only together, ends, and equal maxima.
        if (random() % 2) {
          for (uint32_t id = kTimestampBegin; id < kVocab; ++id) row[id] += 3;
        }
        if (random() % 5 == 0) row[kEndOfText] = 30;
        if (random() % 3 == 0) row[random() % 400] = row[random() % 400] = 9.5f;
        row[random() % kVocab] = 12;
      }
      device->write(logits, numbers.data());
      device->run(program);
      const auto found = fetch<SequenceState>(*device, state_buffer);
      const auto found_rows = fetch<Row>(*device, row_buffer);
      const auto found_tokens = fetch<int32_t>(*device, tokens);
      bool all_finished = true;
      for (uint32_t s = 0; s < n_sequences; ++s) {
        SCOPED_TRACE("trial " + std::to_string(trial) + ", step " + std::to_string(step) +
                     ", sequence " + std::to_string(s));
        ReferenceSequence& wanted = reference[s];
        if (!wanted.finished) {
          const uint32_t token = reference_step(wanted, &numbers[s * stride], suppressed);
          ASSERT_EQ(found_tokens[s * kMaxTokens + step], static_cast<int32_t>(token));
          ASSERT_EQ(found[s].n_sampled, step + 1);
          ASSERT_NEAR(found[s].sum_logprob, wanted.sum_logprob, 1e-4 * (step + 1));
          ASSERT_EQ(found[s].finished, wanted.finished);
          if (wanted.finished) {
            EXPECT_EQ(found_rows[s].sequence, -1);
          } else {
            EXPECT_EQ(found_rows[s].token, static_cast<int>(token));
            EXPECT_EQ(found_rows[s].sequence, static_cast<int>(s));
            EXPECT_EQ(found_rows[s].position, static_cast<int>(10 + s + step));
            EXPECT_EQ(found[s].position, static_cast<int>(10 + s + step + 1));
          }
        } else if (wanted.tokens.empty()) {
          EXPECT_EQ(found[s].n_sampled, 0u);
          EXPECT_EQ(found_rows[s].token, 7);
        }
        all_finished &= wanted.finished;
      }
      EXPECT_EQ(fetch<uint32_t>(*device, stop)[0], all_finished ? 1u : 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ChunksOf, TokenRules, ::testing::Values(1u, 7u, 64u, 1000u, 2048u));

// Samples the first token of `n` sequences with these logits; returns the count of each id. Adds
// the log-probabilities to sum_logprob.
std::vector<double> draw(const std::vector<float>& logits, uint32_t timestamp_begin,
                         float temperature, uint32_t n, uint32_t seed, double& sum_logprob) {
  const auto device = cpu();
  const auto n_vocab = static_cast<uint32_t>(logits.size());
  SamplingParams params{};
  params.n_sequences = n;
  params.n_vocab = n_vocab;
  params.row_stride = 0;  // all read the same row
  params.chunk = 64;
  params.n_chunks = n_token_chunks(n_vocab, timestamp_begin, 64);
  params.end_of_text = params.no_timestamps = params.blank = n_vocab;
  params.timestamp_begin = timestamp_begin;
  params.max_tokens = 4;
  std::vector<SequenceState> states(n);
  for (uint32_t s = 0; s < n; ++s) {
    states[s] = {};
    states[s].n_sampled = 1 + s % 3;
    states[s].max_sampled = 9;
    states[s].timestamps = timestamp_begin < n_vocab;
    states[s].temperature = temperature;
    states[s].seed = seed + s / 3;
  }
  const Operand partials =
      device->allocate(uint64_t{n} * params.n_chunks * sizeof(TokenPartial), "partials");
  const Operand state_buffer = store(*device, states);
  const Operand tokens = store(*device, std::vector<int32_t>(uint64_t{n} * 4, -7));
  DispatchTable table;
  const Operand no_ids = store(*device, std::vector<uint32_t>((n_vocab + 31) / 32, 0));
  emit::sample_partials(table, "partials", params, partials, store(*device, logits), state_buffer,
                        no_ids, {});
  emit::sample_token(table, "token", params, state_buffer, store(*device, std::vector<Row>(n)),
                     tokens, {}, device->allocate(4, "stop"), partials, no_ids);
  run_once(*device, table);
  const auto found = fetch<int32_t>(*device, tokens);
  std::vector<double> counts(n_vocab, 0);
  for (uint32_t s = 0; s < n; ++s) ++counts[static_cast<size_t>(found[s * 4 + 1 + s % 3])];
  for (const SequenceState& state : fetch<SequenceState>(*device, state_buffer)) {
    sum_logprob += state.sum_logprob;
  }
  return counts;
}

TEST(Drawing, FollowsTheSoftmaxOfLogitsOverTemperature) {
  constexpr uint32_t kDraws = 100'000, kIds = 150;
  const std::vector<float> logits = random_numbers(kIds, 3, 2.0f);
  for (const float temperature : {0.4f, 1.0f}) {
    double sum_logprob = 0, expected_sum = 0;
    const std::vector<double> counts = draw(logits, kIds, temperature, kDraws, 11, sum_logprob);
    double sum = 0, untempered = 0, chi_square = 0;
    for (const float logit : logits) sum += std::exp(logit / temperature);
    for (const float logit : logits) untempered += std::exp(logit);
    int n_bins = 0;
    double rare_wanted = 0, rare_found = 0;
    for (uint32_t id = 0; id < kIds; ++id) {
      const double wanted = kDraws * std::exp(logits[id] / temperature) / sum;
      expected_sum += counts[id] * (logits[id] - std::log(untempered));
      if (wanted < 10) {
        rare_wanted += wanted;
        rare_found += counts[id];
        continue;
      }
      chi_square += (counts[id] - wanted) * (counts[id] - wanted) / wanted;
      ++n_bins;
    }
    EXPECT_NEAR(rare_found, rare_wanted, 6 * std::sqrt(rare_wanted + 1));
    // Five standard deviations of a chi-square distribution.
    EXPECT_LT(chi_square, n_bins + 5 * std::sqrt(2.0 * n_bins)) << "temperature " << temperature;
    EXPECT_GT(chi_square, n_bins - 5 * std::sqrt(2.0 * n_bins)) << "temperature " << temperature;
    // The log-probabilities are those of temperature 1.
    EXPECT_NEAR(sum_logprob, expected_sum, 1e-6 * kDraws);
  }
}

TEST(Drawing, SamplesATimestampIfTheirSumIsMoreProbable) {
  // Text: one token at logit 1. Timestamps: 40 at logit 0, together e^3.7.
  std::vector<float> logits(41, 0.0f);
  logits[0] = 1;
  double sum_logprob = 0;
  const std::vector<double> counts = draw(logits, 1, 1.0f, 4000, 5, sum_logprob);
  EXPECT_EQ(counts[0], 0);
  for (uint32_t id = 1; id < 41; ++id) EXPECT_NEAR(counts[id], 100, 60) << id;
  EXPECT_NEAR(sum_logprob, -4000 * std::log(40.0), 0.01);
}

TEST(Drawing, DependsOnlyOnTheSeed) {
  const std::vector<float> logits(300, 0.0f);
  double unused = 0;
  const auto once = draw(logits, 300, 1.0f, 3000, 7, unused);
  EXPECT_EQ(draw(logits, 300, 1.0f, 3000, 7, unused), once);
  EXPECT_NE(draw(logits, 300, 1.0f, 3000, 8000, unused), once);
}

TEST(CopyPages, CopiesTheFirstRowsOfEachHead) {
  constexpr uint32_t kHeads = 3, kDim = 8, kRows = 32, kPages = 5;
  constexpr size_t kHead = kRows * kDim, kPage = kHeads * kHead;
  const auto device = cpu();
  const std::vector<float> keys = random_numbers(kPages * kPage, 1),
                           values = random_numbers(kPages * kPage, 2);
  std::vector<SequenceState> states(3);
  states[0] = {};
  states[1] = {};
  states[1].copy_from = 4;
  states[1].copy_to = 1;
  states[1].copy_rows = 7;
  states[2] = states[1];
  states[2].copy_to = 3;
  states[2].copy_rows = 32;
  const Operand k = store(*device, keys), v = store(*device, values);
  DispatchTable table;
  emit::copy_pages(table, "copy", {3, kHeads, kDim, kRows, kDTypeF32}, k, v,
                   store(*device, states));
  run_once(*device, table);
  const auto found_k = fetch<float>(*device, k), found_v = fetch<float>(*device, v);
  for (size_t i = 0; i < kPages * kPage; ++i) {
    const size_t page = i / kPage, row = i % kHead / kDim;
    const bool copied = (page == 1 && row < 7) || page == 3;
    const size_t from = copied ? 4 * kPage + i % kPage : i;
    ASSERT_EQ(found_k[i], keys[from]) << i;
    ASSERT_EQ(found_v[i], values[from]) << i;
  }
}

TEST(AdjustLogits, EqualPlainLoops) {
  const auto device = cpu();
  for (uint32_t seed = 1; seed <= 4; ++seed) test::check_adjust_logits(*device, seed, 0);
}

}  // namespace
}  // namespace vesper::testing::cpu_token_rules_test
