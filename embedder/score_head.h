// How a reranker scores a query and a document: what it reads, and the layers after pooling.
//
// A cross-encoder (BERT, RoBERTa, ModernBERT and others with a classifier of one label) reads both
// texts as a pair. A language model trained to judge (Qwen3-Reranker) reads them in a prompt and
// answers "yes" or "no".
#pragma once

#include <vector>

#include "embedder/dense_layers.h"
#include "embedder/embedding_settings.h"
#include "llm/tokenizer/text_tokenizer.h"

namespace vesper {

struct ScoreHead {
  std::vector<DenseLayer> layers;  // the last one has one output
  Pooling pooling = Pooling::kFirst;
  bool is_probability = true;  // the score is the sigmoid of the output
  bool judges = false;         // reads a prompt, not a pair
};

// From the classifier of the files, or of a language model the difference of the rows of "yes" and
// "no" of its output matrix. Throws Error(kModel) if the model is not a reranker, or has several
// labels.
ScoreHead read_score_head(const WeightProvider& weights, const TextTokenizer& tokenizer);

}  // namespace vesper
