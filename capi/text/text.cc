#include "capi/text/text.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capi/cancellation.h"
#include "capi/library.h"
#include "capi/options.h"
#include "error/error.h"
#include "llm/devices/open_device.h"
#include "session/atomic_file.h"
#include "session/text/long_text.h"
#include "session/text/token_logprobs.h"

vesper_answer::vesper_answer(std::shared_ptr<const vesper::TextModel> opened,
                             vesper::TextAnswer found)
    : Object(kKind), model(std::move(opened)), answer(std::move(found)) {
  for (const vesper::TokenLogprob& token : answer.tokens) {
    ids.push_back(token.id);
    logprobs.push_back(token.logprob);
  }
}

namespace vesper::capi {
namespace {

vesper_language_model_options default_language_model_options() {
  const TextSessionOptions session;
  vesper_language_model_options options{};
  options.size = sizeof options;
  options.load = default_load_options();
  options.context = session.context;
  options.batch_size = session.n_slots;
  options.kv_type = "f16";
  options.beam_size = session.beam_size;
  options.length_penalty = double{session.length_penalty};
  options.speculate = "off";
  return options;
}

Speculate read_speculate(const char* name) {
  const std::string_view wanted = name ? name : "off";
  if (wanted == "off") return Speculate::kOff;
  if (wanted == "ngram") return Speculate::kNgram;
  throw Error(ErrorKind::kUsage, "speculate",
              "expected off or ngram, found " + std::string(wanted));
}

TextSessionOptions session_options(const vesper_language_model_options& given,
                                   const vesper_load_options& load) {
  TextSessionOptions options;
  set_engine(load, options);
  options.context = given.context;
  options.n_slots = given.batch_size;
  options.kv_type = given.kv_type ? parse_kv_types(given.kv_type) : KvTypes();
  options.beam_size = given.beam_size;
  options.length_penalty = static_cast<float>(given.length_penalty);
  if (given.n_logit_bias > 0) required("logit_bias", given.logit_bias);
  for (const auto& [token, bias] : std::span(given.logit_bias, given.n_logit_bias)) {
    options.logit_bias.emplace_back(token, bias);
  }
  options.ignore_end = given.ignore_end != 0;
  options.speculate = read_speculate(given.speculate);
  return options;
}

std::shared_ptr<vesper_language_model> open_language_model(
    const char* name, const vesper_language_model_options* caller) {
  const auto given = read_options("options", caller, default_language_model_options());
  const vesper_load_options load = read_load_options(given.load);
  TextSessionOptions options = session_options(given, load);
  // Before a download.
  check_options(options);
  require_device_name(options.device);
  const auto path = model_store(load).find(name, ModelKind::kLanguage);
  auto model =
      std::make_shared<const TextModel>(path, given.chat_template ? given.chat_template : "");
  if (given.draft) {
    options.draft = std::make_shared<const TextModel>(
        model_store(load).find(given.draft, ModelKind::kLanguage));
  }
  if (options.context > model->max_ctx()) {
    log(VESPER_LOG_WARNING, std::string(name) + ": the model is made for contexts of up to " +
                                std::to_string(model->max_ctx()) +
                                " tokens: beyond, its answers may be of no use");
  }
  auto opened = std::make_shared<vesper_language_model>(std::move(model), options);
  log(VESPER_LOG_INFO, std::string(name) + ": " + opened->description + ", context of " +
                           std::to_string(opened->session.context()));
  return opened;
}

std::vector<int32_t> read_tokens(const int32_t* tokens, size_t n_tokens) {
  if (n_tokens > 0) required("tokens", tokens);
  return {tokens, tokens + n_tokens};
}

std::vector<int32_t> prompt_ids(const TextModel& model, const vesper_prompt& prompt, bool thinks) {
  const bool has_messages = prompt.messages || prompt.n_messages > 0;
  const bool has_tokens = prompt.tokens || prompt.n_tokens > 0;
  if ((prompt.text ? 1 : 0) + (has_messages ? 1 : 0) + (has_tokens ? 1 : 0) != 1) {
    throw ArgumentError("prompt", std::string("expected one of text, messages and tokens, found ") +
                                      (prompt.text || has_messages ? "several" : "none"));
  }
  if (prompt.text) return model.text_ids(prompt.text);
  if (has_tokens) return read_tokens(prompt.tokens, prompt.n_tokens);
  return model.chat_ids(read_messages(prompt.messages, prompt.n_messages), thinks);
}

// The prompts of vesper_generate_many as jobs.
class ManyPrompts {
 public:
  ManyPrompts(const char* function, const vesper_language_model& model,
              std::span<const vesper_prompt> prompts,
              std::span<const vesper_generate_options> given, vesper_on_answer on_answer,
              void* user)
      : function_(function), model_(model), prompts_(prompts), on_answer_(on_answer), user_(user) {
    for (const vesper_generate_options& options : given) calls_.emplace_back(&options);
    if (calls_.empty()) calls_.emplace_back(nullptr);
  }

  std::optional<TextJob> next() {
    while (n_started_ < prompts_.size()) {
      const size_t index = n_started_++;
      try {
        return job(index);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kDevice || error.kind() == ErrorKind::kInternal) throw;
        give_failure(index);
      }
    }
    return std::nullopt;
  }

 private:
  TextJob job(size_t index) {
    const GenerateCall& call = calls_.size() == 1 ? calls_.front() : calls_[index];
    if (call.is_cancelled && call.is_cancelled()) throw_stopped();
    TextJob job;
    job.request = {prompt_ids(model_.session.model(), prompts_[index], call.thinks), call.text};
    std::optional<uint32_t>& seed = job.request.options.sampling.seed;
    if (seed && calls_.size() == 1) seed = seed_of_prompt(*seed, index);
    // An answer must not depend on the previous prompt of its slot.
    job.request.options.reuse_prompt = false;
    job.events.is_cancelled = call.is_cancelled;
    job.on_done = [this, index](TextAnswer answer) {
      give(index, add_answer(model_, std::move(answer)), VESPER_OK, "");
    };
    job.on_failure = [this, index](const std::exception&) { give_failure(index); };
    return job;
  }

  // Of the exception that is being handled.
  void give_failure(size_t index) {
    const vesper_status status = fail(function_, nullptr);
    give(index, nullptr, status, vesper_last_error());
  }

  void give(size_t index, vesper_answer* answer, vesper_status status, const std::string& message) {
    if (on_answer_(index, answer, status, message.c_str(), user_) != 0) throw_stopped();
  }

  const char* function_;
  const vesper_language_model& model_;
  std::span<const vesper_prompt> prompts_;
  std::vector<GenerateCall> calls_;  // one per prompt, or one for all
  vesper_on_answer on_answer_;
  void* user_;
  size_t n_started_ = 0;
};

vesper_end end_of(AnswerEnd end) {
  switch (end) {
    case AnswerEnd::kEnd:
      return VESPER_END_MODEL;
    case AnswerEnd::kStop:
      return VESPER_END_STOP;
    case AnswerEnd::kLimit:
      return VESPER_END_LIMIT;
    case AnswerEnd::kContext:
      return VESPER_END_CONTEXT;
    case AnswerEnd::kLoop:
      return VESPER_END_LOOP;
    case AnswerEnd::kCancelled:
      break;
  }
  return VESPER_END_CANCELLED;
}

}  // namespace

std::vector<ChatMessage> read_messages(const vesper_message* messages, size_t n_messages) {
  if (n_messages > 0) required("messages", messages);
  std::vector<ChatMessage> list;
  for (const auto& [role, content] : std::span(messages, n_messages)) {
    list.push_back({required("role", role), required("content", content)});
  }
  return list;
}

vesper_answer* add_answer(const vesper_language_model& model, TextAnswer answer) {
  return add_object(
      std::make_shared<vesper_answer>(model.session.shared_model(), std::move(answer)));
}

}  // namespace vesper::capi

namespace capi = vesper::capi;

extern "C" {

void vesper_language_model_options_init(vesper_language_model_options* options, size_t size) {
  capi::init_options(__func__, options, size, capi::default_language_model_options);
}

vesper_status vesper_language_model_open(const char* model,
                                         const vesper_language_model_options* options,
                                         vesper_language_model** language_model) {
  return capi::open_object(__func__, model, "language_model", language_model,
                           [&] { return capi::open_language_model(model, options); });
}

void vesper_language_model_close(vesper_language_model* model) {
  capi::close_object(__func__, "model", model);
}

const char* vesper_language_model_description(const vesper_language_model* model) {
  return capi::guarded_value(
      __func__, model, "", [&] { return capi::find_object("model", model)->description.c_str(); });
}

uint32_t vesper_language_model_context(const vesper_language_model* model) {
  return capi::guarded_value(__func__, model, 0u,
                             [&] { return capi::find_object("model", model)->session.context(); });
}

uint32_t vesper_language_model_n_vocab(const vesper_language_model* model) {
  return capi::guarded_value(__func__, model, 0u,
                             [&] { return capi::find_object("model", model)->session.n_vocab(); });
}

int vesper_language_model_has_chat_template(const vesper_language_model* model) {
  return capi::guarded_value(__func__, model, 0, [&] {
    return capi::find_object("model", model)->session.model().has_chat_template() ? 1 : 0;
  });
}

vesper_status vesper_generate(vesper_language_model* model, const vesper_prompt* prompt,
                              const vesper_generate_options* options, vesper_answer** answer) {
  if (answer) *answer = nullptr;
  return capi::guarded(__func__, model, [&] {
    const capi::Use use("model", model);
    capi::required("prompt", prompt);
    capi::required("answer", answer);
    const capi::GenerateCall call(options);
    vesper::TextRequest request{capi::prompt_ids(use->session.model(), *prompt, call.thinks),
                                call.text};
    *answer = capi::add_answer(*use, use->session.answer(std::move(request), call.events()));
  });
}

vesper_status vesper_generate_many(vesper_language_model* model, const vesper_prompt* prompts,
                                   size_t n_prompts, const vesper_generate_options* options,
                                   size_t n_options, vesper_on_answer on_answer, void* user) {
  return capi::guarded(__func__, model, [&] {
    const capi::Use use("model", model);
    capi::required("on_answer", on_answer);
    if (n_prompts > 0) capi::required("prompts", prompts);
    const size_t n_given = options ? n_options : 0;
    if (n_options > 0) capi::required("options", options);
    if (n_given > 1 && n_given != n_prompts) {
      throw capi::ArgumentError("n_options", "expected 0, 1 or the number of prompts, " +
                                                 std::to_string(n_prompts) + ", found " +
                                                 std::to_string(n_options));
    }
    capi::ManyPrompts many("vesper_generate_many", *use, {prompts, n_prompts}, {options, n_given},
                           on_answer, user);
    use->session.answer_many([&](bool) { return many.next(); });
  });
}

vesper_status vesper_generate_long(vesper_language_model* model, const char* system,
                                   const char* instruction, const char* text,
                                   const vesper_generate_options* options, vesper_answer** answer) {
  if (answer) *answer = nullptr;
  return capi::guarded(__func__, model, [&] {
    const capi::Use use("model", model);
    capi::required("instruction", instruction);
    capi::required("text", text);
    capi::required("answer", answer);
    const capi::GenerateCall call(options);
    vesper::InstructionFormat format{.thinks = call.thinks};
    if (system) format.system = system;
    auto ids =
        vesper::long_prompt(use->session, call.text, instruction, text, format, call.is_cancelled);
    *answer =
        capi::add_answer(*use, use->session.answer({std::move(ids), call.text}, call.events()));
  });
}

vesper_status vesper_language_model_save_prompt(vesper_language_model* model, const char* path) {
  return capi::guarded(__func__, model, [&] {
    const capi::Use use("model", model);
    vesper::AtomicFile file(capi::required("path", path));
    use->session.save_prompt(file);
  });
}

vesper_status vesper_language_model_restore_prompt(vesper_language_model* model, const char* path) {
  return capi::guarded(__func__, model, [&] {
    const capi::Use use("model", model);
    use->session.restore_prompt(std::filesystem::path(capi::required("path", path)));
  });
}

vesper_status vesper_perplexity(vesper_language_model* model, const char* text,
                                const vesper_cancellation* cancellation,
                                vesper_perplexity_result* result) {
  if (result) *result = {};
  return capi::guarded(__func__, model, [&] {
    const capi::Use use("model", model);
    capi::required("text", text);
    capi::required("result", result);
    const vesper::Perplexity found = use->session.perplexity(use->session.model().text_ids(text),
                                                             capi::is_cancelled(cancellation));
    *result = {found.value, found.deviation, found.n_tokens, found.n_contexts};
  });
}

vesper_status vesper_logits(vesper_language_model* model, const int32_t* tokens, size_t n_tokens,
                            int (*on_rows)(const float* rows, size_t n_rows, void* user),
                            void* user) {
  return capi::guarded(__func__, model, [&] {
    const capi::Use use("model", model);
    capi::required("on_rows", on_rows);
    const std::vector<int32_t> ids = capi::read_tokens(tokens, n_tokens);
    use->session.logits(ids, [&](const float* rows, uint32_t n) {
      if (on_rows(rows, n, user) != 0) vesper::throw_stopped();
    });
  });
}

void vesper_answer_free(vesper_answer* answer) { capi::close_object(__func__, "answer", answer); }

const char* vesper_answer_text(const vesper_answer* answer) {
  return capi::guarded_value(__func__, answer, "", [&] {
    return capi::find_object("answer", answer)->answer.text.c_str();
  });
}

const char* vesper_answer_thinking(const vesper_answer* answer) {
  return capi::guarded_value(__func__, answer, "", [&] {
    return capi::find_object("answer", answer)->answer.thinking.c_str();
  });
}

vesper_end vesper_answer_end(const vesper_answer* answer) {
  return capi::guarded_value(__func__, answer, VESPER_END_MODEL, [&] {
    return capi::end_of(capi::find_object("answer", answer)->answer.end);
  });
}

uint32_t vesper_answer_seed(const vesper_answer* answer) {
  return capi::guarded_value(__func__, answer, 0u, [&] {
    return capi::find_object("answer", answer)->answer.sampling.seed;
  });
}

size_t vesper_answer_n_tokens(const vesper_answer* answer) {
  return capi::guarded_value(__func__, answer, size_t{0},
                             [&] { return capi::find_object("answer", answer)->ids.size(); });
}

const int32_t* vesper_answer_tokens(const vesper_answer* answer) {
  return capi::guarded_value<const int32_t*>(
      __func__, answer, nullptr, [&] { return capi::find_object("answer", answer)->ids.data(); });
}

const float* vesper_answer_logprobs(const vesper_answer* answer) {
  return capi::guarded_value<const float*>(__func__, answer, nullptr, [&] {
    return capi::find_object("answer", answer)->logprobs.data();
  });
}

vesper_status vesper_answer_logprobs_json(const vesper_answer* answer, char** json) {
  if (json) *json = nullptr;
  return capi::guarded(__func__, answer, [&] {
    const auto found = capi::find_object("answer", answer);
    capi::required("json", json);
    const std::span<const vesper::TokenLogprob> tokens = found->answer.tokens;
    const auto list =
        vesper::openai_logprobs(found->model->tokenizer(), tokens.first(found->answer.n_in_text));
    *json = capi::copied_string(list.dump());
  });
}

vesper_generate_statistics vesper_answer_statistics(const vesper_answer* answer) {
  return capi::guarded_value(__func__, answer, vesper_generate_statistics{}, [&] {
    const vesper::TextStatistics& found = capi::find_object("answer", answer)->answer.statistics;
    return vesper_generate_statistics{found.n_prompt, found.n_reused, found.n_answer,
                                      found.prompt_s, found.answer_s};
  });
}

vesper_speculation_statistics vesper_answer_speculation(const vesper_answer* answer) {
  return capi::guarded_value(__func__, answer, vesper_speculation_statistics{}, [&] {
    const vesper::TextStatistics& found = capi::find_object("answer", answer)->answer.statistics;
    return vesper_speculation_statistics{found.n_drafted, found.n_accepted};
  });
}

}  // extern "C"
