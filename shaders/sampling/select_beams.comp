// select_beams: the next beams of a group. One workgroup per group; each of its n subgroups takes
// every n-th beam.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "sampling/merged_tokens.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push {
  Address states, rows, tokens, finished, partials, candidates, page_table, stop_ids;
  BeamParams p;
};

// Hypotheses that may end in a step.
const uint kMostEnded = kMostBeams * kMostCandidates;

// The likeliest continuations of each beam in descending order; -inf: end.
shared float scores[kMostBeams * kMostCandidates], logprobs[kMostBeams * kMostCandidates];
shared uint ids[kMostBeams * kMostCandidates];

// Written by the first thread.
shared uint n_live, n_finished, n_finished_before;
shared uint parents[kMostBeams], live_tokens[kMostBeams];
shared float live_scores[kMostBeams], live_logprobs[kMostBeams];
shared uint ended_parents[kMostEnded];
shared bool has_ended;
shared int current_pages[kMostBeams], next_pages[kMostBeams], spare_pages[kMostBeams];
shared int copy_sources[kMostBeams];
shared uint copy_rows[kMostBeams];

void find_continuations(uint first, uint beam) {
  uint n_candidates = p.n_candidates;
  uint n_text = n_text_chunks(p.timestamp_begin, p.chunk);
  float sum_logprob = StateBuffer(states).v[first + beam].sum_logprob;
  bool is_dead = StateBuffer(states).v[first + beam].finished != 0;
  uint chunk = (first + beam) * p.n_chunks;
  MergedTokens merged = merged_tokens(partials, chunk, p.n_chunks, n_text);
  float last = uintBitsToFloat(0x7f800000u);  // the previous candidate
  uint last_token = 0;
  for (uint k = 0; k < n_candidates; ++k) {
    float best = kMinusInfinity;
    uint token = 0xffffffffu;
    for (uint list = gl_SubgroupInvocationID; list < p.n_chunks && !is_dead;
         list += gl_SubgroupSize) {
      if (merged.only_timestamps && list < n_text) continue;
      for (uint i = 0; i < n_candidates; ++i) {
        TokenCandidate candidate =
            CandidateBuffer(candidates).v[(chunk + list) * n_candidates + i];
        if (candidate.logit == kMinusInfinity) break;
        bool is_next = k == 0 || candidate.logit < last ||
                       (candidate.logit == last && candidate.token > last_token);
        if (!is_next) continue;
        if (candidate.logit > best || (candidate.logit == best && candidate.token < token)) {
          best = candidate.logit;
          token = candidate.token;
        }
        break;
      }
    }
    last = subgroupMax(best);
    last_token = subgroupMin(best == last ? token : 0xffffffffu);
    if (subgroupElect()) {
      uint at = beam * kMostCandidates + k;
      logprobs[at] = last - merged.log_sum;
      scores[at] = last != kMinusInfinity ? sum_logprob + logprobs[at] : kMinusInfinity;
      ids[at] = last_token;
    }
  }
}

// Offset of the f-th finished hypothesis of the group.
uint finished_at(uint f) {
  return (gl_WorkGroupID.x * p.most_finished + f) * finished_stride(p);
}

// Sampled tokens of a beam that are stored in `tokens`.
uint n_stored(SequenceState state) {
  return min(state.n_sampled, p.max_tokens - state.first_sampled);
}

// Selects the next beams and the finished hypotheses.
void select(SequenceState state) {
  uint next[kMostBeams];
  for (uint b = 0; b < p.beam_size; ++b) next[b] = 0;
  n_finished_before = n_finished = state.n_finished;
  n_live = 0;
  while (n_live < p.beam_size) {
    float best = kMinusInfinity;
    uint parent = kMostBeams;
    for (uint b = 0; b < p.beam_size; ++b) {
      if (next[b] >= p.n_candidates) continue;
      float score = scores[b * kMostCandidates + next[b]];
      if (score > best) {
        best = score;
        parent = b;
      }
    }
    if (parent == kMostBeams) break;
    uint at = parent * kMostCandidates + next[parent];
    uint token = ids[at];
    ++next[parent];
    if (!is_in_mask(stop_ids, token)) {
      parents[n_live] = parent;
      live_tokens[n_live] = token;
      live_scores[n_live] = best;
      live_logprobs[n_live] = logprobs[at];
      ++n_live;
    } else if (n_finished < state.max_finished) {
      uint text = finished_at(n_finished);
      U32Buffer(finished).v[text] = floatBitsToUint(best);
      U32Buffer(finished).v[text + 1] = n_stored(state);
      ended_parents[n_finished - n_finished_before] = parent;
      ++n_finished;
    }
  }
  has_ended =
      n_finished >= state.max_finished || n_live == 0 || state.n_sampled + 1 >= state.max_sampled;
}

// The group has 2 * beam_size pages for the current positions: one in each beam's page table, and
// one spare page per beam. Spare pages are never a source of copy_pages.
void move_pages(uint first, uint page, uint n_rows) {
  int left[2 * kMostBeams];
  uint n_left = 0;
  uint taken = 0;
  for (uint b = 0; b < p.beam_size; ++b) {
    current_pages[b] = I32Buffer(page_table).v[(first + b) * p.pages_per_sequence + page];
    left[n_left++] = spare_pages[b];
  }
  for (uint b = 0; b < n_live; ++b) {
    uint parent = parents[b];
    if ((taken >> parent & 1u) != 0) {
      next_pages[b] = left[--n_left];
      copy_sources[b] = current_pages[parent];
      copy_rows[b] = n_rows;
    } else {
      next_pages[b] = current_pages[parent];
      taken |= 1u << parent;
    }
  }
  for (uint b = 0; b < p.beam_size; ++b) {
    if ((taken >> b & 1u) == 0) left[n_left++] = current_pages[b];
  }
  for (uint b = n_live; b < p.beam_size; ++b) next_pages[b] = left[--n_left];
  for (uint b = 0; b < p.beam_size; ++b) spare_pages[b] = left[--n_left];
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  uint first = gl_WorkGroupID.x * p.group_sequences;
  SequenceState group = StateBuffer(states).v[first];
  bool is_live = false;
  for (uint b = 0; b < p.beam_size; ++b) {
    is_live = is_live || StateBuffer(states).v[first + b].finished == 0;
  }
  if (group.is_beam == 0 || !is_live) return;

  for (uint b = gl_SubgroupID; b < p.beam_size; b += gl_NumSubgroups) find_continuations(first, b);
  barrier();
  uint page = uint(group.position) / p.page_rows, n_rows = uint(group.position) % p.page_rows;
  if (thread < p.beam_size) {
    spare_pages[thread] = StateBuffer(states).v[first + thread].spare_page;
    copy_rows[thread] = 0;
    copy_sources[thread] = 0;
    next_pages[thread] = 0;
  }
  barrier();
  if (thread == 0) {
    select(group);
    if (!has_ended && n_rows != 0) move_pages(first, page, n_rows);
  }
  barrier();

  // Each thread owns columns of the tables below.
  uint n = n_stored(group);
  int before[kMostBeams];
  uint n_planes = p.logprobs_offset > 0 ? 2 : 1;  // tokens, and their log-probabilities
  for (uint plane = 0; plane < n_planes; ++plane) {
    uint sampled = plane * p.logprobs_offset + first * p.max_tokens + group.first_sampled;
    for (uint i = thread; i < n; i += gl_WorkGroupSize.x) {
      for (uint b = 0; b < p.beam_size; ++b) {
        before[b] = I32Buffer(tokens).v[sampled + b * p.max_tokens + i];
      }
      for (uint f = n_finished_before; f < n_finished; ++f) {
        U32Buffer(finished).v[finished_at(f) + kFinishedHeader + plane * p.max_tokens + i] =
            uint(before[ended_parents[f - n_finished_before]]);
      }
      for (uint b = 0; b < n_live; ++b) {
        I32Buffer(tokens).v[sampled + b * p.max_tokens + i] = before[parents[b]];
      }
    }
  }
  if (!has_ended) {
    for (uint i = thread; i < page; i += gl_WorkGroupSize.x) {
      for (uint b = 0; b < p.beam_size; ++b) {
        before[b] = I32Buffer(page_table).v[(first + b) * p.pages_per_sequence + i];
      }
      for (uint b = 0; b < n_live; ++b) {
        I32Buffer(page_table).v[(first + b) * p.pages_per_sequence + i] = before[parents[b]];
      }
    }
  }

  bool has_text = thread < n_live;
  SequenceState state;
  if (thread < p.beam_size) {
    state = StateBuffer(states).v[first + (has_text ? parents[thread] : thread)];
  }
  barrier();  // every state has been read
  if (thread >= p.beam_size) return;
  uint s = first + thread;
  if (has_text) {
    uint token = live_tokens[thread];
    uint index = group.first_sampled + n;
    if (index < p.max_tokens) {
      I32Buffer(tokens).v[s * p.max_tokens + index] = int(token);
      if (p.logprobs_offset > 0) {
        I32Buffer(tokens).v[p.logprobs_offset + s * p.max_tokens + index] =
            floatBitsToInt(live_logprobs[thread]);
      }
    }
    advance_state(state, token, p.timestamp_begin);
    state.sum_logprob = live_scores[thread];
  } else {
    state.sum_logprob = kMinusInfinity;
  }
  state.n_finished = n_finished;
  state.finished = has_ended || !has_text ? 1 : 0;
  state.spare_page = spare_pages[thread];
  state.copy_from = copy_sources[thread];
  state.copy_to = next_pages[thread];
  state.copy_rows = copy_rows[thread];
  Row row = Row(0, -1, 0, 0);
  if (state.finished == 0) {
    row = Row(int(live_tokens[thread]), int(s), state.position, 0);
    state.position += 1;
  }
  StateBuffer(states).v[s] = state;
  RowBuffer(rows).v[s] = row;
  if (!has_ended && n_rows != 0) {
    I32Buffer(page_table).v[s * p.pages_per_sequence + page] = next_pages[thread];
  }
}
