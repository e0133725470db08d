// Real models on real speech compared with openai-whisper 20250625 (f32, CPU) on the same weights.
//
// The recordings are from Debian's pocketsphinx-testdata, the models from scripts/fetch-models.sh.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "audio/samples.h"
#include "decoder/whisper_model.h"
#include "decoder/windows/recording_transcriber.h"
#include "llm/devices/open_device.h"
#include "tests/decoder/greedy_settings.h"
#include "tests/decoder/real_recordings.h"
#include "tests/fetched_model.h"

namespace vesper::whisper_golden_test {
namespace {

struct Logit {
  int32_t id;
  float value;
};

struct Golden {
  const char* model;
  // Results of model.transcribe(clip, temperature=0, beam_size=None) by sentence; each is one
  // segment from 0 to end_s. With beam_size=5 segment and text are the same except for the mean
  // log-probability and, if there is a beam_text, the text.
  struct Sentence {
    const char* number;
    const char* text;
    double end_s;
    double beam_logprob;
    const char* beam_text = nullptr;
  };
  std::vector<Sentence> sentences;
  // For sentence 0870: the start sequence, and the ten highest logits after it.
  std::vector<int32_t> start;
  std::vector<Logit> top;
  // For sentence 0920: the same call with word_timestamps=True.
  std::vector<Word> words;
};

const Golden kTinyEn{
    "tiny.en",
    {{"0870",
      " And Mr. John Dashwood had then leisure to consider how much there might be prudently in "
      "his "
      "power to do for them.",
      7.0, -0.2229},
     {"0880", " He was not an old-sposed young man.", 3.0, -0.4007},
     {"0890", " Unless to be rather cold-hearted and rather selfish is to be ill-disposed.", 5.0,
      -0.3396},
     {"0920",
      " Had he married a more amiable woman, he might have been made still more respectable than "
      "he "
      "was.",
      6.0, -0.1786},
     {"0930", " He might even have been made amiable himself.", 3.0, -0.2801}},
    {50257},
    {{50362, 24.1819f},
     {50363, 24.0084f},
     {50361, 21.2916f},
     {50367, 17.7965f},
     {50371, 17.6374f},
     {50373, 17.4459f},
     {50375, 17.2734f},
     {50368, 17.2529f},
     {50369, 17.2282f},
     {50374, 17.1209f}},
    {{0, 0.5, " Had", 0.631},
     {0.5, 0.74, " he", 0.975},
     {0.74, 0.98, " married", 0.983},
     {0.98, 1.38, " a", 0.996},
     {1.38, 1.6, " more", 0.998},
     {1.6, 2.12, " amiable", 0.935},
     {2.12, 2.5, " woman,", 0.999},
     {2.74, 2.86, " he", 0.991},
     {2.86, 3.1, " might", 0.994},
     {3.1, 3.3, " have", 0.991},
     {3.3, 3.52, " been", 0.992},
     {3.52, 3.9, " made", 0.992},
     {3.9, 4.18, " still", 0.98},
     {4.18, 4.48, " more", 0.998},
     {4.48, 4.92, " respectable", 0.991},
     {4.92, 5.24, " than", 0.995},
     {5.24, 5.42, " he", 0.994},
     {5.42, 5.74, " was.", 0.998}}};

const Golden kBase{
    "base",
    {{"0870",
      " And Mr. John Dashwood had then leisure to consider how much there might be prudently in "
      "his "
      "power to do for them.",
      7.0, -0.1420},
     {"0880", " He was not an ill-disposed young man.", 3.0, -0.3303},
     {"0890", " Unless to be rather cold-hearted and rather selfish is to be ill-disposed.", 5.0,
      -0.2875},
     {"0920",
      " Had he married a more amiable woman he might have been made still more respectable than he "
      "was?",
      6.0, -0.2008,
      " Had he married a more amiable woman, he might have been made still more respectable than "
      "he "
      "was."},
     {"0930", " He might even have been made amiable himself.", 3.0, -0.3594}},
    {50258, 50259, 50359},
    {{50363, 22.1534f},
     {50364, 21.7522f},
     {50372, 15.4917f},
     {50374, 15.4489f},
     {50368, 15.2707f},
     {50370, 15.2292f},
     {50366, 15.1884f},
     {50376, 15.1726f},
     {50369, 15.0999f},
     {50375, 15.0210f}},
    {{0, 0.44, " Had", 0.904},
     {0.44, 0.54, " he", 0.977},
     {0.54, 0.84, " married", 0.939},
     {0.84, 1.06, " a", 0.993},
     {1.06, 1.32, " more", 0.998},
     {1.32, 1.92, " amiable", 0.897},
     {1.92, 2.32, " woman", 0.996},
     {2.32, 2.68, " he", 0.417},
     {2.68, 2.92, " might", 0.977},
     {2.92, 3.18, " have", 0.983},
     {3.18, 3.32, " been", 0.972},
     {3.32, 3.6, " made", 0.978},
     {3.6, 4, " still", 0.948},
     {4, 4.22, " more", 0.992},
     {4.22, 4.78, " respectable", 0.956},
     {4.78, 5.14, " than", 0.987},
     {5.14, 5.22, " he", 0.989},
     {5.22, 5.58, " was?", 0.996}}};

std::unique_ptr<WhisperModel> load(const std::string& name, const std::string& device,
                                   Compute compute, uint32_t n_candidates = 1) {
  return std::make_unique<WhisperModel>(fetched_model(name), open_device(device), compute, 1,
                                        n_candidates);
}

MelSpectrogram log_mel(const WhisperModel& model, const std::string& sentence) {
  return read_log_mel(AudioReader(librivox_sentence(sentence)), static_cast<int>(model.n_mels()),
                      model.mel_filters());
}

struct Case {
  const Golden* golden;
  const char* device;
};

class WhisperGolden : public testing::TestWithParam<Case> {};

TEST_P(WhisperGolden, GreedyDecodingInF32EqualsTheReference) {
  const auto model = load(GetParam().golden->model, GetParam().device, Compute::kF32);
  for (const Golden::Sentence& sentence : GetParam().golden->sentences) {
    DecodingSettings reference = greedy_settings();
    reference.policy = WindowPolicy::reference();
    const Transcript transcript =
        transcribe_recording(*model, log_mel(*model, sentence.number), reference, {}, {});
    EXPECT_EQ(transcript.language, "en");
    ASSERT_EQ(transcript.segments.size(), 1u) << sentence.number;
    EXPECT_EQ(transcript.segments[0].text, sentence.text);
    EXPECT_NEAR(transcript.segments[0].start_s, 0, 0.021);
    EXPECT_NEAR(transcript.segments[0].end_s, sentence.end_s, 0.021);
  }
}

TEST_P(WhisperGolden, FiveBeamsInF32EqualTheReference) {
  const auto model = load(GetParam().golden->model, GetParam().device, Compute::kF32, 5);
  DecodingSettings settings = greedy_settings();
  settings.beam_size = 5;
  std::vector<Golden::Sentence> sentences = GetParam().golden->sentences;
  // If kernels run on a software device, one recording is enough.
  if (std::string(GetParam().device) != "cpu") sentences.resize(1);
  for (const Golden::Sentence& sentence : sentences) {
    const Transcript transcript =
        transcribe_recording(*model, log_mel(*model, sentence.number), settings, {}, {});
    ASSERT_EQ(transcript.segments.size(), 1u) << sentence.number;
    EXPECT_EQ(transcript.segments[0].text, sentence.beam_text ? sentence.beam_text : sentence.text);
    EXPECT_NEAR(transcript.segments[0].avg_logprob, sentence.beam_logprob, 5e-3);
    EXPECT_NEAR(transcript.segments[0].start_s, 0, 0.021);
    EXPECT_NEAR(transcript.segments[0].end_s, sentence.end_s, 0.021);
  }
}

TEST_P(WhisperGolden, LogitsInF32AreWithin001OfTheReference) {
  const Golden& golden = *GetParam().golden;
  const auto model = load(golden.model, GetParam().device, Compute::kF32);
  const MelSpectrogram mel = log_mel(*model, "0870");
  std::vector<float> window(size_t{model->n_frames()} * model->n_mels());
  mel.window({.n_frames = model->n_frames(), .beyond = MelFrames::Beyond::kSilence}, window.data());
  model->encode(window.data());
  const std::vector<float> logits = model->decoder().prompt_logits(golden.start);
  const float* last = logits.data() + (golden.start.size() - 1) * model->decoder().n_vocab();
  for (const Logit& logit : golden.top) EXPECT_NEAR(last[logit.id], logit.value, 1e-2) << logit.id;
}

class WhisperWords : public testing::TestWithParam<Case> {};

TEST_P(WhisperWords, InF32EqualTheReference) {
  const Golden& golden = *GetParam().golden;
  const auto model = load(golden.model, GetParam().device, Compute::kF32);
  DecodingSettings settings = greedy_settings();
  settings.word_timestamps = true;
  const Transcript transcript =
      transcribe_recording(*model, log_mel(*model, "0920"), settings, {}, {});
  ASSERT_EQ(transcript.segments.size(), 1u);
  const Segment& segment = transcript.segments[0];
  ASSERT_EQ(segment.words.size(), golden.words.size());
  for (size_t i = 0; i < golden.words.size(); ++i) {
    const Word &found = segment.words[i], &wanted = golden.words[i];
    EXPECT_EQ(found.text, wanted.text);
    EXPECT_NEAR(found.start_s, wanted.start_s, 0.021) << found.text;
    EXPECT_NEAR(found.end_s, wanted.end_s, 0.021) << found.text;
    EXPECT_NEAR(found.probability, wanted.probability, 0.005) << found.text;
  }
  EXPECT_EQ(segment.start_s, segment.words.front().start_s);
  EXPECT_EQ(segment.end_s, segment.words.back().end_s);
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = std::string(info.param.golden->model) + "_" + info.param.device;
  for (char& c : name) {
    if (c == '.' || c == ':') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cpu, WhisperGolden,
                         testing::Values(Case{&kTinyEn, "cpu"}, Case{&kBase, "cpu"}), case_name);
INSTANTIATE_TEST_SUITE_P(Cpu, WhisperWords,
                         testing::Values(Case{&kTinyEn, "cpu"}, Case{&kBase, "cpu"}), case_name);
#ifdef VESPER_HAS_VULKAN
INSTANTIATE_TEST_SUITE_P(Lavapipe, WhisperGolden, testing::Values(Case{&kTinyEn, "vulkan"}),
                         case_name);
#endif

}  // namespace
}  // namespace vesper::whisper_golden_test
