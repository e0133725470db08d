#include "decoder/windows/attempts/speech_evidence.h"

namespace vesper {
namespace {

// Whether a text is at least as probable as a share of the threshold.
bool is_likely(const WindowEvidence& evidence, const DecodingSettings& settings, double share) {
  return !settings.logprob_threshold || evidence.avg_logprob >= share * *settings.logprob_threshold;
}

bool is_repetitive(const WindowEvidence& evidence, const DecodingSettings& settings) {
  return settings.compression_ratio_threshold &&
         evidence.compression_ratio > *settings.compression_ratio_threshold;
}

// Whether text is as repetitive as inventions. Repeated speech has a high probability.
bool repeats_without_sense(const WindowEvidence& evidence, const DecodingSettings& settings) {
  if (evidence.is_one_loop) return true;
  if (!is_repetitive(evidence, settings)) return false;
  return !is_likely(evidence, settings, settings.policy.improbable_logprob_share) ||
         evidence.compression_ratio >
             settings.policy.said_again_share * *settings.compression_ratio_threshold;
}

}  // namespace

bool is_silent_by_reference(const WindowEvidence& evidence, const DecodingSettings& settings) {
  if (!settings.no_speech_threshold || evidence.no_speech_prob <= *settings.no_speech_threshold) {
    return false;
  }
  return !settings.logprob_threshold || evidence.avg_logprob <= *settings.logprob_threshold;
}

bool is_silent(const WindowEvidence& evidence, const DecodingSettings& settings) {
  if (is_silent_by_reference(evidence, settings)) return true;
  if (!settings.no_speech_threshold) return false;
  if (evidence.no_speech_prob <= settings.policy.doubtful_share * *settings.no_speech_threshold)
    return false;
  if (settings.policy.ask_vad && evidence.has_speech) return !*evidence.has_speech;
  if (settings.policy.reject_repetitive_text && repeats_without_sense(evidence, settings))
    return true;
  if (!settings.policy.reject_improbable_text || !settings.logprob_threshold) return false;
  const bool is_unlikely = evidence.no_speech_prob > *settings.no_speech_threshold;
  return evidence.avg_logprob <
         *settings.logprob_threshold * (is_unlikely ? settings.policy.improbable_logprob_share
                                                    : settings.policy.doubtful_logprob_share);
}

bool has_failed(const WindowEvidence& evidence, const DecodingSettings& settings) {
  return is_repetitive(evidence, settings) ||
         (settings.logprob_threshold && evidence.avg_logprob < *settings.logprob_threshold);
}

bool is_better(const WindowEvidence& a, const WindowEvidence& b, const DecodingSettings& settings) {
  const bool a_repeats = is_repetitive(a, settings), b_repeats = is_repetitive(b, settings);
  if (a_repeats != b_repeats) return b_repeats;
  return a.avg_logprob > b.avg_logprob;
}

}  // namespace vesper
