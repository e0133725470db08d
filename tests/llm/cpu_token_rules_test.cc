// token_partials and token_choose of the CPU device against a transcription of the reference's
// rules (openai-whisper, decoding.py) that keeps all chosen tokens and fills logits with -inf.
#include <algorithm>
#include <cmath>
#include <set>

#include "tests/llm/cpu_fixture.h"

namespace vesper::testing {
namespace {

constexpr uint32_t kVocab = 1000, kEndOfText = 800, kNoTimestamps = 820, kTimestampBegin = 821,
                   kBlank = 220, kMaxTokens = 12;

struct ReferenceSequence {
  std::vector<uint32_t> tokens;
  bool timestamps = true;
  uint32_t max_initial_timestamp = 0, max_sampled = 0;
  double sum_logprob = 0;
  bool finished = false;
};

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

TEST_P(TokenRules, ChooseWhatTheReferenceChooses) {
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
      reference[s].finished = random() % 6 == 0;
      states[s] = {};
      states[s].finished = reference[s].finished;
      states[s].timestamps = reference[s].timestamps;
      states[s].max_initial_timestamp = reference[s].max_initial_timestamp;
      states[s].max_sampled = reference[s].max_sampled;
      states[s].position = static_cast<int>(10 + s);
      rows[s] = {7, static_cast<int>(s), 9, 0};
    }
    TokenParams params{};
    params.n_sequences = n_sequences;
    params.n_vocab = kVocab;
    params.row_stride = stride;
    params.chunk = chunk;
    params.n_chunks = (kVocab + chunk - 1) / chunk;
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
    emit::token_partials(table, "partials", params, partials, logits, state_buffer,
                         store(*device, mask));
    emit::token_choose(table, "choose", params, state_buffer, row_buffer, tokens, stop, partials);
    const RecordingId recording = device->record(table);

    for (uint32_t step = 0; step < kMaxTokens; ++step) {
      std::vector<float> numbers = random_numbers(size_t{n_sequences} * stride, random(), 8.0f);
      for (uint32_t s = 0; s < n_sequences; ++s) {
        float* row = &numbers[s * stride];
        // All rules meet: timestamps that are likely only together, ends, and equal maxima.
        if (random() % 2) {
          for (uint32_t id = kTimestampBegin; id < kVocab; ++id) row[id] += 3;
        }
        if (random() % 5 == 0) row[kEndOfText] = 30;
        if (random() % 3 == 0) row[random() % 400] = row[random() % 400] = 9.5f;
        row[random() % kVocab] = 12;
      }
      device->write(logits, numbers.data());
      device->run(recording);
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

}  // namespace
}  // namespace vesper::testing
