// sampling_filters: the interval of logits that the filters keep, one workgroup per sequence. A
// filter keeps the tokens with the greatest values up to a count or a probability. Radix selection
// finds the last kept value, eight bits at a time, from 256 bins. Probabilities are added as
// integers in three parts, so the sum does not depend on the order.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool kRules = false;  // has the operand `suppressed`
layout(constant_id = 2) const bool kMasks = false;  // has the operand `allowed`

layout(push_constant) uniform Push {
  Address states, logits, suppressed, allowed;
  SamplingParams p;
};
#include "sampling/token_rules.glsl"

shared uint bins[3 * 256];

SequenceState state;
uint start;              // of the sequence's logits
float lowest, highest;   // interval that is left
float greatest;          // logit in the interval
float log_sum, entropy;  // log of the sum of exp(logit - greatest); entropy of the distribution

// Preserves the order of floats.
uint key_of(float x) {
  uint bits = floatBitsToUint(x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
float value_of(uint key) {
  return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

float logit_of(uint id) { return masked_logit(id, gl_WorkGroupID.x, start, state); }

bool is_left(float logit) {
  return logit >= lowest && logit <= highest && logit > kMinusInfinity;
}

// Negative distance of a token's surprise from the mean.
float typicality(float logit) { return -abs(log_sum - (logit - greatest) - entropy); }

float amount(uint bin, bool by_count) {
  if (by_count) return float(bins[bin]);
  return float(bins[bin]) / 8192.0 + float(bins[256 + bin]) / 134217728.0 +
         float(bins[512 + bin]) / 2199023255552.0;
}

// The smallest kept value, for `wanted` tokens or that share of the probability.
float select(bool by_count, bool by_typicality, float wanted) {
  uint prefix = 0;
  float taken = 0.0, target = wanted;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (uint i = gl_LocalInvocationID.x; i < 3 * 256; i += gl_WorkGroupSize.x) bins[i] = 0;
    barrier();
    for (uint id = gl_LocalInvocationID.x; id < p.n_vocab; id += gl_WorkGroupSize.x) {
      float logit = logit_of(id);
      if (!is_left(logit)) continue;
      uint key = key_of(by_typicality ? typicality(logit) : logit);
      if (shift < 24 && key >> (shift + 8) != prefix) continue;
      uint bin = key >> shift & 255u;
      if (by_count) {
        atomicAdd(bins[bin], 1);
      } else {
        float part = exp(logit - greatest) * 8192.0;
        atomicAdd(bins[bin], uint(part));
        part = fract(part) * 16384.0;
        if (uint(part) != 0) atomicAdd(bins[256 + bin], uint(part));
        part = fract(part) * 16384.0;
        if (uint(part) != 0) atomicAdd(bins[512 + bin], uint(part));
      }
    }
    barrier();
    if (shift == 24) {
      float all = 0.0;
      for (uint bin = 0; bin < 256; ++bin) all += amount(bin, by_count);
      target = by_count ? min(wanted, all) : wanted * all;
    }
    uint last = 0;
    for (uint bin = 255; bin > 0; --bin) {
      float next = taken + amount(bin, by_count);
      if (next >= target) {
        last = bin;
        break;
      }
      taken = next;
    }
    prefix = prefix << 8 | last;
    barrier();
  }
  return value_of(prefix);
}

void find_greatest() {
  float mine = kMinusInfinity;
  for (uint id = gl_LocalInvocationID.x; id < p.n_vocab; id += gl_WorkGroupSize.x) {
    float logit = logit_of(id);
    if (is_left(logit)) mine = max(mine, logit);
  }
  greatest = workgroup_max(mine);
}

void keep_typical(float wanted) {
  float sum = 0.0, weighted = 0.0;
  for (uint id = gl_LocalInvocationID.x; id < p.n_vocab; id += gl_WorkGroupSize.x) {
    float logit = logit_of(id);
    if (!is_left(logit)) continue;
    float weight = exp(logit - greatest);
    sum += weight;
    weighted += weight * (logit - greatest);
  }
  sum = workgroup_sum(sum);
  log_sum = log(sum);
  entropy = log_sum - workgroup_sum(weighted) / sum;
  float least = select(false, true, wanted);
  float least_logit = -kMinusInfinity, most_logit = kMinusInfinity;
  for (uint id = gl_LocalInvocationID.x; id < p.n_vocab; id += gl_WorkGroupSize.x) {
    float logit = logit_of(id);
    if (!is_left(logit) || typicality(logit) < least) continue;
    least_logit = min(least_logit, logit);
    most_logit = max(most_logit, logit);
  }
  lowest = -workgroup_max(-least_logit);
  highest = workgroup_max(most_logit);
  greatest = highest;
}

void main() {
  uint s = gl_WorkGroupID.x;
  state = StateBuffer(states).v[s];
  if (state.finished != 0) return;
  start = s * p.row_stride;
  lowest = kMinusInfinity;
  highest = -kMinusInfinity;
  if (state.temperature > 0.0) {
    find_greatest();
    if (state.top_k > 0 && state.top_k < p.n_vocab) {
      lowest = select(true, false, float(state.top_k));
    }
    if (state.typical_p < 1.0) keep_typical(state.typical_p);
    if (state.top_p < 1.0) lowest = max(lowest, select(false, false, state.top_p));
    if (state.min_p > 0.0) lowest = max(lowest, greatest + log(state.min_p));
  }
  if (gl_LocalInvocationID.x == 0) {
    StateBuffer(states).v[s].lowest = lowest;
    StateBuffer(states).v[s].highest = highest;
  }
}
