// TextSession: the same answers with drafts, of the text itself and of a draft model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "tests/session/text/tiny_text_fixture.h"

namespace vesper::tiny_text_test {
namespace {

using testing::HasSubstr;

// Texts that go round are drafted; sampled ones hardly ever.
TEST_F(TinyText, AnswersTheSameWithDrafts) {
  std::vector<TextRequest> requests;
  for (int i = 0; i < 4; ++i) {
    requests.push_back({Ids{7, 8, 9, 7, 8, 9, 7 + i}, limit(40)});
    requests.back().options.end_loops = false;
    if (i == 3) requests.back().options.sampling = {.temperature = 1, .seed = 5};
  }
  std::vector<Ids> plain;
  for (const TextRequest& request : requests) plain.push_back(ids_of(open().answer(request)));
  options_.speculate = Speculate::kNgram;
  TextSession& session = open();
  uint64_t n_drafted = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const TextAnswer answer = session.answer(requests[i]);
    EXPECT_EQ(ids_of(answer), plain[i]) << i;
    EXPECT_LE(answer.statistics.n_accepted, answer.statistics.n_drafted);
    n_drafted += answer.statistics.n_drafted;
  }
  EXPECT_GT(n_drafted, 0u);
}

// The model is its own draft: its tokens are right.
TEST_F(TinyText, AnswersTheSameWithADraftModel) {
  options_.n_slots = 2;
  begins_ = true;
  open();
  std::vector<TextRequest> requests;
  for (int i = 0; i < 6; ++i) requests.push_back({Ids{1, 8, 9, 7, 8, 9, 7 + i}, limit(40)});
  for (TextRequest& request : requests) request.options.end_loops = false;
  requests[1].options.sampling = {.temperature = 1, .repetition_penalty = 1.2f, .seed = 5};
  requests[2].options.stops = {session_->answer(requests[2]).text.substr(5, 2)};
  requests[3].options.context_shift = requests[3].options.ignore_end = true;
  requests[3].options.max_tokens = 150;  // the context is 64
  requests[4].prompt = {1, 8, 2};        // it thinks
  requests[5].options.ignore_end = true;
  std::vector<TextAnswer> plain;
  for (const TextRequest& request : requests) plain.push_back(session_->answer(request));
  EXPECT_EQ(plain[2].end, AnswerEnd::kStop);
  EXPECT_EQ(plain[3].tokens.size(), 150u);
  EXPECT_NE(plain[4].thinking, "");

  options_.draft = session_->shared_model();
  TextSession& session = open();
  std::vector<TextAnswer> found(requests.size());
  size_t n_given = 0;
  const TextStatistics totals = session.answer_many([&](bool) -> std::optional<TextJob> {
    if (n_given == requests.size()) return std::nullopt;
    const size_t i = n_given++;
    return TextJob{.request = requests[i],
                   .on_done = [&, i](TextAnswer answer) { found[i] = std::move(answer); }};
  });
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(ids_of(found[i]), ids_of(plain[i])) << i;
    EXPECT_EQ(found[i].text, plain[i].text) << i;
    EXPECT_EQ(found[i].thinking, plain[i].thinking) << i;
    EXPECT_EQ(found[i].end, plain[i].end) << i;
  }
  EXPECT_GT(totals.n_accepted, 0u);
  EXPECT_LE(totals.n_accepted, totals.n_drafted);
  // Again, with what both models have cached, and with a saved prompt.
  EXPECT_EQ(ids_of(session.answer(requests[0])), ids_of(plain[0]));
  const std::vector<std::byte> kept = session.save_prompt();
  TextSession& other = open();
  other.restore_prompt(kept);
  const TextAnswer answer = other.answer(requests[0]);
  EXPECT_EQ(ids_of(answer), ids_of(plain[0]));
  EXPECT_EQ(answer.statistics.n_reused, 6u);
}

TEST_F(TinyText, RefusesDraftModelsWithOtherTokens) {
  open();
  const TemporaryFolder other;
  write_tiny_text_weights(other.path());
  EXPECT_THROW(
      {
        options_.draft = std::make_shared<const TextModel>(other.path());
        open();
      },
      Error)
      << "it has no tokenizer";
  write_letter_tokenizer(other.path());
  std::string text = read_file(other.path() / "tokenizer.json");
  const size_t at = text.find("\"b\":6");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 5, "\"*\":6");
  write_file(other.path() / "tokenizer.json", text);
  options_.draft = std::make_shared<const TextModel>(other.path());
  try {
    open();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.setting(), "draft");
    EXPECT_THAT(error.what(), HasSubstr("found '*' for token 6, 'b'"));
  }
  options_.draft = session_->shared_model();
  options_.speculate = Speculate::kNgram;
  EXPECT_EQ(setting_of([&] { open(); }), "draft");
  options_.speculate = Speculate::kOff;
  options_.beam_size = 2;
  EXPECT_EQ(setting_of([&] { open(); }), "draft");
}

}  // namespace
}  // namespace vesper::tiny_text_test
