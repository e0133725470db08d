// Calls of the C API's functions for language models, chats and tokenizers.
#include "tests/fuzz/capi/capi_calls.h"
#include "tests/session/text/tiny_text_model.h"
#include "tests/temporary_folder.h"

namespace vesper::fuzz {
namespace {

// A model with a context of 128 tokens, written once.
const TemporaryFolder& folder() {
  static const auto& folder = *[] {
    auto* made = new TemporaryFolder;
    write_tiny_text_weights(made->file("model"));
    write_letter_tokenizer(made->file("model"));
    return made;
  }();
  return folder;
}

const std::string& model_path() {
  static const std::string& path = *new std::string(folder().file("model"));
  return path;
}

vesper_language_model* open_model() {
  vesper_language_model_options options;
  vesper_language_model_options_init(&options, sizeof options);
  options.load.device = "cpu";
  options.load.threads = 1;
  options.load.offline = 1;
  options.batch_size = 2;
  vesper_language_model* opened = nullptr;
  require(vesper_language_model_open(model_path().c_str(), &options, &opened) == VESPER_OK,
          vesper_last_error());
  return opened;
}

vesper_language_model* model() {
  static vesper_language_model* const opened = open_model();
  return opened;
}

class Calls final : public CApiCalls {
 public:
  explicit Calls(Bytes input) : CApiCalls(input, model()) {}

 private:
  void close_others(void* handle) const override {
    vesper_answer_free(static_cast<vesper_answer*>(handle));
    vesper_chat_close(static_cast<vesper_chat*>(handle));
    vesper_tokenizer_close(static_cast<vesper_tokenizer*>(handle));
  }
  void close_model(void* handle) const override {
    vesper_language_model_close(static_cast<vesper_language_model*>(handle));
  }

  const char* text() {
    static const std::string& long_text = *new std::string(300, 'x');
    return choose_.one_of(std::array{static_cast<const char*>(nullptr), "", "abc", "a b", "<user>",
                                     "<think>a</think>b", "\xff\xfe", "system", "user", "assistant",
                                     "{{ messages", "/no/such/file", long_text.c_str()});
  }

  const vesper_message* messages(size_t n) {
    for (vesper_message& message : messages_) message = {text(), text()};
    return n > 0 && choose_.byte() % 8 == 0 ? nullptr : messages_.data();
  }
  const int32_t* tokens(size_t n) {
    for (int32_t& token : tokens_) {
      token = choose_.one_of(std::array{0, 1, 5, 9, 63, 64, -1, 0x7fffffff});
    }
    return n > 0 && choose_.byte() % 8 == 0 ? nullptr : tokens_.data();
  }

  vesper_prompt prompt() {
    vesper_prompt prompt{};
    const int kinds = choose_.byte();
    if (kinds % 8 < 4) prompt.text = text();
    if (kinds % 8 > 2) {
      prompt.n_messages = choose_.byte() % (messages_.size() + 1);
      prompt.messages = messages(prompt.n_messages);
    }
    if (kinds % 4 == 2) {
      prompt.n_tokens = choose_.byte() % (tokens_.size() + 1);
      prompt.tokens = tokens(prompt.n_tokens);
    }
    return prompt;
  }

  // Null, or the defaults with some fields set.
  const vesper_generate_options* options(size_t i = 0) {
    if (choose_.byte() % 8 == 0) return nullptr;
    vesper_generate_options& o = options_.at(i);
    vesper_generate_options_init(&o, sizeof o);
    o.max_tokens = 6;
    for (int n = choose_.byte() % 6; n > 0; --n) set_field(o);
    return &o;
  }

  void set_field(vesper_generate_options& o) {
    using O = vesper_generate_options;
    static constexpr std::array kDoubles{&O::temperature,
                                         &O::top_p,
                                         &O::min_p,
                                         &O::typical_p,
                                         &O::repetition_penalty,
                                         &O::frequency_penalty,
                                         &O::presence_penalty};
    static constexpr std::array kCounts{&O::max_tokens, &O::top_k, &O::penalty_window,
                                        &O::no_repeat_ngram_size, &O::top_logprobs};
    static constexpr std::array kTruths{&O::no_thinking, &O::separate_thinking, &O::allow_loops,
                                        &O::context_shift, &O::no_reuse};
    switch (choose_.byte() % 8) {
      case 0:
      case 1:
        o.*choose_.one_of(kDoubles) = choose_.number();
        break;
      case 2:
        o.*choose_.one_of(kCounts) = choose_.count();
        // An answer that shifts its context may have any length.
        if (o.max_tokens == 0 || o.max_tokens > 200) o.max_tokens = 200;
        break;
      case 3:
        o.*choose_.one_of(kTruths) = choose_.truth();
        break;
      case 4:
        o.seed = choose_.one_of(
            std::array{int64_t{-1}, int64_t{0}, int64_t{1} << 32, INT64_MIN, INT64_MAX});
        break;
      case 5:
        for (const char*& stop : stops_) stop = text();
        o.n_stops = choose_.byte() % (stops_.size() + 1);
        o.stops = choose_.truth() != 0 ? stops_.data() : nullptr;
        break;
      case 6:
        o.cancellation = handle<vesper_cancellation>();
        o.on_text = choose_.truth() != 0 ? on_text : nullptr;
        o.on_thinking = on_text;
        o.user = this;
        break;
      default:
        o.size = size_of(sizeof o);
    }
  }

  static int on_text(const char* text, void* user) {
    require(text != nullptr, "an event without text");
    if (!user) return 0;  // the size of the options ends before it
    return static_cast<Calls*>(user)->choose_.byte() % 8 == 7;
  }
  static int on_answer(size_t, vesper_answer* answer, vesper_status status, const char* message,
                       void* user) {
    auto& calls = *static_cast<Calls*>(user);
    require((answer == nullptr) == (status != VESPER_OK) && message, "a damaged answer");
    if (answer) calls.read(answer);
    vesper_answer_free(answer);
    return calls.choose_.byte() % 8 == 7;
  }
  static int on_rows(const float* rows, size_t n_rows, void* user) {
    require(rows && n_rows > 0, "no logits");
    return static_cast<Calls*>(user)->choose_.byte() % 8 == 7;
  }

  void read(const vesper_answer* answer) {
    require(vesper_answer_text(answer) && vesper_answer_thinking(answer), "an answer without text");
    const size_t n = vesper_answer_n_tokens(answer);
    const int32_t* tokens = vesper_answer_tokens(answer);
    const float* logprobs = vesper_answer_logprobs(answer);
    for (size_t i = 0; i < n; ++i) {
      require(tokens[i] >= 0 && logprobs[i] <= 0, "a damaged token");
    }
    char* json = nullptr;
    check(vesper_answer_logprobs_json(answer, &json), json);
    vesper_string_free(json);
  }

  void call() override {
    switch (choose_.byte() % 10) {
      case 0: {
        const vesper_prompt asked = prompt();
        vesper_answer* answer = nullptr;
        check(vesper_generate(handle<vesper_language_model>(),
                              choose_.byte() % 8 ? &asked : nullptr, options(),
                              choose_.byte() % 4 ? &answer : nullptr));
        keep(answer);
        break;
      }
      case 1: {
        const std::array prompts{prompt(), prompt()};
        for (size_t i = 0; i < options_.size(); ++i) options(i);
        check(vesper_generate_many(handle<vesper_language_model>(), prompts.data(),
                                   choose_.byte() % (prompts.size() + 1), options_.data(),
                                   choose_.byte() % (options_.size() + 1),
                                   choose_.byte() % 8 ? on_answer : nullptr, this));
        break;
      }
      case 2:
        call_chat();
        break;
      case 3:
        call_tokenizer();
        break;
      case 4:
        read(handle<vesper_answer>());
        break;
      case 5:
        call_model();
        break;
      case 6: {
        const size_t n = choose_.byte() % (tokens_.size() + 1);
        check(vesper_logits(handle<vesper_language_model>(), tokens(n), n,
                            choose_.byte() % 8 ? on_rows : nullptr, this));
        break;
      }
      case 7: {
        vesper_answer* answer = nullptr;
        const char* const system = text();
        const char* const instruction = text();
        check(vesper_generate_long(handle<vesper_language_model>(), system, instruction, text(),
                                   options(), &answer));
        keep(answer);
        break;
      }
      case 8:
        call_cancellation();
        break;
      default:
        close(handle<void>());
    }
  }

  void call_chat() {
    vesper_answer* answer = nullptr;
    switch (choose_.byte() % 5) {
      case 0: {
        vesper_chat* chat = nullptr;
        check(vesper_chat_open(handle<vesper_language_model>(), text(), options(), &chat), chat);
        keep(chat);
        break;
      }
      case 1:
        check(
            vesper_chat_say(handle<vesper_chat>(), text(), choose_.byte() % 4 ? &answer : nullptr));
        break;
      case 2:
        check(vesper_chat_regenerate(handle<vesper_chat>(), &answer));
        break;
      case 3: {
        const size_t n = choose_.byte() % (messages_.size() + 1);
        check(vesper_chat_set_messages(handle<vesper_chat>(), messages(n), n));
        break;
      }
      default: {
        char* json = nullptr;
        check(vesper_chat_messages(handle<vesper_chat>(), &json), json);
        vesper_string_free(json);
      }
    }
    keep(answer);
  }

  void call_tokenizer() {
    switch (choose_.byte() % 5) {
      case 0: {
        vesper_load_options load;
        vesper_load_options_init(&load, sizeof load);
        load.offline = 1;
        vesper_tokenizer* tokenizer = nullptr;
        const bool is_model = choose_.byte() % 4 != 0;
        check(vesper_tokenizer_open(is_model ? model_path().c_str() : text(), &load, &tokenizer),
              tokenizer);
        keep(tokenizer);
        break;
      }
      case 1: {
        const char* const said = text();
        int32_t* found = nullptr;
        size_t n_found = 0;
        check(vesper_tokenizer_encode(handle<vesper_tokenizer>(), said,
                                      said ? std::strlen(said) : choose_.byte(), choose_.truth(),
                                      choose_.truth(), &found, &n_found),
              found);
        vesper_tokens_free(found);
        break;
      }
      case 2: {
        const size_t n = choose_.byte() % (tokens_.size() + 1);
        char* said = nullptr;
        check(vesper_tokenizer_decode(handle<vesper_tokenizer>(), tokens(n), n, choose_.truth(),
                                      &said),
              said);
        vesper_string_free(said);
        break;
      }
      case 3: {
        const size_t n = choose_.byte() % (messages_.size() + 1);
        char* said = nullptr;
        check(vesper_tokenizer_format_chat(handle<vesper_tokenizer>(), messages(n), n,
                                           choose_.truth(), &said),
              said);
        vesper_string_free(said);
        break;
      }
      default: {
        const auto* tokenizer = handle<vesper_tokenizer>();
        vesper_tokenizer_n_vocab(tokenizer);
        vesper_tokenizer_bos(tokenizer);
        vesper_tokenizer_eos(tokenizer);
        vesper_tokenizer_find(tokenizer, text());
      }
    }
  }

  void call_model() {
    auto* const at = handle<vesper_language_model>();
    switch (choose_.byte() % 4) {
      case 0: {
        vesper_perplexity_result result;
        check(vesper_perplexity(at, text(), handle<vesper_cancellation>(),
                                choose_.byte() % 8 ? &result : nullptr));
        break;
      }
      case 1:
        check(vesper_language_model_save_prompt(at, path()));
        break;
      case 2:
        check(vesper_language_model_restore_prompt(at, path()));
        break;
      default: {
        vesper_generate_options o;
        check(vesper_generate_options_init_for(at, &o, size_of(sizeof o)));
        require(vesper_language_model_description(at) != nullptr, "no description");
        vesper_language_model_context(at);
        vesper_language_model_has_chat_template(at);
      }
    }
  }
  const char* path() {
    static const std::string& prompt = *new std::string(folder().file("prompt"));
    return choose_.one_of(std::array{static_cast<const char*>(nullptr), "",
                                     "/no/such/folder/prompt", prompt.c_str(), prompt.c_str()});
  }

  std::array<vesper_generate_options, 2> options_{};
  std::array<vesper_message, 3> messages_{};
  std::array<int32_t, 5> tokens_{};
  std::array<const char*, 3> stops_{};
};

}  // namespace

std::vector<std::string> seeds() {
  model();  // before the time of an input counts
  return {std::string("\x00\x00\x02\x01\x01\x02\x03\x00\x04\x02\x00\x01", 12),
          std::string("\x02\x00\x01\x01\x01\x00\x02\x01\x02\x02\x01\x02\x02\x02\x02\x04\x02", 17),
          std::string("\x03\x00\x01\x03\x01\x02\x02\x01\x01\x03\x02\x02\x03\x01\x01\x01", 16),
          std::string("\x06\x03\x01\x01\x01\x01\x05\x01\x01\x03\x05\x01\x02\x03\x09\x01", 16)};
}

void use(Bytes input) { Calls(input).run(); }

}  // namespace vesper::fuzz
