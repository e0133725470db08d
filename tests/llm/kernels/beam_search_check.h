// Beam search on a device compared with a plain one on the host, on random logits.
//
// The host keeps whole token lists and applies the rules to whole rows of logits, as openai-whisper
// does (decoding.py: BeamSearchDecoder, ApplyTimestampRules). A KV cache of one value per position
// shows that each beam's pages hold its own history.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "llm/table/device.h"
#include "tests/llm/kernels/kernel_check.h"

namespace vesper::test {

struct BeamCase {
  uint32_t n_groups = 2, beam_size = 5, max_finished = 5;
  uint32_t n_unused = 0;  // unused sequences per group
  uint32_t max_sampled = 40;
  uint32_t n_prompt = 6;
  uint32_t chunk = 64;
  double p_end = 0.05;     // probability of end of text in a beam
  uint32_t n_allowed = 0;  // text tokens that are not suppressed; 0: nearly all
  uint32_t seed = 1;
};

class BeamSearchCheck : private KernelCheck {
 public:
  BeamSearchCheck(Device& device, const BeamCase& what)
      : KernelCheck(device, what.seed), case_(what) {}

  void run() {
    make();
    for (uint32_t step = 0; !all_ended(); ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      ASSERT_LE(step, case_.max_sampled);
      std::vector<float> logits;
      std::vector<Group> after;
      // Nearly equal sums would depend on rounding.
      do {
        logits = random_logits();
        after = groups_;
      } while (!advance(after, logits));
      groups_ = std::move(after);
      device_.write(logits_, logits.data());
      device_.run(program_);
      compare();
      if (::testing::Test::HasFatalFailure()) return;
      write_past();
    }
  }

  uint32_t n_ended() const { return n_ended_; }
  uint32_t n_parted() const { return n_parted_; }

 private:
  static constexpr uint32_t kVocab = 300, kEndOfText = 200, kNoTimestamps = 219,
                            kTimestampBegin = 220, kBlank = 33, kMaxTokens = 48, kPageRows = 4,
                            kPages = 16, kFinishedStride = kFinishedHeader + 2 * kMaxTokens;

  struct Beam {
    std::vector<uint32_t> tokens;
    std::vector<double> logprobs;  // of the tokens
    double sum = 0;
    uint32_t parent = 0;
  };
  struct Group {
    std::vector<Beam> live, ended;
    bool has_ended = false;
  };
  struct Extended {
    uint32_t beam, token;
    double logprob, score;
  };

  uint32_t group_sequences() const { return case_.beam_size + case_.n_unused; }
  uint32_t n_sequences() const { return case_.n_groups * group_sequences(); }
  bool all_ended() const {
    return std::all_of(groups_.begin(), groups_.end(), [](const Group& g) { return g.has_ended; });
  }

  void make() {
    const uint32_t n = n_sequences(),
                   n_chunks = n_token_chunks(kVocab, kTimestampBegin, case_.chunk);
    for (uint32_t id = 0; id < kVocab; ++id) {
      if (id == kEndOfText) continue;
      const bool many = case_.n_allowed == 0;
      if (many ? engine_() % 20 == 0 : id >= case_.n_allowed && id < kTimestampBegin) {
        suppressed_.push_back(id);
      }
    }
    std::vector<uint32_t> mask((kVocab + 31) / 32, 0);
    for (const uint32_t id : suppressed_) mask[id / 32] |= 1u << id % 32;
    groups_.resize(case_.n_groups);
    for (Group& group : groups_) group.live.resize(1);
    std::vector<SequenceState> states(n);
    std::vector<int32_t> table(n * kPages);
    for (uint32_t s = 0; s < n; ++s) {
      const uint32_t first = s / group_sequences() * group_sequences();
      SequenceState& state = states[s] = {};
      state.is_beam = 1;
      state.timestamps = 1;
      state.max_initial_timestamp = kTimestampBegin + 20;
      state.max_sampled = case_.max_sampled;
      state.max_finished = case_.max_finished;
      state.position = static_cast<int>(case_.n_prompt);
      state.spare_page = static_cast<int>(n * kPages + s);
      state.finished = s != first;
      if (state.finished) state.sum_logprob = -INFINITY;
      for (uint32_t page = 0; page < kPages; ++page) {
        const bool is_shared = page < case_.n_prompt / kPageRows;
        table[s * kPages + page] = static_cast<int32_t>((is_shared ? first : s) * kPages + page);
      }
    }
    const size_t most_finished = 2 * case_.beam_size + 1;
    const float nan = std::nanf("");
    past_ = std::vector<float>((size_t{n} * kPages + n) * kPageRows, nan);
    for (uint32_t g = 0; g < case_.n_groups; ++g) {
      for (uint32_t i = 0; i < case_.n_prompt; ++i) {
        past_[(size_t{g} * group_sequences() * kPages + i / kPageRows) * kPageRows +
              i % kPageRows] = prompt_number(i);
      }
    }
    keys_ = store(past_);
    values_ = store(past_);
    states_ = store(states);
    page_table_ = store(table);
    rows_ = store(std::vector<Row>(n, Row{-7, -7, -7, -7}));
    tokens_ = store(std::vector<int32_t>(2 * size_t{n} * kMaxTokens, -7));
    logits_ = store(std::vector<float>(size_t{n} * kVocab, nan));
    finished_ =
        store(std::vector<uint32_t>(case_.n_groups * most_finished * kFinishedStride, 9999));
    stop_ = store(std::vector<uint32_t>{0});
    const Operand partials =
        store(std::vector<float>(size_t{n} * n_chunks * sizeof(TokenPartial) / sizeof(float), nan));
    const Operand candidates =
        store(std::vector<float>(size_t{n} * n_chunks * (case_.beam_size + 1) * 2, nan));
    SamplingParams params{};
    params.n_sequences = n;
    params.n_vocab = params.row_stride = kVocab;
    params.chunk = case_.chunk;
    params.n_chunks = n_chunks;
    params.end_of_text = kEndOfText;
    params.timestamp_begin = kTimestampBegin;
    params.no_timestamps = kNoTimestamps;
    params.blank = kBlank;
    params.max_tokens = kMaxTokens;
    params.n_candidates = case_.beam_size + 1;
    BeamParams beams{};
    beams.n_groups = case_.n_groups;
    beams.group_sequences = group_sequences();
    beams.beam_size = case_.beam_size;
    beams.most_finished = static_cast<uint32_t>(most_finished);
    beams.n_chunks = n_chunks;
    beams.chunk = case_.chunk;
    beams.n_candidates = params.n_candidates;
    beams.timestamp_begin = kTimestampBegin;
    beams.max_tokens = kMaxTokens;
    beams.page_rows = kPageRows;
    beams.pages_per_sequence = kPages;
    beams.logprobs_offset = n * kMaxTokens;
    DispatchTable table_of_step;
    std::vector<uint32_t> stop_mask(mask.size(), 0);
    stop_mask[kEndOfText / 32] = 1u << kEndOfText % 32;
    const Operand stop_ids = store(stop_mask);
    emit::sample_partials(table_of_step, "partials", params, partials, logits_, states_,
                          store(mask), candidates);
    emit::select_beams(table_of_step, "beams", beams, states_, rows_, tokens_, finished_, partials,
                       candidates, page_table_, stop_ids);
    emit::sample_token(table_of_step, "token", params, states_, rows_, tokens_, {}, stop_, partials,
                       stop_ids);
    emit::copy_pages(table_of_step, "copy", {n, 1, 1, kPageRows, kDTypeF32}, keys_, values_,
                     states_);
    program_ = device_.record(table_of_step);
  }

  static float prompt_number(uint32_t i) { return -1.0f - static_cast<float>(i); }

  std::vector<float> random_logits() {
    std::uniform_real_distribution<float> uniform(-4.0f, 4.0f);
    std::uniform_real_distribution<double> chance(0, 1);
    std::vector<float> logits(size_t{n_sequences()} * kVocab);
    for (float& logit : logits) logit = uniform(engine_);
    for (uint32_t s = 0; s < n_sequences(); ++s) {
      float* row = &logits[size_t{s} * kVocab];
      if (engine_() % 3 == 0) std::fill_n(row + kTimestampBegin, kVocab - kTimestampBegin, -9.0f);
      if (chance(engine_) < case_.p_end) row[kEndOfText] = 7;
      // Ties within a row, and equal rows.
      if (engine_() % 3 == 0) row[engine_() % 200] = row[engine_() % 200] = 5;
      if (engine_() % 4 == 0 && s % group_sequences() > 0) std::copy_n(row - kVocab, kVocab, row);
    }
    return logits;
  }

  // The log-probability of each token after the reference's rules.
  std::vector<double> log_probabilities(const std::vector<uint32_t>& tokens,
                                        const float* logits) const {
    std::vector<double> left(logits, logits + kVocab);
    const auto forbid = [&](uint32_t first, uint32_t end) {
      for (uint32_t id = first; id < std::min(end, kVocab); ++id) left[id] = -INFINITY;
    };
    for (const uint32_t id : suppressed_) forbid(id, id + 1);
    forbid(kNoTimestamps, kNoTimestamps + 1);
    const size_t n = tokens.size();
    const auto is_timestamp = [&](size_t i) { return tokens[i] >= kTimestampBegin; };
    if (n == 0) {
      forbid(0, kTimestampBegin);
      forbid(kTimestampBegin + 21, kVocab);
    }
    const bool last = n >= 1 && is_timestamp(n - 1);
    const bool penultimate = n < 2 || is_timestamp(n - 2);
    if (last && penultimate) forbid(kTimestampBegin, kVocab);
    if (last && !penultimate) forbid(0, kEndOfText);
    for (size_t i = 0; i < n; ++i) {
      if (is_timestamp(i)) {
        forbid(kTimestampBegin, last && !penultimate ? tokens[i] : tokens[i] + 1);
      }
    }
    const auto log_sum = [&](uint32_t first, uint32_t end) {
      double sum = 0;
      for (uint32_t id = first; id < end; ++id) sum += std::exp(left[id]);
      return std::log(sum);
    };
    if (log_sum(kTimestampBegin, kVocab) >
        *std::max_element(left.begin(), left.begin() + kTimestampBegin)) {
      forbid(0, kTimestampBegin);
    }
    const double all = log_sum(0, kVocab);
    for (double& value : left) value -= all;
    return left;
  }

  // One step of every group. False if it depends on rounding.
  bool advance(std::vector<Group>& groups, const std::vector<float>& logits) const {
    for (uint32_t g = 0; g < groups.size(); ++g) {
      Group& group = groups[g];
      if (group.has_ended) continue;
      std::vector<Extended> extended;
      for (uint32_t b = 0; b < group.live.size(); ++b) {
        const float* row = &logits[(size_t{g} * group_sequences() + b) * kVocab];
        const std::vector<double> logprobs = log_probabilities(group.live[b].tokens, row);
        std::vector<uint32_t> ids(kVocab);
        for (uint32_t id = 0; id < kVocab; ++id) ids[id] = id;
        std::stable_sort(ids.begin(), ids.end(),
                         [&](uint32_t x, uint32_t y) { return logprobs[x] > logprobs[y]; });
        for (uint32_t k = 0; k <= case_.beam_size && logprobs[ids[k]] > -INFINITY; ++k) {
          const double logprob = logprobs[ids[k]];
          extended.push_back({b, ids[k], logprob, group.live[b].sum + logprob});
        }
      }
      std::stable_sort(extended.begin(), extended.end(),
                       [](const Extended& x, const Extended& y) { return x.score > y.score; });
      // More are not needed: each beam ends at most once.
      const size_t n_looked_at = std::min<size_t>(extended.size(), 2 * case_.beam_size + 1);
      for (size_t i = 1; i < n_looked_at; ++i) {
        const double gap = extended[i - 1].score - extended[i].score;
        if (gap > 0 && gap < 2e-4) return false;
      }
      std::vector<Beam> next;
      for (const Extended& one : extended) {
        if (next.size() == case_.beam_size) break;
        Beam beam = group.live[one.beam];
        beam.sum = one.score;
        beam.parent = one.beam;
        if (one.token == kEndOfText) {
          if (group.ended.size() < case_.max_finished) group.ended.push_back(std::move(beam));
        } else {
          beam.tokens.push_back(one.token);
          beam.logprobs.push_back(one.logprob);
          next.push_back(std::move(beam));
        }
      }
      group.has_ended = group.ended.size() == case_.max_finished || next.empty() ||
                        group.live[0].tokens.size() + 1 == case_.max_sampled;
      group.live = std::move(next);
    }
    return true;
  }

  void compare() {
    const auto states = fetch<SequenceState>(states_);
    const auto rows = fetch<Row>(rows_);
    const auto tokens = fetch<int32_t>(tokens_), table = fetch<int32_t>(page_table_);
    const auto finished = fetch<uint32_t>(finished_);
    n_ended_ = 0;
    for (uint32_t g = 0; g < case_.n_groups; ++g) {
      const Group& group = groups_[g];
      for (uint32_t b = 0; b < case_.beam_size; ++b) {
        SCOPED_TRACE("group " + std::to_string(g) + ", beam " + std::to_string(b));
        const uint32_t s = g * group_sequences() + b;
        const bool has_text = b < group.live.size();
        ASSERT_EQ(states[s].finished, !has_text || group.has_ended);
        ASSERT_EQ(states[s].n_finished, group.ended.size());
        ASSERT_EQ(states[s].sum_logprob > -INFINITY, has_text);
        if (states[s].finished) {
          ASSERT_EQ(rows[s].sequence, -1);
        }
        if (!has_text) continue;
        const std::vector<uint32_t>& wanted = group.live[b].tokens;
        ASSERT_EQ(states[s].n_sampled, wanted.size());
        ASSERT_NEAR(states[s].sum_logprob, group.live[b].sum, 2e-4);
        ASSERT_EQ(text_at(tokens, s, wanted.size()), wanted);
        compare_logprobs(text_at(tokens, n_sequences() + s, wanted.size()), group.live[b]);
        if (states[s].finished) continue;
        ASSERT_EQ(rows[s].token, static_cast<int>(wanted.back()));
        ASSERT_EQ(rows[s].sequence, static_cast<int>(s));
        ASSERT_EQ(rows[s].position, static_cast<int>(case_.n_prompt + wanted.size()) - 1);
        ASSERT_EQ(states[s].position, rows[s].position + 1);
      }
      for (size_t f = 0; f < group.ended.size(); ++f) {
        const size_t at = g * (2 * case_.beam_size + 1) + f;
        const uint32_t* text = &finished[at * kFinishedStride];
        ASSERT_EQ(text[1], group.ended[f].tokens.size());
        ASSERT_NEAR(std::bit_cast<float>(text[0]), group.ended[f].sum, 2e-4);
        const uint32_t* ids = text + kFinishedHeader;
        ASSERT_EQ(std::vector<uint32_t>(ids, ids + text[1]), group.ended[f].tokens);
        compare_logprobs({ids + kMaxTokens, ids + kMaxTokens + text[1]}, group.ended[f]);
      }
      n_ended_ += static_cast<uint32_t>(group.ended.size());
    }
    ASSERT_EQ(fetch<uint32_t>(stop_)[0], all_ended() ? 1u : 0u);
    compare_past(table);
  }

  static void compare_logprobs(const std::vector<uint32_t>& found, const Beam& beam) {
    ASSERT_EQ(found.size(), beam.logprobs.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(std::bit_cast<float>(found[i]), beam.logprobs[i], 1e-5) << "token " << i;
    }
  }

  static std::vector<uint32_t> text_at(const std::vector<int32_t>& tokens, size_t row, size_t n) {
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(row * kMaxTokens);
    return {first, first + static_cast<std::ptrdiff_t>(n)};
  }

  // Each live beam reads the prompt and its own tokens except the last.
  void compare_past(const std::vector<int32_t>& table) {
    for (const Operand& numbers : {keys_, values_}) {
      past_ = fetch<float>(numbers);
      for (uint32_t g = 0; g < case_.n_groups; ++g) {
        if (groups_[g].has_ended) continue;
        std::vector<int32_t> written;
        for (uint32_t b = 0; b < groups_[g].live.size(); ++b) {
          SCOPED_TRACE("past of group " + std::to_string(g) + ", beam " + std::to_string(b));
          const uint32_t s = g * group_sequences() + b;
          const std::vector<uint32_t>& tokens = groups_[g].live[b].tokens;
          const uint32_t next = case_.n_prompt + static_cast<uint32_t>(tokens.size()) - 1;
          for (uint32_t i = 0; i < next; ++i) {
            ASSERT_EQ(past_[place(table, s, i)],
                      i < case_.n_prompt ? prompt_number(i)
                                         : static_cast<float>(tokens[i - case_.n_prompt]))
                << "position " << i;
          }
          // No other beam has the page of the next token.
          const int32_t page = table[s * kPages + next / kPageRows];
          ASSERT_EQ(std::count(written.begin(), written.end(), page), 0);
          written.push_back(page);
          n_parted_ += b > 0 && groups_[g].live[b].parent == groups_[g].live[b - 1].parent;
        }
      }
    }
    table_ = table;
  }

  static size_t place(const std::vector<int32_t>& table, uint32_t s, uint32_t position) {
    const int32_t page = table[s * kPages + position / kPageRows];
    return static_cast<size_t>(page) * kPageRows + position % kPageRows;
  }

  // Writes the last token of each beam, as the next pass would.
  void write_past() {
    for (const Row& row : fetch<Row>(rows_)) {
      if (row.sequence < 0) continue;
      past_[place(table_, static_cast<uint32_t>(row.sequence),
                  static_cast<uint32_t>(row.position))] = static_cast<float>(row.token);
    }
    device_.write(keys_, past_.data());
    device_.write(values_, past_.data());
  }

  BeamCase case_;
  std::vector<uint32_t> suppressed_;
  std::vector<Group> groups_;
  std::vector<float> past_;
  std::vector<int32_t> table_;
  Operand keys_, values_, states_, page_table_, rows_, tokens_, logits_, finished_, stop_;
  ProgramId program_ = 0;
  uint32_t n_ended_ = 0, n_parted_ = 0;
};

}  // namespace vesper::test
