#include "decoder/whisper_model.h"

#include <malloc.h>

#include <utility>

#include "decoder/words/alignment_heads.h"
#include "error/error.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

// The tokens of text, and the end of text, whose id follows theirs.
TokenVocabulary text_vocabulary(const TextTokenizer& tokenizer, int32_t end_of_text) {
  std::vector<std::string_view> bytes(static_cast<size_t>(end_of_text) + 1);
  for (int32_t id = 0; id < end_of_text; ++id) {
    bytes[static_cast<size_t>(id)] = tokenizer.bytes_of(id);
  }
  return TokenVocabulary(bytes, {&end_of_text, 1});
}

}  // namespace

WhisperModel::WhisperModel(const std::filesystem::path& path, std::unique_ptr<Device> device,
                           Compute compute, uint32_t n_slots, uint32_t n_candidates,
                           uint32_t n_encoded, const KvTypes& kv_types)
    : WhisperModel(open_weights(path), std::move(device), compute, n_slots, n_candidates, n_encoded,
                   kv_types) {}

WhisperModel::WhisperModel(std::shared_ptr<const WeightProvider> weights,
                           std::unique_ptr<Device> device, Compute compute, uint32_t n_slots,
                           uint32_t n_candidates, uint32_t n_encoded, const KvTypes& kv_types)
    : device_(std::move(device)),
      compute_(device_->resolve(compute, WeightUse::kManyRows)),
      provider_(std::move(weights)),
      tokens_(WhisperTokens::of_vocabulary_size(provider_->config().n_vocab)),
      tokenizer_(whisper_tokenizer(provider_->vocabulary(), static_cast<uint32_t>(tokens_.eot))),
      encoder_(std::make_unique<WhisperEncoder>(*device_, *provider_, compute_, n_encoded)),
      // If the encoder chose bf16, the decoder uses bf16 too, or int8 for quantized weights.
      decoder_(std::make_unique<WhisperDecoder>(
          *device_, *provider_,
          compute == Compute::kAuto && compute_ == Compute::kBF16 ? compute : compute_, tokens_,
          tokenizer_->find(" "), n_slots, n_encoded, n_slots * n_candidates, kv_types)),
      grammars_([this] { return text_vocabulary(*tokenizer_, tokens_.eot); },
                LeadingSpace::kOptional) {
  std::vector<DispatchTable> tables(n_encoded);
  for (uint32_t n = 1; n <= n_encoded; ++n) {
    encoder_->emit(tables[n - 1], n);
    decoder_->model().emit_cross_kv(tables[n - 1], n, encoder_->output(),
                                    encoder_->output_dtype());
  }
  encode_ = device_->record_all(tables);
  suppressed_ = provider_->config().suppress_tokens;
  if (suppressed_.empty()) suppressed_ = non_speech_tokens(*tokenizer_);
  for (int32_t special : tokens_.suppressed_special()) suppressed_.push_back(special);
  malloc_trim(0);  // releases the memory of packing: 9 MB with base
}

void WhisperModel::encode(std::span<const float* const> windows, std::span<const uint32_t> to) {
  if (windows.empty() || windows.size() > encode_.size() || windows.size() != to.size()) {
    throw Error(ErrorKind::kInternal, "encoder: " + std::to_string(windows.size()) +
                                          " windows for " + std::to_string(to.size()) +
                                          " places, but the model was loaded for 1 to " +
                                          std::to_string(encode_.size()));
  }
  decoder_->model().set_encoded(to);
  for (uint32_t i = 0; i < windows.size(); ++i) encoder_->write_window(i, windows[i]);
  device_->run(encode_[windows.size() - 1]);
}

GrammarConstraint WhisperModel::grammar(const GrammarOptions& options) {
  return GrammarConstraint(GrammarMatcher(grammars_.masks(options)));
}

WhisperAligner& WhisperModel::aligner() {
  if (!aligner_) {
    aligner_ = std::make_unique<WhisperAligner>(*device_, decoder_->model(), tokens_,
                                                alignment_heads(provider_->config()));
  }
  return *aligner_;
}

}  // namespace vesper
