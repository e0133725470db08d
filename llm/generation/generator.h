// Text generation: token ids of prompts in, chosen token ids out.
//
// Several sequences decode side by side, each in a place of its own; when one has ended another may
// start there while the others go on. A step of all places is recorded once and replayed; the
// choice of tokens is kernels over device memory, and the host reads nothing but what was chosen.
// What a sequence becomes does not depend on the others. Used by `generate`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "llm/models/decoder_model.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

// How tokens are chosen; what the numbers mean stands beside SequenceState
// (shaders/kernel_params.h).
struct Sampling {
  float temperature = 0;  // 0: the likeliest token, always
  uint32_t top_k = 0;
  float typical_p = 1, top_p = 1, min_p = 0;  // of the first two 0 leaves one token
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  uint32_t penalty_window = 64;
  uint32_t no_repeat_ngram_size = 0;  // no run of this many tokens occurs twice; 0: any may
  uint32_t seed = 0;
  // With beams, the best text has the greatest sum of log-probabilities over this power of its
  // length, the stop token included (as in transformers).
  float length_penalty = 1;

  bool has_filters() const {
    return temperature > 0 && (top_k > 0 || typical_p < 1 || top_p < 1 || min_p > 0);
  }
  bool has_penalties() const {
    return no_repeat_ngram_size > 0 ||
           (penalty_window > 0 &&
            (repetition_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0));
  }
};

struct GeneratorOptions {
  uint32_t n_ctx = 0;  // positions of each sequence; 0: as many as the model is made for
  uint32_t n_places = 1;
  DType kv_dtype = DType::kF16;
  // Layers with a sliding window keep only what it still reaches. Without, for tests, all.
  bool recycles_pages = true;
  // What the steps have to be able to do; what is not there costs nothing.
  bool has_filters = true, has_penalties = true;
  // Above 1: beam search (select_beams in shaders/kernel_params.h) that ends with this many texts.
  // At most kMostBeams. Keys and values of earlier prompts are not used again then, and layers with
  // a sliding window keep all.
  uint32_t beam_size = 1;
};

class Generator {
 public:
  // Uploads the model and records what every pass needs. Throws Error(kModel, kDevice, kUsage).
  Generator(Device& device, const WeightProvider& provider, Compute compute,
            const GeneratorOptions& options);

  // The tokens that end a text. Ids beyond the vocabulary are left out. None: only the limit does.
  void set_stop_ids(std::span<const int32_t> ids);
  // What is added to the logits of tokens; to be called before the first text starts. Throws
  // Error(kUsage) for an id beyond the vocabulary.
  void set_bias(std::span<const std::pair<int32_t, float>> bias);

  // Records the step, which the first start() does otherwise; after set_bias.
  void prepare() { record_step(); }

  // Starts a text in a place: after `prompt`, up to `max_new` tokens, at most as many as the
  // context has room for. What the place's cache holds of the prompt's beginning is not computed
  // again. Throws Error(kInput) if the prompt is empty, has an id beyond the vocabulary, or leaves
  // no room in the context, saying by how much.
  void start(uint32_t place, std::span<const int32_t> prompt, uint32_t max_new,
             const Sampling& sampling);
  // Takes up to n_steps steps of all places; answers whether any text is still under way.
  bool advance(uint32_t n_steps);

  // As of the last advance.
  bool is_running(uint32_t place) const { return !state_of(place).finished; }
  // The tokens that were chosen, a stop token included; and the logarithm of the probability of
  // each. With beams: nothing until the search has ended, then the best text without its stop
  // token; no logarithms.
  std::span<const int32_t> chosen(uint32_t place) const;
  std::span<const float> logprobs(uint32_t place) const;
  // Lets go of what the place's cache holds, so that its next text is computed whole.
  void forget(uint32_t place) { places_[place].held.clear(); }
  // Ends a text before its time.
  void stop(uint32_t place);
  // Tokens of the latest prompt in this place that its cache held already.
  uint32_t n_reused(uint32_t place) const { return places_[place].n_reused; }

  // The logits from which the latest token of a place was chosen, bias and penalties applied,
  // before any filter. f32 [n_vocab].
  void read_logits(uint32_t place, float* out);

  // Runs all of `tokens` as one text from the context's beginning, in place 0, and hands over the
  // logits after each token, a few rows at a time: (first row, n rows, f32 [n, n_vocab]). Throws as
  // start() does.
  void evaluate(std::span<const int32_t> tokens,
                const std::function<void(uint32_t, uint32_t, const float*)>& take_rows);

  // The keys and values of a place, and the tokens that they are of, as bytes that `restore` of a
  // generator with the same model takes. Throws Error(kInput) if they are of another one.
  std::vector<std::byte> save(uint32_t place);
  void restore(uint32_t place, std::span<const std::byte> bytes);

  uint32_t n_ctx() const { return model_.n_ctx(); }
  uint32_t n_vocab() const { return model_.n_vocab(); }
  uint32_t n_places() const { return static_cast<uint32_t>(places_.size()); }

 private:
  struct Place {
    std::vector<int32_t> held;  // tokens whose keys and values the cache has, from position 0
    uint32_t n_prompt = 0, n_reused = 0;
    float length_penalty = 1;
    std::vector<int32_t> best;  // text of the beams that have ended
    // From this position on, layers with a sliding window have what was written there.
    uint32_t first_kept = 0;
  };

  void record_passes();
  void record_step();
  void check_prompt(std::span<const int32_t> prompt) const;
  // Runs tokens[first..end) as rows of a place, in passes of a bucket's rows.
  void prefill(uint32_t place, std::span<const int32_t> tokens, uint32_t first, uint32_t end,
               const std::function<void(uint32_t, uint32_t)>& after_pass);
  void read_place(uint32_t place);
  bool has_beams() const { return options_.beam_size > 1; }
  uint32_t n_sequences() const { return n_places() * options_.beam_size; }
  uint32_t first_sequence(uint32_t place) const { return place * options_.beam_size; }
  const SequenceState& state_of(uint32_t place) const {
    return states_host_[first_sequence(place)];
  }
  void emit_beams(DispatchTable& table, const SamplingParams& params) const;
  // Gives the beams of a place their pages, for a prompt of n_prompt tokens.
  void give_pages(uint32_t place, uint32_t n_prompt);
  // The best text of beams that have ended.
  std::vector<int32_t> best_text(uint32_t place);
  // Notes that the cache of a place has the keys and values of these tokens.
  void hold(Place& at, std::span<const int32_t> tokens);

  Device& device_;
  GeneratorOptions options_;
  DecoderModel model_;
  std::vector<Place> places_;
  bool has_bias_ = false;
  uint64_t fingerprint_;  // of the model: its shape and a norm

  std::vector<std::pair<uint32_t, ProgramId>> passes_;  // rows, by rising number
  uint32_t n_logit_rows_;
  ProgramId logits_program_ = 0;  // of n_logit_rows_ rows of the latest pass
  ProgramId step_ = 0;
  bool has_step_ = false;

  Operand pass_rows_;    // struct Row [rows of the greatest pass]
  Operand step_rows_;    // struct Row [n_sequences]; a place has beam_size of them
  Operand logit_index_;  // u32 [n_logit_rows_]
  Operand pass_logits_;  // f32 [n_logit_rows_, n_vocab]
  Operand logits_;       // f32 [n_sequences, n_vocab]
  Operand states_;       // struct SequenceState [n_sequences]
  Operand tokens_;       // i32 [n_sequences, n_ctx]
  Operand logprobs_;     // f32 [n_sequences, n_ctx]
  Operand partials_;     // struct TokenPartial [n_sequences, n_chunks]
  Operand candidates_;   // struct TokenCandidate [n_sequences, n_chunks, n_candidates], of beams
  Operand finished_;     // u32 [n_places, beam_size, kFinishedHeader + n_ctx], of beams
  Operand stop_;         // u32
  Operand stop_ids_;     // u32 bit mask [(n_vocab + 31) / 32]
  Operand bias_;         // f32 [n_vocab]

  // Reused on the host from call to call.
  std::vector<Row> rows_host_;
  std::vector<SequenceState> states_host_;
  std::vector<int32_t> tokens_host_;
  std::vector<float> logprobs_host_, pass_logits_host_;
};

}  // namespace vesper
