// Text generation. In: token ids of prompts. Out: sampled token ids.
//
// Each slot of a decoding loop answers one prompt at a time. The cached prefix of an earlier prompt
// is not computed again, and may be saved for later. Used by `generate`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "llm/generation/decoding_loop.h"
#include "llm/generation/speculation.h"
#include "llm/models/decoder_model.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

struct GeneratorOptions {
  uint32_t n_ctx = 0;  // positions of each sequence; 0: the model's limit
  uint32_t n_slots = 1;
  KvTypes kv_types = {};
  // Layers with a sliding window keep only positions within it. false: all, for tests.
  bool recycles_pages = true;
  // What steps support; unused features cost nothing.
  bool has_filters = true, has_penalties = true;
  // Above 1: beam search (select_beams in shaders/kernel_params.h) that ends with this many
  // finished texts. At most kMostBeams. Layers with a sliding window then keep all positions.
  uint32_t beam_size = 1;
  bool resumes = false;    // resume() is used
  bool keeps_bits = true;  // as in DecodingLoop::begin()
  // A pass over drafts must promise this many times the tokens per second of a step. 0: any pass
  // has drafts, for tests.
  double least_draft_gain = 1.15;
  // With beams, the best text has the greatest sum of log-probabilities / length^length_penalty,
  // including the stop token (as in transformers).
  float length_penalty = 1;
};

// What an answer may consist of.
struct AnswerConstraints {
  // Added to the logits of tokens: (id, bias). Those of one token are summed.
  std::span<const std::pair<int32_t, float>> bias = {};
  bool ignore_end = false;                     // the tokens of set_stop_ids are not sampled
  const GrammarConstraint* grammar = nullptr;  // copied; null: none
};

class Generator {
 public:
  // Uploads the model and records the passes. `drafts` guesses tokens that are run in one pass
  // (llm/generation/speculation.h); null: none. It must outlive the generator. Texts are the same
  // as without. Not with beams. Throws Error(kModel, kDevice, kUsage).
  Generator(Device& device, const WeightProvider& provider, Compute compute,
            const GeneratorOptions& options, DraftSource* drafts = nullptr);

  // The tokens that end a text. Ids beyond the vocabulary are ignored. Without any, only the limit
  // ends it.
  void set_stop_ids(std::span<const int32_t> ids);

  // Records the step, otherwise done by the first start().
  void prepare();

  // Throws Error(kUsage) like start().
  void check(const AnswerConstraints& constraints) const { bias_list(constraints); }
  // Starts a text in a slot: after `prompt`, up to `max_new` tokens, limited by the context. The
  // cached prefix of the prompt is not computed again. Throws Error(kInput) if the prompt is empty,
  // has an id beyond the vocabulary, or is too long; with beams the
  // temperature must be 0, and there is no grammar. Throws Error(kUsage) for a bias of an id beyond
  // the vocabulary, or of more than kMostBias tokens (shaders/kernel_params.h), including the stop
  // tokens with ignore_end. `is_cancelled` is called after each pass over the prompt, when the
  // device has computed it. If it returns true before the last pass, no text starts, the computed
  // part stays cached, and start() returns false.
  bool start(uint32_t slot, std::span<const int32_t> prompt, uint32_t max_new,
             const Sampling& sampling, const AnswerConstraints& constraints = {},
             const std::function<bool()>& is_cancelled = nullptr);
  // Continues a slot's text as `text`, up to `max_new` tokens more: its prompt at the last start(),
  // then tokens of the vocabulary as if the slot had sampled them, with the settings of start()
  // except a grammar. Only tokens that the slot has not cached are computed. The text is
  // shorter than the context. Fewer than kMostDraftedRows texts run. The generator has
  // GeneratorOptions::resumes, and no beams or drafts.
  void resume(uint32_t slot, std::span<const int32_t> text, uint32_t max_new);
  // Runs up to n_steps passes of all slots; returns whether any text is unfinished. Without
  // `may_draft`, each pass samples one token per slot.
  bool advance(uint32_t n_steps, bool may_draft = true);

  // After the last advance.
  bool is_running(uint32_t slot) const { return loop_.is_running(slot); }
  // The sampled tokens, including a stop token, and the log-probability of each. With beams: empty
  // until the search has ended, then those of the best text without its stop token.
  std::span<const int32_t> sampled(uint32_t slot) const;
  std::span<const float> logprobs(uint32_t slot) const;
  // Clears the cached prefix of a slot.
  void forget(uint32_t slot) { slots_[slot].held.clear(); }
  // Ends a text early.
  void stop(uint32_t slot) { loop_.stop(slot); }
  // The grammar of a slot's text after its tokens; null: none.
  const GrammarConstraint* grammar(uint32_t slot) const { return loop_.grammar(slot); }
  // Cached tokens of the slot's last prompt.
  uint32_t n_reused(uint32_t slot) const { return slots_[slot].n_reused; }
  // Tokens of a prompt that start() would find in the slot's cache.
  uint32_t n_reusable(uint32_t slot, std::span<const int32_t> prompt) const;

  // Before start(): copies the beginning of the prompt from the slot that has most of it in its
  // cache, if that is a page more than the slot has itself. Nothing with beams, with layers with
  // sliding windows, or on a GPU, where the copy would go through the memory of the host.
  void share_prefix(uint32_t slot, std::span<const int32_t> prompt);

  // Exchanges the cached texts of two slots that are not running, so that a text can start in the
  // lower one: a step computes all slots up to the last one that runs. sampled() of both is no
  // longer valid. Not with beams.
  void swap_caches(uint32_t a, uint32_t b);

  // Of a slot's text.
  SpeculationStatistics speculation(uint32_t slot) const {
    return speculation_ ? speculation_->statistics(slot) : SpeculationStatistics{};
  }

  // The logits of a slot's last token, f32 [n_vocab], with bias and penalties, before filters. The
  // last advance() had no drafts.
  void read_logits(uint32_t slot, float* out);

  // Runs `tokens` as one text from position 0 on in slot 0, and passes on the logits after each
  // token, a few rows at a time: (first row, n rows, f32 [n, n_vocab]). Throws like start().
  void evaluate(std::span<const int32_t> tokens,
                const std::function<void(uint32_t, uint32_t, const float*)>& take_rows);

  // The tokens, keys and values of a slot as bytes for `restore` of a generator with the same
  // model. Throws Error(kInput) if they belong to another model.
  std::vector<std::byte> save(uint32_t slot);
  void restore(uint32_t slot, std::span<const std::byte> bytes);

  uint32_t n_ctx() const { return model_.n_ctx(); }
  uint32_t n_vocab() const { return model_.n_vocab(); }
  uint32_t n_slots() const { return options_.n_slots; }
  bool has_beams() const { return options_.beam_size > 1; }

 private:
  struct Slot {
    std::vector<int32_t> held;  // cached tokens, from position 0
    uint32_t n_reused = 0;
    uint32_t n_behind = 0;     // tokens before the last one that the next pass computes
    SequenceState settings{};  // of start(), with first_sampled
    std::vector<TokenBias> bias;
    std::vector<int32_t> best;  // best text of finished beams
    std::vector<float> best_logprobs;
    // Layers with a sliding window have the positions from here on.
    uint32_t first_kept = 0;
  };

  // Starts or continues a text with the slot's settings, of which the last n_sampled tokens were
  // sampled. Returns whether all of it is computed.
  // The next pass computes the last n_behind tokens before the last one.
  bool begin_text(uint32_t slot, std::span<const int32_t> text, uint32_t n_sampled,
                  uint32_t max_new, uint32_t n_behind, const GrammarConstraint* grammar,
                  const std::function<bool()>& is_cancelled);
  // A pass that also computes the tokens of n_behind, if there are any.
  void catch_up();
  void check_prompt(std::span<const int32_t> prompt, uint32_t n_new) const;
  std::vector<TokenBias> bias_list(const AnswerConstraints& constraints) const;
  // Finds the best text of finished beams.
  void find_best(uint32_t slot);
  // Records that the cache of a slot has these tokens.
  void hold(uint32_t slot, std::span<const int32_t> tokens);

  Device& device_;
  GeneratorOptions options_;
  DecoderModel model_;
  DecodingLoop loop_;
  std::optional<Speculation> speculation_;
  std::vector<Draft> resumed_;     // of catch_up()
  std::vector<uint32_t> running_;  // slots of the last advance()
  std::vector<Slot> slots_;
  std::vector<int32_t> stop_ids_;
  bool is_prepared_ = false;
  uint64_t fingerprint_;  // of the model: its shape and a norm weight
};

}  // namespace vesper
