// Text generation: token ids of prompts in, chosen token ids out.
//
// Each slot of a decoding loop answers one prompt at a time. What a slot's cache holds of an
// earlier prompt is not computed again, and may be saved to be used later. Used by `generate`.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "llm/generation/decoding_loop.h"
#include "llm/models/decoder_model.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

struct GeneratorOptions {
  uint32_t n_ctx = 0;  // positions of each sequence; 0: as many as the model is made for
  uint32_t n_slots = 1;
  DType kv_dtype = DType::kF16;
  // Layers with a sliding window keep only what it still reaches. Without, for tests, all.
  bool recycles_pages = true;
  // What the steps have to be able to do; what is not there costs nothing.
  bool has_filters = true, has_penalties = true;
  // Above 1: beam search (select_beams in shaders/kernel_params.h) that ends with this many texts.
  // At most kMostBeams. Layers with a sliding window keep all then.
  uint32_t beam_size = 1;
  // With beams, the best text has the greatest sum of log-probabilities over this power of its
  // length, the stop token included (as in transformers).
  float length_penalty = 1;
};

class Generator {
 public:
  // Uploads the model and records what every pass needs. Throws Error(kModel, kDevice, kUsage).
  Generator(Device& device, const WeightProvider& provider, Compute compute,
            const GeneratorOptions& options);

  // The tokens that end a text. Ids beyond the vocabulary are left out. None: only the limit does.
  void set_stop_ids(std::span<const int32_t> ids) { loop_.set_stop_ids(ids); }
  // What is added to the logits of tokens; to be called before the first text starts. Throws
  // Error(kUsage) for an id beyond the vocabulary.
  void set_bias(std::span<const std::pair<int32_t, float>> bias);

  // Records the step, which the first start() does otherwise; after set_bias.
  void prepare();

  // Starts a text in a slot: after `prompt`, up to `max_new` tokens, at most as many as the context
  // has room for. What the slot's cache holds of the prompt's beginning is not computed again.
  // Throws Error(kInput) if the prompt is empty, has an id beyond the vocabulary, or leaves no room
  // in the context, saying by how much; Error(kUsage) for sampling that the options leave out or
  // that beams do not have, naming the setting.
  void start(uint32_t slot, std::span<const int32_t> prompt, uint32_t max_new,
             const Sampling& sampling);
  // Takes up to n_steps steps of all slots; answers whether any text is still under way.
  bool advance(uint32_t n_steps);

  // As of the last advance.
  bool is_running(uint32_t slot) const { return loop_.is_running(slot); }
  // The tokens that were chosen, a stop token included; and the logarithm of the probability of
  // each. With beams: nothing until the search has ended, then the best text without its stop
  // token; no logarithms.
  std::span<const int32_t> chosen(uint32_t slot) const;
  std::span<const float> logprobs(uint32_t slot) const;
  // Lets go of what the slot's cache holds, so that its next text is computed whole.
  void forget(uint32_t slot) { slots_[slot].held.clear(); }
  // Ends a text before its time.
  void stop(uint32_t slot) { loop_.stop(slot); }
  // Tokens of the latest prompt in this slot that its cache held already.
  uint32_t n_reused(uint32_t slot) const { return slots_[slot].n_reused; }

  // The logits from which the latest token of a slot was chosen, bias and penalties applied, before
  // any filter. f32 [n_vocab].
  void read_logits(uint32_t slot, float* out);

  // Runs all of `tokens` as one text from the context's beginning, in slot 0, and hands over the
  // logits after each token, a few rows at a time: (first row, n rows, f32 [n, n_vocab]). Throws as
  // start() does.
  void evaluate(std::span<const int32_t> tokens,
                const std::function<void(uint32_t, uint32_t, const float*)>& take_rows);

  // The keys and values of a slot, and the tokens that they are of, as bytes that `restore` of a
  // generator with the same model takes. Throws Error(kInput) if they are of another one.
  std::vector<std::byte> save(uint32_t slot);
  void restore(uint32_t slot, std::span<const std::byte> bytes);

  uint32_t n_ctx() const { return model_.n_ctx(); }
  uint32_t n_vocab() const { return model_.n_vocab(); }
  uint32_t n_slots() const { return options_.n_slots; }

 private:
  struct Slot {
    std::vector<int32_t> held;  // tokens whose keys and values the cache has, from position 0
    uint32_t n_reused = 0;
    std::vector<int32_t> best;  // text of the beams that have ended
    // From this position on, layers with a sliding window have what was written there.
    uint32_t first_kept = 0;
  };

  void check_prompt(std::span<const int32_t> prompt, uint32_t n_new) const;
  bool has_beams() const { return options_.beam_size > 1; }
  // The best text of beams that have ended.
  std::vector<int32_t> best_text(uint32_t slot);
  // Notes that the cache of a slot has the keys and values of these tokens.
  void hold(uint32_t slot, std::span<const int32_t> tokens);

  Device& device_;
  GeneratorOptions options_;
  DecoderModel model_;
  DecodingLoop loop_;
  std::vector<Slot> slots_;
  bool is_prepared_ = false;
  uint64_t fingerprint_;  // of the model: its shape and a norm
};

}  // namespace vesper
