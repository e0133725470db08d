// Damaged tokenizers: every truncation of small files and up to 100,000 seeded flips of their bytes
// give an error or a tokenizer whose ids are in range, never a crash.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "error/error.h"
#include "llm/chat/chat_template.h"
#include "llm/files/mapped_file.h"
#include "llm/tokenizer/files/gguf_tokenizer.h"
#include "llm/tokenizer/files/open_text_tokenizer.h"
#include "llm/tokenizer/files/sentence_piece_model.h"
#include "tests/damage_rounds.h"
#include "tests/llm/weights/gguf_bytes.h"

namespace vesper::tokenizer_damage_test {
namespace {

constexpr std::string_view kTexts[] = {
    "The next  word, don't <s>①é日本 \t\n 12345 👍🏽 a\u0323\u0301 ===",
    "\xff\xfe half \xe6\x97"};

void use(const TextTokenizer& tokenizer) {
  for (const std::string_view text : kTexts) {
    for (const int32_t id : tokenizer.encode(text, true, true)) {
      ASSERT_GE(id, 0);
      ASSERT_LT(static_cast<uint32_t>(id), tokenizer.n_vocab());
    }
    tokenizer.decode(tokenizer.encode(text, false, false), true);
  }
}

// Calls `load` with truncated and changed bytes. Returns how often it succeeded.
template <typename Load>
int damage(const std::vector<uint8_t>& sound, size_t n_cuts, size_t n_flips, const Load& load) {
  int n_loaded = 0;
  const auto attempt = [&](std::vector<uint8_t> bytes) {
    try {
      load(std::move(bytes));
      ++n_loaded;
    } catch (const Error&) {
    }
  };
  for (size_t i = 0; i < n_cuts; ++i) {
    const size_t n = sound.size() * i / n_cuts;
    attempt({sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(n)});
  }
  std::mt19937 random(17);
  for (size_t i = 0; i < n_flips; ++i) {
    std::vector<uint8_t> bytes = sound;
    for (uint32_t n = 1 + random() % 4; n > 0; --n) {
      // Half of them printable, so that some strings remain valid.
      const auto byte = static_cast<uint8_t>(random());
      bytes[random() % bytes.size()] = random() % 2 == 0 ? byte : 32 + byte % 95;
    }
    attempt(std::move(bytes));
  }
  return n_loaded;
}

std::vector<uint8_t> bytes_of(const std::filesystem::path& path) {
  const MappedFile file(path);
  return {file.bytes().begin(), file.bytes().end()};
}

TEST(DamagedTokenizer, JsonIsAnErrorOrATokenizer) {
  for (const char* name : {"llama3", "llama2", "odd", "bert", "xlmr", "clip"}) {
    const auto sound = bytes_of(std::filesystem::path(TOKENIZER_FOLDER) / name / "tokenizer.json");
    const int n =
        damage(sound, sound.size(), damage_rounds(17'000), [](std::vector<uint8_t> bytes) {
          const auto file = std::make_shared<const MappedFile>("tokenizer.json", std::move(bytes));
          use(*open_text_tokenizer(ModelFiles("x", {file})));
        });
    EXPECT_GT(n, 0) << name;  // most flips change a spelling
  }
}

TEST(DamagedTokenizer, SentencePieceModelIsAnErrorOrATokenizer) {
  for (const char* name : {"spm_llama", "spm_t5"}) {
    const auto sound = bytes_of(std::filesystem::path(TOKENIZER_FOLDER) / name / "tokenizer.model");
    const int n =
        damage(sound, sound.size(), damage_rounds(50'000), [](std::vector<uint8_t> bytes) {
          use(TextTokenizer(
              tokenizer_of_sentence_piece(read_sentence_piece_model("tokenizer.model", bytes))));
        });
    EXPECT_GT(n, 0) << name;
  }
}

TEST(DamagedTokenizer, GgufMetadataIsAnErrorOrATokenizer) {
  GgufBytes bpe;
  std::vector<std::string> tokens;
  for (char c = '!'; c <= '~'; ++c) tokens.emplace_back(1, c);
  tokens.insert(tokens.end(), {"Ġ", "th", "he", "the", "Ġthe", "<s>"});
  std::vector<int32_t> types(tokens.size(), 1);
  types.back() = 3;
  bpe.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "llama-bpe");
  bpe.strings("tokenizer.ggml.tokens", tokens);
  bpe.array("tokenizer.ggml.token_type", 5, types);
  bpe.strings("tokenizer.ggml.merges", {"t h", "h e", "th e", "Ġ the"});
  bpe.scalar<uint32_t>("tokenizer.ggml.bos_token_id", 4, static_cast<uint32_t>(tokens.size() - 1));
  const auto load = [](std::vector<uint8_t> bytes) {
    const auto file = std::make_shared<const MappedFile>("model.gguf", std::move(bytes));
    const Gguf gguf = read_gguf_files(ModelFiles("here", {file}), file);
    use(TextTokenizer(read_gguf_tokenizer("model.gguf", gguf)));
  };
  load(bpe.bytes());
  EXPECT_GT(damage(bpe.bytes(), bpe.bytes().size(), damage_rounds(100'000), load), 0);
}

TEST(DamagedTokenizer, ChatTemplateIsAnErrorOrText) {
  const std::string_view source =
      "{%- set ns = namespace(n=0, found=false) -%}{% macro show(m, d='x') %}{{ m.role | upper }}: "
      "{{ m['content'] | trim | replace('a', 'b') }}{% endmacro %}{{ bos_token }}"
      "{% for m in messages if m.role != 'tool' %}{% if loop.first and m.role == 'system' %}"
      "{{- raise_exception('no') if m.content is none else show(m) }}{% elif loop.index0 % 2 == 0 "
      "%}"
      "{% set ns.n = ns.n + 1 %}{{ show(m, d=messages[-1:]) ~ '\\n' }}{% else %}"
      "{{ m | tojson(indent=2) }}{% endif %}{% endfor %}{{ ns.n * 'ab' }}{{ range(3) | list | "
      "join(',') }}"
      "{% set x %}a{{ 1 }}{% endset %}{{ x[::-1] }}{{ 'A %s' % x }}{{ strftime_now('%Y') | int > 5 "
      "}}"
      "{% call(u) show(messages[0]) %}{{ u }}{% endcall %}{{ messages | map(attribute='role') | "
      "list }}"
      "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{# end #}";
  const nlohmann::ordered_json variables = {{"messages",
                                             {{{"role", "system"}, {"content", " aha "}},
                                              {{"role", "user"}, {"content", "hi"}},
                                              {{"role", "assistant"}, {"content", "日"}}}},
                                            {"bos_token", "<s>"}};
  const auto load = [&](const std::vector<uint8_t>& bytes) {
    const ChatTemplate chat({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    EXPECT_LT(chat.render(variables, std::time_t{0}).size(), 200'000'000u);
  };
  const std::vector<uint8_t> sound(source.begin(), source.end());
  load(sound);
  EXPECT_GT(damage(sound, sound.size(), damage_rounds(100'000), load), 0);
}

}  // namespace
}  // namespace vesper::tokenizer_damage_test
