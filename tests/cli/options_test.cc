// The option tables of the programs, and their help, manual pages and completions.
#include "cli/terminal/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "cli/embed/options.h"
#include "cli/generate/options.h"
#include "cli/inspect/options.h"
#include "cli/terminal/program.h"
#include "cli/terminal/terminal_text.h"
#include "cli/transcribe/options.h"
#include "error/error.h"
#include "serve/options.h"
#include "tests/child_process.h"

namespace vesper::options_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Tables {
  EmbedArguments embed;
  GenerateArguments generate;
  InspectArguments inspect;
  ServeArguments serve;
  TranscribeArguments transcribe;
  std::vector<std::pair<std::string, OptionTable>> all;

  Tables() {
    all.emplace_back("embed", embed_options(embed));
    all.emplace_back("generate", generate_options(generate));
    all.emplace_back("inspect", inspect_options(inspect));
    all.emplace_back("serve", serve_options(serve));
    all.emplace_back("transcribe", transcribe_options(transcribe));
  }
};

// Errors of the library's settings name the program's option.
TEST(ProgramOptions, AreNamedInLibraryErrors) {
  const auto message_of = [](const std::string& setting) {
    return failure_of(Error(ErrorKind::kUsage, setting, "expected less, found more")).message;
  };
  TranscribeArguments transcribe;
  const char* const command[] = {"transcribe", "talk.wav"};
  parse_transcribe_options(2, command, transcribe);
  EXPECT_EQ(message_of("beam size"), "--beam-size: expected less, found more");
  EXPECT_EQ(message_of("window rule"), "--disable-rule: expected less, found more");
  EXPECT_EQ(message_of("stream pace"), "stream pace: expected less, found more");
  EXPECT_EQ(failure_of(Error(ErrorKind::kUsage, "beam size: too many")).message,
            "beam size: too many");
  EmbedArguments embed;
  const char* const pooling[] = {"embed", "--pooling", "max"};
  try {
    parse_embed_options(3, pooling, embed);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(failure_of(error).message, "--pooling: expected mean, cls or last, found \"max\"");
  }
}

TEST(ProgramErrors, NameTheirFileOnce) {
  for (const std::string file : {"talk.wav", "with\nbreak.wav"}) {
    testing::internal::CaptureStderr();
    print_error("transcribe", file, Error(ErrorKind::kInput, file + ": expected sound").what());
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::MatchesRegex("transcribe: (talk|with break)\\.wav: expected sound\n"));
  }
}

TEST(LibraryMessages, NameNoOption) {
  const std::filesystem::path root = std::filesystem::path(README).parent_path();
  const std::regex option(R"re("[^"]*--[a-z])re");
  size_t n_files = 0;
  for (const char* folder : {"audio", "capi", "decoder", "embedder", "encoder", "error", "include",
                             "llm", "session", "vad"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
      ++n_files;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        if (line.find("//") < line.find('"')) continue;
        EXPECT_FALSE(std::regex_search(line, option)) << entry.path() << ": " << line;
      }
    }
  }
  EXPECT_GT(n_files, 100u);
}

TEST(ProgramOptions, AreExplainedOnceIn80Columns) {
  for (const auto& [program, table] : Tables().all) {
    std::set<std::string> names;
    for (const Option& option : table.options()) {
      EXPECT_FALSE(option.help.empty()) << program << option.name();
      EXPECT_EQ(option.value.is_flag, option.value_name.empty()) << program << option.name();
      for (const std::string& name : option.names) {
        EXPECT_TRUE(names.insert(name).second) << program << " has two " << name;
        EXPECT_THAT(table.help_all(), HasSubstr(name)) << program;
        EXPECT_EQ(table.help().find(name) == std::string::npos, option.is_advanced)
            << program << " " << name;
      }
    }
    const std::vector<std::string> screen = lines_of(table.help());
    EXPECT_GE(screen.size(), 24u) << program;
    EXPECT_LE(screen.size(), 43u) << program;
    for (const std::string& text : {table.help(), table.help_all()}) {
      for (const std::string& line : lines_of(text)) {
        EXPECT_LE(text_width(line), 80) << program << ": " << line;
      }
    }
  }
}

// Each "build/PROGRAM ... --option" of its examples and each `--option` in its text.
TEST(ProgramOptions, InTheReadmeExist) {
  std::ifstream file(README);
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(readme.empty());
  std::map<std::string, std::set<std::string>> names;
  std::set<std::string> all;
  for (const auto& [program, table] : Tables().all) {
    for (const Option& option : table.options()) {
      names[program].insert(option.names.begin(), option.names.end());
      all.insert(option.names.begin(), option.names.end());
    }
  }
  const std::regex call(R"((?:build/)?(transcribe|generate|embed|inspect)( [^|`\n]*))");
  const std::regex spelling(R"((?:^|[ `])(--[a-z][a-z0-9-]+|-[a-zA-Z0-9])(?=[ `=,;:.)\n]|$))");
  size_t n_found = 0;
  for (std::sregex_iterator at(readme.begin(), readme.end(), call), end; at != end; ++at) {
    if (at->str(0).rfind("build/", 0) != 0) continue;
    std::string arguments = at->str(2);
    arguments = arguments.substr(0, arguments.find(" #"));
    for (std::sregex_iterator name(arguments.begin(), arguments.end(), spelling); name != end;
         ++name, ++n_found) {
      EXPECT_TRUE(names[at->str(1)].count(name->str(1))) << at->str();
    }
  }
  const std::regex quoted(R"(`(--[a-z][a-z0-9-]+)[ `=])");
  for (std::sregex_iterator at(readme.begin(), readme.end(), quoted), end; at != end; ++at) {
    EXPECT_TRUE(all.count(at->str(1))) << at->str();
    ++n_found;
  }
  EXPECT_GT(n_found, 40u);
}

TEST(ProgramOptions, AreInManualAndCompletions) {
  for (const auto& [program, table] : Tables().all) {
    const std::string manual = table.manual();
    for (const char* section : {"NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS", "EXAMPLES"}) {
      EXPECT_THAT(manual, HasSubstr(".SH " + std::string(section) + "\n")) << program;
    }
    for (const char* shell : {"bash", "zsh", "fish"}) {
      const std::string script = table.completions(shell);
      EXPECT_THAT(script, AllOf(HasSubstr(program), Not(HasSubstr("\x1f"))));
      for (const Option& option : table.options()) {
        const bool is_fish = std::string(shell) == "fish";
        EXPECT_THAT(script, HasSubstr(is_fish ? "-l " + option.name().substr(2) : option.name()));
      }
    }
  }
}

struct Made {
  bool loud = false;
  uint32_t count = 3;
  std::optional<double> limit = 0.5;
  std::string kind = "b";
  std::vector<std::string> tags, rest;
  OptionTable table{{.name = "made", .usages = {"X"}, .description = "", .examples = {}}};

  Made() {
    table.section("All");
    table.add("-l, --loud", flag_option(loud), "shout");
    table.add("-c, --count N", integer_option(count, 1, 9), "so often").needs("--loud");
    table.add("--limit X", threshold_option(limit), "at most");
    table.add("--kind KIND", choice_option(kind, {"a", "b"}), "sort");
    table.add("--tag T", repeated_option(tags), "note");
    table.add_advanced("--quiet", flag_option([] {}), "whisper");
    table.exclude({"--loud", "--quiet"});
    table.add_positional("REST", rest);
  }
  std::optional<std::string> parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "made");
    return table.parse(static_cast<int>(arguments.size()), arguments.data());
  }
  std::string error_of(std::vector<const char*> arguments) {
    try {
      parse(std::move(arguments));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "none";
  }
};

TEST(OptionTable, StoresValues) {
  Made made;
  EXPECT_EQ(made.parse({"-l", "x", "--count=4", "-c", "5", "--limit", "none", "--kind", "a",
                        "--tag", "[1,2]", "--tag=t", "[y,z]", "--", "--loud"}),
            std::nullopt);
  EXPECT_TRUE(made.loud);
  EXPECT_EQ(made.count, 5u);
  EXPECT_EQ(made.limit, std::nullopt);
  EXPECT_EQ(made.kind, "a");
  EXPECT_THAT(made.tags, ElementsAre("[1,2]", "t"));
  EXPECT_THAT(made.rest, ElementsAre("x", "[y,z]", "--loud"));
  EXPECT_TRUE(made.table.is_given("--tag"));
  EXPECT_FALSE(made.table.is_given("--quiet"));
}

TEST(OptionTable, ReportsInvalidValues) {
  EXPECT_EQ(Made().error_of({"-l", "-c", "10"}),
            "--count: expected a number from 1 to 9, found \"10\"");
  EXPECT_EQ(Made().error_of({"-l", "-c", "5x"}),
            "--count: expected a number from 1 to 9, found \"5x\"");
  EXPECT_EQ(Made().error_of({"--limit", "0.5x"}),
            "--limit: expected a number or none, found \"0.5x\"");
  EXPECT_EQ(Made().error_of({"--kind", "c"}), "--kind: expected one of a, b, found \"c\"");
  EXPECT_EQ(Made().error_of({"--limit", "x"}), "--limit: expected a number or none, found \"x\"");
  EXPECT_EQ(Made().error_of({"--count", "1"}), "--count: expected together with --loud");
  EXPECT_EQ(Made().error_of({"--loud", "--quiet"}),
            "expected one of --loud and --quiet, found both");
  EXPECT_THAT(Made().error_of({"--nonsense"}), HasSubstr("(see made --help)"));
  EXPECT_THAT(Made().error_of({"--kind"}), HasSubstr("--kind"));
}

TEST(OptionTable, NamesTheGivenOnesOfSeveralThatExcludeEachOther) {
  Made made;
  for (const char* name : {"--one", "--two", "--three"}) {
    made.table.add(name, flag_option([] {}), "a choice");
  }
  made.table.exclude({"--one", "--two", "--three"});
  EXPECT_EQ(made.error_of({"--one", "--three"}),
            "expected one of --one, --two, --three, found --one and --three");
}

TEST(OptionTable, AnswersHelpDespiteOtherErrors) {
  EXPECT_THAT(Made().parse({"--help", "--count", "0"}).value_or(""), HasSubstr("Usage: made X"));
  EXPECT_THAT(Made().parse({"--nonsense", "--version"}).value_or(""), HasSubstr("made "));
  EXPECT_THAT(Made().parse({"--completions", "bash"}).value_or(""), HasSubstr("complete -F"));
  EXPECT_THAT(Made().error_of({"--completions", "csh"}), HasSubstr("bash, zsh, fish"));
}

TEST(OptionTable, ListsChoicesAndDefaults) {
  const std::string help = Made().table.help();
  EXPECT_THAT(help, HasSubstr("sort: a, b (default)"));
  EXPECT_THAT(help, HasSubstr("so often (default: 3)"));
  EXPECT_THAT(help, HasSubstr("at most (default: 0.5)"));
  EXPECT_THAT(help, HasSubstr("note (may be repeated)"));
  EXPECT_THAT(help, Not(HasSubstr("--quiet")));
  EXPECT_THAT(Made().table.help_all(), AllOf(HasSubstr("--quiet"), HasSubstr("N: 1 to 9.")));
}

}  // namespace
}  // namespace vesper::options_test
