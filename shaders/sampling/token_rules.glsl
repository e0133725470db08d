// Whisper's token rules (openai-whisper, decoding.py: SuppressTokens, SuppressBlank,
// ApplyTimestampRules), no end of text before speech_end, and the bit mask of a sequence. Needs the
// push constants `logits`, `suppressed`, `allowed` and `p`, and kRules and kMasks: whether the
// operands `suppressed` and `allowed` are present.
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

// The logit of token `id` of `sequence`, whose logits begin at `start`; -inf if it is masked.
float masked_logit(uint id, uint sequence, uint start, SequenceState state) {
  if (kRules && !is_allowed(id, state)) return kMinusInfinity;
  if (kMasks && state.has_mask != 0) {
    uint word = sequence * ((p.n_vocab + 31) / 32) + id / 32;
    if ((U32Buffer(allowed).v[word] >> (id % 32) & 1u) == 0) return kMinusInfinity;
    return max(F32Buffer(logits).v[start + id], kLeastAllowedLogit);
  }
  return F32Buffer(logits).v[start + id];
}
