// The built `embed` with a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/child_process.h"
#include "tests/embedder/tiny_bert.h"

namespace vesper::embed_program_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class EmbedProgram : public testing::Test {
 protected:
  void SetUp() override {
    TinyBert().write(folder_ / "models/tiny");
    std::filesystem::create_directory(folder_ / "work");
    options_.folder = folder_ / "work";
    options_.environment = {{"VESPER_MODELS", folder_ / "models"},
                            {"XDG_CACHE_HOME", folder_ / "cache"},
                            {"HF_ENDPOINT", "http://127.0.0.1:1"}};
  }

  ChildResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), EMBED);
    return run_child(arguments, options_);
  }
  // With the tiny model, on the CPU in f32.
  ChildResult embed(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"-m", "tiny", "--device", "cpu", "--compute", "f32", "-t", "1"});
    return run(std::move(arguments));
  }
  std::vector<std::string> work() { return names_in(folder_ / "work"); }

  TemporaryFolder folder_;
  ChildOptions options_;
};

using Vector = std::vector<float>;

std::vector<Vector> vectors_of(const std::string& out) {
  std::vector<Vector> vectors;
  for (const std::string& line : lines_of(out)) vectors.push_back(json::parse(line).get<Vector>());
  return vectors;
}

Vector floats_of(const std::string& bytes) {
  Vector values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

double length_of(const Vector& vector) {
  double squares = 0;
  for (const float value : vector) squares += double{value} * value;
  return std::sqrt(squares);
}

void expect_failure(const ChildResult& result, int status, const std::string& message) {
  EXPECT_EQ(result.status, status) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("embed: "));
  EXPECT_THAT(result.err, HasSubstr(message));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST_F(EmbedProgram, PrintsOneArrayPerText) {
  const ChildResult result = embed({"the cat sat", "next year's plan", "the cat sat"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  const std::vector<Vector> vectors = vectors_of(result.out);
  ASSERT_EQ(vectors.size(), 3u);
  EXPECT_EQ(vectors[0], vectors[2]);
  EXPECT_NE(vectors[0], vectors[1]);
  EXPECT_EQ(vectors[0].size(), size_t{TinyBert::kWidth});
  EXPECT_NEAR(length_of(vectors[0]), 1, 1e-6);
}

TEST_F(EmbedProgram, AcceptsTextsInBrackets) {
  options_.standard_input = "[the cat, sat]\n";
  const std::string wanted = embed({}).out;
  EXPECT_EQ(embed({"[the cat, sat]"}).out, wanted);
  for (const auto& search : {std::vector<std::string>{"--search", "[the cat, sat]"},
                             std::vector<std::string>{"--search=[the cat, sat]"}}) {
    EXPECT_EQ(embed(search).out, "1.0000\t1\t[the cat, sat]\n");
  }
}

TEST_F(EmbedProgram, ReadsLinesOfStandardInputAndFiles) {
  const std::string wanted = embed({"the cat", "", "a plan"}).out;
  options_.standard_input = "the cat\r\n\na plan";
  EXPECT_EQ(embed({}).out, wanted);
  EXPECT_EQ(embed({"--input", "-"}).out, wanted);
  write_file(folder_ / "work/a.txt", "the cat\n\n");
  write_file(folder_ / "work/b.txt", "a plan\n");
  EXPECT_EQ(embed({"--input", "a.txt", "--input", "b.txt"}).out, wanted);
}

TEST_F(EmbedProgram, ReadsTheTextsOfJsonLinesByTheirKey) {
  const std::string wanted = embed({"the cat", "a plan"}).out;
  write_file(folder_ / "work/a.jsonl",
             "{\"text\": \"the cat\", \"t\": \"money\"}\n{\"text\": \"a plan\"}\n");
  EXPECT_EQ(embed({"--input", "a.jsonl"}).out, wanted);
  options_.standard_input = "{\"say\": \"the cat\"}\n{\"say\": \"a plan\"}\n";
  EXPECT_EQ(embed({"--key", "say"}).out, wanted);
  options_.standard_input = "{\"say\": \"the cat\"}\n{\"said\": \"a plan\"}\n";
  expect_failure(embed({"--key", "say"}), 3, "stdin:2: expected a member \"say\"");
  options_.standard_input = "{\"say\": 3}\n";
  expect_failure(embed({"--key", "say"}), 3, "stdin:1: expected \"say\" to be a text");
  options_.standard_input = "the cat\n";
  expect_failure(embed({"--key", "say"}), 3, "stdin:1");
}

TEST_F(EmbedProgram, WritesTheSameNumbersInEveryFormat) {
  const std::vector<std::string> texts = {"the cat", "a \"plan\"\x01", "money"};
  const auto in_format = [&](const char* format) {
    std::vector<std::string> arguments = {"-f", format};
    arguments.insert(arguments.end(), texts.begin(), texts.end());
    const ChildResult result = embed(std::move(arguments));
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  const std::vector<Vector> vectors = vectors_of(in_format("json"));
  ASSERT_EQ(vectors.size(), 3u);
  Vector all;
  for (const Vector& vector : vectors) all.insert(all.end(), vector.begin(), vector.end());

  EXPECT_EQ(floats_of(in_format("f32")), all);

  const std::string npy = in_format("npy");
  EXPECT_THAT(npy, StartsWith(std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                              "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 64), }"));
  EXPECT_EQ(npy[127], '\n');
  EXPECT_EQ(floats_of(npy.substr(128)), all);

  const std::vector<std::string> objects = lines_of(in_format("jsonl"));
  ASSERT_EQ(objects.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const json object = json::parse(objects[i]);
    EXPECT_EQ(object["index"], i);
    EXPECT_EQ(object["text"], texts[i]);
    EXPECT_EQ(object["embedding"].get<Vector>(), vectors[i]);
  }
  EXPECT_EQ(json::parse(objects[2])["n_tokens"], 3);

  const std::vector<std::string> base64 = lines_of(in_format("base64"));
  ASSERT_EQ(base64.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    std::string bytes(base64[i].size(), '\0');
    const int n = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                  reinterpret_cast<const unsigned char*>(base64[i].data()),
                                  static_cast<int>(base64[i].size()));
    ASSERT_GE(n, 256);  // including padding bytes
    EXPECT_EQ(floats_of(bytes.substr(0, 256)), vectors[i]);
  }
}

TEST_F(EmbedProgram, AcceptsTokenIds) {
  EXPECT_EQ(embed({"--input-ids", "2 4 6 3", "[2, 15, 3]"}).out, embed({"the cat", "plan"}).out);
  expect_failure(embed({"--input-ids", "2 4 68 3"}), 3, "text 1: expected token ids below 68");
  for (const char* list : {"2 x", "2,,3", "2,", ",2", "[[2 4],3"}) {
    expect_failure(embed({"--input-ids", list}), 3, "text 1: expected token ids with spaces");
  }
  expect_failure(embed({"--input-ids", "2", ""}), 3, "text 2: expected token ids, found none");
  std::filesystem::remove(folder_ / "models/tiny/vocab.txt");
  EXPECT_EQ(embed({"--input-ids", "2 4 6 3"}).status, 0);
  expect_failure(embed({"the cat"}), 4, "token ids can be given");
}

TEST_F(EmbedProgram, ReportsTruncation) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "cat ";
  const ChildResult one = embed({"a", text});
  EXPECT_EQ(one.status, 0);
  EXPECT_THAT(one.err, HasSubstr("embed: text 2: cut to the first 40 of 52 tokens\n"));
  EXPECT_THAT(one.err, HasSubstr("embed: 1 text was cut to the first 40 tokens\n"));
  EXPECT_EQ(lines_of(one.out).size(), 2u);
  const ChildResult many = embed({"--max-tokens", "5", text, text, text, text, text, "cat"});
  EXPECT_THAT(many.err, HasSubstr("5 texts were cut to the first 5 tokens\n"));
  EXPECT_EQ(lines_of(many.err).size(), 4u);
  EXPECT_EQ(vectors_of(many.out)[0], vectors_of(embed({"cat cat cat"}).out)[0]);
  expect_failure(embed({"--max-tokens", "2", "cat"}), 2, "--max-tokens: expected at least 3");
}

TEST_F(EmbedProgram, HasOptionsForPoolingNormalizationAndDimensions) {
  const Vector usual = vectors_of(embed({"the cat"}).out).at(0);
  const Vector raw = vectors_of(embed({"--no-normalize", "the cat"}).out).at(0);
  EXPECT_GT(std::abs(length_of(raw) - 1), 0.01);
  EXPECT_NEAR(raw[3] / length_of(raw), usual[3], 1e-6);
  // --normalize, for a model that does not normalize.
  const std::string modules = read_file(folder_ / "models/tiny/modules.json");
  json unnormalized = json::parse(modules);
  unnormalized.erase(unnormalized.size() - 1);
  write_file(folder_ / "models/tiny/modules.json", unnormalized.dump());
  EXPECT_EQ(vectors_of(embed({"the cat"}).out).at(0), raw);
  EXPECT_EQ(vectors_of(embed({"--normalize", "the cat"}).out).at(0), usual);
  write_file(folder_ / "models/tiny/modules.json", modules);
  const Vector cls = vectors_of(embed({"--pooling", "cls", "the cat"}).out).at(0);
  const Vector last = vectors_of(embed({"--pooling", "last", "the cat"}).out).at(0);
  EXPECT_NE(cls, usual);
  EXPECT_NE(last, usual);
  EXPECT_NE(last, cls);
  const Vector few = vectors_of(embed({"--dimensions", "8", "the cat"}).out).at(0);
  ASSERT_EQ(few.size(), 8u);
  EXPECT_NEAR(length_of(few), 1, 1e-6);
  EXPECT_NEAR(few[0] / few[1], usual[0] / usual[1], 1e-4);
  expect_failure(embed({"--dimensions", "65", "a"}), 2, "expected at most 64");
  expect_failure(embed({"--pooling", "max", "a"}), 2, "expected mean, cls or last");
}

// The first vectors come while standard input is open: 50 texts of 5 tokens fill many batches of 40
// tokens, and not one of the usual size.
TEST_F(EmbedProgram, ComputesABatchAsSoonAsItHasItsTokens) {
  const std::string script =
      "mkfifo in out; " EMBED
      " -m tiny --device cpu --compute f32 -t 1 --batch-tokens 40 "
      "< in > out & exec 3> in 4< out; for i in {1..50}; do echo the cat sat; done >&3; "
      "read -r -t 60 line <&4 && echo early; exec 3>&-; wc -l <&4; wait $!";
  const ChildResult result = run_child({"/bin/bash", "-c", script}, options_);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "early\n49\n");
}

TEST_F(EmbedProgram, PutsAPrefixBeforeEachText) {
  const std::string wanted = embed({"plan for cats"}).out;
  EXPECT_EQ(embed({"--prefix", "plan for ", "cats"}).out, wanted);
  expect_failure(embed({"--prefix", "query", "cats"}), 2, "no prompt \"query\"");
  write_file(folder_ / "models/tiny/config_sentence_transformers.json",
             R"({"prompts": {"query": "plan for "}})");
  EXPECT_EQ(embed({"--prefix", "query", "cats"}).out, wanted);
  EXPECT_NE(embed({"cats"}).out, wanted);
}

TEST_F(EmbedProgram, RanksTextsBySimilarityToAQuery) {
  options_.standard_input = "money\nthe cat sat\n\nnext year's plan\n  \nthe cat sat\n";
  const ChildResult text = embed({"--search", "the cat sat", "--top", "3"});
  EXPECT_EQ(text.status, 0) << text.err;
  const std::vector<std::string> lines = lines_of(text.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "1.0000\t2\tthe cat sat");
  EXPECT_EQ(lines[1], "1.0000\t6\tthe cat sat");
  const ChildResult all = embed({"--search", "the cat sat", "-f", "jsonl"});
  ASSERT_EQ(lines_of(all.out).size(), 4u);  // not the blank ones
  double before = 2;
  for (const std::string& line : lines_of(all.out)) {
    const json object = json::parse(line);
    EXPECT_LE(object["score"].get<double>(), before);
    before = object["score"];
  }
  EXPECT_EQ(json::parse(lines_of(all.out)[0])["index"], 1);
}

TEST_F(EmbedProgram, PutsAPrefixBeforeTheQuery) {
  options_.standard_input = "the cat sat\nmoney\n";
  const std::string wanted = embed({"--search", "the cat sat"}).out;
  EXPECT_EQ(embed({"--search", "cat sat", "--query-prefix", "the "}).out, wanted);
  EXPECT_NE(embed({"--search", "cat sat"}).out, wanted);
}

// The scores of tests/reference/make_rerankers.py, the best first.
TEST_F(EmbedProgram, RanksTextsByAReranker) {
  for (const std::string kind : {"bert", "xlm-roberta", "modernbert", "qwen3"}) {
    const std::filesystem::path model = std::filesystem::path(RERANKERS) / kind;
    const json reference = json::parse(read_file(model / "reference.json"));
    const auto rerank = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.begin(), {"-m", model, "--device", "cpu", "--compute", "f32",
                                           "--rerank", reference["query"]});
      return run(std::move(arguments));
    };
    std::vector<std::pair<double, size_t>> wanted;
    options_.standard_input = "";
    for (size_t i = 0; i < reference["documents"].size(); ++i) {
      options_.standard_input += reference["documents"][i].get<std::string>() + "\n";
      wanted.emplace_back(-reference["scores"][i].get<double>(), i);
    }
    std::sort(wanted.begin(), wanted.end());
    const ChildResult result = rerank({"-f", "json"});
    EXPECT_EQ(result.err, "");
    const json found = json::parse(result.out);
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(found[i]["index"], wanted[i].second) << kind;
      EXPECT_NEAR(found[i]["score"].get<double>(), -wanted[i].first, 2e-5) << kind;
      EXPECT_EQ(found[i]["text"], reference["documents"][wanted[i].second]);
    }
    const ChildResult best = rerank({"--top", "1"});
    EXPECT_THAT(best.out, testing::EndsWith("\t" + std::to_string(wanted[0].second + 1) + "\t" +
                                            found[0]["text"].get<std::string>() + "\n"));
    if (kind == "qwen3") {
      EXPECT_NE(rerank({"--instruct", "find cats"}).out, rerank({}).out);
    }
  }
}

TEST_F(EmbedProgram, NamesWhatDoesNotFitAReranker) {
  options_.standard_input = "a\n";
  expect_failure(run({"--rerank", "q", "a"}), 2, "--rerank: expected together with --model");
  expect_failure(embed({"--rerank", "q", "a"}), 4, "expected a reranker");
  expect_failure(embed({"--rerank", " ", "a"}), 2, "--rerank: expected a text");
  expect_failure(embed({"--instruct", "i", "a"}), 2, "--instruct: expected together with --rerank");
  for (const char* option : {"--search", "--prefix", "--pooling", "--dimensions"}) {
    const char* value = std::string(option) == "--pooling" ? "cls" : "1";
    const ChildResult result = embed({"--rerank", "q", option, value, "a"});
    EXPECT_EQ(result.status, 2) << option;
    EXPECT_THAT(result.err, HasSubstr("--rerank")) << option;
  }
}

TEST_F(EmbedProgram, RanksPairsBySimilarity) {
  const ChildResult result =
      embed({"--similarity", "money", "the cat sat", "a plan", "the cat sat"});
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0], "1.0000\t2\t4\tthe cat sat\tthe cat sat");
  EXPECT_EQ(lines_of(embed({"--similarity", "--top", "2", "a", "b", "c"}).out).size(), 2u);
  const json list = json::parse(embed({"--similarity", "-f", "json", "a", "b"}).out);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["other_text"], "b");
}

TEST_F(EmbedProgram, WritesItsFileAtomically) {
  EXPECT_EQ(embed({"-o", "out.json", "the cat"}).out, "");
  EXPECT_EQ(read_file(folder_ / "work/out.json"), embed({"the cat"}).out);
  options_.standard_input = "{\"text\": \"a\"}\nno JSON\n";
  expect_failure(embed({"--key", "text", "-f", "npy", "-o", "bad.npy"}), 3, "stdin:2: ");
  EXPECT_THAT(work(), ElementsAre("out.json"));
  expect_failure(embed({"-o", "none/out.npy", "a"}), 6, "none/out.npy");
}

TEST_F(EmbedProgram, HasAStatusForEachKindOfFailure) {
  expect_failure(embed({"--nonsense"}), 2, "see embed --help");
  expect_failure(embed({"-f", "xml", "a"}), 2, "--format: expected one of json");
  expect_failure(embed({"--input", "a.txt", "text"}), 2, "found both");
  expect_failure(embed({"--top", "3", "text"}), 2, "--top: expected together with");
  expect_failure(embed({"--input", ""}), 2, "--input: expected a file");
  expect_failure(embed({"--search", " ", "text"}), 2, "--search: expected a text");
  expect_failure(embed({"--input-ids", "--prefix", "a", "2"}), 2, "--prefix: expected with texts");
  expect_failure(embed({"--similarity", "--query-prefix", "a", "b"}), 2,
                 "--query-prefix: expected together with --search");
  expect_failure(embed({"--search", "a", "-f", "npy", "text"}), 2, "json or jsonl only");
  expect_failure(embed({"--compute", "f64", "a"}), 2, "f64");
  expect_failure(embed({"--input", "absent.txt"}), 3, "absent.txt: No such file");
  expect_failure(embed({"--input", "."}), 3, "found a folder");
  expect_failure(run({"-m", "absent", "a"}), 4, "all-minilm-l6-v2");
  expect_failure(run({"-m", "bge-small-en-v1.5", "--offline", "a"}), 4, "--offline");
  write_file(folder_ / "models/tiny/model.safetensors", "damaged");
  expect_failure(embed({"a"}), 4, "model.safetensors");
  expect_failure(embed({"--device", "abacus", "a"}), 2, "abacus");
}

TEST_F(EmbedProgram, EndsSilentlyOnAClosedPipe) {
  std::string script = std::string(EMBED) + " -m tiny --device cpu --input many.txt | head -n 1";
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "the cat sat\n";
  write_file(folder_ / "work/many.txt", many);
  const ChildResult result = run_child({"/bin/sh", "-c", script}, options_);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(lines_of(result.out).size(), 1u);
}

TEST_F(EmbedProgram, PrintsHelpOnOneScreen) {
  const ChildResult help = run({"--help"});
  EXPECT_EQ(help.status, 0);
  const std::vector<std::string> lines = lines_of(help.out);
  EXPECT_LE(lines.size(), 43u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(run({"--version"}).out, StartsWith("embed "));
  EXPECT_THAT(run({"-h", "--nonsense"}).err, IsEmpty());
}

}  // namespace
}  // namespace vesper::embed_program_test
