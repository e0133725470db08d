// Keys, quotas, and the checks of Host and Origin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error/error.h"
#include "serve/access/api_keys.h"
#include "serve/access/client_limits.h"
#include "serve/access/host_check.h"
#include "tests/child_process.h"

namespace vesper::access_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// `printf %s sk-one | sha256sum`, and of sk-two.
constexpr const char* kOne = "456f1612bd25c6c8455039437bf441f43aa3b7d1c0b0047c712d5036dfebef0d";
constexpr const char* kTwo = "5e31278545505db1d65bf1dd696e8eaa1edfb00ba455e21c83200c04ef643c91";

std::string error_of(const std::string& keys) {
  const TemporaryFolder folder;
  write_file(folder.path() / "keys", keys);
  try {
    ApiKeys{folder.path() / "keys"};
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ApiKeys, NameTheClientOfAKey) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "keys";
  write_file(file,
             "# clients\n\nann " + std::string(kOne) + " at-once=2 per-minute=60\nbob " + kTwo);
  ApiKeys keys(file);
  EXPECT_EQ(keys.size(), 2u);
  const auto ann = keys.find("sk-one");
  ASSERT_TRUE(ann);
  EXPECT_EQ(ann->name, "ann");
  EXPECT_EQ(ann->quota.n_running, 2u);
  EXPECT_EQ(ann->quota.per_minute, 60u);
  for (const char* wrong : {"", "sk-on", "sk-one ", kOne}) EXPECT_FALSE(keys.find(wrong)) << wrong;

  write_file(file, "carl " + std::string(kOne));
  keys.reload();
  EXPECT_EQ(keys.find("sk-one")->name, "carl");
  write_file(file, "carl");
  EXPECT_THROW(keys.reload(), Error);
  EXPECT_EQ(keys.find("sk-one")->name, "carl");
}

TEST(ApiKeys, NameTheLineThatIsWrongButNoSecret) {
  EXPECT_THAT(error_of("# nothing\n"), HasSubstr("expected a key"));
  EXPECT_THAT(error_of("ann sk-secret"), HasSubstr("keys:1: expected a name and a SHA-256"));
  EXPECT_THAT(error_of("ann sk-secret"), Not(HasSubstr("secret")));
  EXPECT_THAT(error_of("\nann " + std::string(kOne) + "0"), HasSubstr("keys:2"));
  EXPECT_THAT(error_of("ann " + std::string(kOne) + " at-once=0"),
              HasSubstr("found \"at-once=0\""));
  EXPECT_THAT(error_of("ann " + std::string(kOne) + " hourly=1"), HasSubstr("found \"hourly=1\""));
  EXPECT_THROW(ApiKeys("/no/such/file"), Error);
}

TEST(ClientLimits, HoldAClientToItsQuota) {
  ClientLimits limits;
  const Client client{"ann", {.n_running = 1, .per_minute = 2}};
  const ClientLimits::Clock::time_point start{};
  std::chrono::seconds wait{0};
  {
    const auto first = limits.begin(client, start, wait);
    ASSERT_TRUE(first);
    EXPECT_FALSE(limits.begin(client, start, wait));
    EXPECT_EQ(wait.count(), 1);
    EXPECT_TRUE(limits.begin({"bob"}, start, wait));
  }
  EXPECT_TRUE(limits.begin(client, start + std::chrono::seconds(10), wait));
  EXPECT_FALSE(limits.begin(client, start + std::chrono::seconds(20), wait));
  EXPECT_EQ(wait.count(), 40);
  EXPECT_TRUE(limits.begin(client, start + std::chrono::seconds(60), wait));
}

TEST(HostCheck, AllowsAddressesLocalhostAndOwnNames) {
  const HostCheck check("vesper.lan", {"Proxy.example.org"}, {});
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "localhost", "LocalHost:1", "app.localhost",
        "vesper.lan:8080", "proxy.example.org.", "192.168.0.7"}) {
    EXPECT_TRUE(check.allows_host(host)) << host;
  }
  for (const char* host :
       {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[", "[x"}) {
    EXPECT_FALSE(check.allows_host(host)) << host;
  }
  EXPECT_TRUE(HostCheck("localhost", {"*"}, {}).allows_host("evil.example"));
}

TEST(HostCheck, AllowsTheOwnPageAndListedSites) {
  const HostCheck check("localhost", {}, {"https://chat.example.org"});
  EXPECT_TRUE(check.allows_origin("http://localhost:8080", "localhost:8080"));
  EXPECT_TRUE(check.allows_origin("https://Chat.example.org", "localhost:8080"));
  for (const char* origin : {"null", "http://localhost:9090", "https://evil.example",
                             "http://chat.example.org", "http://localhost:8080.evil.example"}) {
    EXPECT_FALSE(check.allows_origin(origin, "localhost:8080")) << origin;
  }
  EXPECT_TRUE(check.is_listed_origin("https://chat.example.org"));
  EXPECT_FALSE(check.is_listed_origin("http://localhost:8080"));
}

}  // namespace
}  // namespace vesper::access_test
