#include "llm/tokenizer/whisper_tokens.h"

#include <algorithm>
#include <set>
#include <string>

#include "error/error.h"
#include "llm/tokenizer/models/byte_pair_encoding.h"
#include "llm/tokenizer/steps/text_splitters.h"

namespace vesper {
namespace {

constexpr WhisperLanguage kLanguages[] = {
    {"en", "english"},        {"zh", "chinese"},     {"de", "german"},        {"es", "spanish"},
    {"ru", "russian"},        {"ko", "korean"},      {"fr", "french"},        {"ja", "japanese"},
    {"pt", "portuguese"},     {"tr", "turkish"},     {"pl", "polish"},        {"ca", "catalan"},
    {"nl", "dutch"},          {"ar", "arabic"},      {"sv", "swedish"},       {"it", "italian"},
    {"id", "indonesian"},     {"hi", "hindi"},       {"fi", "finnish"},       {"vi", "vietnamese"},
    {"he", "hebrew"},         {"uk", "ukrainian"},   {"el", "greek"},         {"ms", "malay"},
    {"cs", "czech"},          {"ro", "romanian"},    {"da", "danish"},        {"hu", "hungarian"},
    {"ta", "tamil"},          {"no", "norwegian"},   {"th", "thai"},          {"ur", "urdu"},
    {"hr", "croatian"},       {"bg", "bulgarian"},   {"lt", "lithuanian"},    {"la", "latin"},
    {"mi", "maori"},          {"ml", "malayalam"},   {"cy", "welsh"},         {"sk", "slovak"},
    {"te", "telugu"},         {"fa", "persian"},     {"lv", "latvian"},       {"bn", "bengali"},
    {"sr", "serbian"},        {"az", "azerbaijani"}, {"sl", "slovenian"},     {"kn", "kannada"},
    {"et", "estonian"},       {"mk", "macedonian"},  {"br", "breton"},        {"eu", "basque"},
    {"is", "icelandic"},      {"hy", "armenian"},    {"ne", "nepali"},        {"mn", "mongolian"},
    {"bs", "bosnian"},        {"kk", "kazakh"},      {"sq", "albanian"},      {"sw", "swahili"},
    {"gl", "galician"},       {"mr", "marathi"},     {"pa", "punjabi"},       {"si", "sinhala"},
    {"km", "khmer"},          {"sn", "shona"},       {"yo", "yoruba"},        {"so", "somali"},
    {"af", "afrikaans"},      {"oc", "occitan"},     {"ka", "georgian"},      {"be", "belarusian"},
    {"tg", "tajik"},          {"sd", "sindhi"},      {"gu", "gujarati"},      {"am", "amharic"},
    {"yi", "yiddish"},        {"lo", "lao"},         {"uz", "uzbek"},         {"fo", "faroese"},
    {"ht", "haitian creole"}, {"ps", "pashto"},      {"tk", "turkmen"},       {"nn", "nynorsk"},
    {"mt", "maltese"},        {"sa", "sanskrit"},    {"lb", "luxembourgish"}, {"my", "myanmar"},
    {"bo", "tibetan"},        {"tl", "tagalog"},     {"mg", "malagasy"},      {"as", "assamese"},
    {"tt", "tatar"},          {"haw", "hawaiian"},   {"ln", "lingala"},       {"ha", "hausa"},
    {"ba", "bashkir"},        {"jw", "javanese"},    {"su", "sundanese"},     {"yue", "cantonese"},
};
static_assert(std::size(kLanguages) == 100);

// Aliases of a language, and its code.
constexpr WhisperLanguage kOtherNames[] = {
    {"my", "burmese"},       {"ca", "valencian"}, {"nl", "flemish"},   {"ht", "haitian"},
    {"lb", "letzeburgesch"}, {"ps", "pushto"},    {"pa", "panjabi"},   {"ro", "moldavian"},
    {"ro", "moldovan"},      {"si", "sinhalese"}, {"es", "castilian"}, {"zh", "mandarin"},
};

constexpr uint32_t kEnglishVocabulary = 51864;

// Signs that are suppressed if one token has them, alone or after a space.
constexpr const char* kSigns[] = {"\"",  "#",  "(",   ")",  "*",  "+",  "/",   ":",  ";",  "<",
                                  "=",   ">",  "@",   "[",  "\\", "]",  "^",   "_",  "`",  "{",
                                  "|",   "}",  "~",   "「", "」", "『", "』",  "<<", ">>", "<<<",
                                  ">>>", "--", "---", "-(", "-[", "('", "(\"", "((", "))", "(((",
                                  ")))", "[[", "]]",  "{{", "}}", "♪♪", "♪♪♪"};
// Music signs; their first token is always suppressed.
constexpr const char* kMusic[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};

}  // namespace

std::span<const WhisperLanguage> whisper_languages() { return kLanguages; }

std::optional<uint32_t> find_whisper_language(std::string_view name) {
  std::string wanted(name);
  std::transform(wanted.begin(), wanted.end(), wanted.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const WhisperLanguage& other : kOtherNames) {
    if (wanted == other.name) wanted = other.code;
  }
  for (uint32_t index = 0; index < std::size(kLanguages); ++index) {
    if (wanted == kLanguages[index].code || wanted == kLanguages[index].name) return index;
  }
  return std::nullopt;
}

WhisperTokens WhisperTokens::of_vocabulary_size(uint32_t n_vocab) {
  if (n_vocab < kEnglishVocabulary || n_vocab > kEnglishVocabulary + 2) {
    throw Error(ErrorKind::kModel,
                "expected a Whisper vocabulary of 51864 (English), 51865 or 51866 tokens "
                "(multilingual), found " +
                    std::to_string(n_vocab));
  }
  WhisperTokens tokens;
  tokens.n_vocab = n_vocab;
  tokens.is_multilingual = n_vocab > kEnglishVocabulary;
  tokens.n_languages = n_vocab == kEnglishVocabulary + 2 ? 100 : 99;
  tokens.eot = tokens.is_multilingual ? 50257 : 50256;
  // The others follow in this order.
  int32_t next = tokens.eot + 1;
  tokens.sot = next++;
  tokens.first_language = next;
  next += static_cast<int32_t>(tokens.n_languages);
  tokens.translate = next++;
  tokens.transcribe = next++;
  tokens.solm = next++;
  tokens.prev = next++;
  tokens.nospeech = next++;
  tokens.notimestamps = next++;
  tokens.timestamp_begin = next;
  return tokens;
}

std::optional<int32_t> WhisperTokens::language_token(uint32_t index) const {
  if (index >= n_languages) return std::nullopt;
  return first_language + static_cast<int32_t>(index);
}

std::optional<int32_t> WhisperTokens::language_token(std::string_view name) const {
  const auto index = find_whisper_language(name);
  return index ? language_token(*index) : std::nullopt;
}

const WhisperLanguage* WhisperTokens::language_of(int32_t token) const {
  const int32_t index = token - first_language;
  if (index < 0 || static_cast<uint32_t>(index) >= n_languages) return nullptr;
  return &kLanguages[index];
}

std::array<int32_t, 6> WhisperTokens::suppressed_special() const {
  return {translate, transcribe, sot, solm, prev, nospeech};
}

std::unique_ptr<const TextTokenizer> whisper_tokenizer(std::vector<std::string> vocabulary,
                                                       uint32_t n_text_tokens) {
  const auto n = static_cast<int32_t>(std::min<size_t>(n_text_tokens, vocabulary.size()));
  const auto text_tokens = std::make_shared<const Vocabulary>(
      vocabulary, Vocabulary::Duplicates::kFirst, [n](int32_t id) { return id < n; });
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (text_tokens->find({&text, 1}) < 0) {
      throw Error(ErrorKind::kModel,
                  "expected a vocabulary with a token for each of the 256 bytes, found none for "
                  "byte " +
                      std::to_string(byte) + " among " + std::to_string(n) + " tokens");
    }
  }
  TokenizerParts parts;
  parts.kind = "byte-level BPE, Whisper";
  parts.spellings = std::move(vocabulary);
  parts.splitters = {split_by_pattern(kGpt2Pattern, SplitBehavior::kIsolated, false)};
  RankedEncoding::Settings settings;
  settings.by_bytes = true;
  parts.encode_piece = piece_encoder<RankedEncoding>(text_tokens, std::move(settings));
  return std::make_unique<const TextTokenizer>(std::move(parts));
}

std::vector<int32_t> non_speech_tokens(const TextTokenizer& tokenizer) {
  const auto tokens_of = [&](std::string_view text) {
    return tokenizer.encode(text, false, false);
  };
  std::set<int32_t> chosen;
  // Dashes and apostrophes are parts of words; after a space they begin asides and quotations.
  chosen.insert(tokens_of(" -").front());
  chosen.insert(tokens_of(" '").front());
  for (const std::string space : {"", " "}) {
    for (const char* sign : kSigns) {
      const auto ids = tokens_of(space + sign);
      if (ids.size() == 1) chosen.insert(ids.front());
    }
    for (const char* note : kMusic) chosen.insert(tokens_of(space + note).front());
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace vesper
