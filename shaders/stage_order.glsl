// The order of dispatches that follow each other without a barrier (llm/vulkan/stage_order.h). Include
// it instead of buffers.glsl.
//
// A workgroup counts itself when its results are stored. A workgroup of the next dispatch loads
// weights, then waits until all workgroups before it have counted themselves. A dispatch adds 2^31 to
// its counter in each replay, so that the highest bit tells odd replays from even ones: the dispatch
// before is done when its bit differs from that of this dispatch, which is not.
//
// With VESPER_WAITING, the shader has the Vulkan memory model: barriers order what all threads load and
// store in `nonprivate` buffers. Without it, an H200 read rows from its first-level cache as they were
// before (docs/measurements/0031). A device that runs one dispatch after the other does not need it.
#ifndef VESPER_SHADERS_STAGE_ORDER_GLSL_
#define VESPER_SHADERS_STAGE_ORDER_GLSL_

#extension GL_KHR_memory_scope_semantics : require
#ifdef VESPER_WAITING
#pragma use_vulkan_memory_model
#define BUFFER_ACCESS nonprivate
#define EXCHANGED nonprivate
#else
#define EXCHANGED coherent
#endif
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#include "buffers.glsl"

layout(constant_id = 19) const uint kStageOrder = 0;  // kOrder*

// The counters of the dispatch before, and of this dispatch.
layout(buffer_reference, std430, buffer_reference_align = 4) buffer StageCounters {
  StageCounter v[2];
};

const uint kMostPolls = 1u << 18;  // more than the dispatches before take: some tenths of a second

#ifdef VESPER_WAITING
// Orders what all threads of the workgroup load and store.
const int kBufferAndShared = gl_StorageSemanticsBuffer | gl_StorageSemanticsShared;
void workgroup_barrier() {
  controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, kBufferAndShared,
                 gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible);
}
#endif

// Before thread 0 adds to a counter. Another workgroup that reads the sum can then acquire what all
// threads of this one have stored; without VESPER_WAITING, only what they stored in EXCHANGED buffers.
void release_stores() {
#ifdef VESPER_WAITING
  workgroup_barrier();
  if (gl_LocalInvocationIndex == 0) {
    memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer,
                  gl_SemanticsRelease | gl_SemanticsMakeAvailable);
  }
#else
  memoryBarrierBuffer();
  barrier();
#endif
}
// After thread 0 has read the sum.
void acquire_stores() {
#ifdef VESPER_WAITING
  if (gl_LocalInvocationIndex == 0) {
    memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer,
                  gl_SemanticsAcquire | gl_SemanticsMakeVisible);
  }
  workgroup_barrier();
#else
  barrier();
  memoryBarrierBuffer();
#endif
}

// After it, all results of the dispatches before this one can be loaded.
void wait_for_stage(StageCounters counters) {
  if (kStageOrder == kOrderWaits) {
    if (gl_LocalInvocationIndex == 0) {
      uint own = atomicLoad(counters.v[1].n_done, gl_ScopeDevice, 0, gl_SemanticsRelaxed);
      uint before = atomicLoad(counters.v[0].n_done, gl_ScopeDevice, 0, gl_SemanticsRelaxed);
      uint n_polls = 0;
      while ((before ^ own) >> 31 == 0 && n_polls < kMostPolls) {
        before = atomicLoad(counters.v[0].n_done, gl_ScopeDevice, 0, gl_SemanticsRelaxed);
        ++n_polls;
      }
      if ((before ^ own) >> 31 == 0) {
        U32Buffer(uvec2(counters.v[0].waited_in_vain[0], counters.v[0].waited_in_vain[1])).v[0] = 1;
      }
    }
    acquire_stores();
  }
}

// After the last store of n workgroups. `is_first`: true for exactly one call of a dispatch.
void count_workgroups(StageCounters counters, uint n, bool is_first) {
  if (kStageOrder != kOrderBarriers) {
    release_stores();
    if (gl_LocalInvocationIndex == 0) {
      uint n_all = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_NumWorkGroups.z;
      atomicAdd(counters.v[1].n_done, is_first ? 0x80000000u - n_all + n : n, gl_ScopeDevice, 0,
                gl_SemanticsRelaxed);
    }
  }
}

#endif
