// What can be set of a TextSession and of an answer. Every default is here, or in Sampling
// (llm/generation/decoding_loop.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "llm/generation/generator.h"

namespace vesper {

// What is decided when the model is loaded.
struct TextSessionOptions {
  std::string device = "auto";   // "auto" (a GPU if there is one), "cpu", "vulkan" or "vulkan:N"
  std::string compute = "auto";  // precision: "auto" (the device's best), "f32", "f16", "bf16",
                                 // "int8"
  uint32_t threads = 0;          // of the CPU device; 0: one for each core
  uint32_t context = 0;  // tokens of a prompt and its answer; 0: 4096, or what the model is made
                         // for if that is less
  uint32_t n_slots = 1;  // answers that are generated at once
  DType kv_type = DType::kF16;  // of keys and values: kF16 or kF32
  // Above 1: beam search, of the likeliest text as a whole; at most kMostBeams
  // (shaders/kernel_params.h). An answer then comes at once when the search has ended. See
  // check_options() for what it excludes.
  uint32_t beam_size = 1;
  // With beams, texts are ranked by their log-probability over this power of their length.
  float length_penalty = 1;
  // Added to the logits of tokens: (id, bias).
  std::vector<std::pair<int32_t, float>> logit_bias = {};
  bool ignore_end = false;  // the tokens that end an answer are never chosen
  // What answers may ask for of Sampling. Off: a step of all slots takes a little less time.
  bool allows_filters = true;    // top_k, top_p, min_p, typical_p
  bool allows_penalties = true;  // repetition, frequency, presence, no_repeat_ngram_size
};

// What a model writes between <think> and </think> before it answers.
enum class Thinking {
  kInText,    // left in the text, tags included
  kSeparate,  // TextAnswer::thinking and TextEvents::on_thinking
};

// How a prompt is answered.
struct TextOptions {
  // Tokens of the answer; absent: until it ends, or the context is full.
  std::optional<uint32_t> max_tokens = {};
  Sampling sampling = {};
  // The answer ends before the first of these texts.
  std::vector<std::string> stops = {};
  // So many of the likeliest tokens are listed beside each chosen one. Above 0, each step waits for
  // the logits.
  uint32_t top_logprobs = 0;
  Thinking thinking = Thinking::kInText;
  // When the context is full, its older half is dropped and the answer goes on.
  bool context_shift = false;
  // Uses keys and values again that the slot holds of the same beginning. They may differ in their
  // last bits from those that are computed anew, in passes over another number of tokens.
  bool reuse_prompt = true;
};

// Throws Error(kUsage) naming the first setting that makes no sense, or that another one excludes.
// With beam search: a temperature, top logprobs and a context shift are excluded.
void check_options(const TextOptions& options, const TextSessionOptions& session);

// The seed of prompt `index` (from 0) of many that have one seed, so that equal prompts get
// different answers.
uint32_t seed_of_prompt(uint32_t seed, uint64_t index);

}  // namespace vesper
