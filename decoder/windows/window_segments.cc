#include "decoder/windows/window_segments.h"

#include <algorithm>

namespace vesper {
WindowSegments cut_window(std::span<const int32_t> tokens, int32_t timestamp_begin, uint64_t seek,
                          uint32_t n_content_frames) {
  const auto is_timestamp = [&](size_t i) { return tokens[i] >= timestamp_begin; };
  const auto steps = [&](int32_t token) { return token - timestamp_begin; };
  const double offset_s = static_cast<double>(seek) * kFrameSeconds;
  const size_t n = tokens.size();
  const bool single_timestamp_ending = n >= 2 && !is_timestamp(n - 2) && is_timestamp(n - 1);

  WindowSegments result;
  result.to_the_end = single_timestamp_ending;
  std::vector<size_t> ends;  // a segment ends before each
  for (size_t i = 1; i < n; ++i) {
    if (is_timestamp(i - 1) && is_timestamp(i)) ends.push_back(i);
  }
  if (ends.empty()) {
    double duration_s = n_content_frames * kFrameSeconds;
    for (size_t i = n; i-- > 0;) {
      if (!is_timestamp(i)) continue;
      if (tokens[i] != timestamp_begin) duration_s = steps(tokens[i]) * kTimestampSeconds;
      break;
    }
    result.segments.push_back({offset_s, offset_s + duration_s, {tokens.begin(), tokens.end()}});
    result.advance_frames = n_content_frames;
    return result;
  }
  if (single_timestamp_ending) ends.push_back(n);
  size_t begin = 0;
  for (size_t end : ends) {
    result.segments.push_back({offset_s + steps(tokens[begin]) * kTimestampSeconds,
                               offset_s + steps(tokens[end - 1]) * kTimestampSeconds,
                               {tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                tokens.begin() + static_cast<std::ptrdiff_t>(end)}});
    begin = end;
  }
  result.advance_frames =
      single_timestamp_ending
          ? n_content_frames
          : std::max(1u, static_cast<uint32_t>(steps(tokens[begin - 1])) * kFramesPerTimestamp);
  return result;
}

}  // namespace vesper
