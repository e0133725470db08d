// Calls of the C API's functions for vectors of texts.
#include "tests/embedder/tiny_bert.h"
#include "tests/fuzz/capi/capi_calls.h"
#include "tests/temporary_folder.h"

namespace vesper::fuzz {
namespace {

// A text encoder of up to 40 tokens, written once.
const std::string& model_path() {
  static const auto& folder = *new TemporaryFolder;
  static const std::string& path = *new std::string([] {
    TinyBert().write(folder.file("model"));
    return folder.file("model");
  }());
  return path;
}

vesper_embedder* model() {
  static vesper_embedder* const opened = [] {
    vesper_embedder_options options;
    vesper_embedder_options_init(&options, sizeof options);
    options.load.device = "cpu";
    options.load.threads = 1;
    options.load.offline = 1;
    vesper_embedder* embedder = nullptr;
    require(vesper_embedder_open(model_path().c_str(), &options, &embedder) == VESPER_OK,
            vesper_last_error());
    return embedder;
  }();
  return opened;
}

class Calls final : public CApiCalls {
 public:
  explicit Calls(Bytes input) : CApiCalls(input, model()) {}

 private:
  void close_others(void*) const override {}
  void close_model(void* handle) const override {
    vesper_embedder_close(static_cast<vesper_embedder*>(handle));
  }

  const char* text() {
    static const std::string& long_text = *new std::string(300, 'x');
    return choose_.one_of(std::array{static_cast<const char*>(nullptr), "", "a", "the cat", "query",
                                     "mean", "last", "cls", "\xff\xfe", "/no/such/file",
                                     long_text.c_str()});
  }

  void call() override {
    auto* const embedder = handle<vesper_embedder>();
    switch (choose_.byte() % 8) {
      case 0:
      case 1: {
        std::array<const char*, 3> texts{text(), text(), text()};
        std::array<uint32_t, 3> n_tokens{};
        const size_t n = choose_.byte() % (texts.size() + 1);
        check(vesper_embed(embedder, choose_.byte() % 8 ? texts.data() : nullptr, n, text(),
                           handle<vesper_cancellation>(), vectors(),
                           choose_.byte() % 2 ? n_tokens.data() : nullptr));
        break;
      }
      case 2: {
        std::array<int32_t, 6> tokens{};
        for (int32_t& token : tokens) {
          token = choose_.one_of(std::array{0, 2, 5, 3, -1, 1000, 0x7fffffff});
        }
        // Offsets within the tokens, in any order.
        std::array<size_t, 4> offsets{};
        for (size_t& offset : offsets) offset = choose_.byte() % (tokens.size() + 1);
        check(vesper_embed_tokens(embedder, choose_.byte() % 8 ? tokens.data() : nullptr,
                                  choose_.byte() % 8 ? offsets.data() : nullptr,
                                  choose_.byte() % offsets.size(), handle<vesper_cancellation>(),
                                  vectors()));
        break;
      }
      case 3: {
        char* prompt = nullptr;
        check(vesper_embedder_prompt(embedder, text(), &prompt), prompt);
        vesper_string_free(prompt);
        break;
      }
      case 4:
        open();
        break;
      case 5: {
        std::array<float, 4> a{}, b{};
        for (size_t i = 0; i < a.size(); ++i) {
          a[i] = static_cast<float>(choose_.number());
          b[i] = static_cast<float>(choose_.number());
        }
        const double cosine = vesper_similarity(choose_.byte() % 8 ? a.data() : nullptr, b.data(),
                                                choose_.byte() % (a.size() + 1));
        require(std::isnan(cosine) || std::abs(cosine) <= 1, "a cosine above 1");
        break;
      }
      case 6:
        call_cancellation();
        break;
      default:
        close(handle<void>());
    }
  }

  // Options that are refused, or of which the model is opened.
  void open() {
    using O = vesper_embedder_options;
    vesper_embedder_options o;
    vesper_embedder_options_init(&o, sizeof o);
    o.load.offline = 1;
    o.load.threads = 1;
    o.load.device = choose_.one_of(std::array{"cpu", "cpu", "gpu", ""});
    o.load.compute = choose_.one_of(std::array{"auto", "f32", "f8", "int8"});
    switch (choose_.byte() % 4) {
      case 0:
        o.pooling = text();
        break;
      case 1:
        o.*choose_.one_of(std::array{&O::dimensions, &O::max_tokens, &O::batch_tokens}) =
            choose_.count();
        break;
      case 2:
        o.normalize = choose_.truth();
        break;
      default:
        o.size = size_of(sizeof o);
    }
    vesper_embedder* opened = nullptr;
    check(vesper_embedder_open(choose_.byte() % 4 ? model_path().c_str() : text(), &o, &opened),
          opened);
    require(!opened || vesper_embedder_dimensions(opened) <= TinyBert::kWidth,
            "too many dimensions");
    keep(opened);
  }

  float* vectors() { return choose_.byte() % 8 ? vectors_.data() : nullptr; }

  std::array<float, 3 * TinyBert::kWidth> vectors_{};
};

}  // namespace

std::vector<std::string> seeds() {
  model();  // before the time of an input counts
  return {std::string("\x00\x01\x02\x03\x02\x02\x01\x04\x00\x01\x01", 11),
          std::string("\x02\x01\x01\x02\x03\x02\x02\x00\x02\x04\x06\x01\x01\x03\x00\x01", 16),
          std::string("\x04\x00\x00\x01\x01\x00\x05\x01\x00\x02\x02\x03\x01", 13),
          std::string("\x05\x01\x01\x03\x03\x01\x02\x02\x01\x01\x04", 11)};
}

void use(Bytes input) { Calls(input).run(); }

}  // namespace vesper::fuzz
