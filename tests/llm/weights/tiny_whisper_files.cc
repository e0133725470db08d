#include "tests/llm/weights/tiny_whisper_files.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <numbers>
#include <stdexcept>

#include "llm/tokenizer/steps/byte_level.h"
#include "llm/tokenizer/whisper_tokens.h"

namespace vesper::test {
namespace {

constexpr uint32_t kFftBins = 201;

// Eight significant bits, nothing below f16's normal range: exact in every format of fractions.
float rounded(float value) {
  if (std::fabs(value) < 0x1p-13f) return 0.0f;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x8000) & 0xffff0000u);
}

// Slaney's scale: linear below 1 kHz, logarithmic above.
double mel_of(double hertz) {
  return hertz < 1000.0 ? hertz * 3.0 / 200.0
                        : 15.0 + std::log(hertz / 1000.0) * 27.0 / std::log(6.4);
}

double hertz_of(double mel) {
  return mel < 15.0 ? mel * 200.0 / 3.0 : 1000.0 * std::exp((mel - 15.0) * std::log(6.4) / 27.0);
}

}  // namespace

TinyWhisper::TinyWhisper(const TinyWhisperOptions& options)
    : options_(options), random_state_(options.seed) {
  const uint64_t d = options_.d_model;
  const float scale = 1.0f / std::sqrt(static_cast<float>(d));
  add("encoder.conv1.weight", {d, options_.n_mels, 3}, 0.1f, 0.0f);
  add("encoder.conv1.bias", {d}, 0.1f, 0.0f);
  add("encoder.conv2.weight", {d, d, 3}, scale, 0.0f);
  add("encoder.conv2.bias", {d}, 0.1f, 0.0f);
  add("encoder.position.weight", {options_.n_audio_ctx, d}, 0.5f, 0.0f);
  for (uint32_t n = 0; n < options_.n_encoder_layers; ++n) {
    add_layer("encoder.layers." + std::to_string(n), false);
  }
  add("encoder.norm.weight", {d}, 0.2f, 1.0f);
  add("encoder.norm.bias", {d}, 0.1f, 0.0f);
  add("decoder.embed.weight", {options_.n_vocab, d}, 0.5f, 0.0f);
  add("decoder.position.weight", {options_.n_text_ctx, d}, 0.5f, 0.0f);
  for (uint32_t n = 0; n < options_.n_decoder_layers; ++n) {
    add_layer("decoder.layers." + std::to_string(n), true);
  }
  add("decoder.norm.weight", {d}, 0.2f, 1.0f);
  add("decoder.norm.bias", {d}, 0.1f, 0.0f);
  build_vocabulary();
  build_mel_filters();
}

// Uniform in offset +- scale, by splitmix64 so that every machine makes the same model.
void TinyWhisper::add(const std::string& name, std::vector<uint64_t> shape, float scale,
                      float offset) {
  uint64_t n = 1;
  for (const uint64_t size : shape) n *= size;
  TinyTensor tensor{name, std::move(shape), std::vector<float>(n)};
  for (float& value : tensor.values) {
    uint64_t z = random_state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const float unit = static_cast<float>(z >> 40) * 0x1p-23f - 1.0f;  // [-1, 1)
    value = rounded(offset + scale * unit);
  }
  tensors_.push_back(std::move(tensor));
}

void TinyWhisper::add_layer(const std::string& layer, bool has_cross) {
  const uint64_t d = options_.d_model;
  const uint64_t ffn = options_.d_ffn;
  const float scale = 1.5f / std::sqrt(static_cast<float>(d));
  const auto add_norm = [&](const std::string& stem) {
    add(stem + ".weight", {d}, 0.2f, 1.0f);
    add(stem + ".bias", {d}, 0.1f, 0.0f);
  };
  const auto add_attention = [&](const std::string& stem) {
    for (const char* part : {".q", ".k", ".v", ".out"}) {
      add(stem + part + ".weight", {d, d}, scale, 0.0f);
      if (std::string(part) != ".k") add(stem + part + ".bias", {d}, 0.1f, 0.0f);
    }
  };
  add_norm(layer + ".attn_norm");
  add_attention(layer + ".attn");
  if (has_cross) {
    add_norm(layer + ".cross_norm");
    add_attention(layer + ".cross");
  }
  add_norm(layer + ".ffn_norm");
  add(layer + ".ffn.up.weight", {ffn, d}, scale, 0.0f);
  add(layer + ".ffn.up.bias", {ffn}, 0.1f, 0.0f);
  add(layer + ".ffn.down.weight", {d, ffn}, 1.5f / std::sqrt(static_cast<float>(ffn)), 0.0f);
  add(layer + ".ffn.down.bias", {d}, 0.1f, 0.0f);
}

void TinyWhisper::build_vocabulary() {
  const bool is_whole = options_.n_vocab >= 51864;
  const auto special =
      is_whole ? WhisperTokens::of_vocabulary_size(options_.n_vocab) : WhisperTokens{};
  n_text_tokens_ = is_whole ? static_cast<uint32_t>(special.eot) : options_.n_vocab;

  // The bytes that stand for themselves in byte-level spelling, then the others.
  for (const bool stand_for_themselves : {true, false}) {
    for (int byte = 0; byte < 256; ++byte) {
      const std::string token(1, static_cast<char>(byte));
      const bool is_self = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
      if (is_self == stand_for_themselves) vocabulary_.push_back(token);
    }
  }
  // Every word's prefix is a word too, and comes before it, so that merging reaches all.
  std::vector<std::string> words(1);
  while (vocabulary_.size() < n_text_tokens_) {
    // The last length has ten times as many words as there is room for.
    const size_t n_left = n_text_tokens_ - vocabulary_.size();
    std::vector<std::string> longer;
    for (const std::string& word : words) {
      for (char letter = 'a'; letter <= 'z' && longer.size() < n_left; ++letter) {
        longer.push_back(word + letter);
      }
    }
    words = std::move(longer);
    if (words.front().size() > 1) {
      vocabulary_.insert(vocabulary_.end(), words.begin(), words.end());
    }
    for (const std::string& word : words) vocabulary_.push_back(" " + word);
  }
  vocabulary_.resize(n_text_tokens_);

  for (uint32_t id = n_text_tokens_; id < options_.n_vocab; ++id) {
    const auto token = static_cast<int32_t>(id);
    const WhisperLanguage* language = special.language_of(token);
    const std::pair<int32_t, const char*> names[] = {
        {special.eot, "endoftext"},       {special.sot, "startoftranscript"},
        {special.translate, "translate"}, {special.transcribe, "transcribe"},
        {special.solm, "startoflm"},      {special.prev, "startofprev"},
        {special.nospeech, "nospeech"},   {special.notimestamps, "notimestamps"}};
    std::string name = language == nullptr ? "" : language->code;
    for (const auto& [known, text] : names) {
      if (known == token) name = text;
    }
    if (special.is_timestamp(token)) {
      const int hundredths = 2 * (token - special.timestamp_begin);
      name = std::to_string(hundredths / 100) + "." + std::to_string(hundredths / 10 % 10) +
             std::to_string(hundredths % 10);
    }
    vocabulary_.push_back("<|" + name + "|>");
  }
}

// The standard filters of the reference: triangles between neighbouring points that are equally
// far apart in mels, of equal area.
void TinyWhisper::build_mel_filters() {
  const uint32_t n_mels = options_.n_mels;
  mel_filters_.resize(uint64_t{n_mels} * kFftBins);
  const double step = mel_of(8000.0) / (n_mels + 1);
  for (uint32_t mel = 0; mel < n_mels; ++mel) {
    const double low = hertz_of(step * mel);
    const double centre = hertz_of(step * (mel + 1));
    const double high = hertz_of(step * (mel + 2));
    for (uint32_t bin = 0; bin < kFftBins; ++bin) {
      const double hertz = 40.0 * bin;
      const double height =
          std::min((hertz - low) / (centre - low), (high - hertz) / (high - centre));
      mel_filters_[mel * kFftBins + bin] =
          static_cast<float>(std::max(0.0, height) * 2.0 / (high - low));
    }
  }
}

const TinyTensor& TinyWhisper::tensor(const std::string& canonical_name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const TinyTensor& tensor) {
    return tensor.name == canonical_name;
  });
  if (found == tensors_.end()) throw std::logic_error("no tensor " + canonical_name);
  return *found;
}

std::vector<std::array<uint32_t, 2>> TinyWhisper::alignment_heads() const {
  return {{options_.n_decoder_layers - 1, 0},
          {options_.n_decoder_layers - 1, options_.n_heads - 1}};
}

std::vector<int32_t> TinyWhisper::suppress_tokens() const { return {1, 2, 7}; }

std::vector<int32_t> TinyWhisper::suppress_tokens_at_begin() const {
  if (n_text_tokens_ == options_.n_vocab) return {0};
  return {220, static_cast<int32_t>(n_text_tokens_)};
}

const TinyWhisper& smallest_whisper() {
  static const TinyWhisper model({.seed = 5,
                                  .n_mels = 1,
                                  .n_audio_ctx = 2,
                                  .n_text_ctx = 2,
                                  .n_vocab = 12,
                                  .d_model = 2,
                                  .n_heads = 1,
                                  .n_encoder_layers = 1,
                                  .n_decoder_layers = 1,
                                  .d_ffn = 2});
  return model;
}

void write_files(const FileSet& files, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const auto& file : files) {
    std::ofstream out(folder / file->name(), std::ios::binary);
    out.write(reinterpret_cast<const char*>(file->bytes().data()),
              static_cast<std::streamsize>(file->bytes().size()));
    if (!out.flush()) throw std::runtime_error("cannot write " + (folder / file->name()).string());
  }
}

}  // namespace vesper::test
