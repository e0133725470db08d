// Calls of the C API's functions that inspect models.
#include <cstdlib>

#include "tests/embedder/tiny_bert.h"
#include "tests/fuzz/capi/capi_calls.h"
#include "tests/session/text/tiny_text_model.h"
#include "tests/temporary_folder.h"

namespace vesper::fuzz {
namespace {

// Models of two kinds, and a folder that is none, written once.
struct Models {
  TemporaryFolder folder;
  std::string language = folder.file("language"), encoder = folder.file("encoder");
  std::string none = folder.path();
  Models() {
    // Without the GPU drivers of this machine, which leak.
    for (const char* name : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}) setenv(name, "/none", 1);
    write_tiny_text_weights(language);
    write_letter_tokenizer(language);
    TinyBert().write(encoder);
  }
};

const Models& models() {
  static const Models& models = *new Models;
  return models;
}

class Calls final : public CApiCalls {
 public:
  explicit Calls(Bytes input) : CApiCalls(input, nullptr) {}

 private:
  void close_others(void*) const override {}
  void close_model(void*) const override {}

  const char* text() {
    return choose_.one_of(std::array{static_cast<const char*>(nullptr), "", "abc", "*", "[a-", "?",
                                     "decoder.*", "\xff\xfe", "general.*", "{"});
  }
  const char* model() {
    return choose_.one_of(std::array{models().language.c_str(), models().encoder.c_str(),
                                     models().none.c_str(), static_cast<const char*>(nullptr), "",
                                     "/no/such/file", "hf://a/b"});
  }

  const vesper_inspect_options* options() {
    vesper_inspect_options& o = options_;
    vesper_inspect_options_init(&o, sizeof o);
    o.load.offline = 1;
    o.load.device = choose_.one_of(std::array{"cpu", "cpu", "auto", "gpu", "vulkan:x"});
    for (int n = choose_.byte() % 4; n > 0; --n) {
      switch (choose_.byte() % 6) {
        case 0:
          o.load.compute = choose_.one_of(std::array{"f32", "int8", "f16", "f8", ""});
          break;
        case 1:
          o.load.threads = choose_.one_of(std::array{0u, 1u, 2u, 1025u, ~0u});
          break;
        case 2:
          for (const char*& filter : filters_) filter = text();
          o.n_filters = choose_.byte() % (filters_.size() + 1);
          o.filters = choose_.byte() % 8 ? filters_.data() : nullptr;
          break;
        case 3:
          o.statistics = choose_.truth();
          break;
        case 4:
          o.per_command = choose_.truth();
          break;
        default:
          o.size = size_of(sizeof o);
      }
    }
    return &o;
  }

  void call() override {
    using Function = vesper_status (*)(const char*, const vesper_inspect_options*, char**);
    static constexpr std::array<Function, 5> kReports{
        vesper_inspect_model, vesper_inspect_metadata, vesper_inspect_tensors,
        vesper_inspect_checksums, vesper_inspect_table};
    char* json = nullptr;
    char** const out = choose_.byte() % 16 ? &json : nullptr;
    int is_so = 0;
    int* const so = choose_.byte() % 4 ? &is_so : nullptr;
    const char* const first = model();
    switch (choose_.byte() % 10) {
      case 0:
        check(vesper_inspect_tokens(first, text(), options(), out), json);
        break;
      case 1:
        check(vesper_inspect_verify(first, options(), so, out), json);
        break;
      case 2:
        check(vesper_inspect_diff(first, model(), options(), so, out), json);
        break;
      case 3:
        check(vesper_file_digest(first, choose_.byte() % 2 ? "sha256" : text(), out), json);
        break;
      case 4: {
        const auto wanted = static_cast<vesper_model_kind>(choose_.byte() % 4);
        vesper_load_options load;
        vesper_load_options_init(&load, sizeof load);
        load.offline = 1;
        check(vesper_model_find(first, wanted, &load, nullptr, out), json);
        break;
      }
      default:
        check(choose_.one_of(kReports)(first, options(), out), json);
    }
    vesper_string_free(json);
  }

  vesper_inspect_options options_{};
  std::array<const char*, 3> filters_{};
};

}  // namespace

std::vector<std::string> seeds() {
  models();  // before the time of an input counts
  std::vector<std::string> seeds;
  for (char function = 0; function < 10; ++function) {
    seeds.push_back(std::string("\x01\x01\x00", 3) + function + std::string("\x02\x00\x00\x00", 4));
    seeds.push_back(std::string("\x01\x01\x01", 3) + function +
                    std::string("\x01\x00\x01\x03\x01", 5));
  }
  return seeds;
}

// The calls do not depend on each other.
void use(Bytes input) { Calls(input).run(2); }

}  // namespace vesper::fuzz
