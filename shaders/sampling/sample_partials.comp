// sample_partials: maximum, sum of exponentials and best token of a chunk of the vocabulary.
// Grid: (chunks, sequences).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "buffers.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool kRules = false;       // has the operand `suppressed`
layout(constant_id = 2) const bool kCandidates = false;  // has the operand `candidates`
layout(constant_id = 3) const bool kFilters = false;  // the states have intervals of allowed logits
layout(constant_id = 4) const bool kMasks = false;    // has the operand `allowed`
layout(constant_id = 5) const uint kPerThread = 1;    // ids of a chunk

layout(push_constant) uniform Push {
  Address partials, logits, states, suppressed, candidates, allowed;
  SamplingParams p;
};
#include "sampling/token_rules.glsl"

shared uint best_ids[128];  // used with reduce_slots

SequenceState state;
uint start;          // of the sequence's logits
uint first_id, end;  // of the chunk
// Masked logits of the thread's ids; -inf outside the chunk.
float values[kPerThread];

// The i-th id of this thread. Ids count from a multiple of the chunk size, so the order of addition
// does not depend on timestamp_begin.
uint id_of(uint i) {
  return first_id / p.chunk * p.chunk + i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
}

// The greatest value of the workgroup and the lowest id that has it.
void best_of_workgroup(inout float value, inout uint id) {
  float greatest = subgroupMax(value);
  uint lowest_id = subgroupMin(value == greatest ? id : 0xffffffffu);
  if (subgroupElect()) {
    reduce_slots[gl_SubgroupID] = greatest;
    best_ids[gl_SubgroupID] = lowest_id;
  }
  barrier();
  value = reduce_slots[0];
  id = best_ids[0];
  for (uint i = 1; i < gl_NumSubgroups; ++i) {
    float other = reduce_slots[i];
    uint other_id = best_ids[i];
    if (other > value || (other == value && other_id < id)) {
      value = other;
      id = other_id;
    }
  }
  barrier();
}

// The token of the chunk with the highest key.
void sample_chunk(out float key, out float logit, out uint token) {
  uint base = noise_base(state.seed, state.n_sampled);
  key = kMinusInfinity;
  token = 0xffffffffu;
  [[unroll]] for (uint i = 0; i < kPerThread; ++i) {
    uint id = id_of(i);
    if (kFilters && !(values[i] >= state.lowest && values[i] <= state.highest)) continue;
    float uniform_number = (float(mix_bits(base + id * kNoiseStride) >> 9) + 0.5) / 8388608.0;
    float id_key = values[i] / state.temperature - log(-log(uniform_number));
    if (id_key > key) {
      key = id_key;
      token = id;
    }
  }
  best_of_workgroup(key, token);
  logit = token < end ? masked_logit(token, gl_WorkGroupID.y, start, state) : kMinusInfinity;
}

// Writes the list of the chunk's candidates; the first one is given.
void list_candidates(float logit, uint token) {
  uint list = (gl_WorkGroupID.y * p.n_chunks + gl_WorkGroupID.x) * p.n_candidates;
  for (uint k = 0; k < p.n_candidates; ++k) {
    if (gl_LocalInvocationID.x == 0) {
      CandidateBuffer(candidates).v[list + k] = TokenCandidate(logit, token);
    }
    if (logit == kMinusInfinity) return;
    float next = kMinusInfinity;
    uint next_token = 0xffffffffu;
    [[unroll]] for (uint i = 0; i < kPerThread; ++i) {
      uint id = id_of(i);
      if ((values[i] < logit || (values[i] == logit && id > token)) && values[i] > next) {
        next = values[i];
        next_token = id;
      }
    }
    best_of_workgroup(next, next_token);
    logit = next;
    token = next_token;
  }
}

void main() {
  uint chunk = gl_WorkGroupID.x, sequence = gl_WorkGroupID.y;
  state = StateBuffer(states).v[sequence];
  if (state.finished != 0) return;
  start = sequence * p.row_stride;
  uint n_text = n_text_chunks(p.timestamp_begin, p.chunk);
  if (chunk < n_text) {
    first_id = chunk * p.chunk;
    end = min(first_id + p.chunk, p.timestamp_begin);
  } else {
    uint base = (chunk - n_text + p.timestamp_begin / p.chunk) * p.chunk;
    first_id = max(base, p.timestamp_begin);
    end = min(base + p.chunk, p.n_vocab);
  }
  float greatest = kMinusInfinity;
  uint token = 0xffffffffu;
  [[unroll]] for (uint i = 0; i < kPerThread; ++i) {
    uint id = id_of(i);
    values[i] = kMinusInfinity;
    if (id >= first_id && id < end) values[i] = masked_logit(id, gl_WorkGroupID.y, start, state);
    if (values[i] > greatest) {
      greatest = values[i];
      token = id;
    }
  }
  best_of_workgroup(greatest, token);
  float sum = 0.0;
  [[unroll]] for (uint i = 0; i < kPerThread; ++i) {
    if (values[i] > kMinusInfinity) sum += exp(values[i] - greatest);
  }
  sum = workgroup_sum(sum);
  float key = greatest, logit = greatest;
  if (kCandidates && state.is_beam != 0) list_candidates(greatest, token);
  if (state.temperature > 0.0) sample_chunk(key, logit, token);
  if (gl_LocalInvocationID.x == 0) {
    PartialBuffer(partials).v[sequence * p.n_chunks + chunk] =
        TokenPartial(greatest, sum, key, logit, token);
  }
}
