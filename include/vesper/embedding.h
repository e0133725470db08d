/* Texts to vectors, and pairs of texts to scores. */
#ifndef VESPER_EMBEDDING_H_
#define VESPER_EMBEDDING_H_

#include <vesper/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A text encoder, a language model with a pooling, or a reranker, on a device. */
typedef struct vesper_embedder vesper_embedder;

typedef struct vesper_embedder_options {
  size_t size;
  vesper_load_options load;
  const char* pooling;   /* "mean", "cls" or "last"; NULL (default): as the model's files say */
  int normalize;         /* 1: to length 1; 0: not; -1 (default): as the model's files say */
  uint32_t dimensions;   /* the first ones; 0 (default): all */
  uint32_t max_tokens;   /* of a text, the rest is cut; 0 (default): as the model's files say */
  uint32_t batch_tokens; /* computed at once; 0 (default): what suits the device */
  /* 1: the model is a reranker, for vesper_rerank: a cross-encoder with a classifier of one label, or
   * a Qwen3-Reranker; pooling, normalize and dimensions have no effect; 0 (default): an embedder */
  int reranker;
  const char* instruction; /* the task, for a Qwen3-Reranker; NULL (default): to search the web */
} vesper_embedder_options;
VESPER_API void vesper_embedder_options_init(vesper_embedder_options* options, size_t size);

VESPER_API vesper_status vesper_embedder_open(const char* model,
                                              const vesper_embedder_options* options,
                                              vesper_embedder** embedder);
VESPER_API void vesper_embedder_close(vesper_embedder* embedder);
VESPER_API const char* vesper_embedder_description(const vesper_embedder* embedder);
VESPER_API uint32_t vesper_embedder_dimensions(const vesper_embedder* embedder);
VESPER_API uint32_t vesper_embedder_max_tokens(const vesper_embedder* embedder);
/* The text that the model's files put before a text of this kind ("query", "passage", "document",
 * or another name in the files); "" if they have none. */
VESPER_API vesper_status vesper_embedder_prompt(const vesper_embedder* embedder, const char* name,
                                                char** prompt);

/* Writes the vectors of `texts`, [n_texts], to `vectors`, f32 [n_texts, dimensions], which the caller
 * owns. `prefix` is put before each text: a text, or the name of one of the model's prompts; NULL:
 * the model's default prompt. `n_tokens`, [n_texts], gets the tokens of each text before it was cut;
 * may be NULL. `cancellation` may be NULL. A vector does not depend on the other
 * texts. After an error `vectors` is undefined. */
VESPER_API vesper_status vesper_embed(vesper_embedder* embedder, const char* const* texts,
                                      size_t n_texts, const char* prefix,
                                      const vesper_cancellation* cancellation, float* vectors,
                                      uint32_t* n_tokens);
/* The same for token ids, special tokens included: text i is tokens[offsets[i] .. offsets[i + 1]);
 * `offsets` is [n_texts + 1]. */
VESPER_API vesper_status vesper_embed_tokens(vesper_embedder* embedder, const int32_t* tokens,
                                             const size_t* offsets, size_t n_texts,
                                             const vesper_cancellation* cancellation,
                                             float* vectors);

/* Writes to `scores`, [n_pairs], how well documents[i] answers queries[i]: more is better, a
 * probability unless the model's files say that it is a logit. `n_tokens`, [n_pairs], gets the tokens
 * of each pair before it was cut; may be NULL. `cancellation` may be NULL. A score does not depend on
 * the other pairs. VESPER_ERROR_USAGE if the embedder was not opened as a reranker. */
VESPER_API vesper_status vesper_rerank(vesper_embedder* embedder, const char* const* queries,
                                       const char* const* documents, size_t n_pairs,
                                       const vesper_cancellation* cancellation, float* scores,
                                       uint32_t* n_tokens);

/* The cosine of the angle between two vectors, [n]: -1 to 1; 0 if one has no length; NAN if a number
 * is. */
VESPER_API double vesper_similarity(const float* a, const float* b, size_t n);

#ifdef __cplusplus
}
#endif
#endif /* VESPER_EMBEDDING_H_ */
