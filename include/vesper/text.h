/* Text from a language model: prompts, chats, tokens. */
#ifndef VESPER_TEXT_H_
#define VESPER_TEXT_H_

#include <vesper/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Models ---------------------------------------------------------------------------------- */

/* A language model on a device. */
typedef struct vesper_language_model vesper_language_model;

typedef struct vesper_logit_bias {
  int32_t token;
  float bias; /* added to the token's logit */
} vesper_logit_bias;

typedef struct vesper_language_model_options {
  size_t size;
  vesper_load_options load;
  uint32_t context; /* tokens of a prompt and its answer; 0: 4096, or the model's limit if less */
  uint32_t batch_size;                 /* answers at once; default 1; 1 to 1024 */
  const char* kv_type;                 /* "f16" (default), "f32", "int8", or of keys and
                                          values: "k=int8,v=int4" */
  uint32_t beam_size;                  /* above 1: beam search; default 1 */
  double length_penalty;               /* of beams; default 1 */
  const vesper_logit_bias* logit_bias; /* [n_logit_bias] */
  size_t n_logit_bias;
  int ignore_end;            /* never sample the tokens that end an answer */
  const char* chat_template; /* replaces the model's; Jinja */
  /* "off" (default) or "ngram": draft tokens from earlier text and check several in one pass. The
   * answers are the same; those that repeat their prompt come sooner. Not with beams. */
  const char* speculate;
  /* A smaller model with the same tokens that drafts them, or NULL (default). The answers are the
   * same. Not with beams or `speculate`. */
  const char* draft;
} vesper_language_model_options;
VESPER_API void vesper_language_model_options_init(vesper_language_model_options* options,
                                                   size_t size);

VESPER_API vesper_status vesper_language_model_open(const char* model,
                                                    const vesper_language_model_options* options,
                                                    vesper_language_model** language_model);
VESPER_API void vesper_language_model_close(vesper_language_model* model);
VESPER_API const char* vesper_language_model_description(const vesper_language_model* model);
VESPER_API uint32_t vesper_language_model_context(const vesper_language_model* model); /* tokens */
VESPER_API uint32_t vesper_language_model_n_vocab(const vesper_language_model* model);
VESPER_API int vesper_language_model_has_chat_template(const vesper_language_model* model);

/* ---- Prompts --------------------------------------------------------------------------------- */

typedef struct vesper_message {
  const char* role; /* "system", "user", "assistant", or another role of the model's template */
  const char* content;
} vesper_message;

/* One of these is given: a text to continue, messages to answer, or token ids. */
typedef struct vesper_prompt {
  const char* text;
  const vesper_message* messages; /* [n_messages] */
  size_t n_messages;
  const int32_t* tokens; /* [n_tokens] */
  size_t n_tokens;
} vesper_prompt;

/* ---- Answers --------------------------------------------------------------------------------- */

/* An integer setting that is left to the model. */
#define VESPER_MODEL_DEFAULT UINT32_MAX

/* Names and defaults are those of `generate`. */
typedef struct vesper_generate_options {
  size_t size;
  uint32_t max_tokens; /* 0 (default): until the answer ends or the context is full */
  /* Sampling. NAN and VESPER_MODEL_DEFAULT (the defaults): what the model's files recommend, else
   * the most probable token each time; see vesper_generate_options_init_for. */
  double temperature; /* 0: the most probable token */
  uint32_t top_k;     /* 0: all tokens */
  double top_p, min_p, typical_p;
  double repetition_penalty, frequency_penalty, presence_penalty;
  uint32_t penalty_window;       /* last tokens that the penalties see */
  uint32_t no_repeat_ngram_size; /* 0: off */
  int64_t seed;                  /* 0 to UINT32_MAX; negative (default): random */
  const char* const* stops;      /* [n_stops]; the answer ends before the first of these texts */
  size_t n_stops;
  uint32_t top_logprobs; /* alternatives listed for each token */
  int no_thinking;       /* ask the chat template for an answer without thinking */
  int separate_thinking; /* default 1: what is between <think> and </think> is not in the text, but
                            in vesper_answer_thinking; always so in chats */
  int allow_loops;       /* do not end an answer that only repeats itself: VESPER_END_LOOP */
  int context_shift;     /* when the context is full, drop its older half and go on */
  int no_reuse;          /* do not reuse the cached prefix of an earlier prompt */
  const vesper_cancellation* cancellation; /* ends the answer: VESPER_END_CANCELLED */
  /* New text of the answer, complete characters, as it is generated; and of its thinking with
   * separate_thinking. Non-zero ends the answer: VESPER_END_CANCELLED. May be NULL. */
  int (*on_text)(const char* text, void* user);
  int (*on_thinking)(const char* text, void* user);
  void* user; /* of these callbacks */
  /* The answer is a text of this grammar, up to a limit or stop. Not with beams. VESPER_ERROR_USAGE
   * names the place of an error in it. */
  int grammar_notation; /* vesper_grammar_notation */
  const char* grammar;
  /* The grammar begins after this text of the answer; "": at once. NULL (default): after the
   * model's thinking, if it thinks, else at once. */
  const char* grammar_after;
  const vesper_logit_bias* logit_bias; /* [n_logit_bias], besides those of the model's options */
  size_t n_logit_bias;
  int ignore_end; /* never sample the tokens that end an answer */
} vesper_generate_options;
VESPER_API void vesper_generate_options_init(vesper_generate_options* options, size_t size);
/* The same with the numbers of this model in the settings of sampling, except the seed. */
VESPER_API vesper_status vesper_generate_options_init_for(const vesper_language_model* model,
                                                          vesper_generate_options* options,
                                                          size_t size);

typedef enum vesper_end {
  VESPER_END_MODEL = 0,     /* the model ended it */
  VESPER_END_STOP = 1,      /* one of `stops` */
  VESPER_END_LIMIT = 2,     /* max_tokens */
  VESPER_END_CONTEXT = 3,   /* the context is full */
  VESPER_END_CANCELLED = 4, /* a callback or cancellation */
  VESPER_END_LOOP = 5       /* the answer repeated itself */
} vesper_end;

typedef struct vesper_answer vesper_answer;
VESPER_API void vesper_answer_free(vesper_answer* answer);
VESPER_API const char* vesper_answer_text(const vesper_answer* answer);
VESPER_API const char* vesper_answer_thinking(const vesper_answer* answer); /* "" if none */
VESPER_API vesper_end vesper_answer_end(const vesper_answer* answer);
VESPER_API uint32_t vesper_answer_seed(const vesper_answer* answer); /* that was used */
/* The sampled tokens, and one that ended the answer. */
VESPER_API size_t vesper_answer_n_tokens(const vesper_answer* answer);
VESPER_API const int32_t* vesper_answer_tokens(const vesper_answer* answer); /* [n_tokens] */
VESPER_API const float* vesper_answer_logprobs(const vesper_answer* answer); /* [n_tokens] */
/* The tokens of the text with their alternatives, in the format of OpenAI's "logprobs" of chat
 * completions. */
VESPER_API vesper_status vesper_answer_logprobs_json(const vesper_answer* answer, char** json);

typedef struct vesper_generate_statistics {
  uint64_t n_prompt, n_reused, n_answer; /* tokens */
  double prompt_s, answer_s;
} vesper_generate_statistics;
VESPER_API vesper_generate_statistics vesper_answer_statistics(const vesper_answer* answer);
typedef struct vesper_speculation_statistics {
  uint64_t n_drafted, n_accepted; /* tokens; accepted: the model sampled them too */
} vesper_speculation_statistics;
VESPER_API vesper_speculation_statistics vesper_answer_speculation(const vesper_answer* answer);

VESPER_API vesper_status vesper_generate(vesper_language_model* model, const vesper_prompt* prompt,
                                         const vesper_generate_options* options,
                                         vesper_answer** answer);

/* Answer `index` of several: `answer` (owned by the callee), or NULL with its error. Non-zero ends
 * the rest. */
typedef int (*vesper_on_answer)(size_t index, vesper_answer* answer, vesper_status status,
                                const char* message, void* user);
/* Answers prompts, batch_size at once. `options` is [n_options]: one per prompt, one for all, which
 * then gives equal prompts different seeds, or NULL and 0. Answers come as they end; a prompt that
 * is wrong does not stop the others. on_text and on_thinking are not called. An answer does not
 * depend on the others. */
VESPER_API vesper_status vesper_generate_many(vesper_language_model* model,
                                              const vesper_prompt* prompts, size_t n_prompts,
                                              const vesper_generate_options* options,
                                              size_t n_options, vesper_on_answer on_answer,
                                              void* user);

/* ---- Chats ----------------------------------------------------------------------------------- */

/* A conversation that grows message by message. When the context is full, the oldest messages are
 * dropped. The model must outlive it. */
typedef struct vesper_chat vesper_chat;
/* `system` may be NULL. `options` apply to every answer. VESPER_ERROR_MODEL without a template. */
VESPER_API vesper_status vesper_chat_open(vesper_language_model* model, const char* system,
                                          const vesper_generate_options* options,
                                          vesper_chat** chat);
VESPER_API void vesper_chat_close(vesper_chat* chat);
VESPER_API vesper_status vesper_chat_say(vesper_chat* chat, const char* message,
                                         vesper_answer** answer);
/* Answers the last message again: with the next seed, or another random one. */
VESPER_API vesper_status vesper_chat_regenerate(vesper_chat* chat, vesper_answer** answer);
/* The messages so far, an array of {"role", "content"}, the system message first. */
VESPER_API vesper_status vesper_chat_messages(const vesper_chat* chat, char** json);
/* Replaces the messages; also the system message, if it is the first of them. */
VESPER_API vesper_status vesper_chat_set_messages(vesper_chat* chat, const vesper_message* messages,
                                                  size_t n_messages);

/* ---- Long texts, prompt caches, probabilities ------------------------------------------------ */

/* Answers `instruction` about `text` of any length: about each part of it that fits the context,
 * then about the joined answers (map-reduce). */
VESPER_API vesper_status vesper_generate_long(vesper_language_model* model, const char* system,
                                              const char* instruction, const char* text,
                                              const vesper_generate_options* options,
                                              vesper_answer** answer);

/* Writes the keys and values of the last prompt and its answer to a file, and reads them back in
 * another process with the same model, which then need not compute them again. The file is written
 * as a whole or not at all. VESPER_ERROR_INPUT for a file of another model or kv_type; one of
 * another context has no effect. */
VESPER_API vesper_status vesper_language_model_save_prompt(vesper_language_model* model,
                                                           const char* path);
VESPER_API vesper_status vesper_language_model_restore_prompt(vesper_language_model* model,
                                                              const char* path);

typedef struct vesper_perplexity_result {
  double value, deviation; /* exp of the mean of -log p, and its standard error */
  uint64_t n_tokens, n_contexts;
} vesper_perplexity_result;
/* How well the model predicts a text, as llama.cpp's llama-perplexity: pieces of `context` tokens
 * (512 in `generate`), of which the second half is scored. `cancellation` may be NULL.
 * VESPER_ERROR_INPUT for a text shorter than a piece. */
VESPER_API vesper_status vesper_perplexity(vesper_language_model* model, const char* text,
                                           const vesper_cancellation* cancellation,
                                           vesper_perplexity_result* result);
/* The logits after each token: on_rows gets f32 [n_rows, n_vocab]. Non-zero stops. */
VESPER_API vesper_status vesper_logits(vesper_language_model* model, const int32_t* tokens,
                                       size_t n_tokens,
                                       int (*on_rows)(const float* rows, size_t n_rows, void* user),
                                       void* user);

/* ---- Tokenizers ------------------------------------------------------------------------------ */

/* The tokenizer of any model: Whisper, language models, text encoders. Thread-safe. */
typedef struct vesper_tokenizer vesper_tokenizer;
/* Opens a model's tokenizer without its weights. */
VESPER_API vesper_status vesper_tokenizer_open(const char* model,
                                               const vesper_load_options* options,
                                               vesper_tokenizer** tokenizer);
VESPER_API void vesper_tokenizer_close(vesper_tokenizer* tokenizer);
VESPER_API uint32_t vesper_tokenizer_n_vocab(const vesper_tokenizer* tokenizer);
/* Ids of special tokens; -1: none. */
VESPER_API int32_t vesper_tokenizer_bos(const vesper_tokenizer* tokenizer);
VESPER_API int32_t vesper_tokenizer_eos(const vesper_tokenizer* tokenizer);
VESPER_API int32_t vesper_tokenizer_find(const vesper_tokenizer* tokenizer, const char* token);
/* `text`, [n_bytes], any bytes. parse_special: spellings of special tokens become these tokens;
 * add_special: with the model's special tokens around the text. *tokens is an array of *n_tokens,
 * to be freed by vesper_tokens_free; NULL if there are none. Invalid UTF-8 becomes U+FFFD. The
 * tokenizer of a Whisper model has no special tokens: its decoder chooses them. */
VESPER_API vesper_status vesper_tokenizer_encode(const vesper_tokenizer* tokenizer,
                                                 const char* text, size_t n_bytes,
                                                 int parse_special, int add_special,
                                                 int32_t** tokens, size_t* n_tokens);
VESPER_API void vesper_tokens_free(int32_t* tokens);
/* VESPER_ERROR_INPUT for an id beyond the vocabulary. */
VESPER_API vesper_status vesper_tokenizer_decode(const vesper_tokenizer* tokenizer,
                                                 const int32_t* tokens, size_t n_tokens,
                                                 int with_special, char** text);
/* Messages as the model's chat template formats them, up to the start of the model's answer. */
VESPER_API vesper_status vesper_tokenizer_format_chat(const vesper_tokenizer* tokenizer,
                                                      const vesper_message* messages,
                                                      size_t n_messages, int no_thinking,
                                                      char** text);

#ifdef __cplusplus
}
#endif
#endif /* VESPER_TEXT_H_ */
