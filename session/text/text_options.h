// Options of a TextSession and of an answer, with their defaults. The ranges are in
// session/bounds.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "llm/conversion/changed_weights.h"
#include "llm/generation/generator.h"
#include "session/bounds.h"
#include "session/text/text_grammars.h"

namespace vesper {

// Where drafted tokens come from.
enum class Speculate {
  kOff,
  kNgram,  // from the prompt and the answer, where the last tokens stood before
};

// Options for loading the model.
struct TextSessionOptions {
  std::string device = "auto";   // "auto" (a GPU if there is one), "cpu", "vulkan" or "vulkan:N"
  std::string compute = "auto";  // precision: "auto" (the device's best), "f32", "f16", "bf16",
                                 // "int8"
  uint32_t threads = 0;          // of the CPU device; 0: one per core
  WeightOptions weights = {};    // changes of the weights while they are loaded
  uint32_t context = 0;  // tokens of a prompt and its answer; 0: 4096, or the model's limit if that
                         // is less
  uint32_t n_slots = 1;  // answers generated at once
  // Saves time, but the last bits of an answer's logits then depend on the other answers (with
  // TextOptions::reuse_prompt they depend on previous answers anyway). The beginning of a prompt is
  // copied from another answer that has it in its cache (CPU only), and steps leave out idle slots.
  bool may_differ_with_others = false;
  KvTypes kv_type = {};  // of keys and values; quantized ones need heads of a multiple of 32
  // Above 1: beam search, at most kMostBeams (shaders/kernel_params.h). The answer is emitted when
  // the search has ended. See check_options() for excluded options.
  uint32_t beam_size = 1;
  // With beams, texts are ranked by log-probability / length^length_penalty.
  float length_penalty = 1;
  // For all answers; see TextOptions.
  std::vector<std::pair<int32_t, float>> logit_bias = {};
  bool ignore_end = false;
  // Draft tokens and run several in one pass (llm/generation/speculation.h). The answers are the
  // same. Excludes beam search.
  Speculate speculate = Speculate::kOff;
  // A smaller model with the same tokens that drafts them; null: none. Excludes beam search and
  // `speculate`. See open_drafts() (session/text/text_drafts.h).
  std::shared_ptr<const TextModel> draft = nullptr;
  // Features of Sampling that answers may use. Disabled ones save a little time per step.
  bool allows_filters = true;    // top_k, top_p, min_p, typical_p
  bool allows_penalties = true;  // repetition, frequency, presence, no_repeat_ngram_size
};

// The settings of Sampling (llm/generation/decoding_loop.h). Absent: the model's own
// (TextModel::sampling_defaults), and a random seed.
struct SamplingOptions {
  // 0: greedy. Absent with beam search: 0.
  std::optional<float> temperature = {};
  std::optional<uint32_t> top_k = {};
  std::optional<float> typical_p = {}, top_p = {}, min_p = {};
  std::optional<float> repetition_penalty = {}, frequency_penalty = {}, presence_penalty = {};
  std::optional<uint32_t> penalty_window = {};
  std::optional<uint32_t> no_repeat_ngram_size = {};
  std::optional<uint32_t> seed = {};
};

// The text of a model between <think> and </think>.
enum class Thinking {
  kInText,    // part of the text, with the tags
  kSeparate,  // TextAnswer::thinking and TextEvents::on_thinking
};

// Options of an answer.
struct TextOptions {
  // Limit of the answer in tokens; absent: until it ends, or the context is full.
  std::optional<uint32_t> max_tokens = {};
  SamplingOptions sampling = {};
  // Added to the logits of tokens: (id, bias), besides the session's. At most kMostBias tokens in
  // all (shaders/kernel_params.h).
  std::vector<std::pair<int32_t, float>> logit_bias = {};
  bool ignore_end = false;  // never sample the tokens that end an answer
  // The answer is a text of this grammar; it ends where only its end is allowed. Not with beam
  // search. Limits, stops and loops may end it earlier.
  std::optional<GrammarOptions> grammar = {};
  // The answer ends before the first of these texts.
  std::vector<std::string> stops = {};
  // Number of most probable tokens listed for each token. Above 0, each step waits for the logits.
  uint32_t top_logprobs = 0;
  Thinking thinking = Thinking::kSeparate;
  // End an answer that only repeats itself, with AnswerEnd::kLoop. Without effect on beam search,
  // and on sessions that ignore the end of answers.
  bool end_loops = true;
  // When the context is full, drop its older half and continue.
  bool context_shift = false;
  // Reuse the slot's cached keys and values of the same prefix. They may differ in their last bits
  // from new ones, which are computed in passes of other sizes.
  bool reuse_prompt = true;
};

// Throw Error(kUsage) naming the first setting that is out of bounds, or excluded by another one.
// Beam search excludes a temperature, top logprobs, a context shift and a grammar. The session
// checks what depends on the model.
void check_options(const TextSessionOptions& options);
void check_options(const TextOptions& options, const TextSessionOptions& session);

// The settings of an answer: those of `options`, else the model's. Throws Error(kUsage) if they
// need a feature that the session does not allow.
Sampling resolve_sampling(const SamplingOptions& options, const Sampling& defaults,
                          const TextSessionOptions& session);

// The seed of prompt `index` (from 0) of many with one seed, so that equal prompts get different
// answers.
uint32_t seed_of_prompt(uint32_t seed, uint64_t index);

}  // namespace vesper
