// count_replay: one more replay was not left out. For a clock of replays: a dispatch that is left out
// with the rest tells what a timestamp, which is written all the same, does not. One workgroup.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push { Address n_replays; };

void main() {
  if (gl_LocalInvocationIndex == 0) atomicAdd(U32Buffer(n_replays).v[0], 1u);
}
