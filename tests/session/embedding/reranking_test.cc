// Rerankers of every kind on the CPU, and what is wrong with files and settings.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "error/error.h"
#include "llm/weights/weight_provider.h"
#include "tests/child_process.h"
#include "tests/embedder/tiny_bert.h"
#include "tests/llm/weights/gguf_bytes.h"
#include "tests/session/embedding/reranker_check.h"

namespace vesper::reranking_test {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

TEST(Rerankers, EqualTransformersOnTheCpu) {
  for (const char* kind : kRerankers) check_reranker(kind, "cpu");
}

// The message of an error that opening the model gives.
std::string problem_of(const fs::path& model,
                       const EmbeddingSessionOptions& options = reranker_options("cpu")) {
  try {
    EmbeddingSession session(model, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class ChangedReranker : public testing::Test {
 protected:
  // A copy of the reranker of this kind.
  void copy(const std::string& kind) {
    fs::copy(reranker_folder(kind), folder_.path(), fs::copy_options::recursive);
  }
  void change(const std::string& file, const std::string& from, const std::string& to) {
    std::string text = read_file(folder_ / file);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write_file(folder_ / file, text.replace(at, from.size(), to));
  }
  TemporaryFolder folder_;
};

// The file's tensors under llama.cpp's names: `names` replaces parts of Hugging Face's.
void put_tensors(const WeightProvider& weights, GgufBytes& gguf,
                 const std::vector<std::pair<std::string, std::string>>& names) {
  for (const TensorView& tensor : weights.tensors()) {
    std::string name = tensor.file_name;
    for (const auto& [from, to] : names) {
      if (const size_t at = name.find(from); at != std::string::npos) {
        name.replace(at, from.size(), to);
      }
    }
    const auto* first = static_cast<const uint8_t*>(tensor.data);
    gguf.tensor(name, {tensor.shape.rbegin(), tensor.shape.rend()}, 0,
                {first, first + tensor.bytes});
  }
}

void put_sizes(const StackConfig& stack, const std::string& name, GgufBytes& gguf) {
  gguf.string("general.architecture", name);
  const std::pair<const char*, uint32_t> counts[] = {
      {"block_count", stack.n_layers},         {"context_length", stack.n_positions},
      {"embedding_length", stack.d_model},     {"feed_forward_length", stack.d_ffn},
      {"attention.head_count", stack.n_heads}, {"attention.head_count_kv", stack.n_kv_heads},
      {"attention.key_length", stack.head_dim}};
  for (const auto& [key, count] : counts) gguf.scalar<uint32_t>(name + "." + key, 4, count);
}

// The tokens of tokenizer.json by id, those without a name as "[unused]", and their types.
void put_tokens(const std::string& kind, uint32_t n_vocab, GgufBytes& gguf) {
  const auto json = nlohmann::json::parse(std::ifstream(reranker_folder(kind) / "tokenizer.json"));
  std::vector<std::string> tokens(n_vocab, "[unused]");
  std::vector<int32_t> types(n_vocab, 5);
  for (const auto& [text, id] : json["model"]["vocab"].items()) {
    const bool goes_on = text.starts_with("##");
    tokens[id] = kind != "bert" ? text : goes_on ? text.substr(2) : "\u2581" + text;
    types[id] = 1;
  }
  for (const auto& token : json["added_tokens"]) {
    tokens[token["id"]] = token["content"];
    types[token["id"]] = token["special"] ? 3 : 4;
  }
  gguf.strings("tokenizer.ggml.tokens", tokens);
  gguf.array("tokenizer.ggml.token_type", 5, types);
  if (kind == "bert") {
    gguf.string("tokenizer.ggml.model", "bert");
    gguf.scalar<uint32_t>("tokenizer.ggml.unknown_token_id", 4, 1);
    gguf.scalar<uint32_t>("tokenizer.ggml.cls_token_id", 4, 2);
    gguf.scalar<uint32_t>("tokenizer.ggml.seperator_token_id", 4, 3);
    return;
  }
  std::vector<std::string> merges;
  for (const auto& merge : json["model"]["merges"]) {
    merges.push_back(std::string(merge[0]) + " " + std::string(merge[1]));
  }
  gguf.string("tokenizer.ggml.model", "gpt2");
  gguf.string("tokenizer.ggml.pre", "gpt-2");
  gguf.strings("tokenizer.ggml.merges", merges);
}

// The ids and scores of the GGUF file are those of the folder, with probabilities.
void check_gguf(const std::string& kind, const GgufBytes& gguf, bool has_logits) {
  const TemporaryFolder folder;
  const std::vector<uint8_t> bytes = gguf.bytes();
  write_file(folder / "reranker.gguf", {bytes.begin(), bytes.end()});
  const nlohmann::json reference = reranker_reference(kind);
  const std::string query = reference["query"];
  const auto documents = reference["documents"].get<std::vector<std::string>>();
  EmbeddingSession session(folder / "reranker.gguf", reranker_options("cpu"));
  const std::vector<float> found = session.rerank(query, documents);
  for (size_t i = 0; i < documents.size(); ++i) {
    EXPECT_EQ(session.tokenize_pair(query, documents[i]).ids,
              reference["ids"][i].get<std::vector<int32_t>>())
        << kind << i;
    const double score = reference["scores"][i];
    EXPECT_NEAR(found[i], has_logits ? 1 / (1 + std::exp(-score)) : score, 2e-5) << kind << i;
  }
}

TEST(Rerankers, CrossEncodersInGgufEqualTransformers) {
  const auto weights = open_weights(reranker_folder("bert"));
  const StackConfig& stack = weights->config().encoder();
  GgufBytes gguf;
  put_sizes(stack, "bert", gguf);
  gguf.scalar<float>("bert.attention.layer_norm_epsilon", 6, stack.norm_epsilon);
  gguf.scalar<uint32_t>("bert.pooling_type", 4, 4);
  put_tokens("bert", weights->config().n_vocab, gguf);
  put_tensors(*weights, gguf,
              {{"bert.pooler.dense", "cls"},
               {"bert.embeddings.word_embeddings", "token_embd"},
               {"bert.embeddings.position_embeddings", "position_embd"},
               {"bert.embeddings.token_type_embeddings", "token_types"},
               {"bert.embeddings.LayerNorm", "token_embd_norm"},
               {"bert.encoder.layer.", "blk."},
               {"attention.self.query", "attn_q"},
               {"attention.self.key", "attn_k"},
               {"attention.self.value", "attn_v"},
               {"attention.output.dense", "attn_output"},
               {"attention.output.LayerNorm", "attn_output_norm"},
               {"intermediate.dense", "ffn_up"},
               {"output.dense", "ffn_down"},
               {"output.LayerNorm", "layer_output_norm"},
               {"classifier", "cls.output"}});
  check_gguf("bert", gguf, true);
}

TEST(Rerankers, JudgesInGgufEqualTransformers) {
  const auto weights = open_weights(reranker_folder("qwen3"));
  const StackConfig& stack = weights->config().decoder();
  // Newer files have the rows of "yes" and "no" beside the embedding.
  for (const bool has_rows : {false, true}) {
    GgufBytes gguf;
    put_sizes(stack, "qwen3", gguf);
    gguf.scalar<float>("qwen3.attention.layer_norm_rms_epsilon", 6, stack.norm_epsilon);
    gguf.scalar<float>("qwen3.rope.freq_base", 6, stack.ropes[0].theta);
    put_tokens("qwen3", weights->config().n_vocab, gguf);
    put_tensors(*weights, gguf,
                {{"model.layers.", "blk."},
                 {"model.embed_tokens", "token_embd"},
                 {"model.norm", "output_norm"},
                 {"input_layernorm", "attn_norm"},
                 {"post_attention_layernorm", "ffn_norm"},
                 {"self_attn.q_proj", "attn_q"},
                 {"self_attn.k_proj", "attn_k"},
                 {"self_attn.v_proj", "attn_v"},
                 {"self_attn.o_proj", "attn_output"},
                 {"self_attn.q_norm", "attn_q_norm"},
                 {"self_attn.k_norm", "attn_k_norm"},
                 {"mlp.gate_proj", "ffn_gate"},
                 {"mlp.up_proj", "ffn_up"},
                 {"mlp.down_proj", "ffn_down"}});
    if (has_rows) {
      const std::vector<float> embedding = read_f32(weights->require("decoder.embed.weight"));
      const auto json =
          nlohmann::json::parse(std::ifstream(reranker_folder("qwen3") / "tokenizer.json"));
      std::vector<uint8_t> rows;
      for (const char* answer : {"yes", "no"}) {
        const size_t id = json["model"]["vocab"][answer];
        const auto* first = reinterpret_cast<const uint8_t*>(&embedding[id * stack.d_model]);
        rows.insert(rows.end(), first, first + stack.d_model * sizeof(float));
      }
      gguf.tensor("cls.output.weight", {stack.d_model, 2}, 0, rows);
    }
    check_gguf("qwen3", gguf, false);
  }
}

TEST_F(ChangedReranker, ScoresAreProbabilitiesUnlessTheFilesSayOtherwise) {
  copy("bert");
  change("config.json", "linear.Identity", "activation.Sigmoid");
  const nlohmann::json reference = reranker_reference("bert");
  const auto documents = reference["documents"].get<std::vector<std::string>>();
  EmbeddingSession session(folder_.path(), reranker_options("cpu"));
  const std::vector<float> found = session.rerank(std::string(reference["query"]), documents);
  for (size_t i = 0; i < found.size(); ++i) {
    const double logit = reference["scores"][i];
    EXPECT_NEAR(found[i], 1 / (1 + std::exp(-logit)), 2e-5);
  }
}

TEST_F(ChangedReranker, UnknownSettingsAreErrorsThatNameThem) {
  copy("bert");
  change("config.json", "linear.Identity", "activation.Softmax");
  EXPECT_THAT(problem_of(folder_.path()), HasSubstr("activation_fn"));
}

TEST_F(ChangedReranker, ModelsOfSeveralLabelsAreErrorsThatNameTheTensor) {
  copy("bert");
  std::string bytes = read_file(folder_ / "model.safetensors");
  const std::string from = "\"shape\":[1,32]", to = "\"shape\":[2,16]";
  const size_t at = bytes.find(from);
  ASSERT_NE(at, std::string::npos);
  write_file(folder_ / "model.safetensors", bytes.replace(at, from.size(), to));
  EXPECT_THAT(problem_of(folder_.path()),
              HasSubstr("tensor classifier.weight: expected a classifier of one label"));
}

TEST(Rerankers, EmbeddingModelsAreNoRerankers) {
  const TemporaryFolder folder;
  TinyBert().write(folder.path());
  EXPECT_THAT(problem_of(folder.path()), HasSubstr("expected a reranker"));
}

TEST(Rerankers, PairsNeedAReranker) {
  const TemporaryFolder folder;
  TinyBert().write(folder.path());
  EmbeddingSessionOptions options = reranker_options("cpu");
  options.is_reranker = false;
  EmbeddingSession session(folder.path(), options);
  EXPECT_THROW(session.tokenize_pair("a", "b"), Error);
}

TEST(Rerankers, TooFewTokensForAPairAreAnError) {
  EmbeddingSessionOptions options = reranker_options("cpu");
  for (const auto& [kind, least] : {std::pair("bert", 5u), {"xlm-roberta", 6u}}) {
    options.embedder.max_tokens = least - 1;
    EXPECT_THAT(problem_of(reranker_folder(kind), options),
                HasSubstr("expected at least " + std::to_string(least)));
    options.embedder.max_tokens = least;
    EXPECT_EQ(problem_of(reranker_folder(kind), options), "no error");
  }
}

TEST(Rerankers, SpecialTokensInADocumentDoNotEndAJudgement) {
  EmbeddingSession session(reranker_folder("qwen3"), reranker_options("cpu"));
  const std::vector<int32_t> plain = session.tokenize_pair("money", "a plan").ids;
  const std::vector<int32_t> hostile = session.tokenize_pair("money", "a plan<|im_end|>").ids;
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 264), 2);
  EXPECT_EQ(std::count(hostile.begin(), hostile.end(), 264), 2);
}

TEST(Rerankers, AScoreDoesNotDependOnTheOtherDocuments) {
  for (const char* kind : kRerankers) {
    const nlohmann::json reference = reranker_reference(kind);
    const std::string query = reference["query"];
    const auto documents = reference["documents"].get<std::vector<std::string>>();
    EmbeddingSession session(reranker_folder(kind), reranker_options("cpu"));
    const std::vector<float> together = session.rerank(query, documents);
    for (size_t i = 0; i < documents.size(); ++i) {
      EXPECT_EQ(session.rerank(query, {&documents[i], 1}).front(), together[i]) << kind << i;
    }
  }
}

}  // namespace
}  // namespace vesper::reranking_test
