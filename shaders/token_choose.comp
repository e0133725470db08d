// token_choose: merges the partials of each sequence and advances it. One workgroup; each of its
// subgroups takes every n-th sequence.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push {
  Address states, rows, tokens, stop, partials;
  TokenParams p;
};

shared uint unfinished;

// A maximum, the sum of exponentials relative to it, and the lowest id that has it.
struct Best {
  float greatest, sum;
  uint argmax;
};

void merge(inout Best best, float greatest, float sum, uint argmax) {
  if (greatest == kMinusInfinity) return;
  if (greatest > best.greatest) {
    best.sum = (best.greatest == kMinusInfinity ? 0.0 : best.sum * exp(best.greatest - greatest)) + sum;
    best.greatest = greatest;
    best.argmax = argmax;
  } else {
    if (greatest == best.greatest) best.argmax = min(best.argmax, argmax);
    best.sum += sum * exp(greatest - best.greatest);
  }
}

Best merge_subgroup(Best mine) {
  Best best;
  best.greatest = subgroupMax(mine.greatest);
  best.argmax = subgroupMin(mine.greatest == best.greatest ? mine.argmax : 0xffffffffu);
  best.sum = subgroupAdd(mine.greatest == kMinusInfinity
                             ? 0.0
                             : mine.sum * exp(mine.greatest - best.greatest));
  return best;
}

void main() {
  if (gl_LocalInvocationID.x == 0) unfinished = 0;
  barrier();
  for (uint s = gl_SubgroupID; s < p.n_sequences; s += gl_NumSubgroups) {
    SequenceState state = StateBuffer(states).v[s];
    if (state.finished != 0) continue;
    Best text = Best(kMinusInfinity, 0.0, p.end_of_text);
    Best timestamps = text;
    for (uint c = gl_SubgroupInvocationID; c < p.n_chunks; c += gl_SubgroupSize) {
      TokenPartial partial = PartialBuffer(partials).v[s * p.n_chunks + c];
      merge(text, partial.text_max, partial.text_sum, partial.text_argmax);
      merge(timestamps, partial.timestamp_max, partial.timestamp_sum, partial.timestamp_argmax);
    }
    text = merge_subgroup(text);
    timestamps = merge_subgroup(timestamps);
    if (!subgroupElect()) continue;
    float timestamp_together =
        timestamps.greatest == kMinusInfinity ? kMinusInfinity
                                             : timestamps.greatest + log(timestamps.sum);
    bool timestamp = timestamp_together > text.greatest;
    uint token = timestamp ? timestamps.argmax : text.argmax;
    float chosen = timestamp ? timestamps.greatest : text.greatest;
    float together = timestamp_together;
    if (!timestamp) {
      float sum = text.sum;
      if (timestamps.greatest != kMinusInfinity) {
        sum += timestamps.sum * exp(timestamps.greatest - text.greatest);
      }
      together = text.greatest + log(sum);
    }
    if (chosen != kMinusInfinity) state.sum_logprob += chosen - together;

    if (state.n_sampled < p.max_tokens) {
      I32Buffer(tokens).v[s * p.max_tokens + state.n_sampled] = int(token);
    }
    state.penultimate_was_timestamp = state.n_sampled == 0 ? 1 : state.last_was_timestamp;
    state.last_was_timestamp = token >= p.timestamp_begin ? 1 : 0;
    if (token >= p.timestamp_begin) state.last_timestamp = token;
    state.n_sampled += 1;
    Row next = Row(int(token), int(s), state.position, 0);
    state.position += 1;
    if (token == p.end_of_text || state.n_sampled >= state.max_sampled) {
      state.finished = 1;
      next = Row(0, -1, 0, 0);
    }
    StateBuffer(states).v[s] = state;
    RowBuffer(rows).v[s] = next;
    if (state.finished == 0) atomicOr(unfinished, 1u);
  }
  barrier();
  if (gl_LocalInvocationID.x == 0 && unfinished == 0) U32Buffer(stop).v[0] = 1;
}
