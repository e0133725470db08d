// Decides the language from the model's probabilities for one or several windows.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace vesper {

struct LanguageProbability {
  std::string language;  // ISO 639-1 code, as in Whisper
  double probability = 0;
};

// Combines the windows of a recording. The first window with a language above the threshold decides
// alone, as in faster-whisper; otherwise the mean over all windows decides.
class LanguageVote {
 public:
  explicit LanguageVote(double threshold) : threshold_(threshold) {}

  // The probabilities of a window, [n_languages], by index. Returns whether it decides alone.
  bool add(std::span<const float> probabilities);

  // By index, [n_languages]; empty before the first window.
  std::vector<float> result() const;

 private:
  double threshold_;
  size_t n_windows_ = 0;
  bool is_decided_ = false;
  std::vector<double> sums_;  // of all windows, or the probabilities of the deciding one
};

// The languages by descending probability. `probabilities` is [n_languages].
std::vector<LanguageProbability> ranked_languages(std::span<const float> probabilities);

}  // namespace vesper
