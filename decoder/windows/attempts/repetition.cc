#include "decoder/windows/attempts/repetition.h"

#include <zlib.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "error/error.h"

namespace vesper {

double compression_ratio(const std::string& text) {
  if (text.empty()) return 0;
  uLongf n_deflated = compressBound(text.size());
  std::vector<Bytef> deflated(n_deflated);
  if (compress(deflated.data(), &n_deflated, reinterpret_cast<const Bytef*>(text.data()),
               text.size()) != Z_OK) {
    throw Error(ErrorKind::kInternal, "zlib could not deflate a window's text");
  }
  return static_cast<double>(text.size()) / static_cast<double>(n_deflated);
}

namespace {

// The longest run that comes so many times and has so many tokens.
std::optional<TokenLoop> find_run(std::span<const int32_t> tokens, size_t least_rounds,
                                  size_t least_tokens) {
  std::optional<TokenLoop> longest;
  for (size_t period = 1; period * least_rounds <= tokens.size(); ++period) {
    size_t begin = 0;
    for (size_t i = period; i <= tokens.size(); ++i) {
      if (i < tokens.size() && tokens[i] == tokens[i - period]) continue;
      const size_t length = i - begin;
      if (length >= least_tokens && length >= period * least_rounds &&
          (!longest || length > longest->end - longest->begin)) {
        longest = TokenLoop{begin, i, period};
      }
      begin = i - period + 1;
    }
  }
  return longest;
}

}  // namespace

std::optional<TokenLoop> find_loop(std::span<const int32_t> tokens, const WindowPolicy& policy) {
  return find_run(tokens, policy.loop_rounds, policy.loop_tokens);
}

bool is_one_loop(std::span<const int32_t> tokens, const WindowPolicy& policy) {
  const auto loop = find_run(tokens, policy.one_loop_rounds, policy.one_loop_rounds);
  return loop && static_cast<double>(loop->end - loop->begin) >=
                     policy.one_loop_share * static_cast<double>(tokens.size());
}

std::vector<WindowSegment> take_loop(std::vector<WindowSegment>& segments, int32_t eot,
                                     const WindowPolicy& policy) {
  const auto is_text = [&](int32_t token) { return token < eot; };
  std::vector<int32_t> text;
  for (const WindowSegment& segment : segments) {
    std::copy_if(segment.tokens.begin(), segment.tokens.end(), std::back_inserter(text), is_text);
  }
  const std::optional<TokenLoop> loop = find_loop(text, policy);
  if (!loop) return {};
  size_t end = 0;  // of a segment's text in that of the window
  const auto first = std::find_if(segments.begin(), segments.end(), [&](const WindowSegment& s) {
    end += static_cast<size_t>(std::count_if(s.tokens.begin(), s.tokens.end(), is_text));
    return end > loop->begin + loop->period;
  });
  const auto beyond = std::find_if(first + 1, segments.end(), [&](const WindowSegment& s) {
    const bool is_after = end >= loop->end;
    end += static_cast<size_t>(std::count_if(s.tokens.begin(), s.tokens.end(), is_text));
    return is_after;
  });
  std::vector<WindowSegment> looped(std::make_move_iterator(first),
                                    std::make_move_iterator(beyond));
  segments.erase(first, beyond);
  return looped;
}

}  // namespace vesper
