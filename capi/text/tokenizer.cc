#include <vesper/text.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capi/library.h"
#include "capi/objects.h"
#include "capi/text/text.h"
#include "error/error.h"
#include "session/model_tokenizer.h"

struct vesper_tokenizer final : vesper::capi::Object {
  static constexpr std::string_view kKind = "a tokenizer";
  explicit vesper_tokenizer(const std::filesystem::path& path) : Object(kKind), model(path) {}

  const vesper::ModelTokenizer model;
};

namespace vesper::capi {
namespace {

// `get` is called with the TextTokenizer.
template <class Result, class Get>
Result tokenizer_value(const char* function, const vesper_tokenizer* tokenizer, Result otherwise,
                       const Get& get) {
  return guarded_value(function, tokenizer, otherwise, [&] {
    return static_cast<Result>(get(find_object("tokenizer", tokenizer)->model.text()));
  });
}

}  // namespace
}  // namespace vesper::capi

namespace capi = vesper::capi;

extern "C" {

vesper_status vesper_tokenizer_open(const char* model, const vesper_load_options* options,
                                    vesper_tokenizer** tokenizer) {
  return capi::open_object(__func__, model, "tokenizer", tokenizer, [&] {
    const vesper_load_options load =
        options ? capi::read_load_options(*options) : capi::default_load_options();
    return std::make_shared<vesper_tokenizer>(
        capi::model_store(load).find(model, vesper::ModelKind::kLanguage));
  });
}

void vesper_tokenizer_close(vesper_tokenizer* tokenizer) {
  capi::close_object(__func__, "tokenizer", tokenizer);
}

uint32_t vesper_tokenizer_n_vocab(const vesper_tokenizer* tokenizer) {
  return capi::tokenizer_value(__func__, tokenizer, 0u,
                               [](const auto& text) { return text.n_vocab(); });
}

int32_t vesper_tokenizer_bos(const vesper_tokenizer* tokenizer) {
  return capi::tokenizer_value(__func__, tokenizer, -1,
                               [](const auto& text) { return text.bos(); });
}

int32_t vesper_tokenizer_eos(const vesper_tokenizer* tokenizer) {
  return capi::tokenizer_value(__func__, tokenizer, -1,
                               [](const auto& text) { return text.eos(); });
}

int32_t vesper_tokenizer_find(const vesper_tokenizer* tokenizer, const char* token) {
  return capi::tokenizer_value(__func__, tokenizer, -1, [&](const auto& text) {
    return text.find(capi::required("token", token));
  });
}

vesper_status vesper_tokenizer_encode(const vesper_tokenizer* tokenizer, const char* text,
                                      size_t n_bytes, int parse_special, int add_special,
                                      int32_t** tokens, size_t* n_tokens) {
  if (tokens) *tokens = nullptr;
  if (n_tokens) *n_tokens = 0;
  return capi::guarded(__func__, tokenizer, [&] {
    const auto found = capi::find_object("tokenizer", tokenizer);
    if (n_bytes > 0) capi::required("text", text);
    if (n_bytes > PTRDIFF_MAX) {
      throw capi::ArgumentError("n_bytes",
                                "expected the size of the text, found " + std::to_string(n_bytes));
    }
    capi::required("tokens", tokens);
    capi::required("n_tokens", n_tokens);
    const std::vector<int32_t> ids =
        found->model.text().encode({text, n_bytes}, parse_special != 0, add_special != 0);
    if (ids.empty()) return;
    auto* array = static_cast<int32_t*>(std::malloc(ids.size() * sizeof(int32_t)));
    if (!array) throw std::bad_alloc();
    std::copy(ids.begin(), ids.end(), array);
    *tokens = array;
    *n_tokens = ids.size();
  });
}

void vesper_tokens_free(int32_t* tokens) { std::free(tokens); }

vesper_status vesper_tokenizer_decode(const vesper_tokenizer* tokenizer, const int32_t* tokens,
                                      size_t n_tokens, int with_special, char** text) {
  if (text) *text = nullptr;
  return capi::guarded(__func__, tokenizer, [&] {
    const auto found = capi::find_object("tokenizer", tokenizer);
    if (n_tokens > 0) capi::required("tokens", tokens);
    capi::required("text", text);
    const std::span ids(tokens, n_tokens);
    const uint32_t n_vocab = found->model.text().n_vocab();
    for (const int32_t id : ids) {
      if (id >= 0 && static_cast<uint32_t>(id) < n_vocab) continue;
      throw vesper::Error(
          vesper::ErrorKind::kInput,
          "expected token ids below " + std::to_string(n_vocab) + ", found " + std::to_string(id));
    }
    *text = capi::copied_string(found->model.text().decode(ids, with_special != 0));
  });
}

vesper_status vesper_tokenizer_format_chat(const vesper_tokenizer* tokenizer,
                                           const vesper_message* messages, size_t n_messages,
                                           int no_thinking, char** text) {
  if (text) *text = nullptr;
  return capi::guarded(__func__, tokenizer, [&] {
    const auto found = capi::find_object("tokenizer", tokenizer);
    capi::required("text", text);
    *text = capi::copied_string(
        found->model.format_chat(capi::read_messages(messages, n_messages), no_thinking == 0));
  });
}

}  // extern "C"
