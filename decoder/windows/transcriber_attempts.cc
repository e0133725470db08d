// The attempts at a window: what one has found, and which of them is to be believed.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decoder/windows/prompt_history.h"
#include "decoder/windows/repetition.h"
#include "decoder/windows/speech_evidence.h"
#include "decoder/windows/transcriber.h"
#include "decoder/windows/window_segments.h"

namespace vesper {
namespace {

// The loudest log10 mel energy that speech close to a microphone has, about (-0.7 to 1.9 in the
// recordings that the tests use), and what is faint beside it.
constexpr float kUsualLoudest = 1.0f, kFaint = 0.0f;

// A scaled window of log-mel as loud as speech usually is, if it is faint: the model knows faint
// speech less well from silence. Whether it was.
bool raise_if_faint(std::span<float> values) {
  const auto scaled = [](float log_mel) { return (log_mel + 4) / 4; };
  const float loudest = *std::max_element(values.begin(), values.end());
  if (loudest >= scaled(kFaint)) return false;
  const float gain = scaled(kUsualLoudest) - loudest;
  for (float& value : values) value += gain;
  return true;
}

DecodeTask without_previous(DecodeTask task) {
  task.prompt.erase(task.prompt.begin(), task.prompt.begin() + task.start_of_transcript);
  task.start_of_transcript = 0;
  return task;
}

}  // namespace

Transcriber::Decoded Transcriber::attempt(const DecodeTask& task, double temperature,
                                          const DecodingSettings& settings) {
  return judge(
      std::move(model_.decoder().decode({&task, 1}, search_of(settings, temperature)).front()),
      temperature, settings);
}

Transcriber::Decoded Transcriber::judge(DecodeResult result, double temperature,
                                        const DecodingSettings& settings) const {
  Decoded decoded;
  decoded.temperature = temperature;
  decoded.result = std::move(result);
  const std::string text = trimmed(text_of(decoded.result.tokens));
  decoded.evidence.no_speech_prob = decoded.result.no_speech_prob;
  decoded.evidence.avg_logprob = decoded.result.avg_logprob();
  decoded.evidence.compression_ratio = compression_ratio(text);
  const std::vector<int32_t> words = spoken(decoded.result.tokens);
  decoded.evidence.loops = find_loop(words).has_value();
  decoded.evidence.is_one_loop = is_one_loop(words);
  decoded.evidence.has_words = has_words(text);
  decoded.is_silent = is_silent(decoded.evidence, settings);
  return decoded;
}

bool Transcriber::passes(const Decoded& decoded, const DecodingSettings& settings) {
  return !decoded.is_silent && !has_failed(decoded.evidence, settings);
}

Transcriber::Decoded Transcriber::decode(const DecodeTask& task, const DecodingSettings& settings,
                                         uint32_t seed) {
  Decoded decoded = decode_until_passed(task, settings, seed);
  if (!settings.policy.retry_sparse_text || decoded.is_alone || !passes(decoded, settings) ||
      !has_sparse_segment(decoded.result.tokens, model_.tokens().timestamp_begin)) {
    return decoded;
  }
  // A model that goes on from the text before a window may leave out most of what is said in it.
  constexpr double kFarMore = 1.5;
  DecodeTask task_alone = without_previous(task);
  task_alone.seed = attempt_seed(seed, 0);
  Decoded alone = attempt(task_alone, settings.temperatures.front(), settings);
  alone.is_alone = true;
  const auto n_spoken = [&](const Decoded& of) {
    return static_cast<double>(spoken(of.result.tokens).size());
  };
  return passes(alone, settings) && n_spoken(alone) >= kFarMore * n_spoken(decoded) ? alone
                                                                                    : decoded;
}

Transcriber::Decoded Transcriber::decode_until_passed(DecodeTask task,
                                                      const DecodingSettings& settings,
                                                      uint32_t seed) {
  std::optional<Decoded> best;
  bool is_alone = task.start_of_transcript == 0;  // without the text before it
  bool always_loops = true, is_drawn = false, loops_in_doubt = false;
  // Without that text something is said, though not well. That another attempt is improbable does
  // not make it silence: all have one no-speech probability.
  bool is_believed = false;
  for (size_t i = 0; i < settings.temperatures.size();) {
    task.seed = attempt_seed(seed, i);
    Decoded decoded = attempt(task, settings.temperatures[i], settings);
    decoded.is_alone = is_alone;
    always_loops = always_loops && decoded.evidence.loops;
    is_drawn = is_drawn || decoded.temperature > 0;
    // Speech that was only decoded badly goes round too: another temperature tells.
    if (is_doubtful_loop(decoded.evidence, settings)) {
      loops_in_doubt = loops_in_doubt || is_alone;
    } else if (loops_in_doubt) {
      decoded.is_silent = decoded.is_silent || !is_convincing(decoded.evidence, settings);
    }
    const bool is_silent = decoded.is_silent && !is_doubtful_loop(decoded.evidence, settings) &&
                           !loops_in_doubt && !is_believed &&
                           (is_alone || !settings.policy.retry_without_prompt ||
                            is_silent_by_reference(decoded.evidence, settings));
    if (is_silent || passes(decoded, settings)) {
      // If it is speech after all, nothing speaks against what was only doubted to be speech.
      if (settings.policy.confirm_doubted_text && best &&
          is_surely_speech(decoded.evidence, settings) &&
          is_only_doubted(best->evidence, settings)) {
        best->is_silent = false;
        return *std::move(best);
      }
      return decoded;
    }
    const bool may_be_best = !is_believed || !decoded.is_silent;
    is_believed =
        is_believed || (is_alone && !decoded.is_silent && settings.policy.keep_believed_text);
    if (!best || !settings.policy.keep_best_attempt ||
        (may_be_best && is_better(decoded.evidence, best->evidence, settings))) {
      best = std::move(decoded);
    }
    // What went before is what a window most often fails by.
    if (settings.policy.retry_without_prompt && !is_alone) {
      task = without_previous(std::move(task));
      is_alone = true;
    } else {
      ++i;
    }
  }
  best->is_chant = always_loops && is_drawn && best->result.tokens.size() + 1 < task.max_tokens;
  return *std::move(best);
}

Transcriber::Decoded Transcriber::decode_window(Recording& recording, Walk& walk,
                                                const DecodeTask& task) {
  const DecodingSettings& settings = recording.settings;
  Decoded decoded = decode(task, settings, window_seed(settings, walk.seek));
  if (decoded.is_silent && settings.policy.amplify_faint_speech &&
      raise_if_faint({recording.window.data(), size_t{n_frames(walk)} * model_.n_mels()})) {
    const float* const windows[] = {recording.window.data()};
    model_.encode(windows);
    Decoded raised = attempt(without_previous(task_of_window(recording, walk)),
                             settings.temperatures.front(), settings);
    if (is_surely_speech(raised.evidence, settings)) decoded = std::move(raised);
  }
  return decoded;
}

}  // namespace vesper
