// Sampling several sequences of a window at once, with a tiny Whisper of random weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "decoder/whisper_model.h"
#include "llm/devices/open_device.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::sampling_test {
namespace {

constexpr uint32_t kCandidates = 5;

class Sampling : public testing::Test {
 protected:
  Sampling() {
    model_ = std::make_unique<WhisperModel>(folder_.path(), open_device("cpu", {.n_threads = 2}),
                                            Compute::kF32, 1, kCandidates);
    std::mt19937 random(7);
    std::normal_distribution<float> noise(0.0f, 0.5f);
    std::vector<float> window(size_t{model_->n_frames()} * model_->n_mels());
    for (float& value : window) value = noise(random);
    model_->encode(window.data());
    const std::vector<int32_t> never{model_->tokens().eot};
    model_->decoder().set_suppressed(never);
  }

  // A prompt of `n` tokens.
  DecodeTask task(uint32_t n_prompt) const {
    const WhisperTokens& tokens = model_->tokens();
    DecodeTask task;
    task.prompt = {tokens.prev};
    while (task.prompt.size() + 3 < n_prompt) {
      task.prompt.push_back(static_cast<int32_t>(100 + 37 * task.prompt.size()));
    }
    task.start_of_transcript = static_cast<uint32_t>(task.prompt.size());
    for (int32_t id : {tokens.sot, tokens.first_language, tokens.transcribe}) {
      task.prompt.push_back(id);
    }
    task.max_tokens = 40;
    task.max_initial_timestamp = 20;
    task.seed = 12;
    return task;
  }
  DecodeResult decode(const DecodeTask& task, const Search& search) const {
    return model_->decoder().decode({&task, 1}, search).front();
  }

  const test::ModelFolder folder_{
      test::TinyWhisper({.n_audio_ctx = 50, .n_text_ctx = 240}).ctranslate2(DType::kF32)};
  std::unique_ptr<WhisperModel> model_;
};

// Prompts that end within a KV page, at its end, and after its first row.
TEST_F(Sampling, KeepsTheBestOfSeveralSamples) {
  for (const uint32_t n_prompt : {5u, 40u, 64u, 65u}) {
    SCOPED_TRACE("prompt of " + std::to_string(n_prompt));
    const DecodeTask all = task(n_prompt);
    const DecodeResult found =
        decode(all, {.sampling = {.temperature = 1}, .n_candidates = kCandidates});
    DecodeResult best;
    for (uint32_t i = 0; i < kCandidates; ++i) {
      DecodeTask one = all;
      one.seed = all.seed + i * kNoiseStride;
      DecodeResult result = decode(one, {.sampling = {.temperature = 1}});
      EXPECT_NE(result.tokens, best.tokens);
      if (i == 0 || result.sum_logprob > best.sum_logprob) best = std::move(result);
    }
    EXPECT_EQ(found.tokens, best.tokens);
    EXPECT_NEAR(found.sum_logprob, best.sum_logprob, 1e-3);
    EXPECT_NEAR(found.no_speech_prob, best.no_speech_prob, 1e-6);
  }
}

TEST_F(Sampling, NearTemperatureZeroIsGreedy) {
  const DecodeTask one = task(50);
  const DecodeResult greedy = decode(one, {});
  EXPECT_EQ(decode(one, {.sampling = {.temperature = 1e-5f}, .n_candidates = 3}).tokens,
            greedy.tokens);
  EXPECT_NE(decode(one, {.sampling = {.temperature = 1}, .n_candidates = 3}).tokens, greedy.tokens);
}

TEST_F(Sampling, FiltersExcludeImprobableTokens) {
  DecodeTask one = task(50);
  one.timestamps = false;
  const std::vector<int32_t> greedy = decode(one, {}).tokens;
  const auto sampled = [&](const vesper::Sampling& sampling) {
    return decode(one, {.sampling = sampling, .n_candidates = 2}).tokens;
  };
  const std::vector<int32_t> any = sampled({.temperature = 1});
  EXPECT_NE(any, greedy);
  EXPECT_EQ(sampled({.temperature = 1, .top_k = 1}), greedy);
  EXPECT_EQ(sampled({.temperature = 1, .top_p = 0}), greedy);
  EXPECT_EQ(sampled({.temperature = 1, .min_p = 1}), greedy);
  const std::vector<int32_t> of_few = sampled({.temperature = 1, .top_k = 4});
  EXPECT_NE(of_few, greedy);
  EXPECT_NE(of_few, any);
}

TEST_F(Sampling, DoesNotEndAfterATimestampDuringSpeech) {
  // Few tokens besides timestamps and the end.
  std::vector<int32_t> never;
  const int32_t timestamp_begin = model_->tokens().timestamp_begin;
  for (int32_t id = 4; id < timestamp_begin; ++id) {
    if (id != model_->tokens().eot) never.push_back(id);
  }
  model_->decoder().set_suppressed(never);
  constexpr int32_t kSpeechEnd = 1400;
  const auto ends_early = [&](uint32_t seed, uint32_t speech_end) {
    DecodeTask one = task(5);
    one.seed = seed;
    one.speech_end = speech_end;
    const DecodeResult found = decode(one, {.sampling = {.temperature = 1}});
    return found.tokens.size() < one.max_tokens && found.tokens.back() >= timestamp_begin &&
           found.tokens.back() < timestamp_begin + kSpeechEnd;
  };
  int n_early = 0;
  for (uint32_t seed = 0; seed < 25; ++seed) {
    n_early += ends_early(seed, 0);
    EXPECT_FALSE(ends_early(seed, kSpeechEnd)) << "seed " << seed;
  }
  EXPECT_GT(n_early, 0);
}

// Beam search as in openai-whisper, of whole texts, each computed from its first token.
class PlainBeamSearch {
 public:
  PlainBeamSearch(WhisperDecoder& decoder, const DecodeTask& task, std::vector<int32_t> allowed,
                  int32_t end_of_text)
      : decoder_(decoder), task_(task), allowed_(std::move(allowed)), end_of_text_(end_of_text) {}

  DecodeResult best(const Search& search) {
    std::vector<DecodeResult> live(1), ended;
    for (uint32_t step = 0; step < task_.max_tokens && ended.size() < search.max_finished; ++step) {
      std::vector<DecodeResult> longer;
      for (const DecodeResult& text : live) extend(text, longer);
      std::stable_sort(longer.begin(), longer.end(),
                       [](const auto& a, const auto& b) { return a.sum_logprob > b.sum_logprob; });
      live.clear();
      for (DecodeResult& text : longer) {
        if (live.size() == search.n_candidates) break;
        if (text.tokens.back() != end_of_text_) {
          live.push_back(std::move(text));
        } else if (ended.size() < search.max_finished) {
          text.tokens.pop_back();
          ended.push_back(std::move(text));
        }
      }
    }
    n_ended_ += ended.size();
    for (size_t i = 0; i < live.size() && ended.size() < search.n_candidates; ++i) {
      ended.push_back(live[i]);
    }
    // openai-whisper, decoding.py: MaximumLikelihoodRanker.
    const auto score = [&](const DecodeResult& text) {
      const auto length = static_cast<double>(text.tokens.size());
      if (!search.length_penalty) return text.sum_logprob / length;
      return text.sum_logprob / std::pow((5 + length) / 6, *search.length_penalty);
    };
    return *std::max_element(ended.begin(), ended.end(),
                             [&](const auto& a, const auto& b) { return score(a) < score(b); });
  }
  size_t n_ended() const { return n_ended_; }

 private:
  void extend(const DecodeResult& text, std::vector<DecodeResult>& longer) {
    std::vector<int32_t> prompt = task_.prompt;
    prompt.insert(prompt.end(), text.tokens.begin(), text.tokens.end());
    const std::vector<float> all = decoder_.prompt_logits(prompt);
    const float* logits = all.data() + (prompt.size() - 1) * decoder_.n_vocab();
    const auto is_left = [&](int32_t id) { return id != end_of_text_ || !text.tokens.empty(); };
    double sum = 0;
    for (const int32_t id : allowed_) sum += is_left(id) ? std::exp(logits[id]) : 0;
    for (const int32_t id : allowed_) {
      if (!is_left(id)) continue;
      DecodeResult next = text;
      next.tokens.push_back(id);
      next.sum_logprob += logits[id] - std::log(sum);
      longer.push_back(std::move(next));
    }
  }

  WhisperDecoder& decoder_;
  DecodeTask task_;
  std::vector<int32_t> allowed_;
  int32_t end_of_text_;
  size_t n_ended_ = 0;
};

// Prompts that end just before and just after the end of a page.
TEST_F(Sampling, BeamsEqualAPlainSearch) {
  // The ids that are on average slightly less probable than end of text.
  const int32_t end = model_->tokens().eot;
  const uint32_t n_vocab = model_->decoder().n_vocab();
  const std::vector<float> logits = model_->decoder().prompt_logits(task(33).prompt);
  std::vector<double> behind(n_vocab, 0);
  for (size_t i = 0; i < logits.size(); ++i) {
    behind[i % n_vocab] += logits[i - i % n_vocab + static_cast<size_t>(end)] - logits[i];
  }
  std::vector<int32_t> suppressed(static_cast<size_t>(end));
  std::iota(suppressed.begin(), suppressed.end(), 0);
  std::sort(suppressed.begin(), suppressed.end(), [&](int32_t x, int32_t y) {
    const double a = behind[static_cast<size_t>(x)], b = behind[static_cast<size_t>(y)];
    return (a > 0) != (b > 0) ? b > 0 : a > b;
  });
  std::vector<int32_t> allowed{end};
  for (int i = 0; i < 8; ++i) {
    allowed.push_back(suppressed.back());
    suppressed.pop_back();
  }
  std::sort(allowed.begin(), allowed.end());
  for (auto id = static_cast<uint32_t>(end) + 1; id < n_vocab; ++id) {
    suppressed.push_back(static_cast<int32_t>(id));
  }
  model_->decoder().set_suppressed(suppressed);
  size_t n_ended = 0, n_ranked_apart = 0;
  const std::pair<uint32_t, Search> cases[] = {{5, {.n_candidates = 3, .max_finished = 3}},
                                               {29, {.n_candidates = 4, .max_finished = 2}},
                                               {33, {.n_candidates = 2, .max_finished = 8}}};
  for (const auto& [n_prompt, search] : cases) {
    SCOPED_TRACE("prompt of " + std::to_string(n_prompt) + ", " +
                 std::to_string(search.n_candidates) + " beams");
    DecodeTask one = task(n_prompt);
    one.timestamps = false;
    one.max_tokens = 6;
    PlainBeamSearch plain(model_->decoder(), one, allowed, end);
    std::set<size_t> lengths;
    for (const std::optional<double> penalty :
         {std::optional<double>(), std::optional(0.0), std::optional(1.0), std::optional(8.0)}) {
      Search ranked = search;
      ranked.length_penalty = penalty;
      const DecodeResult wanted = plain.best(ranked), found = decode(one, ranked);
      EXPECT_EQ(found.tokens, wanted.tokens) << penalty.value_or(-1);
      EXPECT_NEAR(found.sum_logprob, wanted.sum_logprob, 1e-3) << penalty.value_or(-1);
      lengths.insert(found.tokens.size());
    }
    n_ended += plain.n_ended();
    n_ranked_apart += lengths.size() > 1;
  }
  EXPECT_GT(n_ended, 0u);
  EXPECT_GT(n_ranked_apart, 0u);
}

// Long enough for many KV pages, in two slots of a batch and alone.
TEST_F(Sampling, BeamsReusePages) {
  const Search search{.n_candidates = kCandidates, .max_finished = kCandidates};
  WhisperModel batch(folder_.path(), open_device("cpu", {.n_threads = 2}), Compute::kF32, 2,
                     kCandidates);
  std::vector<float> silence(size_t{model_->n_frames()} * model_->n_mels());
  const std::vector<int32_t> never{model_->tokens().eot};
  model_->encode(silence.data());
  for (const uint32_t slot : {0u, 1u}) batch.encode(silence.data(), slot);
  batch.decoder().set_suppressed(never);
  std::vector<DecodeTask> tasks = {task(5), task(47)};
  for (DecodeTask& one : tasks) one.max_tokens = 110;
  tasks[1].window = 1;
  batch.decoder().begin({.n_slots = 2, .n_candidates = kCandidates, .beam_size = kCandidates});
  for (const uint32_t slot : {0u, 1u}) batch.decoder().start(slot, tasks[slot], search);
  for (size_t n_ended = 0; n_ended < tasks.size();) {
    for (const uint32_t slot : batch.decoder().advance(4)) {
      DecodeTask alone = tasks[slot];
      alone.window = 0;
      const DecodeResult wanted = decode(alone, search), found = batch.decoder().result(slot);
      EXPECT_EQ(found.tokens.size(), 110u);
      EXPECT_EQ(found.tokens, wanted.tokens) << "slot " << slot;
      EXPECT_EQ(found.sum_logprob, wanted.sum_logprob) << "slot " << slot;
      ++n_ended;
    }
  }
  // Far fewer than all beams would fill without sharing.
  const uint32_t page_rows = batch.decoder().kv_page_rows();
  EXPECT_GT(batch.decoder().most_pages(), 157 / page_rows);
  EXPECT_LT(batch.decoder().most_pages(), kCandidates * 110 / page_rows);
}

TEST_F(Sampling, NoNGramIsRepeated) {
  const auto repeats = [](const std::vector<int32_t>& tokens, size_t n) {
    std::set<std::vector<int32_t>> runs;
    size_t n_runs = 0;
    for (auto first = tokens.begin(); first + n <= tokens.end(); ++first, ++n_runs) {
      runs.emplace(first, first + n);
    }
    return n_runs - runs.size();
  };
  std::vector<int32_t> suppressed{model_->tokens().eot};
  for (int32_t id = 12; id < static_cast<int32_t>(model_->decoder().n_vocab()); ++id) {
    suppressed.push_back(id);
  }
  model_->decoder().set_suppressed(suppressed);
  DecodeTask one = task(6);
  one.timestamps = false;
  for (const uint32_t n_beams : {0u, 4u}) {
    Search search{.n_candidates = std::max(1u, n_beams), .max_finished = n_beams};
    EXPECT_GT(repeats(decode(one, search).tokens, 2), 0u);
    search.sampling.no_repeat_ngram_size = 2;
    EXPECT_EQ(repeats(decode(one, search).tokens, 2), 0u);
  }
}

TEST_F(Sampling, RepetitionPenaltyReducesRepetition) {
  DecodeTask one = task(6);
  one.timestamps = false;
  std::vector<int32_t> suppressed{model_->tokens().eot};
  for (int32_t id = 60; id < static_cast<int32_t>(model_->decoder().n_vocab()); ++id) {
    suppressed.push_back(id);
  }
  model_->decoder().set_suppressed(suppressed);
  const auto n_different = [&](float penalty) {
    const std::vector<int32_t> tokens =
        decode(one, {.sampling = {.repetition_penalty = penalty}}).tokens;
    return std::set<int32_t>(tokens.begin(), tokens.end()).size();
  };
  EXPECT_LT(n_different(1), 40u);
  EXPECT_GT(n_different(50), n_different(1) + 3);
}

TEST_F(Sampling, PrefixTokensStartTheAnswer) {
  DecodeTask one = task(20);
  const std::vector<int32_t> given{model_->tokens().timestamp_begin, 400, 401};
  one.prompt.insert(one.prompt.end(), given.begin(), given.end());
  one.n_given = 3;
  for (const uint32_t n : {1u, 4u}) {
    const DecodeResult found = decode(one, {.sampling = {.temperature = 1}, .n_candidates = n});
    ASSERT_EQ(found.tokens.size(), 40u);
    EXPECT_EQ(std::vector<int32_t>(found.tokens.begin(), found.tokens.begin() + 3), given);
  }
  const DecodeResult found = decode(one, {.n_candidates = 4, .max_finished = 4});
  ASSERT_EQ(found.tokens.size(), 40u);
  EXPECT_EQ(std::vector<int32_t>(found.tokens.begin(), found.tokens.begin() + 3), given);
}

}  // namespace
}  // namespace vesper::sampling_test
