// sample_token: the next token of every sequence that is not a beam. Each of the n subgroups of all
// workgroups takes every n-th sequence.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "sampling/merged_tokens.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool kLogprobs = false;  // has the operand `logprobs`
layout(constant_id = 2) const bool kDrafts = false;    // has the operand `drafts`

layout(push_constant) uniform Push {
  Address states, rows, tokens, logprobs, stop, partials, stop_ids, drafts;
  SamplingParams p;
  // With several workgroups: [1], zero between dispatches. How many have sampled, and in the upper
  // half, how many of these have an unfinished sequence.
  Counters counters;
};

shared uint unfinished;

// Samples the next token of sequence s from a row of partials. All lanes have the same state.
uint sample_row(uint row, uint s, inout SequenceState state) {
  MergedTokens merged = merged_tokens(partials, row * p.n_chunks, p.n_chunks,
                                      n_text_chunks(p.timestamp_begin, p.chunk));
  bool takes_timestamp = merged.timestamp.key != kMinusInfinity &&
                         (merged.only_timestamps || merged.timestamp.key > merged.text.key);
  uint token = takes_timestamp ? merged.timestamp.token : merged.text.token;
  float logit = takes_timestamp ? merged.timestamp.logit : merged.text.logit;
  float logprob = logit - merged.log_sum;
  if (logit == kMinusInfinity) {
    token = min(p.end_of_text, p.n_vocab - 1);
    logprob = 0.0;
  }
  uint index = state.first_sampled + state.n_sampled;
  if (index < p.max_tokens && subgroupElect()) {
    I32Buffer(tokens).v[s * p.max_tokens + index] = int(token);
    if (kLogprobs) F32Buffer(logprobs).v[s * p.max_tokens + index] = logprob;
  }
  state.sum_logprob += logprob;
  advance_state(state, token, p.timestamp_begin);
  state.copy_rows = 0;
  state.position += 1;
  if (is_in_mask(stop_ids, token) || state.n_sampled >= state.max_sampled) state.finished = 1;
  return token;
}

// The sequence of a row of partials; -1: unused.
int sequence_of(uint row) { return kDrafts ? RowBuffer(drafts).v[row].sequence : int(row); }

void main() {
  if (gl_LocalInvocationID.x == 0) unfinished = 0;
  barrier();
  uint subgroup = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
  uint n_subgroups = gl_NumWorkGroups.x * gl_NumSubgroups;
  for (uint first = kDrafts ? 0 : subgroup; first < p.n_sequences;
       first += kDrafts ? 1 : n_subgroups) {
    int sequence = sequence_of(first);
    uint s = uint(sequence);
    if (sequence < 0 || s % n_subgroups != subgroup) continue;
    if (first > 0 && sequence_of(first - 1) == sequence) continue;
    SequenceState state = StateBuffer(states).v[s];
    if (state.is_beam != 0) {
      // The first beam of an unfinished group is unfinished.
      if (state.finished == 0 && subgroupElect()) atomicOr(unfinished, 1u);
      continue;
    }
    if (state.finished != 0) continue;
    uint token = sample_row(first, s, state);
    for (uint row = first + 1; kDrafts && row < p.n_sequences; ++row) {
      if (state.finished != 0 || sequence_of(row) != sequence ||
          RowBuffer(drafts).v[row].token != int(token)) {
        break;
      }
      token = sample_row(row, s, state);
    }
    if (!subgroupElect()) continue;
    Row next = Row(int(token), sequence, state.position - 1, 0);
    if (state.finished != 0) next = Row(0, -1, 0, 0);
    StateBuffer(states).v[s] = state;
    RowBuffer(rows).v[s] = next;
    if (state.finished == 0) atomicOr(unfinished, 1u);
  }
  if (kDrafts) return;
  barrier();
  if (gl_LocalInvocationID.x != 0) return;
  bool any_unfinished = unfinished != 0;
  if (gl_NumWorkGroups.x > 1) {
    uint before = atomicAdd(counters.v[0], 1u + (unfinished << 16));
    if ((before & 0xffffu) + 1 != gl_NumWorkGroups.x) return;
    any_unfinished = any_unfinished || before >> 16 != 0;
    counters.v[0] = 0;
  }
  if (!any_unfinished) U32Buffer(stop).v[0] = 1;
}
