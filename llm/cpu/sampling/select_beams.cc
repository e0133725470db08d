// select_beams: the next beams of a group, from the continuations of its beams. One group per task.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "llm/cpu/prepared_command.h"
#include "llm/cpu/sampling/merged_tokens.h"

namespace vesper {
namespace {

// A beam and its next token.
struct Continuation {
  uint32_t beam;
  uint32_t token;
  float logprob;  // of the token
  float score;    // sum of log-probabilities
};

// The likeliest continuations of one beam in descending order.
struct BeamContinuations {
  std::array<Continuation, kMostCandidates> best;
  uint32_t n = 0;
};

// The beams of one group and their memory.
class Group {
 public:
  Group(const PreparedCommand& command, uint32_t group)
      : params_(command.params_as<BeamParams>()),
        first_(group * params_.group_sequences),
        states_(command.operand<SequenceState>(0) + first_),
        rows_(command.operand<Row>(1) + first_),
        tokens_(command.operand<int32_t>(2) + size_t{first_} * params_.max_tokens),
        finished_(command.operand<uint32_t>(3) +
                  size_t{group} * params_.most_finished * finished_stride(params_)),
        partials_(command.operand<const TokenPartial>(4) + size_t{first_} * params_.n_chunks),
        candidates_(command.operand<const TokenCandidate>(5) +
                    size_t{first_} * params_.n_chunks * params_.n_candidates),
        pages_(command.operand<int32_t>(6) + size_t{first_} * params_.pages_per_sequence),
        stop_ids_(command.operand<const uint32_t>(7)) {}

  void step() {
    const bool is_live = std::any_of(states_, states_ + params_.beam_size,
                                     [](const SequenceState& state) { return !state.finished; });
    if (!states_[0].is_beam || !is_live) return;
    select();
    move_tokens();
    const bool has_ended = n_finished_ >= states_[0].max_finished || n_live_ == 0 ||
                           states_[0].n_sampled + 1 >= states_[0].max_sampled;
    std::array<SequenceState, kMostBeams> before;
    std::copy_n(states_, params_.beam_size, before.begin());
    for (uint32_t b = 0; b < params_.beam_size; ++b) moves_[b] = {0, 0, 0, before[b].spare_page};
    if (!has_ended) move_pages();
    for (uint32_t b = 0; b < params_.beam_size; ++b) advance(before, b, has_ended);
  }

 private:
  // Tokens of the first beam and, if they are kept, their log-probabilities.
  uint32_t n_planes() const { return params_.logprobs_offset > 0 ? 2 : 1; }
  int32_t* plane(uint32_t i) { return tokens_ + size_t{i} * params_.logprobs_offset; }
  int32_t* pages_of(uint32_t beam) { return pages_ + size_t{beam} * params_.pages_per_sequence; }

  BeamContinuations continuations(uint32_t beam) const {
    BeamContinuations found;
    if (states_[beam].finished) return found;
    std::array<TokenCandidate, kMostCandidates> storage;
    const std::span<TokenCandidate> best(storage.data(), params_.n_candidates);
    std::fill(best.begin(), best.end(), kNoCandidate);
    const uint32_t n_text = n_text_chunks(params_.timestamp_begin, params_.chunk);
    const size_t first_chunk = size_t{beam} * params_.n_chunks;
    const MergedTokens merged(partials_ + first_chunk, params_.n_chunks, n_text);
    // In ascending ids, so that the lowest of equal ones stays first.
    for (uint32_t chunk = merged.only_timestamps ? n_text : 0; chunk < params_.n_chunks; ++chunk) {
      const TokenCandidate* list = candidates_ + (first_chunk + chunk) * params_.n_candidates;
      for (uint32_t i = 0; i < best.size() && list[i].logit > best.back().logit; ++i) {
        insert_candidate(best, list[i]);
      }
    }
    for (const TokenCandidate& candidate : best) {
      if (!(candidate.logit > -INFINITY)) break;
      const auto logprob = static_cast<float>(candidate.logit - merged.log_sum);
      found.best[found.n++] = {beam, candidate.token, logprob, states_[beam].sum_logprob + logprob};
    }
    return found;
  }

  // Selects the next beams and the finished hypotheses.
  void select() {
    std::array<BeamContinuations, kMostBeams> all;
    std::array<uint32_t, kMostBeams> next{};
    for (uint32_t b = 0; b < params_.beam_size; ++b) all[b] = continuations(b);
    n_finished_ = states_[0].n_finished;
    n_live_ = 0;
    while (n_live_ < params_.beam_size) {
      const Continuation* best = nullptr;
      for (uint32_t b = 0; b < params_.beam_size; ++b) {
        if (next[b] == all[b].n) continue;
        const Continuation& head = all[b].best[next[b]];
        if (!best || head.score > best->score) best = &head;
      }
      if (!best) return;
      ++next[best->beam];
      if (is_in_mask(stop_ids_, best->token)) {
        finish(*best);
      } else {
        live_[n_live_++] = *best;
      }
    }
  }

  // Sampled tokens of a beam that are stored in `tokens`.
  uint32_t n_stored(const SequenceState& state) const {
    return std::min(state.n_sampled, params_.max_tokens - state.first_sampled);
  }

  void finish(const Continuation& ended) {
    const SequenceState& state = states_[ended.beam];
    if (n_finished_ >= state.max_finished) return;
    const uint32_t n = n_stored(state);
    uint32_t* const text = finished_ + size_t{n_finished_} * finished_stride(params_);
    text[0] = std::bit_cast<uint32_t>(ended.score);
    text[1] = n;
    for (uint32_t i = 0; i < n_planes(); ++i) {
      std::copy_n(plane(i) + size_t{ended.beam} * params_.max_tokens + state.first_sampled, n,
                  text + kFinishedHeader + size_t{i} * params_.max_tokens);
    }
    ++n_finished_;
  }

  void move_tokens() {
    const uint32_t first = states_[0].first_sampled, n = n_stored(states_[0]);
    for (uint32_t i = 0; i < n_planes(); ++i) {
      copy_from_parents(plane(i) + first, params_.max_tokens, n);
      for (uint32_t b = 0; b < n_live_ && first + n < params_.max_tokens; ++b) {
        plane(i)[size_t{b} * params_.max_tokens + first + n] =
            i == 0 ? static_cast<int32_t>(live_[b].token)
                   : std::bit_cast<int32_t>(live_[b].logprob);
      }
    }
  }

  // Each beam gets the first n elements of its parent; rows are `stride` apart.
  void copy_from_parents(int32_t* rows, uint32_t stride, uint32_t n) const {
    std::array<int32_t, kMostBeams> before;
    for (uint32_t i = 0; i < n; ++i) {
      for (uint32_t b = 0; b < params_.beam_size; ++b) before[b] = rows[size_t{b} * stride + i];
      for (uint32_t b = 0; b < n_live_; ++b) rows[size_t{b} * stride + i] = before[live_[b].beam];
    }
  }

  // The group has 2 * beam_size pages for the current positions: one in each beam's page table, and
  // one spare page per beam. Spare pages are never a source of copy_pages.
  void move_pages() {
    const auto position = static_cast<uint32_t>(states_[0].position);
    const uint32_t page = position / params_.page_rows, n_rows = position % params_.page_rows;
    copy_from_parents(pages_, params_.pages_per_sequence, page);
    if (n_rows == 0) return;  // every beam has an empty current page
    std::array<int32_t, kMostBeams> current;
    std::array<int32_t, 2 * kMostBeams> left;
    std::array<bool, kMostBeams> is_taken{};
    uint32_t n_left = 0;
    for (uint32_t b = 0; b < params_.beam_size; ++b) {
      current[b] = pages_of(b)[page];
      left[n_left++] = states_[b].spare_page;
    }
    for (uint32_t b = 0; b < n_live_; ++b) {
      const uint32_t parent = live_[b].beam;
      pages_of(b)[page] = is_taken[parent] ? left[--n_left] : current[parent];
      if (is_taken[parent]) moves_[b] = {current[parent], pages_of(b)[page], n_rows, 0};
      is_taken[parent] = true;
    }
    for (uint32_t b = 0; b < params_.beam_size; ++b) {
      if (!is_taken[b]) left[n_left++] = current[b];
    }
    for (uint32_t b = n_live_; b < params_.beam_size; ++b) pages_of(b)[page] = left[--n_left];
    for (uint32_t b = 0; b < params_.beam_size; ++b) moves_[b].spare = left[--n_left];
  }

  void advance(std::span<const SequenceState> before, uint32_t b, bool has_ended) {
    SequenceState& state = states_[b];
    if (b >= n_live_) {
      state = before[b];
      state.sum_logprob = -INFINITY;
    } else {
      const Continuation& chosen = live_[b];
      state = before[chosen.beam];
      advance_state(state, chosen.token, params_.timestamp_begin);
      state.sum_logprob = chosen.score;
    }
    state.n_finished = n_finished_;
    state.finished = has_ended || b >= n_live_;
    state.copy_from = moves_[b].from;
    state.copy_to = moves_[b].to;
    state.copy_rows = moves_[b].n_rows;
    state.spare_page = moves_[b].spare;
    if (state.finished) {
      rows_[b] = {0, -1, 0, 0};
    } else {
      rows_[b] = {static_cast<int>(live_[b].token), static_cast<int>(first_ + b), state.position,
                  0};
      ++state.position;
    }
  }

  // What copy_pages copies for a beam, and the beam's new spare page.
  struct PageMove {
    int32_t from, to;
    uint32_t n_rows;
    int32_t spare;
  };

  const BeamParams& params_;
  uint32_t first_;  // first sequence
  SequenceState* states_;
  Row* rows_;
  int32_t* tokens_;
  uint32_t* finished_;
  const TokenPartial* partials_;
  const TokenCandidate* candidates_;
  int32_t* pages_;
  const uint32_t* stop_ids_;

  std::array<Continuation, kMostBeams> live_;  // the next beams
  uint32_t n_live_ = 0, n_finished_ = 0;
  std::array<PageMove, kMostBeams> moves_;
};

void run_select_beams(const PreparedCommand& command, uint32_t task, ThreadScratch&) {
  Group(command, task).step();
}

}  // namespace

void prepare_select_beams(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<BeamParams>();
  command.require(params.n_groups > 0 && params.n_chunks > 0 && params.chunk > 0 &&
                      params.page_rows > 0 && params.most_finished > 0,
                  "a size is zero");
  command.require(params.beam_size > 0 && params.beam_size <= kMostBeams,
                  "the number of beams is beyond 1 to 16");
  command.require(params.n_candidates > 0 && params.n_candidates <= kMostCandidates,
                  "the number of candidates is beyond 1 to 32");
  command.require(params.beam_size <= params.group_sequences, "a group has fewer than its beams");
  const uint64_t n = uint64_t{params.n_groups} * params.group_sequences,
                 n_finished = uint64_t{params.n_groups} * params.most_finished;
  command.require_bytes(0, n * sizeof(SequenceState));
  command.require_bytes(1, n * sizeof(Row));
  command.require_bytes(2, (n * params.max_tokens + params.logprobs_offset) * sizeof(int32_t));
  command.require_bytes(3, n_finished * finished_stride(params) * sizeof(uint32_t));
  command.require_bytes(4, n * params.n_chunks * sizeof(TokenPartial));
  command.require_bytes(5, n * params.n_chunks * params.n_candidates * sizeof(TokenCandidate));
  command.require_bytes(6, n * params.pages_per_sequence * sizeof(int32_t));
  prepared.n_tasks = params.n_groups;
  prepared.run = run_select_beams;
}

}  // namespace vesper
