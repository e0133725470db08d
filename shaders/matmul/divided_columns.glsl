// How kSplits workgroups that divide the columns of a tile share the addition of their sums. The last
// one to write its sums adds those parts that no other one takes. Each of the others waits for a
// limited time until it can take one, so a device that runs the workgroups one after another finishes,
// too. Included after kSplits and the push constants, which have `counters`.
#ifndef VESPER_SHADERS_MATMUL_DIVIDED_COLUMNS_GLSL_
#define VESPER_SHADERS_MATMUL_DIVIDED_COLUMNS_GLSL_

// Added to the counter of a tile.
const uint kWritten = 1;      // a workgroup has written its sums
const uint kTaken = 1u << 8;  // a part is taken; the last part is not counted
const uint kLeft = 1u << 16;  // a workgroup does not use the counter again
uint n_events(uint counter, uint event) { return counter / event & 255u; }
// Added to the counter of all tiles.
const uint kStarted = 1;          // a workgroup has started
const uint kTileLeft = 1u << 20;  // all workgroups of a tile have left
const uint kMostPolls = 64;       // about 1 us each

uint n_tiles() { return gl_NumWorkGroups.x * gl_NumWorkGroups.y; }

// After the last workgroup of a tile has left. Thread 0.
void reset_counters(uint tile) {
  counters.v[tile] = 0;
  uint n_left = atomicAdd(counters.v[n_tiles()], kTileLeft) / kTileLeft;
  if (n_left + 1 == n_tiles()) counters.v[n_tiles()] = 0;
}

// For the workgroup that writes its sums last: the part that it adds next, kSplits if there is none.
// Before, it adds the last part. Thread 0.
uint take_another(uint tile) {
  uint part = n_events(atomicAdd(counters.v[tile], kTaken), kTaken);
  if (part < kSplits - 1) return part;
  if (n_events(atomicAdd(counters.v[tile], kLeft), kLeft) == kSplits - 1) reset_counters(tile);
  return kSplits;
}

// For every other workgroup: the only part that it adds, kSplits if it adds none. It does not wait
// if any workgroup has not started, which may need its place on the processor. Thread 0.
uint take_one(uint tile, uint events) {
  uint n_started = counters.v[n_tiles()] % kTileLeft;
  uint n_polls = n_started == n_tiles() * kSplits ? kMostPolls : 0;
  for (uint i = 0; i < n_polls && n_events(events, kWritten) < kSplits; ++i) {
    events = atomicAdd(counters.v[tile], 0u);
  }
  bool takes = n_events(events, kWritten) == kSplits;
  events = atomicAdd(counters.v[tile], kLeft + (takes ? kTaken : 0));
  if (n_events(events, kLeft) == kSplits - 1) reset_counters(tile);
  return takes && n_events(events, kTaken) < kSplits - 1 ? n_events(events, kTaken) : kSplits;
}

#endif
