// token_partials: the token rules, and each chunk's maximum and sum. Grid: (chunks, sequences).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool kCandidates = false;  // there is that operand

layout(push_constant) uniform Push {
  Address partials, logits, states, suppressed, candidates;
  TokenParams p;
};

shared uint best_ids[128];  // beside reduce_slots

// Whether the rules permit token `id` next (openai-whisper, decoding.py: SuppressTokens,
// SuppressBlank, ApplyTimestampRules), and speech that is known to go on.
bool allowed(uint id, SequenceState state) {
  if ((U32Buffer(suppressed).v[id / 32] >> (id % 32) & 1u) != 0) return false;
  if (id == p.no_timestamps) return false;
  bool first = state.n_sampled == 0;
  if (first && (id == p.blank || id == p.end_of_text)) return false;
  bool timestamp = id >= p.timestamp_begin;
  if (state.timestamps == 0) return !timestamp;
  if (first) return timestamp && id <= state.max_initial_timestamp;
  bool last = state.last_was_timestamp != 0;
  if (last && id == p.end_of_text && state.last_timestamp < state.speech_end) return false;
  bool pair_open = last && state.penultimate_was_timestamp == 0;
  if (!timestamp) return !(pair_open && id < p.end_of_text);
  if (last && !pair_open) return false;
  if (state.last_timestamp == 0) return true;
  return id >= (pair_open ? state.last_timestamp : state.last_timestamp + 1);
}

// The greatest value of the workgroup and the lowest id that has it.
void best_of_workgroup(inout float value, inout uint id) {
  float greatest = subgroupMax(value);
  uint lowest = subgroupMin(value == greatest ? id : 0xffffffffu);
  if (subgroupElect()) {
    reduce_slots[gl_SubgroupID] = greatest;
    best_ids[gl_SubgroupID] = lowest;
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

// The token of the chunk with the greatest key, among timestamps or among the others.
void draw(uint chunk, uint start, uint end, SequenceState state, bool timestamps, out float key,
          out float logit, out uint token) {
  uint base = draw_base(state.seed, state.n_sampled);
  key = kMinusInfinity;
  token = 0xffffffffu;
  for (uint id = chunk * p.chunk + gl_LocalInvocationID.x; id < end; id += gl_WorkGroupSize.x) {
    if ((id >= p.timestamp_begin) != timestamps || !allowed(id, state)) continue;
    float uniform_number = (float(mix_bits(base + id * kDrawStride) >> 9) + 0.5) / 8388608.0;
    float id_key = F32Buffer(logits).v[start + id] / state.temperature - log(-log(uniform_number));
    if (id_key > key) {
      key = id_key;
      token = id;
    }
  }
  best_of_workgroup(key, token);
  logit = token < end ? F32Buffer(logits).v[start + token] : kMinusInfinity;
}

// Writes the list of the chunk's candidates among timestamps or among the others, of which the
// first is known.
void list_candidates(uint chunk, uint start, uint end, SequenceState state, bool timestamps,
                     float logit, uint token) {
  uint list = ((gl_WorkGroupID.y * p.n_chunks + chunk) * 2 + (timestamps ? 1 : 0)) * p.n_candidates;
  for (uint k = 0; k < p.n_candidates; ++k) {
    if (gl_LocalInvocationID.x == 0) {
      CandidateBuffer(candidates).v[list + k] = TokenCandidate(logit, token);
    }
    if (logit == kMinusInfinity) return;
    float next = kMinusInfinity;
    uint next_token = 0xffffffffu;
    for (uint id = chunk * p.chunk + gl_LocalInvocationID.x; id < end; id += gl_WorkGroupSize.x) {
      if ((id >= p.timestamp_begin) != timestamps || !allowed(id, state)) continue;
      float value = F32Buffer(logits).v[start + id];
      if (value < logit || (value == logit && id > token)) {
        if (value > next) {
          next = value;
          next_token = id;
        }
      }
    }
    best_of_workgroup(next, next_token);
    logit = next;
    token = next_token;
  }
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  uint chunk = gl_WorkGroupID.x;
  uint sequence = gl_WorkGroupID.y;
  SequenceState state = StateBuffer(states).v[sequence];
  uint start = sequence * p.row_stride;
  uint end = min((chunk + 1) * p.chunk, p.n_vocab);

  float text_max = kMinusInfinity, timestamp_max = kMinusInfinity;
  uint text_token = 0xffffffffu, timestamp_token = 0xffffffffu;
  for (uint id = chunk * p.chunk + thread; id < end; id += gl_WorkGroupSize.x) {
    if (!allowed(id, state)) continue;
    float logit = F32Buffer(logits).v[start + id];
    if (id >= p.timestamp_begin) {
      if (logit > timestamp_max) {
        timestamp_max = logit;
        timestamp_token = id;
      }
    } else if (logit > text_max) {
      text_max = logit;
      text_token = id;
    }
  }
  best_of_workgroup(text_max, text_token);
  best_of_workgroup(timestamp_max, timestamp_token);
  float text_sum = 0.0, timestamp_sum = 0.0;
  for (uint id = chunk * p.chunk + thread; id < end; id += gl_WorkGroupSize.x) {
    if (!allowed(id, state)) continue;
    float logit = F32Buffer(logits).v[start + id];
    if (id >= p.timestamp_begin) {
      timestamp_sum += exp(logit - timestamp_max);
    } else {
      text_sum += exp(logit - text_max);
    }
  }
  text_sum = workgroup_sum(text_sum);
  timestamp_sum = workgroup_sum(timestamp_sum);
  float text_key = text_max, text_logit = text_max;
  float timestamp_key = timestamp_max, timestamp_logit = timestamp_max;
  if (state.temperature > 0.0) {
    draw(chunk, start, end, state, false, text_key, text_logit, text_token);
    draw(chunk, start, end, state, true, timestamp_key, timestamp_logit, timestamp_token);
  }
  if (kCandidates && state.is_beam != 0) {
    list_candidates(chunk, start, end, state, false, text_max, text_token);
    list_candidates(chunk, start, end, state, true, timestamp_max, timestamp_token);
  }
  if (thread == 0) {
    PartialBuffer(partials).v[sequence * p.n_chunks + chunk] =
        TokenPartial(text_max, text_sum, text_key, text_logit, text_token, timestamp_max,
                     timestamp_sum, timestamp_key, timestamp_logit, timestamp_token);
  }
}
