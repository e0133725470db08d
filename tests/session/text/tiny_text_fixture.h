// TextSession with a tiny random model and a vocabulary of letters, on the CPU in f32.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "error/error.h"
#include "session/text/text_session.h"
#include "tests/child_process.h"
#include "tests/session/text/tiny_text_model.h"

namespace vesper::tiny_text_test {

using Ids = std::vector<int32_t>;

class TinyText : public testing::Test {
 protected:
  void SetUp() override {
    write_tiny_text_weights(folder_.path());
    options_.device = "cpu";
    options_.compute = "f32";
    options_.kv_type = DType::kF32;
  }

  TextSession& open(bool has_tokenizer = true) {
    if (has_tokenizer) write_letter_tokenizer(folder_.path(), has_template_, begins_);
    session_ = std::make_unique<TextSession>(folder_.path(), options_);
    return *session_;
  }
  static TextOptions limit(uint32_t max_tokens) { return {.max_tokens = max_tokens}; }
  static Ids ids_of(const TextAnswer& answer) {
    Ids ids;
    for (const TokenLogprob& token : answer.tokens) ids.push_back(token.id);
    return ids;
  }
  // The setting that the error names.
  template <class Body>
  std::string setting_of(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("expected"));
      return error.setting();
    }
    return "no error";
  }

  TemporaryFolder folder_;
  TextSessionOptions options_;
  bool has_template_ = true, begins_ = false;
  std::unique_ptr<TextSession> session_;
};

}  // namespace vesper::tiny_text_test
