// The sampling settings that a model's publisher recommends.
//
// In: an open model, or the text of a generation_config.json. Out: Sampling. Used by
// session/text/text_model.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "llm/files/gguf_file.h"
#include "llm/files/gguf_writer.h"
#include "llm/generation/decoding_loop.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

struct SamplingDefaults {
  Sampling sampling;   // without a seed
  std::string source;  // "generation_config.json", "general.sampling.*"; empty: none, greedy
};

// Of a GGUF file: its metadata. Of others: generation_config.json beside the weights. Without
// either: greedy. These functions throw Error(kModel) naming the file, the key and the value that
// is out of bounds.
SamplingDefaults sampling_defaults(const WeightProvider& weights);

// Of the keys general.sampling.*, which llama.cpp's converter writes. `name` is the file in
// messages.
SamplingDefaults sampling_defaults(const std::string& name, const Gguf& gguf);

// Writes these keys. typical_p has none.
void write_sampling_keys(const SamplingDefaults& defaults, GgufWriter& writer);

// Of the text of a generation_config.json. `source` is the file in messages. As in transformers,
// whose defaults the file omits: greedy unless do_sample is true, then a temperature of 1 and the
// 50 most probable tokens unless stated, and a repetition penalty for the whole text. min_p, top_p
// and typical_p as stated.
SamplingDefaults sampling_defaults(const std::string& source, std::string_view generation_config);

}  // namespace vesper
