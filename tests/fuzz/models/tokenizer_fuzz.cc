// Tokenizers of every kind: tokenizer.json, tokenizer.model, vocab.txt, vocab.json with merges.txt,
// and tokenizer_config.json.
#include "llm/tokenizer/files/open_text_tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace vesper::fuzz {
namespace {

std::shared_ptr<const MappedFile> file_of(const char* name, std::string_view text) {
  return std::make_shared<const MappedFile>(name, std::vector<uint8_t>(text.begin(), text.end()));
}

const SoundFolders& sound() {
  static const SoundFolders folders = [] {
    std::vector<Files> kinds;
    for (const char* name : {"llama3", "llama2", "odd", "bert", "xlmr", "clip", "t5", "spm_llama",
                             "spm_t5", "unigram_bytes"}) {
      kinds.push_back(files_of(std::filesystem::path(VOCABULARIES) / name));
      std::erase_if(kinds.back(), [](const auto& f) { return f->name() == "expected.json"; });
    }
    kinds.push_back({file_of("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n##re\na\n"),
                     file_of("tokenizer_config.json",
                             R"({"do_lower_case": true, "pad_token": "[PAD]",
                                 "added_tokens_decoder": {"7": {"content": "<s>"}}})")});
    kinds.push_back({file_of("vocab.json", R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})"),
                     file_of("merges.txt", "#version: 0.2\na b\n"),
                     file_of("tokenizer_config.json",
                             R"({"tokenizer_class": "GPT2Tokenizer", "eos_token": "ab"})")});
    return SoundFolders(std::move(kinds));
  }();
  return folders;
}

}  // namespace

std::vector<std::string> seeds() { return sound().seeds(); }

void use(Bytes input) {
  const auto tokenizer = open_text_tokenizer(sound().with(input));
  for (const std::string_view text :
       {std::string_view("The next  word, don't <s>①é日本 \t\n 123 ===  a\u0323\u0301"),
        std::string_view("\xff\xfe half \xe6\x97")}) {
    const std::vector<int32_t> ids = tokenizer->encode(text, true, true);
    for (const int32_t id : ids) {
      require(id >= 0 && static_cast<uint32_t>(id) < tokenizer->n_vocab(), "an id out of range");
    }
    tokenizer->decode(ids, true);
  }
}

}  // namespace vesper::fuzz
