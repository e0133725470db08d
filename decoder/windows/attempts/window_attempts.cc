#include "decoder/windows/attempts/window_attempts.h"

#include <utility>

namespace vesper {

bool passes(const WindowResult& result, const DecodingSettings& settings) {
  return !result.is_silent && !has_failed(result.evidence, settings);
}

bool WindowAttempts::take(WindowResult result) {
  if (passes(result, settings_) || (result.is_silent && !has_text_)) {
    best_ = std::move(result);
    return true;
  }
  const bool keeps_best = settings_.policy.keep_best_attempt;
  const bool becomes_silence = result.is_silent && has_text_;
  has_text_ = keeps_best && (has_text_ || !result.is_silent);
  if (!best_ || !keeps_best ||
      (!becomes_silence && is_better(result.evidence, best_->evidence, settings_))) {
    best_ = std::move(result);
  }
  return false;
}

}  // namespace vesper
