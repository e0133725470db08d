// The effect of decoding settings on real recordings, with the real base model (from
// scripts/fetch-models.sh): each expectation fails if the setting is ignored. Settings with tests
// elsewhere are not here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "decoder/windows/recording_transcriber.h"
#include "error/error.h"
#include "tests/decoder/greedy_settings.h"
#include "tests/decoder/real_recordings.h"

namespace vesper::decoding_options_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Debian's pocketsphinx-testdata (3.3 s) and asterisk-core-sounds-fr-wav (8.1 s, about "appuyez sur
// 2").
constexpr const char* kEnglish =
    "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0930.wav";
constexpr const char* kFrench = "/usr/share/asterisk/sounds/fr_CA_f_June/vm-opts.wav";

TEST(SearchOf, FollowsTheSettings) {
  DecodingSettings settings = greedy_settings();
  settings.beam_size = 4;
  settings.patience = 2;
  settings.best_of = 3;
  settings.length_penalty = 0.5;
  settings.top_k = 9;
  settings.top_p = 0.75;
  settings.min_p = 0.25;
  const Search beams = search_of(settings, 0), drawn = search_of(settings, 0.4);
  EXPECT_EQ(beams.n_candidates, 4u);
  EXPECT_EQ(beams.max_finished, 8u);
  EXPECT_EQ(beams.length_penalty, 0.5);
  EXPECT_EQ(drawn.n_candidates, 3u);
  EXPECT_EQ(drawn.max_finished, 0u);
  EXPECT_EQ(drawn.sampling.temperature, 0.4f);
  EXPECT_EQ(drawn.sampling.top_k, 9u);
  EXPECT_EQ(drawn.sampling.top_p, 0.75f);
  EXPECT_EQ(drawn.sampling.min_p, 0.25f);
  // Steps have filters only if they have an effect.
  EXPECT_TRUE(drawn.shape(1).has_filters);
  EXPECT_FALSE(beams.shape(1).has_filters);
  EXPECT_FALSE(search_of(greedy_settings(), 0.4).shape(1).has_filters);
}

TEST(DecodingOptions, HaveTheirEffect) {
  const std::unique_ptr<SpeechSession> session = real_session("base");
  const auto transcribe = [&](const char* path, const auto& change) {
    DecodingSettings settings = greedy_settings();
    settings.language = path == kEnglish ? "en" : "fr";
    change(settings);
    return session->transcribe({.path = path}, {.decoding = settings});
  };
  const auto hear = [&](const auto& change) { return transcribe(kEnglish, change); };
  const auto text = [](const Transcript& transcript) {
    std::string joined;
    for (const Segment& segment : transcript.segments) joined += segment.text;
    return joined;
  };
  // Of all windows.
  const auto logprob = [](const Transcript& transcript) {
    return transcript.segments.empty() ? 0 : transcript.segments.back().avg_logprob;
  };
  const Transcript plain = hear([](DecodingSettings&) {});
  ASSERT_EQ(text(plain), " He might even have been made amiable himself.");

  EXPECT_THAT(text(transcribe(kFrench, [](auto& s) { s.language = "fr"; })), HasSubstr("appuyez"));
  EXPECT_THAT(text(transcribe(kFrench, [](auto& s) { s.translate = true; })),
              Not(HasSubstr("appuyez")));
  EXPECT_THAT(text(transcribe(kFrench, [](auto&) {})), HasSubstr("2"));
  EXPECT_THAT(text(transcribe(kFrench, [](auto& s) { s.suppress_numerals = true; })),
              Not(HasSubstr("2")));
  EXPECT_EQ(hear([](auto& s) { s.language = "de"; }).segments.at(0).language, "de");

  EXPECT_THAT(text(hear([](auto& s) { s.prefix = "Oh, he"; })), StartsWith(" Oh, he"));
  EXPECT_NE(logprob(hear([](auto& s) { s.initial_prompt = "Elinor, Marianne"; })), logprob(plain));
  EXPECT_NE(logprob(hear([](auto& s) { s.hotwords = "amiable"; })), logprob(plain));
  EXPECT_THAT(text(hear([](auto& s) { s.suppress_regex = ".*himself.*"; })),
              Not(HasSubstr("himself")));
  const auto regex = [](const std::string& pattern) {
    return GrammarOptions{.notation = GrammarNotation::kRegex, .text = pattern};
  };
  EXPECT_EQ(text(hear([&](auto& s) { s.grammar = regex("(She|He) might[a-z ]*self"); })),
            " He might even have been made amiable himself");
  // The tokens of the model's list, such as quotation marks, may be sampled.
  EXPECT_EQ(text(hear([&](auto& s) {
              s.grammar = regex("\"He might\"|\"She may\"");
              s.without_timestamps = true;
            })),
            " \"He might\"");
  EXPECT_EQ(text(hear([&](auto& s) {
              s.grammar = regex("(She|He) [a-z ]*self");
              s.prefix = "She";
            })).substr(0, 5),
            " She ");
  EXPECT_THROW(hear([&](auto& s) {
                 s.grammar = regex("(She|He) [a-z ]*self");
                 s.prefix = "They";
               }),
               Error);
  EXPECT_EQ(text(hear([&](auto& s) {
              s.grammar = regex("one|two");
              s.without_timestamps = true;
              s.suppress_regex = " ?[Tt].*";
            })),
            " one");
  const int32_t token = plain.segments[0].tokens[3];
  const auto said = hear([&](auto& s) { s.suppress_tokens = {token}; }).segments.at(0).tokens;
  EXPECT_EQ(std::count(said.begin(), said.end(), token), 0);

  EXPECT_THAT(text(hear([](auto& s) { s.clip_timestamps = {0, 1.2}; })), Not(HasSubstr("himself")));
  // Two clips; the second has the text of the first as prompt.
  const auto clips = [](auto& s) { s.clip_timestamps = {0, 1.2, 1.2, 3.3}; };
  EXPECT_NE(logprob(hear(clips)), logprob(hear([&](auto& s) {
              clips(s);
              s.condition_on_previous_text = false;
            })));
  EXPECT_NE(logprob(hear([&](auto& s) {
              clips(s);
              s.initial_prompt = "Elinor";
              s.condition_on_previous_text = false;
            })),
            logprob(hear([&](auto& s) {
              clips(s);
              s.initial_prompt = "Elinor";
              s.condition_on_previous_text = false;
              s.carry_initial_prompt = true;
            })));
  // The first token is a timestamp; limited to 0, it does not cost other probabilities.
  EXPECT_GT(logprob(hear([](auto& s) { s.max_initial_timestamp_s = 0; })), logprob(plain));
  const auto untimed = hear([](auto& s) { s.without_timestamps = true; });
  ASSERT_EQ(untimed.segments.size(), 1u);
  EXPECT_LT(untimed.segments[0].tokens.size(), plain.segments[0].tokens.size());
  EXPECT_LE(hear([](auto& s) { s.max_new_tokens = 4; }).segments.at(0).tokens.size(), 4u);

  const auto drawn = [](uint32_t seed, uint32_t best_of) {
    return [=](auto& s) {
      s.temperatures = {1};
      s.seed = seed;
      s.best_of = best_of;
      s.logprob_threshold.reset();
      s.suppress_regex = "\\.";  // so that sampling has a choice
    };
  };
  EXPECT_EQ(logprob(hear(drawn(1, 1))), logprob(hear(drawn(1, 1))));
  std::set<double> by_seed;
  for (uint32_t seed = 1; seed <= 4; ++seed) by_seed.insert(logprob(hear(drawn(seed, 1))));
  EXPECT_GT(by_seed.size(), 1u);
  EXPECT_GE(logprob(hear(drawn(1, 5))), *by_seed.begin());
  EXPECT_NE(logprob(hear(drawn(1, 5))), logprob(hear(drawn(1, 1))));

  EXPECT_NE(logprob(hear([](auto& s) { s.repetition_penalty = 3; })), logprob(plain));
  std::vector<int32_t> once =
      hear([](auto& s) { s.no_repeat_ngram_size = 1; }).segments.at(0).tokens;
  std::sort(once.begin(), once.end());
  EXPECT_EQ(std::adjacent_find(once.begin(), once.end()), once.end());
}

}  // namespace
}  // namespace vesper::decoding_options_test
