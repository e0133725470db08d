#include "text_client.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vesper.h>

#include "check.h"

/* A call with this status, and a message if it fails. */
#define EXPECT(wanted, call) \
  CHECK((call) == (wanted) && ((wanted) == VESPER_OK || vesper_last_error()[0] != '\0'))
/* A setting that is refused under the name of its field. */
#define EXPECT_SETTING(field, call) \
  CHECK((call) == VESPER_ERROR_USAGE && strcmp(vesper_last_error_setting(), (field)) == 0)

static int count_rows(const float* rows, size_t n_rows, void* user) {
  size_t* n = user;
  if (rows == NULL) return 1;
  *n += n_rows;
  return 0;
}
static int refuse_rows(const float* rows, size_t n_rows, void* user) {
  (void)rows;
  (void)n_rows;
  (void)user;
  return 1;
}
static int keep_answer(size_t index, vesper_answer* answer, vesper_status status,
                       const char* message, void* user) {
  vesper_answer** answers = user;
  (void)message;
  if (status == VESPER_OK) answers[index] = answer;
  return 0;
}
static int refuse_answer(size_t index, vesper_answer* answer, vesper_status status,
                         const char* message, void* user) {
  (void)index;
  (void)status;
  (void)message;
  (void)user;
  vesper_answer_free(answer);
  return 1;
}

static const char* wrong_model(const char* name) {
  vesper_language_model_options options;
  vesper_language_model* model = (vesper_language_model*)&options;
  const vesper_logit_bias beyond = {1000, 1}, unknown = {1, NAN};
#define REFUSED(field, set)                                                    \
  do {                                                                         \
    vesper_language_model_options_init(&options, sizeof options);              \
    options.load.device = "cpu";                                               \
    set;                                                                       \
    EXPECT_SETTING(field, vesper_language_model_open(name, &options, &model)); \
    CHECK(model == NULL);                                                      \
    model = (vesper_language_model*)&options;                                  \
  } while (0)
  REFUSED("kv_type", options.kv_type = "f64");
  REFUSED("speculate", options.speculate = "dream");
  REFUSED("speculate", (options.speculate = "ngram", options.beam_size = 2));
  REFUSED("draft", (options.speculate = "ngram", options.draft = name));
  REFUSED("draft", (options.beam_size = 2, options.draft = name));
  REFUSED("context", options.context = 1);
  REFUSED("context", options.context = UINT32_MAX);
  REFUSED("batch_size", options.batch_size = 0);
  REFUSED("batch_size", options.batch_size = 100000);
  REFUSED("beam_size", options.beam_size = 0);
  REFUSED("beam_size", options.beam_size = 100000);
  REFUSED("length_penalty", options.length_penalty = NAN);
  REFUSED("length_penalty", options.length_penalty = -1e300);
  REFUSED("logit_bias", (options.logit_bias = &beyond, options.n_logit_bias = 1));
  REFUSED("logit_bias", (options.logit_bias = &unknown, options.n_logit_bias = 1));
  REFUSED("threads", options.load.threads = 100000);
  REFUSED("device", options.load.device = "abacus");
  REFUSED("compute", options.load.compute = "f3");
  REFUSED("weights", options.load.weights = "q9_z");
  const vesper_adapter endless = {"adapter", INFINITY};
  REFUSED("adapters", (options.load.adapters = &endless, options.load.n_adapters = 1));
#undef REFUSED
  vesper_language_model_options_init(&options, sizeof options);
  options.n_logit_bias = 1;
  EXPECT(VESPER_ERROR_USAGE, vesper_language_model_open(name, &options, &model));
  vesper_language_model_options_init(&options, sizeof options);
  options.size = 3;
  EXPECT(VESPER_ERROR_USAGE, vesper_language_model_open(name, &options, &model));
  vesper_language_model_options_init(&options, sizeof options);
  options.chat_template = "{% for %}";
  EXPECT(VESPER_ERROR_MODEL, vesper_language_model_open(name, &options, &model));
  EXPECT(VESPER_ERROR_USAGE, vesper_language_model_open(NULL, NULL, &model));
  EXPECT(VESPER_ERROR_USAGE, vesper_language_model_open(name, NULL, NULL));
  EXPECT(VESPER_ERROR_MODEL, vesper_language_model_open("/no/such/model", NULL, &model));
  CHECK(model == NULL);
  return NULL;
}

static const char* wrong_generate(vesper_language_model* model) {
  vesper_generate_options options;
  vesper_prompt prompt = {"abc", NULL, 0, NULL, 0};
  vesper_answer* answer = NULL;
  const char* empty = "";
  const char* missing = NULL;
  const vesper_message half = {"user", NULL};
  const int32_t outside[2] = {3, 1000};
  const vesper_logit_bias beyond = {1000, 1};
  vesper_answer* answers[2] = {NULL, NULL};
#define REFUSED(field, set)                                                    \
  do {                                                                         \
    vesper_generate_options_init(&options, sizeof options);                    \
    set;                                                                       \
    EXPECT_SETTING(field, vesper_generate(model, &prompt, &options, &answer)); \
    CHECK(answer == NULL);                                                     \
  } while (0)
  REFUSED("max_tokens", options.max_tokens = UINT32_MAX);
  REFUSED("temperature", options.temperature = -1);
  REFUSED("temperature", options.temperature = 1e300);
  REFUSED("top_p", options.top_p = 1.5);
  REFUSED("top_p", options.top_p = -INFINITY);
  REFUSED("min_p", options.min_p = -0.1);
  REFUSED("typical_p", options.typical_p = 2);
  REFUSED("repetition_penalty", options.repetition_penalty = 0);
  REFUSED("frequency_penalty", options.frequency_penalty = 1e9);
  REFUSED("presence_penalty", options.presence_penalty = -1e9);
  REFUSED("top_k", options.top_k = UINT32_MAX - 1);
  REFUSED("penalty_window", options.penalty_window = UINT32_MAX - 1);
  REFUSED("no_repeat_ngram_size", options.no_repeat_ngram_size = UINT32_MAX - 1);
  REFUSED("seed", options.seed = INT64_MAX);
  REFUSED("top_logprobs", options.top_logprobs = UINT32_MAX);
  REFUSED("stops", (options.stops = &empty, options.n_stops = 1));
  REFUSED("grammar_notation", options.grammar_notation = 5);
  REFUSED("grammar_notation", options.grammar_notation = -1);
  REFUSED("grammar_notation", options.grammar = "root ::= [a-z]");
  REFUSED("grammar", (options.grammar_notation = VESPER_GRAMMAR_GBNF, options.grammar = "a ::="));
  REFUSED("regex", (options.grammar_notation = VESPER_GRAMMAR_REGEX, options.grammar = "(a"));
  REFUSED("JSON_schema", (options.grammar_notation = VESPER_GRAMMAR_JSON_SCHEMA,
                          options.grammar = "{\"type\": 7}"));
  REFUSED("logit_bias", (options.logit_bias = &beyond, options.n_logit_bias = 1));
#undef REFUSED
  vesper_generate_options_init(&options, sizeof options);
  options.n_stops = 1;
  EXPECT(VESPER_ERROR_USAGE, vesper_generate(model, &prompt, &options, &answer));
  options.stops = &missing;
  EXPECT(VESPER_ERROR_USAGE, vesper_generate(model, &prompt, &options, &answer));
  vesper_generate_options_init(&options, sizeof options);
  options.cancellation = (const vesper_cancellation*)&options;
  EXPECT(VESPER_ERROR_USAGE, vesper_generate(model, &prompt, &options, &answer));
  vesper_generate_options_init(&options, sizeof options);

  EXPECT(VESPER_ERROR_USAGE, vesper_generate(NULL, &prompt, NULL, &answer));
  EXPECT(VESPER_ERROR_USAGE, vesper_generate(model, NULL, NULL, &answer));
  EXPECT(VESPER_ERROR_USAGE, vesper_generate(model, &prompt, NULL, NULL));
  EXPECT(VESPER_ERROR_USAGE,
         vesper_generate((vesper_language_model*)&options, &prompt, NULL, &answer));
  CHECK(strstr(vesper_last_error(), "expected a language model that is open") != NULL);
  prompt.n_tokens = 1; /* a text and tokens */
  EXPECT(VESPER_ERROR_USAGE, vesper_generate(model, &prompt, NULL, &answer));
  CHECK(strcmp(vesper_error_of(model), vesper_last_error()) == 0);
  prompt.text = NULL; /* NULL tokens */
  EXPECT(VESPER_ERROR_USAGE, vesper_generate(model, &prompt, NULL, &answer));
  prompt.tokens = outside;
  prompt.n_tokens = 2;
  EXPECT(VESPER_ERROR_INPUT, vesper_generate(model, &prompt, NULL, &answer));
  EXPECT(VESPER_ERROR_INPUT, vesper_logits(model, outside, 2, count_rows, NULL));
  prompt.tokens = NULL;
  prompt.n_tokens = 0; /* nothing */
  EXPECT(VESPER_ERROR_USAGE, vesper_generate(model, &prompt, NULL, &answer));
  prompt.n_messages = 1; /* NULL messages */
  EXPECT(VESPER_ERROR_USAGE, vesper_generate(model, &prompt, NULL, &answer));
  prompt.messages = &half;
  EXPECT(VESPER_ERROR_USAGE, vesper_generate(model, &prompt, NULL, &answer));
  prompt.messages = NULL;
  prompt.n_messages = 0;
  prompt.text = "";
  EXPECT(VESPER_ERROR_INPUT, vesper_generate(model, &prompt, NULL, &answer));
  prompt.text = "a\xff\xc3";
  options.max_tokens = 2;
  EXPECT(VESPER_OK, vesper_generate(model, &prompt, &options, &answer));
  vesper_answer_free(answer);

  EXPECT(VESPER_ERROR_USAGE, vesper_generate_many(model, &prompt, 1, NULL, 0, NULL, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_generate_many(model, NULL, 1, NULL, 0, keep_answer, answers));
  EXPECT(VESPER_ERROR_USAGE,
         vesper_generate_many(model, &prompt, 1, NULL, 1, keep_answer, answers));
  EXPECT(VESPER_ERROR_USAGE,
         vesper_generate_many(model, &prompt, 1, &options, 7, keep_answer, answers));
  EXPECT(VESPER_ERROR_USAGE, vesper_generate_many(NULL, &prompt, 1, NULL, 0, keep_answer, answers));
  EXPECT(VESPER_ERROR_STOPPED,
         vesper_generate_many(model, &prompt, 1, &options, 1, refuse_answer, NULL));
  EXPECT(VESPER_OK, vesper_generate_many(model, NULL, 0, NULL, 0, keep_answer, answers));

  EXPECT(VESPER_ERROR_USAGE, vesper_generate_long(model, NULL, NULL, "a", NULL, &answer));
  EXPECT(VESPER_ERROR_USAGE, vesper_generate_long(model, NULL, "a", NULL, NULL, &answer));
  EXPECT(VESPER_ERROR_USAGE, vesper_generate_long(model, NULL, "a", "a", NULL, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_generate_long(NULL, NULL, "a", "a", NULL, &answer));
  EXPECT(VESPER_ERROR_USAGE, vesper_generate_options_init_for(NULL, &options, sizeof options));
  EXPECT(VESPER_ERROR_USAGE, vesper_generate_options_init_for(model, NULL, sizeof options));
  EXPECT(VESPER_ERROR_USAGE, vesper_generate_options_init_for(model, &options, 5));
  vesper_generate_options_init(NULL, sizeof options);
  return NULL;
}

static const char* answers_and_their_values(vesper_language_model* model) {
  vesper_generate_options options;
  const vesper_prompt prompt = {"abc", NULL, 0, NULL, 0};
  const vesper_prompt prompts[2] = {{"abc", NULL, 0, NULL, 0}, {"xyz", NULL, 0, NULL, 0}};
  vesper_answer* answer = NULL;
  vesper_answer* answers[2] = {NULL, NULL};
  vesper_answer* none = NULL;
  char* json = NULL;
  vesper_generate_options_init(&options, sizeof options);
  options.max_tokens = 5;
  options.top_logprobs = 2;
  EXPECT(VESPER_OK, vesper_generate(model, &prompt, &options, &answer));
  CHECK(vesper_answer_n_tokens(answer) > 0 && vesper_answer_n_tokens(answer) <= 5);
  CHECK(vesper_answer_tokens(answer) != NULL && vesper_answer_logprobs(answer)[0] < 0);
  CHECK(vesper_answer_end(answer) == VESPER_END_LIMIT);
  CHECK(vesper_answer_statistics(answer).n_prompt == 3);
  CHECK(vesper_answer_statistics(answer).n_answer == vesper_answer_n_tokens(answer));
  CHECK(strlen(vesper_answer_text(answer)) > 0);
  CHECK(vesper_answer_thinking(answer) != NULL);
  CHECK(vesper_answer_seed(answer) == 0);
  EXPECT(VESPER_ERROR_USAGE, vesper_answer_logprobs_json(answer, NULL));
  EXPECT(VESPER_OK, vesper_answer_logprobs_json(answer, &json));
  CHECK(strstr(json, "top_logprobs") != NULL);
  vesper_string_free(json);
  EXPECT(VESPER_OK, vesper_generate_many(model, prompts, 2, &options, 1, keep_answer, answers));
  CHECK(strcmp(vesper_answer_text(answers[0]), vesper_answer_text(answer)) == 0);
  vesper_answer_free(answers[0]);
  vesper_answer_free(answers[1]);
  vesper_answer_free(answer);
  vesper_answer_free(NULL);
  vesper_answer_free(answer); /* again: an error of the thread */
  CHECK(strstr(vesper_last_error(), "expected an answer that is open") != NULL);
  CHECK(vesper_answer_n_tokens(answer) == 0 && vesper_answer_tokens(none) == NULL);
  CHECK(vesper_answer_logprobs(none) == NULL && strcmp(vesper_answer_text(none), "") == 0);
  CHECK(strcmp(vesper_answer_thinking(none), "") == 0 && vesper_answer_end(none) == 0);
  CHECK(vesper_answer_statistics(none).n_prompt == 0 && vesper_answer_seed(none) == 0);
  json = (char*)&options;
  EXPECT(VESPER_ERROR_USAGE, vesper_answer_logprobs_json(none, &json));
  CHECK(json == NULL);
  vesper_answer_free((vesper_answer*)model); /* of another kind */
  CHECK(strstr(vesper_last_error(), "found a language model") != NULL);
  CHECK(vesper_language_model_context(model) > 0 && vesper_language_model_n_vocab(model) == 64);
  CHECK(strstr(vesper_language_model_description(model), "cpu") != NULL);
  CHECK(vesper_language_model_has_chat_template(model) == 1);
  CHECK(vesper_language_model_context(NULL) == 0 && vesper_language_model_n_vocab(NULL) == 0);
  CHECK(vesper_language_model_has_chat_template(NULL) == 0);
  CHECK(strcmp(vesper_language_model_description(NULL), "") == 0);
  return NULL;
}

static const char* chats(vesper_language_model* model) {
  vesper_generate_options options;
  vesper_chat* chat = NULL;
  vesper_answer* answer = NULL;
  char* json = NULL;
  const vesper_message messages[2] = {{"system", "b"}, {"user", "c"}};
  vesper_generate_options_init(&options, sizeof options);
  options.max_tokens = 5;
  EXPECT(VESPER_ERROR_USAGE, vesper_chat_open(NULL, NULL, NULL, &chat));
  EXPECT(VESPER_ERROR_USAGE, vesper_chat_open(model, NULL, NULL, NULL));
  options.temperature = -1;
  EXPECT_SETTING("temperature", vesper_chat_open(model, NULL, &options, &chat));
  CHECK(chat == NULL);
  options.temperature = NAN;
  EXPECT(VESPER_OK, vesper_chat_open(model, "a", &options, &chat));
  EXPECT(VESPER_ERROR_INPUT, vesper_chat_regenerate(chat, &answer));
  EXPECT(VESPER_ERROR_USAGE, vesper_chat_say(chat, NULL, &answer));
  EXPECT(VESPER_ERROR_USAGE, vesper_chat_say(chat, "x", NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_chat_say(NULL, "x", &answer));
  EXPECT(VESPER_ERROR_USAGE, vesper_chat_regenerate(NULL, &answer));
  EXPECT(VESPER_OK, vesper_chat_say(chat, "hello", &answer));
  vesper_answer_free(answer);
  EXPECT(VESPER_OK, vesper_chat_regenerate(chat, &answer));
  vesper_answer_free(answer);
  EXPECT(VESPER_ERROR_USAGE, vesper_chat_messages(chat, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_chat_messages(NULL, &json));
  EXPECT(VESPER_ERROR_USAGE, vesper_chat_set_messages(chat, NULL, 1));
  EXPECT(VESPER_ERROR_USAGE, vesper_chat_set_messages(NULL, messages, 2));
  EXPECT(VESPER_OK, vesper_chat_set_messages(chat, messages, 2));
  EXPECT(VESPER_OK, vesper_chat_messages(chat, &json));
  CHECK(strcmp(json,
               "[{\"role\":\"system\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"}]") ==
        0);
  vesper_string_free(json);
  vesper_chat_close(chat);
  vesper_chat_close(NULL);
  EXPECT(VESPER_ERROR_USAGE, vesper_chat_messages(chat, &json));
  return NULL;
}

static const char* long_texts_caches_and_probabilities(vesper_language_model* model,
                                                       const char* folder) {
  static const char kText[] =
      "a text of more tokens than fit the context of the model that reads it, letter by letter";
  vesper_generate_options options;
  vesper_cancellation* cancellation = NULL;
  vesper_perplexity_result perplexity;
  vesper_answer* answer = NULL;
  const int32_t tokens[4] = {5, 6, 7, 8};
  size_t n_rows = 0;
  char path[1024];
  snprintf(path, sizeof path, "%s/prompt.cache", folder);
  vesper_generate_options_init(&options, sizeof options);
  options.max_tokens = 8;
  EXPECT(VESPER_OK, vesper_generate_long(model, "s", "sum up", kText, &options, &answer));
  vesper_answer_free(answer);
  EXPECT(VESPER_OK, vesper_language_model_save_prompt(model, path));
  EXPECT(VESPER_OK, vesper_language_model_restore_prompt(model, path));
  EXPECT(VESPER_ERROR_USAGE, vesper_language_model_save_prompt(model, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_language_model_save_prompt(NULL, path));
  EXPECT(VESPER_ERROR_USAGE, vesper_language_model_restore_prompt(model, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_language_model_restore_prompt(NULL, path));
  EXPECT(VESPER_ERROR_OUTPUT, vesper_language_model_save_prompt(model, "/no/such/folder/file"));
  EXPECT(VESPER_ERROR_INPUT, vesper_language_model_restore_prompt(model, "/no/such/file"));
  EXPECT(VESPER_ERROR_INPUT, vesper_language_model_restore_prompt(model, "/proc/version"));

  EXPECT(VESPER_OK, vesper_perplexity(model, kText, NULL, &perplexity));
  CHECK(perplexity.value > 1 && perplexity.n_tokens > 0 && perplexity.n_contexts > 0);
  EXPECT(VESPER_ERROR_INPUT, vesper_perplexity(model, "short", NULL, &perplexity));
  CHECK(perplexity.n_contexts == 0);
  EXPECT(VESPER_ERROR_USAGE, vesper_perplexity(model, NULL, NULL, &perplexity));
  EXPECT(VESPER_ERROR_USAGE, vesper_perplexity(model, kText, NULL, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_perplexity(NULL, kText, NULL, &perplexity));
  EXPECT(VESPER_OK, vesper_cancellation_new(&cancellation));
  vesper_cancellation_request(cancellation);
  EXPECT(VESPER_ERROR_STOPPED, vesper_perplexity(model, kText, cancellation, &perplexity));
  options.cancellation = cancellation;
  EXPECT(VESPER_ERROR_STOPPED,
         vesper_generate_long(model, NULL, "sum up", kText, &options, &answer));
  vesper_cancellation_free(cancellation);

  EXPECT(VESPER_OK, vesper_logits(model, tokens, 4, count_rows, &n_rows));
  CHECK(n_rows == 4);
  EXPECT(VESPER_ERROR_STOPPED, vesper_logits(model, tokens, 4, refuse_rows, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_logits(model, NULL, 4, count_rows, &n_rows));
  EXPECT(VESPER_ERROR_USAGE, vesper_logits(model, tokens, 4, NULL, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_logits(NULL, tokens, 4, count_rows, &n_rows));
  EXPECT(VESPER_ERROR_INPUT, vesper_logits(model, tokens, 0, count_rows, &n_rows));
  return NULL;
}

static const char* tokenizers(const char* name) {
  vesper_tokenizer* tokenizer = NULL;
  int32_t* tokens = NULL;
  size_t n = 0;
  char* text = NULL;
  const int32_t beyond = 1000, negative = -1;
  const vesper_message message = {"user", "hi"};
  EXPECT(VESPER_ERROR_USAGE, vesper_tokenizer_open(NULL, NULL, &tokenizer));
  EXPECT(VESPER_ERROR_USAGE, vesper_tokenizer_open(name, NULL, NULL));
  EXPECT(VESPER_ERROR_MODEL, vesper_tokenizer_open("/no/such/model", NULL, &tokenizer));
  EXPECT(VESPER_OK, vesper_tokenizer_open(name, NULL, &tokenizer));
  CHECK(vesper_tokenizer_n_vocab(tokenizer) == 64 && vesper_tokenizer_bos(tokenizer) == -1);
  CHECK(vesper_tokenizer_eos(tokenizer) == 0 && vesper_tokenizer_find(tokenizer, "<user>") == 1);
  CHECK(vesper_tokenizer_find(tokenizer, "no such token") == -1);
  CHECK(vesper_tokenizer_find(tokenizer, NULL) == -1 && vesper_tokenizer_find(NULL, "a") == -1);
  CHECK(vesper_tokenizer_n_vocab(NULL) == 0 && vesper_tokenizer_bos(NULL) == -1);
  CHECK(vesper_tokenizer_eos(NULL) == -1);
  EXPECT(VESPER_OK, vesper_tokenizer_encode(tokenizer, "ab<user>", 8, 1, 1, &tokens, &n));
  CHECK(n == 3 && tokens[0] == 5 && tokens[2] == 1);
  EXPECT(VESPER_OK, vesper_tokenizer_decode(tokenizer, tokens, n, 0, &text));
  CHECK(strcmp(text, "ab") == 0);
  vesper_string_free(text);
  EXPECT(VESPER_OK, vesper_tokenizer_decode(tokenizer, tokens, n, 1, &text));
  CHECK(strcmp(text, "ab<user>") == 0);
  vesper_string_free(text);
  vesper_tokens_free(tokens);
  EXPECT(VESPER_OK, vesper_tokenizer_encode(tokenizer, NULL, 0, 0, 0, &tokens, &n));
  CHECK(n == 0);
  vesper_tokens_free(tokens);
  EXPECT(VESPER_OK, vesper_tokenizer_encode(tokenizer, "\xff\0a", 3, 0, 0, &tokens, &n));
  vesper_tokens_free(tokens);
  EXPECT(VESPER_ERROR_USAGE, vesper_tokenizer_encode(tokenizer, NULL, 1, 0, 0, &tokens, &n));
  CHECK(tokens == NULL && n == 0);
  EXPECT(VESPER_ERROR_USAGE, vesper_tokenizer_encode(tokenizer, "a", SIZE_MAX, 0, 0, &tokens, &n));
  EXPECT(VESPER_ERROR_USAGE, vesper_tokenizer_encode(tokenizer, "a", 1, 0, 0, NULL, &n));
  EXPECT(VESPER_ERROR_USAGE, vesper_tokenizer_encode(tokenizer, "a", 1, 0, 0, &tokens, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_tokenizer_encode(NULL, "a", 1, 0, 0, &tokens, &n));
  EXPECT(VESPER_ERROR_INPUT, vesper_tokenizer_decode(tokenizer, &beyond, 1, 0, &text));
  EXPECT(VESPER_ERROR_INPUT, vesper_tokenizer_decode(tokenizer, &negative, 1, 0, &text));
  EXPECT(VESPER_ERROR_USAGE, vesper_tokenizer_decode(tokenizer, NULL, 1, 0, &text));
  EXPECT(VESPER_ERROR_USAGE, vesper_tokenizer_decode(tokenizer, &beyond, 1, 0, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_tokenizer_decode(NULL, &beyond, 1, 0, &text));
  EXPECT(VESPER_OK, vesper_tokenizer_format_chat(tokenizer, &message, 1, 0, &text));
  CHECK(strcmp(text, "<user>hi<user>") == 0);
  vesper_string_free(text);
  EXPECT(VESPER_OK, vesper_tokenizer_format_chat(tokenizer, &message, 1, 1, &text));
  CHECK(strcmp(text, "<user>hi<user><think></think>") == 0);
  vesper_string_free(text);
  EXPECT(VESPER_ERROR_USAGE, vesper_tokenizer_format_chat(tokenizer, NULL, 1, 0, &text));
  EXPECT(VESPER_ERROR_USAGE, vesper_tokenizer_format_chat(tokenizer, &message, 1, 0, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_tokenizer_format_chat(NULL, &message, 1, 0, &text));
  vesper_tokenizer_close(tokenizer);
  vesper_tokenizer_close(NULL);
  vesper_tokens_free(NULL);
  return NULL;
}

static const char* embedders(const char* name) {
  vesper_embedder_options options;
  vesper_embedder* embedder = NULL;
  const char* texts[2] = {"the cat", "a plan"};
  const char* missing[1] = {NULL};
  const int32_t tokens[4] = {2, 5, 6, 3};
  const size_t offsets[2] = {0, 4}, descending[3] = {0, 4, 2}, empty[3] = {0, 4, 4};
  const float unknown[2] = {NAN, 1}, ones[2] = {1, 1}, zeros[2] = {0, 0};
  vesper_cancellation* cancellation = NULL;
  float* vectors;
  char* prompt = NULL;
  uint32_t n_tokens[2] = {0, 0}, n;
#define REFUSED(field, set)                                                 \
  do {                                                                      \
    vesper_embedder_options_init(&options, sizeof options);                 \
    options.load.device = "cpu";                                            \
    set;                                                                    \
    EXPECT_SETTING(field, vesper_embedder_open(name, &options, &embedder)); \
    CHECK(embedder == NULL);                                                \
  } while (0)
  REFUSED("pooling", options.pooling = "sum");
  REFUSED("normalize", options.normalize = 2);
  REFUSED("dimensions", options.dimensions = UINT32_MAX);
  REFUSED("max_tokens", options.max_tokens = UINT32_MAX);
  REFUSED("batch_tokens", options.batch_tokens = UINT32_MAX);
  REFUSED("reranker", options.reranker = 2);
#undef REFUSED
  EXPECT(VESPER_ERROR_USAGE, vesper_embedder_open(NULL, NULL, &embedder));
  EXPECT(VESPER_ERROR_USAGE, vesper_embedder_open(name, NULL, NULL));
  EXPECT(VESPER_ERROR_MODEL, vesper_embedder_open("/no/such/model", NULL, &embedder));
  vesper_embedder_options_init(&options, sizeof options);
  options.load.device = "cpu";
  EXPECT(VESPER_OK, vesper_embedder_open(name, &options, &embedder));
  n = vesper_embedder_dimensions(embedder);
  CHECK(n == 64 && vesper_embedder_max_tokens(embedder) > 0);
  CHECK(strstr(vesper_embedder_description(embedder), "cpu") != NULL);
  CHECK(vesper_embedder_dimensions(NULL) == 0 && vesper_embedder_max_tokens(NULL) == 0);
  CHECK(strcmp(vesper_embedder_description(NULL), "") == 0);
  vectors = calloc(2 * n, sizeof(float));
  EXPECT(VESPER_OK, vesper_embed(embedder, texts, 2, NULL, NULL, vectors, n_tokens));
  CHECK(n_tokens[0] > 2 && vesper_similarity(vectors, vectors, n) > 0.999);
  CHECK(vesper_similarity(vectors, vectors + n, n) < 0.9999);
  EXPECT(VESPER_OK, vesper_embed(embedder, NULL, 0, NULL, NULL, NULL, NULL));
  EXPECT(VESPER_OK, vesper_embed(embedder, texts, 2, "the ", NULL, vectors, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_embed(embedder, texts, 2, "query", NULL, vectors, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_embed(embedder, NULL, 2, NULL, NULL, vectors, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_embed(embedder, missing, 1, NULL, NULL, vectors, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_embed(embedder, texts, 2, NULL, NULL, NULL, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_embed(NULL, texts, 2, NULL, NULL, vectors, NULL));
  EXPECT(VESPER_OK, vesper_cancellation_new(&cancellation));
  vesper_cancellation_request(cancellation);
  EXPECT(VESPER_ERROR_STOPPED, vesper_embed(embedder, texts, 2, NULL, cancellation, vectors, NULL));
  EXPECT(VESPER_ERROR_STOPPED,
         vesper_embed_tokens(embedder, tokens, offsets, 1, cancellation, vectors));
  vesper_cancellation_free(cancellation);
  EXPECT(VESPER_OK, vesper_embed_tokens(embedder, tokens, offsets, 1, NULL, vectors));
  EXPECT(VESPER_ERROR_USAGE, vesper_embed_tokens(embedder, tokens, descending, 2, NULL, vectors));
  EXPECT(VESPER_ERROR_INPUT, vesper_embed_tokens(embedder, tokens, empty, 2, NULL, vectors));
  EXPECT(VESPER_ERROR_USAGE, vesper_embed_tokens(embedder, NULL, offsets, 1, NULL, vectors));
  EXPECT(VESPER_ERROR_USAGE, vesper_embed_tokens(embedder, tokens, NULL, 1, NULL, vectors));
  EXPECT(VESPER_ERROR_USAGE, vesper_embed_tokens(embedder, tokens, offsets, 1, NULL, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_embed_tokens(NULL, tokens, offsets, 1, NULL, vectors));
  EXPECT_SETTING("reranker", vesper_rerank(embedder, texts, texts, 2, NULL, vectors, NULL));
  EXPECT(VESPER_OK, vesper_embedder_prompt(embedder, "query", &prompt));
  CHECK(strcmp(prompt, "") == 0);
  vesper_string_free(prompt);
  EXPECT(VESPER_ERROR_USAGE, vesper_embedder_prompt(embedder, NULL, &prompt));
  EXPECT(VESPER_ERROR_USAGE, vesper_embedder_prompt(embedder, "query", NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_embedder_prompt(NULL, "query", &prompt));
  CHECK(vesper_similarity(NULL, vectors, n) == 0 && vesper_similarity(vectors, NULL, n) == 0);
  CHECK(vesper_similarity(NULL, NULL, 0) == 0 && vesper_similarity(zeros, ones, 2) == 0);
  CHECK(vesper_similarity(ones, ones, 2) <= 1 && isnan(vesper_similarity(unknown, ones, 2)));
  free(vectors);
  vesper_embedder_close(embedder);
  vesper_embedder_close(NULL);
  return NULL;
}

static const char* with_model(vesper_language_model* model, const char* folder) {
  CHECK_ALL(answers_and_their_values(model));
  CHECK_ALL(wrong_generate(model));
  CHECK_ALL(chats(model));
  return long_texts_caches_and_probabilities(model, folder);
}

const char* text_client_first_wrong_result(const char* language_model, const char* text_encoder,
                                           const char* folder) {
  vesper_language_model_options options;
  vesper_language_model* model = NULL;
  const char* wrong;
  CHECK_ALL(wrong_model(language_model));
  vesper_language_model_options_init(&options, sizeof options);
  options.load.device = "cpu";
  options.load.compute = "f32";
  options.context = 64;
  options.batch_size = 2;
  EXPECT(VESPER_OK, vesper_language_model_open(language_model, &options, &model));
  wrong = with_model(model, folder);
  vesper_language_model_close(model);
  vesper_language_model_close(NULL);
  CHECK_ALL(wrong);
  CHECK_ALL(tokenizers(language_model));
  return embedders(text_encoder);
}
