// draw_partials: one workgroup a chunk of a sequence. Grid: (chunks, sequences).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push {
  Address partials, logits, states;
  DrawParams p;
};

shared uint best_ids[128];  // beside reduce_slots

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

void main() {
  uint thread = gl_LocalInvocationID.x, chunk = gl_WorkGroupID.x, s = gl_WorkGroupID.y;
  GenerationState state = GenerationBuffer(states).v[s];
  if (state.finished != 0) return;
  uint start = s * p.n_vocab, end = min((chunk + 1) * p.chunk, p.n_vocab);
  uint base = draw_base(state.seed, state.n_drawn);
  float greatest = kMinusInfinity, key = kMinusInfinity;
  uint token = 0xffffffffu;
  for (uint id = chunk * p.chunk + thread; id < end; id += gl_WorkGroupSize.x) {
    float logit = F32Buffer(logits).v[start + id];
    greatest = max(greatest, logit);
    if (!(logit >= state.lowest && logit <= state.highest)) continue;
    float id_key = logit;
    if (state.temperature > 0.0) {
      float uniform_number = (float(mix_bits(base + id * kDrawStride) >> 9) + 0.5) / 8388608.0;
      id_key = logit / state.temperature - log(-log(uniform_number));
    }
    if (id_key > key) {
      key = id_key;
      token = id;
    }
  }
  greatest = workgroup_max(greatest);
  best_of_workgroup(key, token);
  float sum = 0.0;
  for (uint id = chunk * p.chunk + thread; id < end; id += gl_WorkGroupSize.x) {
    float logit = F32Buffer(logits).v[start + id];
    if (logit > kMinusInfinity) sum += exp(logit - greatest);
  }
  sum = workgroup_sum(sum);
  if (thread == 0) {
    float logit = token < end ? F32Buffer(logits).v[start + token] : kMinusInfinity;
    DrawBuffer(partials).v[s * p.n_chunks + chunk] = DrawPartial(greatest, sum, key, logit, token);
  }
}
