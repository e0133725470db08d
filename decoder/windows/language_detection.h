// Which language is spoken, from what the model says of one or several windows.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace vesper {

struct LanguageProbability {
  std::string language;  // ISO 639-1 code, as Whisper has it
  double probability = 0;
};

// Puts the windows of a recording together: the first one that gives a language more than the
// threshold decides alone, as in faster-whisper; where none does, the mean over all of them does.
class LanguageVote {
 public:
  explicit LanguageVote(double threshold) : threshold_(threshold) {}

  // The probabilities of a window, [n_languages], by index. Returns whether it decides alone: no
  // other one is needed.
  bool add(std::span<const float> probabilities);

  // By index, [n_languages]; empty before the first window.
  std::vector<float> result() const;

 private:
  double threshold_;
  size_t n_windows_ = 0;
  bool is_decided_ = false;
  std::vector<double> sums_;  // of all windows, or the probabilities of the one that decided
};

// The languages of these probabilities, [n_languages], likeliest first.
std::vector<LanguageProbability> ranked_languages(std::span<const float> probabilities);

}  // namespace vesper
