#include "decoder/windows/attempts/speech_evidence.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace vesper {
namespace {

// Whether a text is at least as probable as a share of the threshold.
bool is_likely(const WindowEvidence& evidence, const DecodingSettings& settings, double share) {
  return !settings.logprob_threshold || evidence.avg_logprob >= share * *settings.logprob_threshold;
}

bool is_repetitive(const WindowEvidence& evidence, const DecodingSettings& settings) {
  if (!settings.compression_ratio_threshold) return false;
  return evidence.compression_ratio > *settings.compression_ratio_threshold ||
         (settings.policy.fail_loops && evidence.loops);
}

// Whether a text repeats like an invention. Models are sure of repeated speech, and it does not
// loop.
bool repeats_without_sense(const WindowEvidence& evidence, const DecodingSettings& settings) {
  if (evidence.is_one_loop) return true;
  if (!is_repetitive(evidence, settings)) return false;
  return evidence.loops ||
         !is_likely(evidence, settings, settings.policy.improbable_logprob_share) ||
         evidence.compression_ratio >
             settings.policy.said_again_share * *settings.compression_ratio_threshold;
}

// Ranges of code points without letters and digits: punctuation, symbols, emoji, musical notes.
struct CodePoints {
  uint32_t first, last;
};
constexpr std::array<CodePoints, 14> kSigns = {{{0x00, 0x2f},
                                                {0x3a, 0x40},
                                                {0x5b, 0x60},
                                                {0x7b, 0xa9},
                                                {0xab, 0xb1},
                                                {0xb4, 0xb4},
                                                {0xb6, 0xb8},
                                                {0xbb, 0xbb},
                                                {0xbf, 0xbf},
                                                {0x2000, 0x206f},
                                                {0x2190, 0x2bff},
                                                {0x3000, 0x3004},
                                                {0x3008, 0x3020},
                                                {0xfffd, 0xfffd}}};
constexpr std::array<CodePoints, 3> kWideSigns = {
    {{0xff01, 0xff0f}, {0x1d100, 0x1d1ff}, {0x1f000, 0x1faff}}};

bool is_sign(uint32_t code_point) {
  const auto holds = [&](const CodePoints& range) {
    return code_point >= range.first && code_point <= range.last;
  };
  return std::any_of(kSigns.begin(), kSigns.end(), holds) ||
         std::any_of(kWideSigns.begin(), kWideSigns.end(), holds);
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
  if (settings.policy.reject_wordless_text && !evidence.has_words) return true;
  if (settings.policy.reject_repetitive_text && repeats_without_sense(evidence, settings))
    return true;
  if (!settings.policy.reject_improbable_text || !settings.logprob_threshold) return false;
  const bool is_unlikely = evidence.no_speech_prob > *settings.no_speech_threshold;
  return evidence.avg_logprob <
         *settings.logprob_threshold * (is_unlikely ? settings.policy.improbable_logprob_share
                                                    : settings.policy.doubtful_logprob_share);
}

bool is_doubtful_loop(const WindowEvidence& evidence, const DecodingSettings& settings) {
  return settings.policy.retry_doubtful_loops && settings.policy.reject_repetitive_text &&
         settings.no_speech_threshold && evidence.no_speech_prob <= *settings.no_speech_threshold &&
         evidence.no_speech_prob > settings.policy.doubtful_share * *settings.no_speech_threshold &&
         evidence.has_words && repeats_without_sense(evidence, settings);
}

bool is_convincing(const WindowEvidence& evidence, const DecodingSettings& settings) {
  return is_likely(evidence, settings, settings.policy.convincing_logprob_share);
}

bool is_believable(const WindowEvidence& evidence, const DecodingSettings& settings) {
  return is_likely(evidence, settings, settings.policy.doubtful_logprob_share);
}

bool is_surely_speech(const WindowEvidence& evidence, const DecodingSettings& settings) {
  return evidence.has_words && !has_failed(evidence, settings) &&
         (!settings.no_speech_threshold ||
          evidence.no_speech_prob <=
              settings.policy.doubtful_share * *settings.no_speech_threshold);
}

bool is_only_doubted(const WindowEvidence& evidence, const DecodingSettings& settings) {
  return evidence.has_words && !evidence.is_one_loop && !has_failed(evidence, settings) &&
         !is_silent_by_reference(evidence, settings);
}

bool has_failed(const WindowEvidence& evidence, const DecodingSettings& settings) {
  return is_repetitive(evidence, settings) ||
         (settings.logprob_threshold && evidence.avg_logprob < *settings.logprob_threshold);
}

bool is_better(const WindowEvidence& a, const WindowEvidence& b, const DecodingSettings& settings) {
  if (a.loops != b.loops) return b.loops;
  const bool a_repeats = is_repetitive(a, settings), b_repeats = is_repetitive(b, settings);
  if (a_repeats != b_repeats) return b_repeats;
  return a.avg_logprob > b.avg_logprob;
}

bool has_words(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t length = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint32_t code_point = length == 1 ? lead : lead & (0xffu >> (length + 1));
    for (size_t k = 1; k < length && i + k < text.size(); ++k) {
      code_point = code_point << 6 | (static_cast<uint8_t>(text[i + k]) & 0x3fu);
    }
    if (!is_sign(code_point)) return true;
    i += length;
  }
  return false;
}

}  // namespace vesper
