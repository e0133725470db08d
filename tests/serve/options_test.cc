// Options of the server from the command line, the environment and a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "cli/terminal/options.h"
#include "error/error.h"
#include "serve/options.h"
#include "tests/child_process.h"

namespace vesper::serve_options_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ServeOptions : public testing::Test {
 protected:
  void TearDown() override {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    variables_[name] = value;
    setenv(name.c_str(), value.c_str(), 1);
  }
  std::string file(const std::string& text) {
    write_file(folder_.path() / "serve.toml", text);
    return (folder_.path() / "serve.toml").string();
  }
  static ServeArguments parse(std::vector<std::string> words) {
    std::vector<const char*> argv = {"serve"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    ServeArguments arguments;
    EXPECT_FALSE(parse_serve_options(static_cast<int>(argv.size()), argv.data(), arguments));
    return arguments;
  }
  static std::string error_of(const std::vector<std::string>& words) {
    try {
      parse(words);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "no error";
  }

 private:
  TemporaryFolder folder_;
  std::map<std::string, std::string> variables_;
};

TEST_F(ServeOptions, ComeFromAFile) {
  const ServeArguments found = parse({"--config", file("# of a server\n"
                                                       "model = [\"base\", 'tiny.en']\n"
                                                       "port = 8081\n"
                                                       "host = \"0.0.0.0\"\n"
                                                       "lazy = true\n"
                                                       "offline = false\n"
                                                       "idle-time = 1.5\n")});
  EXPECT_THAT(found.models, ElementsAre("base", "tiny.en"));
  EXPECT_EQ(found.server.port, 8081);
  EXPECT_EQ(found.server.host, "0.0.0.0");
  EXPECT_FALSE(found.registry.host.is_preloaded);
  EXPECT_FALSE(found.offline);
  EXPECT_EQ(found.server.http.idle, std::chrono::milliseconds(1500));
}

TEST_F(ServeOptions, OfTheCommandLineComeFirstThenThoseOfTheEnvironment) {
  const std::string path = file("model = \"a\"\nport = 1\nslots = 1\nctx = 11\n");
  set("VESPER_SERVE_CONFIG", path);
  set("VESPER_SERVE_MODEL", "b,c");
  set("VESPER_SERVE_PORT", "2");
  set("VESPER_SERVE_SLOTS", "2");
  set("VESPER_SERVE_OFFLINE", "1");
  const ServeArguments found = parse({"-m", "d", "--port", "3"});
  EXPECT_THAT(found.models, ElementsAre("d"));
  EXPECT_EQ(found.server.port, 3);
  EXPECT_EQ(found.registry.text.n_slots, 2u);
  EXPECT_EQ(found.registry.text.context, 11u);
  EXPECT_TRUE(found.offline);
  EXPECT_EQ(found.registry.speech.batch_size, 8u);  // the default
  EXPECT_THAT(parse({}).models, ElementsAre("b", "c"));
}

TEST_F(ServeOptions, ErrorsNameTheirSource) {
  EXPECT_THAT(error_of({"--config", file("model = \"a\"\nport = \"x\"\n")}),
              HasSubstr("serve.toml: port: expected"));
  EXPECT_THAT(error_of({"--config", file("modle = \"a\"\n")}), HasSubstr("found \"modle\""));
  EXPECT_THAT(error_of({"--config", file("[server]\nport = 1\n")}),
              HasSubstr("found \"server\""));
  EXPECT_THAT(error_of({"--config", file("port = [1, 2]\n")}),
              HasSubstr("port: expected one value"));
  EXPECT_THAT(error_of({"--config", file("lazy = 7\n")}),
              HasSubstr("lazy: expected true or false"));
  EXPECT_THAT(error_of({"--config", file("help = true\n")}), HasSubstr("found \"help\""));
  EXPECT_THAT(error_of({"--config", "/no/such.toml"}), HasSubstr("cannot read /no/such.toml"));
  EXPECT_THAT(error_of({"--config", "/"}), HasSubstr("cannot read /"));
  set("VESPER_SERVE_PORT", "70000");
  EXPECT_THAT(error_of({"-m", "a"}), HasSubstr("VESPER_SERVE_PORT: expected"));
}

}  // namespace
}  // namespace vesper::serve_options_test
