#include "decoder/windows/languages/language_detection.h"

#include <algorithm>

#include "error/error.h"
#include "llm/tokenizer/whisper_tokens.h"

namespace vesper {

bool LanguageVote::add(std::span<const float> probabilities) {
  if (is_decided_) return true;
  is_decided_ = std::ranges::any_of(probabilities, [&](float p) { return p > threshold_; });
  if (is_decided_) {
    sums_.assign(probabilities.begin(), probabilities.end());
    n_windows_ = 1;
    return true;
  }
  sums_.resize(probabilities.size());
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += probabilities[i];
  ++n_windows_;
  return false;
}

std::vector<float> LanguageVote::result() const {
  std::vector<float> mean(sums_.size());
  std::ranges::transform(sums_, mean.begin(), [&](double sum) {
    return static_cast<float>(sum / static_cast<double>(n_windows_));
  });
  return mean;
}

std::vector<LanguageProbability> ranked_languages(std::span<const float> probabilities) {
  const auto languages = whisper_languages();
  if (probabilities.size() > languages.size()) {
    throw Error(ErrorKind::kInternal, "probabilities of " + std::to_string(probabilities.size()) +
                                          " languages, expected at most " +
                                          std::to_string(languages.size()));
  }
  std::vector<LanguageProbability> ranked;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    ranked.push_back({languages[i].code, probabilities[i]});
  }
  std::ranges::stable_sort(
      ranked, [](const auto& a, const auto& b) { return a.probability > b.probability; });
  return ranked;
}

}  // namespace vesper
