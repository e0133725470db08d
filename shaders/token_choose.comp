// token_choose: merges the partials of each sequence and advances it. One workgroup; a thread takes
// every kThreads-th sequence.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push {
  Address states, rows, tokens, stop, partials;
  TokenParams p;
};

shared uint unfinished;

void merge(inout float greatest, inout float sum, inout uint argmax, float value, float value_sum,
           uint value_argmax) {
  if (value == kMinusInfinity) return;
  if (value > greatest) {
    sum = (greatest == kMinusInfinity ? 0.0 : sum * exp(greatest - value)) + value_sum;
    greatest = value;
    argmax = value_argmax;
  } else {
    sum += value_sum * exp(value - greatest);
  }
}

void main() {
  if (gl_LocalInvocationID.x == 0) unfinished = 0;
  barrier();
  for (uint s = gl_LocalInvocationID.x; s < p.n_sequences; s += gl_WorkGroupSize.x) {
    SequenceState state = StateBuffer(states).v[s];
    if (state.finished != 0) continue;
    float text_max = kMinusInfinity, timestamp_max = kMinusInfinity;
    float text_sum = 0.0, timestamp_sum = 0.0;
    uint text_argmax = p.end_of_text, timestamp_argmax = p.end_of_text;
    for (uint c = 0; c < p.n_chunks; ++c) {
      TokenPartial partial = PartialBuffer(partials).v[s * p.n_chunks + c];
      merge(text_max, text_sum, text_argmax, partial.text_max, partial.text_sum,
            partial.text_argmax);
      merge(timestamp_max, timestamp_sum, timestamp_argmax, partial.timestamp_max,
            partial.timestamp_sum, partial.timestamp_argmax);
    }
    float timestamp_together =
        timestamp_max == kMinusInfinity ? kMinusInfinity : timestamp_max + log(timestamp_sum);
    bool timestamp = timestamp_together > text_max;
    uint token = timestamp ? timestamp_argmax : text_argmax;
    float chosen = timestamp ? timestamp_max : text_max;
    float together = timestamp_together;
    if (!timestamp) {
      float sum = text_sum;
      if (timestamp_max != kMinusInfinity) sum += timestamp_sum * exp(timestamp_max - text_max);
      together = text_max + log(sum);
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
