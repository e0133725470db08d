#include "decoder/windows/languages/mixed_languages.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "decoder/windows/loudness.h"

namespace vesper {
namespace {

// Frames: the shortest pause; the least sound of a part, which otherwise joins the closer one; the
// smallest distance of a cut from the ends, and the longest part, which is cut where it is
// quietest.
constexpr size_t kPause = 40, kLeastSound = 50, kShortest = 200, kLongest = 800;
// Frames before and after over which loudness is averaged.
constexpr size_t kSmooth = 15;

// One language change per this number of parts. Measured on telephone prompts: Spanish is taken for
// Italian with 0.88, real changes have 0.98 and more.
constexpr double kPartsPerChange = 6;
// Longer parts have more weight.
constexpr double kOrdinarySeconds = 3;
// The rest of the probability may belong to any language, as related ones are confused, but only
// this share of it: a part that is unsure of its language may still exclude the previous one.
constexpr double kPartOfDoubt = 0.25;
// Lower limit of the doubt.
constexpr double kLeastDoubt = 0.01;
// A part counts from this share of the threshold on.
constexpr double kPartOfThreshold = 0.6;

// The quietest of frames [begin, end), averaged with its neighbours.
size_t quietest(std::span<const float> loudness, size_t begin, size_t end) {
  size_t best = begin;
  double least = INFINITY;
  for (size_t i = begin; i < end; ++i) {
    const size_t from = i - std::min(i, kSmooth), to = std::min(loudness.size(), i + kSmooth + 1);
    const double mean = std::reduce(loudness.begin() + static_cast<std::ptrdiff_t>(from),
                                    loudness.begin() + static_cast<std::ptrdiff_t>(to), 0.0) /
                        static_cast<double>(to - from);
    if (mean < least) {
      least = mean;
      best = i;
    }
  }
  return best;
}

}  // namespace

std::vector<size_t> cut_at_pauses(std::span<const float> loudness) {
  const size_t n = loudness.size();
  const std::vector<bool> is_quiet = quiet_frames(loudness);
  // Sound between pauses, the length of the pause after it, and the middle of that pause.
  struct Sounding {
    size_t n_sound, n_pause, end;
  };
  std::vector<Sounding> parts;
  size_t n_sound = 0;
  for (size_t i = 0; i < n;) {
    size_t end = i;
    while (end < n && is_quiet[end] == is_quiet[i]) ++end;
    if (!is_quiet[i]) n_sound += end - i;
    if (is_quiet[i] && end - i >= kPause && end < n && n_sound > 0) {
      parts.push_back({std::exchange(n_sound, 0), end - i, i + (end - i) / 2});
    }
    i = end;
  }
  parts.push_back({n_sound, n, n});
  for (size_t i = 0; i < parts.size() && parts.size() > 1;) {
    if (parts[i].n_sound >= kLeastSound) {
      ++i;
      continue;
    }
    // Joins across the shorter pause.
    const bool forward = i == 0 || parts[i].n_pause < parts[i - 1].n_pause;
    const size_t first = forward && i + 1 < parts.size() ? i : i - 1;
    parts[first + 1].n_sound += parts[first].n_sound;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(first));
    i = first;
  }
  std::vector<size_t> ends;
  size_t begin = 0;
  for (const Sounding& part : parts) {
    const size_t end = part.end;
    while (end - begin > kLongest) {
      begin = quietest(loudness, begin + kShortest, std::min(begin + kLongest, end - kShortest));
      ends.push_back(begin);
    }
    ends.push_back(begin = end);
  }
  return ends;
}

std::vector<size_t> likeliest_languages(std::span<const PartLanguages> parts,
                                        std::optional<size_t> before, double threshold) {
  size_t n_languages = 0;
  for (const PartLanguages& part : parts) {
    n_languages = std::max(n_languages, part.probabilities.size());
  }
  if (n_languages == 0) return std::vector<size_t>(parts.size(), before.value_or(0));
  const auto says_something = [&](const PartLanguages& part) {
    return !part.probabilities.empty() &&
           *std::ranges::max_element(part.probabilities) >= kPartOfThreshold * threshold;
  };
  const bool is_known = before || std::ranges::any_of(parts, says_something);

  // Viterbi: the score of the best path to each language, and its predecessor. If no part counts,
  // the mean decides and there is no change.
  const double change = is_known ? std::log(1 / kPartsPerChange) : -INFINITY;
  std::vector<double> scores(n_languages, 0);
  if (before) {
    std::ranges::fill(scores, change);
    scores.at(*before) = 0;
  }
  std::vector<std::vector<size_t>> from;
  for (const PartLanguages& part : parts) {
    const auto best = static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
    const double by_change = from.empty() ? -INFINITY : scores[best] + change;
    std::vector<size_t>& origins = from.emplace_back(n_languages);
    const std::vector<float>& probabilities = part.probabilities;
    const bool counts = !probabilities.empty() && (!is_known || says_something(part));
    const double left = counts ? 1 - *std::ranges::max_element(probabilities) : 0;
    const double doubt = kPartOfDoubt * left + kLeastDoubt;
    const double weight = std::max(1.0, part.seconds / kOrdinarySeconds);
    for (size_t i = 0; i < n_languages; ++i) {
      const bool stays = scores[i] >= by_change;
      origins[i] = stays ? i : best;
      if (!stays) scores[i] = by_change;
      if (!counts) continue;
      const double p = i < probabilities.size() ? probabilities[i] : 0;
      scores[i] += is_known ? weight * std::log(p + doubt) : p;
    }
  }
  std::vector<size_t> path(parts.size());
  auto at = static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
  for (size_t i = parts.size(); i-- > 0; at = from[i][at]) path[i] = at;
  return path;
}

MixedLanguages::MixedLanguages(const MelSpectrogram& mel, uint64_t begin, uint64_t end,
                               double threshold, Detect detect)
    : mel_(mel), end_(end), threshold_(threshold), detect_(std::move(detect)) {
  uint64_t from = begin;
  for (const size_t to : cut_at_pauses(loudness_of(mel_, begin, end))) {
    parts_.push_back({from, begin + to});
    from = begin + to;
  }
}

MixedLanguages::Spoken MixedLanguages::at(uint64_t seek, uint32_t n_frames,
                                          std::optional<size_t> before) {
  const uint64_t limit = std::min<uint64_t>(end_, seek + n_frames);
  auto first = std::ranges::find_if(parts_, [&](const Part& part) { return part.end > seek; });
  std::vector<PartLanguages> heard;
  for (auto part = first; part != parts_.end() && part->begin < limit; ++part) {
    if (!std::exchange(part->is_known, true)) {
      part->probabilities = detect_(part->begin, part->end);
    }
    heard.push_back(
        {static_cast<double>(part->end - part->begin) / kMelFramesPerSecond, part->probabilities});
  }
  if (heard.empty()) return {before.value_or(0), 0, limit};
  const std::vector<size_t> path = likeliest_languages(heard, before, threshold_);
  Spoken spoken{path.front(), 0, limit};
  for (size_t i = 0; i < path.size(); ++i, ++first) {
    if (path[i] != spoken.language) {
      spoken.end = first->begin;
      break;
    }
    const std::vector<float>& of_part = heard[i].probabilities;
    if (spoken.language < of_part.size()) {
      spoken.probability = std::max<double>(spoken.probability, of_part[spoken.language]);
    }
  }
  return spoken;
}

}  // namespace vesper
