#include "llm/weights/whisper_model.h"

#include <string>
#include <unordered_map>

#include "error/error.h"

namespace vesper {
namespace {

// Far above every published model (large: 1280 wide, 32 layers, 51866 tokens), low enough that
// sizes computed from them fit 64 bits with room.
constexpr uint64_t kMaxWhisperMels = 256;
constexpr uint64_t kMaxWhisperContext = 32768;
constexpr uint64_t kMaxWhisperVocabulary = 1'000'000;
constexpr uint64_t kMaxWhisperWidth = 16384;
constexpr uint64_t kMaxWhisperFfn = 131072;
constexpr uint64_t kMaxWhisperLayers = 256;
constexpr uint64_t kFftBins = 201;  // of the reference's 400-point transform

class WhisperChecker {
 public:
  WhisperChecker(const std::string& where, ModelContents& contents)
      : where_(where), contents_(contents), facts_(*contents.whisper) {
    for (const TensorView& tensor : contents.tensors) tensors_.emplace(tensor.name, &tensor);
  }

  void run() {
    complete_sizes();
    check_tensors();
    check_lists();
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::kModel, where_ + ": " + message);
  }

  const TensorView& tensor(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found != tensors_.end()) return *found->second;
    for (const UnreadableTensor& other : contents_.unreadable) {
      if (other.name == name) {
        fail("tensor " + name + " is in format " + other.format + ", which has no reader");
      }
    }
    fail("expected a tensor " + name + ", found none of that name");
  }

  uint64_t dimension(const std::string& name, size_t rank, size_t axis) const {
    const TensorView& found = tensor(name);
    if (found.shape.size() != rank) {
      fail("expected tensor " + found.file_name + " to have " + std::to_string(rank) +
           " dimensions, found shape " + shape_text(found.shape));
    }
    return found.shape[axis];
  }

  // Sets a fact that the file does not state, or compares one that it does; then its range.
  void settle(const char* fact, uint32_t& value, uint64_t from_tensors, uint64_t limit) const {
    if (from_tensors == 0 || from_tensors > limit) {
      fail(std::string("expected ") + fact + " between 1 and " + std::to_string(limit) +
           ", found " + std::to_string(from_tensors) + " by the tensors' shapes");
    }
    if (value == 0) value = static_cast<uint32_t>(from_tensors);
    if (value != from_tensors) {
      fail(std::string("expected ") + fact + " " + std::to_string(value) +
           " as the file states, found " + std::to_string(from_tensors) +
           " by the tensors' shapes");
    }
  }

  uint64_t count_layers(const std::string& part) const {
    uint64_t n = 0;
    while (n <= kMaxWhisperLayers &&
           tensors_.count(part + ".layers." + std::to_string(n) + ".attn.q.weight") > 0) {
      ++n;
    }
    return n;
  }

  void check_heads(const char* fact, uint32_t n_heads) const {
    if (n_heads == 0 || facts_.d_model % n_heads != 0) {
      fail(std::string("expected ") + fact + " that divides the width " +
           std::to_string(facts_.d_model) + ", found " + std::to_string(n_heads));
    }
  }

  void complete_sizes() {
    settle("d_model", facts_.d_model, dimension("encoder.conv1.weight", 3, 0), kMaxWhisperWidth);
    settle("n_mels", facts_.n_mels, dimension("encoder.conv1.weight", 3, 1), kMaxWhisperMels);
    settle("n_audio_ctx", facts_.n_audio_ctx, dimension("encoder.position.weight", 2, 0),
           kMaxWhisperContext);
    settle("n_text_ctx", facts_.n_text_ctx, dimension("decoder.position.weight", 2, 0),
           kMaxWhisperContext);
    settle("n_vocab", facts_.n_vocab, dimension("decoder.embed.weight", 2, 0),
           kMaxWhisperVocabulary);
    settle("n_encoder_layers", facts_.n_encoder_layers, count_layers("encoder"), kMaxWhisperLayers);
    settle("n_decoder_layers", facts_.n_decoder_layers, count_layers("decoder"), kMaxWhisperLayers);
    settle("d_ffn", facts_.d_ffn, dimension("encoder.layers.0.ffn.up.weight", 2, 0),
           kMaxWhisperFfn);
    check_heads("n_encoder_heads", facts_.n_encoder_heads);
    check_heads("n_decoder_heads", facts_.n_decoder_heads);
  }

  void check(const std::string& name, const std::vector<uint64_t>& shape) const {
    check_tensor(where_, tensor(name), shape);
  }

  void check_linear(const std::string& stem, uint64_t out, uint64_t in, bool needs_bias) const {
    check(stem + ".weight", {out, in});
    if (needs_bias || tensors_.count(stem + ".bias") > 0) check(stem + ".bias", {out});
  }

  void check_norm(const std::string& stem) const {
    check(stem + ".weight", {facts_.d_model});
    check(stem + ".bias", {facts_.d_model});
  }

  void check_attention(const std::string& stem) const {
    const uint64_t d = facts_.d_model;
    check_linear(stem + ".q", d, d, true);
    check_linear(stem + ".k", d, d, false);
    check_linear(stem + ".v", d, d, true);
    check_linear(stem + ".out", d, d, true);
  }

  void check_layers(const std::string& part, uint32_t n_layers, bool has_cross) const {
    for (uint32_t n = 0; n < n_layers; ++n) {
      const std::string layer = part + ".layers." + std::to_string(n);
      check_norm(layer + ".attn_norm");
      check_attention(layer + ".attn");
      if (has_cross) {
        check_norm(layer + ".cross_norm");
        check_attention(layer + ".cross");
      }
      check_norm(layer + ".ffn_norm");
      check_linear(layer + ".ffn.up", facts_.d_ffn, facts_.d_model, true);
      check_linear(layer + ".ffn.down", facts_.d_model, facts_.d_ffn, true);
    }
    check_norm(part + ".norm");
  }

  void check_tensors() const {
    const uint64_t d = facts_.d_model;
    check("encoder.conv1.weight", {d, facts_.n_mels, 3});
    check("encoder.conv1.bias", {d});
    check("encoder.conv2.weight", {d, d, 3});
    check("encoder.conv2.bias", {d});
    check("encoder.position.weight", {facts_.n_audio_ctx, d});
    check("decoder.position.weight", {facts_.n_text_ctx, d});
    check("decoder.embed.weight", {facts_.n_vocab, d});
    if (tensors_.count("decoder.output.weight") > 0) {
      check("decoder.output.weight", {facts_.n_vocab, d});
    }
    check_layers("encoder", facts_.n_encoder_layers, false);
    check_layers("decoder", facts_.n_decoder_layers, true);
  }

  void check_ids(const char* list, const std::vector<int32_t>& ids) const {
    for (const int32_t id : ids) {
      if (id < 0 || static_cast<uint32_t>(id) >= facts_.n_vocab) {
        fail(std::string("expected token ids below ") + std::to_string(facts_.n_vocab) + " in " +
             list + ", found " + std::to_string(id));
      }
    }
  }

  void check_lists() const {
    if (!facts_.mel_filters.empty() && facts_.mel_filters.size() != facts_.n_mels * kFftBins) {
      fail("expected mel filters of " + std::to_string(facts_.n_mels) + " x 201 numbers, found " +
           std::to_string(facts_.mel_filters.size()) + " numbers");
    }
    for (const auto& [layer, head] : facts_.alignment_heads) {
      if (layer >= facts_.n_decoder_layers || head >= facts_.n_decoder_heads) {
        fail("expected alignment heads within " + std::to_string(facts_.n_decoder_layers) +
             " layers of " + std::to_string(facts_.n_decoder_heads) + " heads, found layer " +
             std::to_string(layer) + ", head " + std::to_string(head));
      }
    }
    check_ids("the suppressed tokens", facts_.suppress_tokens);
    check_ids("the tokens suppressed at the beginning", facts_.suppress_tokens_at_begin);
    if (contents_.vocabulary.size() > facts_.n_vocab) {
      fail("expected a vocabulary of at most " + std::to_string(facts_.n_vocab) +
           " tokens, found " + std::to_string(contents_.vocabulary.size()));
    }
  }

  const std::string& where_;
  ModelContents& contents_;
  WhisperHyperparameters& facts_;
  std::unordered_map<std::string, const TensorView*> tensors_;
};

}  // namespace

void complete_whisper(const std::string& where, ModelContents& contents) {
  WhisperChecker(where, contents).run();
}

}  // namespace vesper
