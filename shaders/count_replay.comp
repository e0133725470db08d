// count_replay: counts the replays that ran. Conditional rendering skips this dispatch with the
// rest of a replay, but not a timestamp. One workgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push { Address n_replays; };

void main() {
  if (gl_LocalInvocationIndex == 0) atomicAdd(U32Buffer(n_replays).v[0], 1u);
}
