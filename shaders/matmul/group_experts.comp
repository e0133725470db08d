// group_experts: one workgroup counts the slots of each expert, adds the counts up, and writes the
// slots and tiles. The order of an expert's slots varies; their results do not depend on it.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "buffers.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kHasRows = 0;

layout(push_constant) uniform Push {
  Address groups, ids, rows;
  ExpertTileBuffer tiles;  // after the slots in `groups`
  GroupExpertsParams p;
};

shared uint counts[kMostExperts];  // slots of each expert
shared uint ends[kMostExperts];    // after the slots of each expert that have been written
shared uint first_tiles[kMostExperts + 1];

bool is_used(uint slot) {
  return kHasRows == 0 || RowBuffer(rows).v[slot / p.n_used].sequence >= 0;
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  for (uint e = thread; e < p.n_experts; e += gl_WorkGroupSize.x) counts[e] = 0;
  barrier();
  for (uint s = thread; s < p.n_slots; s += gl_WorkGroupSize.x) {
    if (is_used(s)) atomicAdd(counts[U32Buffer(ids).v[s]], 1u);
  }
  barrier();
  if (thread == 0) {
    uint slot = 0, tile = 0;
    for (uint e = 0; e < p.n_experts; ++e) {
      ends[e] = slot;
      first_tiles[e] = tile;
      slot += counts[e];
      tile += (counts[e] + kExpertTileRows - 1) / kExpertTileRows;
    }
    first_tiles[p.n_experts] = tile;
  }
  barrier();
  for (uint e = thread; e < p.n_experts; e += gl_WorkGroupSize.x) {
    for (uint t = first_tiles[e], done = 0; t < first_tiles[e + 1]; ++t, done += kExpertTileRows) {
      tiles.v[t] = ExpertTile(e, ends[e] + done, min(counts[e] - done, kExpertTileRows));
    }
  }
  for (uint t = first_tiles[p.n_experts] + thread; t < p.n_tiles; t += gl_WorkGroupSize.x) {
    tiles.v[t] = ExpertTile(0, 0, 0);
  }
  barrier();
  for (uint s = thread; s < p.n_slots; s += gl_WorkGroupSize.x) {
    if (is_used(s)) U32Buffer(groups).v[atomicAdd(ends[U32Buffer(ids).v[s]], 1u)] = s;
  }
}
