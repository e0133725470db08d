// Whisper's token rules (openai-whisper, decoding.py: SuppressTokens, SuppressBlank,
// ApplyTimestampRules), and no end of text before speech_end. Needs the push constants `suppressed`
// and `p`.
bool is_allowed(uint id, SequenceState state) {
  if ((U32Buffer(suppressed).v[id / 32] >> (id % 32) & 1u) != 0) return false;
  if (id == p.no_timestamps) return false;
  bool first = state.n_sampled == 0;
  if (first && (id == p.blank || id == p.end_of_text)) return false;
  bool timestamp = id >= p.timestamp_begin;
  if (state.timestamps == 0) return !timestamp;
  if (first) return timestamp && id <= state.max_initial_timestamp;
  bool last = state.last_was_timestamp != 0;
  if (last && id == p.end_of_text && state.last_timestamp < state.speech_end) return false;
  bool pair_open = last && state.penultimate_was_timestamp == 0;
  if (!timestamp) return !(pair_open && id < p.end_of_text);
  if (last && !pair_open) return false;
  if (state.last_timestamp == 0) return true;
  return id >= (pair_open ? state.last_timestamp : state.last_timestamp + 1);
}
