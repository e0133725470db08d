#include "session/models/download.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "error/error.h"
#include "session/models/model_store.h"
#include "tests/child_process.h"
#include "tests/session/models/model_server.h"

namespace vesper::download_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Of "abc", from FIPS 180-4's examples.
TEST(DigestOfFile, EqualsTheExampleOfTheStandard) {
  const TemporaryFolder folder;
  write_file(folder / "abc", "abc");
  EXPECT_EQ(digest_of_file(folder / "abc", DigestAlgorithm::kSha1).hex,
            "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(digest_of_file(folder / "abc", DigestAlgorithm::kSha256).hex,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// A server, and a folder to download into.
class Download : public testing::Test {
 protected:
  static constexpr size_t kSize = 3'000'017;

  Download() {
    write_file(folder_ / "content", content_);
    std::filesystem::create_directory(folder_ / "models");
  }

  // Downloads in this process; the message of the error, or "".
  std::string error_of(const std::string& mode, std::optional<Digest> digest = std::nullopt) {
    try {
      download({hub_ + "/" + mode + "/model", target_, digest}, events_);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kModel);
      return error.what();
    }
  }

  void expect_complete() {
    EXPECT_TRUE(read_file(target_) == content_);
    EXPECT_THAT(names_in(folder_ / "models"), ElementsAre("model.bin"));
  }

  std::vector<std::string> ranges() const { return server_.ranges(); }

  // The program, with a model whose digest only the server has.
  std::vector<std::string> program() const {
    return {FAKE_TRANSCRIBE, "-m", "hf://owner/talks/ggml-talk.bin", "talk.wav"};
  }
  ChildOptions surroundings(const std::string& mode) const {
    ChildOptions options;
    options.folder = folder_.path();
    options.environment = {{"VESPER_MODELS", folder_ / "models"},
                           {"XDG_CACHE_HOME", folder_ / "cache"},
                           {"HF_ENDPOINT", hub_ + "/" + mode}};
    return options;
  }

  TemporaryFolder folder_;
  std::filesystem::path target_ = folder_ / "models/model.bin";
  DownloadEvents events_;
  const std::string content_ = [] {
    std::string content(kSize, '\0');
    for (size_t i = 0; i < kSize; ++i) content[i] = static_cast<char>(i * i / 7 + i / 251);
    return content;
  }();
  const ModelServer server_{content_};
  std::string hub_ = server_.address();
};

TEST_F(Download, ChecksTheDigestOfTheServer) {
  uint64_t last_done = 0, last_total = 0;
  events_.on_progress = [&](uint64_t done, uint64_t total, uint64_t before) {
    EXPECT_GE(done, last_done);
    EXPECT_EQ(before, 0u);
    last_done = done;
    last_total = total;
  };
  EXPECT_EQ(error_of("plain"), "");
  expect_complete();
  EXPECT_EQ(last_done, kSize);
  EXPECT_EQ(last_total, kSize);
}

TEST_F(Download, ReadsTheDigestFromTheRedirection) {
  EXPECT_EQ(error_of("redirect"), "");
  expect_complete();
}

TEST_F(Download, ChecksTheGivenDigest) {
  const Digest right = digest_of_file(folder_ / "content", DigestAlgorithm::kSha1);
  EXPECT_EQ(error_of("nodigest", right), "");
  expect_complete();
  std::filesystem::remove(target_);
  // The server's digest is right, the requested one is wrong: the requested one counts.
  EXPECT_THAT(error_of("plain", Digest{DigestAlgorithm::kSha1, std::string(40, '0')}),
              testing::AllOf(HasSubstr(right.hex), HasSubstr(std::string(40, '0'))));
  EXPECT_THAT(names_in(folder_ / "models"), ElementsAre());
}

TEST_F(Download, RefusesAFileWithoutADigest) {
  EXPECT_THAT(error_of("nodigest"), HasSubstr("expected a digest"));
  EXPECT_FALSE(std::filesystem::exists(target_));
}

TEST_F(Download, RemovesAFileWithAWrongDigest) {
  EXPECT_THAT(error_of("baddigest"), HasSubstr("SHA-256"));
  EXPECT_THAT(names_in(folder_ / "models"), ElementsAre());
}

TEST_F(Download, ContinuesAPartialFile) {
  write_file(target_.string() + ".part", content_.substr(0, 1'000'000));
  EXPECT_EQ(error_of("plain"), "");
  expect_complete();
  EXPECT_THAT(ranges(), ElementsAre("bytes=1000000-"));
}

TEST_F(Download, AcceptsACompletePartialFile) {
  write_file(target_.string() + ".part", content_);
  EXPECT_EQ(error_of("plain", digest_of_file(folder_ / "content", DigestAlgorithm::kSha256)), "");
  expect_complete();
}

TEST_F(Download, RestartsIfThePartialFileIsOfAnotherFile) {
  write_file(target_.string() + ".part", std::string(1'000'000, 'x'));
  EXPECT_EQ(error_of("plain"), "");
  expect_complete();
  EXPECT_THAT(ranges(), ElementsAre("bytes=1000000-", "-"));
}

TEST_F(Download, RestartsIfThePartialFileIsTooLong) {
  write_file(target_.string() + ".part", std::string(kSize + 1, 'x'));
  EXPECT_EQ(error_of("redirect"), "");
  expect_complete();
}

TEST_F(Download, WorksWithAServerWithoutRanges) {
  write_file(target_.string() + ".part", content_.substr(0, 1'000'000));
  EXPECT_EQ(error_of("norange"), "");
  expect_complete();
}

TEST_F(Download, RefusesAWrongRange) {
  write_file(target_.string() + ".part", content_.substr(0, 1'000'000));
  EXPECT_EQ(error_of("wrongrange"), "");
  expect_complete();
  EXPECT_THAT(ranges(), ElementsAre("bytes=1000000-", "-"));
}

// Nothing else would find the wrong bytes.
TEST_F(Download, RefusesAWrongRangeOfAFileWithoutADigest) {
  write_file(target_.string() + ".part", content_.substr(0, 1'000'000));
  download({hub_ + "/wrongrange/model", target_, std::nullopt, false}, events_);
  expect_complete();
}

TEST_F(Download, ContinuesAfterBrokenConnections) {
  EXPECT_EQ(error_of("cut"), "");
  expect_complete();
  EXPECT_THAT(ranges(), ElementsAre("-", "bytes=1000000-", "bytes=2000000-", "bytes=3000000-"));
}

TEST_F(Download, RetriesIfTheServerIsBusy) {
  EXPECT_EQ(error_of("flaky"), "");
  expect_complete();
}

TEST_F(Download, GivesUpIfTheServerRemainsBusy) {
  EXPECT_THAT(error_of("dead"), HasSubstr("503"));
  EXPECT_FALSE(std::filesystem::exists(target_));
  EXPECT_EQ(ranges().size(), 4u);
}

TEST_F(Download, DoesNotRetryPermanentErrors) {
  EXPECT_THAT(error_of("missing"), HasSubstr("404"));
  EXPECT_EQ(ranges().size(), 1u);
  EXPECT_THAT(names_in(folder_ / "models"), ElementsAre()) << "nothing was received";
}

TEST_F(Download, ReportsAnUnreachableServer) {
  hub_ = "http://127.0.0.1:1";
  EXPECT_THAT(error_of("plain"), HasSubstr("127.0.0.1"));
  EXPECT_THAT(names_in(folder_ / "models"), ElementsAre());
}

// libcurl, whose functions are C, calls the events.
TEST_F(Download, PassesOnTheExceptionOfAnEvent) {
  events_.on_progress = [](uint64_t done, uint64_t, uint64_t) {
    if (done > 500'000) throw std::runtime_error("of the caller");
  };
  EXPECT_THROW(error_of("slow"), std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(target_));
  events_ = {};
  EXPECT_EQ(error_of("plain"), "");
  expect_complete();
  EXPECT_THAT(ranges().back(), HasSubstr("bytes=")) << "continued";
}

TEST_F(Download, StopsWhenItIsCancelled) {
  uint64_t received = 0;
  events_.on_progress = [&](uint64_t done, uint64_t, uint64_t) { received = done; };
  events_.is_cancelled = [&] { return received > 500'000; };
  const auto kind_of = [&](const std::string& mode) {
    try {
      download({hub_ + "/" + mode + "/model", target_, std::nullopt}, events_);
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::kInternal;
  };
  EXPECT_EQ(kind_of("stall"), ErrorKind::kStopped) << "while nothing arrives";
  EXPECT_EQ(std::filesystem::file_size(target_.string() + ".part"), 1'000'000u);
  // Before the first byte, between attempts, and while another process holds the file.
  events_.is_cancelled = [] { return true; };
  EXPECT_EQ(kind_of("plain"), ErrorKind::kStopped);
  const int other = open((target_.string() + ".part").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  bool has_waited = false;
  events_.on_wait = [&] { has_waited = true; };
  EXPECT_EQ(kind_of("plain"), ErrorKind::kStopped);
  EXPECT_TRUE(has_waited);
  close(other);
  events_ = {};
  EXPECT_EQ(error_of("plain"), "");
  expect_complete();
}

TEST_F(Download, IsUsedByTheProgramAndFoundTheNextTime) {
  write_file(folder_ / "talk.wav", "hello\n");
  const ChildResult first = run_child(program(), surroundings("redirect"));
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.out, "hello\n");
  EXPECT_THAT(first.err, HasSubstr("fetching model owner--talks from " + hub_ +
                                   "/redirect/owner/talks/resolve/main/ggml-talk.bin"));
  EXPECT_THAT(first.err, HasSubstr("nothing vouches for the files of repository owner/talks"));
  EXPECT_TRUE(read_file(folder_ / "models/owner--talks/ggml-talk.bin") == content_);
  const size_t requests = ranges().size();
  const ChildResult second = run_child(program(), surroundings("redirect"));
  EXPECT_EQ(second.out, "hello\n");
  EXPECT_EQ(second.err, "");
  EXPECT_EQ(ranges().size(), requests);
}

TEST_F(Download, ContinuesAfterTheProgramWasInterrupted) {
  write_file(folder_ / "talk.wav", "hello\n");
  const std::filesystem::path part = folder_ / "models/owner--talks/ggml-talk.bin.part";
  {
    Child child(program(), surroundings("stall"));
    for (int i = 0; i < 6000; ++i) {
      std::error_code error;
      if (std::filesystem::file_size(part, error) >= 1'000'000 && !error) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    child.send(SIGINT);
    EXPECT_EQ(child.wait().status, 128 + SIGINT);
  }
  EXPECT_EQ(std::filesystem::file_size(part), 1'000'000u);
  EXPECT_EQ(run_child(program(), surroundings("stall")).out, "hello\n");
  EXPECT_THAT(ranges(), ElementsAre("-", "bytes=1000000-"));
  EXPECT_TRUE(read_file(folder_ / "models/owner--talks/ggml-talk.bin") == content_);
  EXPECT_FALSE(std::filesystem::exists(part));
}

TEST_F(Download, HappensOnceForTwoPrograms) {
  write_file(folder_ / "talk.wav", "hello\n");
  Child one(program(), surroundings("slow"));
  Child two(program(), surroundings("slow"));
  const ChildResult first = one.wait(), second = two.wait();
  EXPECT_EQ(first.out, "hello\n") << first.err;
  EXPECT_EQ(second.out, "hello\n") << second.err;
  EXPECT_THAT(first.err + second.err, HasSubstr("another process is fetching"));
  EXPECT_THAT(ranges(), ElementsAre("-"));
  EXPECT_THAT(names_in(folder_ / "models/owner--talks"), ElementsAre("ggml-talk.bin"));
}

TEST_F(Download, WithAWrongDigestIsAModelError) {
  write_file(folder_ / "talk.wav", "hello\n");
  const ChildResult result =
      run_child({FAKE_TRANSCRIBE, "-q", "-m", "tiny", "talk.wav"}, surroundings("plain"));
  EXPECT_EQ(result.status, 4);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("bd577a113a864445d4c299885e0cb97d4ba92b5f"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
  EXPECT_THAT(names_in(folder_ / "models"), ElementsAre());
}

// A store over the server, in this process.
class DownloadIntoStore : public Download {
 protected:
  std::string error_of_model(const std::string& mode, const std::string& name) {
    setenv("HF_ENDPOINT", (hub_ + "/" + mode).c_str(), 1);
    ModelStoreOptions options{.folders = {folder_ / "models"}};
    options.on_unverified = [&](const std::string& model, const std::string& repository) {
      unverified_.push_back(model + " of " + repository);
    };
    std::string error;
    try {
      ModelStore(options).find(name, ModelKind::kTextEncoder);
    } catch (const Error& refused) {
      error = refused.what();
    }
    unsetenv("HF_ENDPOINT");
    return error;
  }

  std::vector<std::string> unverified_;
};

TEST_F(DownloadIntoStore, RefusesAChangedFileBesideTheWeightsOfAKnownModel) {
  const std::string right = find_known_model("all-minilm-l6-v2")->beside.front().digest.data();
  EXPECT_THAT(error_of_model("plain", "all-minilm-l6-v2"),
              testing::AllOf(HasSubstr("config.json"), HasSubstr(right.substr(0, 64))));
  EXPECT_THAT(names_in(folder_ / "models/all-minilm-l6-v2"), ElementsAre());
  EXPECT_THAT(unverified_, ElementsAre());
}

TEST_F(DownloadIntoStore, ReportsARepositoryWithoutDigests) {
  EXPECT_EQ(error_of_model("plain", "hf://owner/encoder"), "");
  EXPECT_THAT(unverified_, ElementsAre("owner--encoder of owner/encoder"));
  const std::vector<std::string> names = names_in(folder_ / "models/owner--encoder");
  EXPECT_THAT(names, testing::IsSupersetOf({"config.json", "model.safetensors"}));
  EXPECT_TRUE(read_file(folder_ / "models/owner--encoder/1_Pooling/config.json") == content_);
  EXPECT_EQ(error_of_model("dead", "hf://owner/encoder"), "");  // found the next time
}

// The file of the server has another digest than qwen3-0.6b: an installed model takes its place.
TEST_F(DownloadIntoStore, AnswersWithAnInstalledModelIfTheDefaultCannotBeFetched) {
  write_file(folder_ / "models/smollm2-135m.gguf", "weights");
  setenv("HF_ENDPOINT", (hub_ + "/plain").c_str(), 1);
  ModelStoreOptions options{.folders = {folder_ / "models"}, .memory_bytes = uint64_t{8} << 30};
  std::string fetched, said;
  options.on_fetch = [&](const std::string& name, auto&&...) { fetched = name; };
  options.on_substitute = [&](const std::string& name, const std::string& why) {
    said = name + ": " + why;
  };
  EXPECT_EQ(ModelStore(options).find("default", ModelKind::kLanguage),
            folder_ / "models/smollm2-135m.gguf");
  EXPECT_EQ(fetched, "qwen3-0.6b");
  EXPECT_THAT(said,
              testing::AllOf(testing::StartsWith("smollm2-135m: "),
                             HasSubstr(find_known_model("qwen3-0.6b")->weights.digest.data())));
  unsetenv("HF_ENDPOINT");
}

TEST_F(DownloadIntoStore, ReportsAKnownModelWithoutDigests) {
  EXPECT_EQ(error_of_model("plain", "gte-base"), "");
  EXPECT_EQ(error_of_model("plain", "e5-base-v2"), "");
  EXPECT_THAT(unverified_,
              ElementsAre("gte-base of thenlper/gte-base", "e5-base-v2 of intfloat/e5-base-v2"));
}

TEST_F(Download, IsNotTriedOffline) {
  write_file(folder_ / "talk.wav", "hello\n");
  const ChildResult result =
      run_child({FAKE_TRANSCRIBE, "--offline", "-m", "tiny", "talk.wav"}, surroundings("plain"));
  EXPECT_EQ(result.status, 4);
  EXPECT_THAT(result.err, HasSubstr("--offline"));
  EXPECT_EQ(ranges().size(), 0u);
}

}  // namespace
}  // namespace vesper::download_test
