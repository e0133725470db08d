// Sums and maxima over a workgroup, for any subgroup size. The order of addition depends only on
// the shape of the workgroup, so results are reproducible.
#ifndef VESPER_SHADERS_REDUCE_GLSL_
#define VESPER_SHADERS_REDUCE_GLSL_

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

shared float reduce_slots[128];

float workgroup_sum(float x) {
  x = subgroupAdd(x);
  if (subgroupElect()) reduce_slots[gl_SubgroupID] = x;
  barrier();
  float total = 0.0;
  for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) {
    total += reduce_slots[i];
  }
  barrier();
  return subgroupAdd(total);
}

float workgroup_max(float x) {
  x = subgroupMax(x);
  if (subgroupElect()) reduce_slots[gl_SubgroupID] = x;
  barrier();
  float greatest = reduce_slots[0];
  for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) {
    greatest = max(greatest, reduce_slots[i]);
  }
  barrier();
  return subgroupMax(greatest);
}

#endif
