#include "decoder/windows/attempts/window_attempts.h"

#include <algorithm>
#include <utility>

#include "decoder/windows/window_segments.h"

namespace vesper {

bool passes(const WindowResult& result, const DecodingSettings& settings) {
  return !result.is_silent && !has_failed(result.evidence, settings);
}

WindowAttempts::WindowAttempts(const DecodingSettings& settings, const Window& window)
    : settings_(settings),
      window_(window),
      stage_(window.has_prompt ? Stage::kPrompted : Stage::kUnprompted) {}

std::optional<WindowAttempt> WindowAttempts::next() const {
  const double first = settings_.temperatures.front();
  switch (stage_) {
    case Stage::kPrompted:
      return WindowAttempt{settings_.temperatures[temperature_], temperature_, false, false};
    case Stage::kUnprompted:
      return WindowAttempt{settings_.temperatures[temperature_], temperature_, true, false};
    case Stage::kSparse:
      return WindowAttempt{first, 0, true, false};
    case Stage::kAmplified:
      return WindowAttempt{first, 0, true, true};
    case Stage::kDone:
      break;
  }
  return std::nullopt;
}

void WindowAttempts::take(WindowResult result) {
  switch (stage_) {
    case Stage::kPrompted:
    case Stage::kUnprompted:
      return take_attempt(std::move(result));
    case Stage::kSparse:
      return take_sparse(std::move(result));
    case Stage::kAmplified:
      if (is_surely_speech(result.evidence, settings_)) best_ = std::move(result);
      stage_ = Stage::kDone;
      return;
    case Stage::kDone:
      return;
  }
}

WindowResult WindowAttempts::result() && { return *std::move(best_); }

void WindowAttempts::take_attempt(WindowResult result) {
  const WindowPolicy& policy = settings_.policy;
  const bool is_unprompted = stage_ == Stage::kUnprompted;
  result.without_prompt = is_unprompted;
  every_attempt_loops_ = every_attempt_loops_ && result.evidence.loops;
  const bool loops_in_doubt = is_doubtful_loop(result.evidence, settings_);
  if (loops_in_doubt) {
    if (is_unprompted && belief_ == Belief::kOpen) belief_ = Belief::kLoopsInDoubt;
  } else if (belief_ == Belief::kLoopsInDoubt) {
    result.is_silent = result.is_silent || !is_convincing(result.evidence, settings_);
  }
  const bool is_surely_silent = result.is_silent && !loops_in_doubt && belief_ == Belief::kOpen &&
                                (is_unprompted || !policy.retry_without_prompt ||
                                 is_silent_by_reference(result.evidence, settings_));
  if (is_surely_silent || passes(result, settings_)) {
    if (policy.confirm_doubted_text && best_ && is_surely_speech(result.evidence, settings_) &&
        is_only_doubted(best_->evidence, settings_)) {
      best_->is_silent = false;
      return decide(*std::move(best_));
    }
    return decide(std::move(result));
  }
  const bool may_be_best = belief_ != Belief::kBelieved || !result.is_silent;
  if (is_unprompted && !result.is_silent && policy.keep_believed_text) belief_ = Belief::kBelieved;
  if (!best_ || !policy.keep_best_attempt ||
      (may_be_best && is_better(result.evidence, best_->evidence, settings_))) {
    best_ = std::move(result);
  }
  // Previous text is the most frequent cause of a failure.
  if (!is_unprompted && policy.retry_without_prompt) {
    stage_ = Stage::kUnprompted;
  } else {
    raise_temperature();
  }
}

void WindowAttempts::raise_temperature() {
  if (++temperature_ < settings_.temperatures.size()) return;
  const bool is_drawn = std::ranges::any_of(settings_.temperatures, [](double t) { return t > 0; });
  best_->is_chant =
      every_attempt_loops_ && is_drawn && best_->decoded.tokens.size() + 1 < window_.max_tokens;
  decide(*std::move(best_));
}

void WindowAttempts::decide(WindowResult result) {
  const WindowPolicy& policy = settings_.policy;
  stage_ = Stage::kDone;
  if (policy.retry_sparse_text && !result.without_prompt && passes(result, settings_) &&
      has_sparse_segment(result.decoded.tokens, window_.timestamp_begin, policy)) {
    stage_ = Stage::kSparse;
  } else if (policy.amplify_faint_speech && result.is_silent && window_.is_faint) {
    stage_ = Stage::kAmplified;
  }
  best_ = std::move(result);
}

void WindowAttempts::take_sparse(WindowResult result) {
  result.without_prompt = true;
  const auto n = [&](const WindowResult& of) { return static_cast<double>(n_text_tokens(of)); };
  if (passes(result, settings_) && n(result) >= settings_.policy.sparse_gain * n(*best_)) {
    best_ = std::move(result);
  }
  stage_ = Stage::kDone;
}

size_t WindowAttempts::n_text_tokens(const WindowResult& result) const {
  return static_cast<size_t>(std::ranges::count_if(
      result.decoded.tokens, [&](int32_t id) { return id < window_.end_of_text; }));
}

}  // namespace vesper
