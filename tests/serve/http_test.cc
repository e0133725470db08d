// The HTTP server: what it accepts, what it refuses, and what a client cannot delay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "serve/http/http_server.h"
#include "serve/http/web_socket.h"
#include "tests/serve/loopback_client.h"

namespace vesper::http_test {
namespace {

using std::chrono::milliseconds;
using testing::EndsWith;
using testing::HasSubstr;

constexpr uint64_t kMostBody = 1000;

// Answers with the method, the path and the body.
void echo(HttpExchange& exchange) {
  const std::string body = exchange.read_body(kMostBody);
  exchange.respond(200, "text/plain", exchange.method() + " " + exchange.path() + " " + body);
}

void refuse(HttpExchange& exchange, const HttpError& error) {
  exchange.respond(error.status(), "text/plain", error.what());
}

class RunningServer {
 public:
  explicit RunningServer(HttpLimits limits = {}, std::function<void(HttpExchange&)> handle = echo,
                         milliseconds grace = milliseconds(5000))
      : server_("127.0.0.1", 0, limits, {std::move(handle), refuse}),
        thread_([this, grace] { server_.run(grace); }) {}
  ~RunningServer() { stop(); }
  void stop() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }
  HttpServer& server() { return server_; }
  uint16_t port() const { return server_.port(); }

 private:
  HttpServer server_;
  std::thread thread_;
};

HttpReply reply_to(RunningServer& server, std::string_view bytes) {
  LoopbackClient client(server.port());
  client.send(bytes);
  return client.read_reply();
}

TEST(HttpServer, AnswersRequestsOfOneConnectionInOrder) {
  RunningServer server;
  LoopbackClient client(server.port());
  client.send(
      "GET /a%20b?c=d HTTP/1.1\r\nHost: x\r\n\r\nPOST /e HTTP/1.1\r\nHost: x\r\nContent-Length: "
      "2\r\n\r\nhi");
  EXPECT_EQ(client.read_reply().body, "GET /a b ");
  EXPECT_EQ(client.read_reply().body, "POST /e hi");
  client.send(
      "POST /f HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_reply().body, "POST /f abc");
}

TEST(HttpServer, AsksForABodyThatTheClientHoldsBack) {
  RunningServer server({.idle = milliseconds(200)});
  LoopbackClient client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  client.send("hi");
  EXPECT_THAT(client.read_rest().substr(0, 25), "HTTP/1.1 100 Continue\r\n\r\n");
}

TEST(HttpServer, RefusesWhatIsTooLargeOrNoHttp) {
  RunningServer server({.max_header_bytes = 2000, .idle = milliseconds(200)});
  const std::string begin = "POST / HTTP/1.1\r\nHost: x\r\n";
  EXPECT_EQ(reply_to(server, begin + "Content-Length: 1001\r\n\r\n").status, 413);
  EXPECT_EQ(reply_to(server, begin + "Transfer-Encoding: chunked\r\n\r\n3E9\r\n" +
                                 std::string(1001, 'x') + "\r\n0\r\n\r\n")
                .status,
            413);
  EXPECT_EQ(reply_to(server, begin + "Long: " + std::string(3000, 'x') + "\r\n\r\n").status, 431);
  EXPECT_EQ(reply_to(server, "\x16\x03\x01\x02 a TLS client\r\n\r\n").status, 400);
  EXPECT_EQ(reply_to(server, begin + "Content-Length: -1\r\n\r\n").status, 400);
  EXPECT_EQ(reply_to(server, "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n").status, 400);
  EXPECT_EQ(reply_to(server, "GET nowhere HTTP/1.1\r\nHost: x\r\n\r\n").status, 400);
  EXPECT_EQ(reply_to(server, begin + "Expect: more\r\nContent-Length: 1\r\n\r\nx").status, 417);
  // Smuggling: two lengths, or a length and chunks.
  EXPECT_EQ(reply_to(server, begin + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy").status,
            400);
  EXPECT_EQ(
      reply_to(server, begin + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
          .status,
      400);
}

TEST(HttpServer, EndsSlowRequests) {
  RunningServer server(
      {.idle = milliseconds(100), .header = milliseconds(300), .stall = milliseconds(200)});
  EXPECT_EQ(reply_to(server, "GET / HT").status, 408);
  EXPECT_EQ(reply_to(server, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhal").status,
            408);
  EXPECT_EQ(reply_to(server, "").status, 0);  // idle
}

TEST(HttpServer, RefusesConnectionsBeyondItsLimit) {
  RunningServer server({.n_connections = 2});
  LoopbackClient first(server.port()), second(server.port());
  first.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  second.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(first.read_reply().status, 200);
  EXPECT_EQ(second.read_reply().status, 200);
  const HttpReply third = reply_to(server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(third.status, 503);
  EXPECT_EQ(third.headers.at("retry-after"), "1");
}

TEST(HttpServer, AReaderThatTakesNothingIsDisconnected) {
  std::atomic<bool> was_lost = false;
  RunningServer server({.stall = milliseconds(200)}, [&](HttpExchange& exchange) {
    exchange.begin_events();
    try {
      for (;;) exchange.send_event(std::string(100000, 'x'));
    } catch (const ConnectionLost&) {
      was_lost = true;
      throw;
    }
  });
  LoopbackClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  for (int i = 0; i < 1000 && !was_lost; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(was_lost);
}

TEST(HttpServer, SeesAClientThatLeaves) {
  std::atomic<bool> has_left = false, has_begun = false;
  RunningServer server({}, [&](HttpExchange& exchange) {
    has_begun = true;
    for (int i = 0; i < 1000 && !has_left; ++i) {
      std::this_thread::sleep_for(milliseconds(5));
      has_left = exchange.client_has_left();
    }
    throw ConnectionLost();
  });
  LoopbackClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  while (!has_begun) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_FALSE(has_left);
  client.close();
  for (int i = 0; i < 1000 && !has_left; ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(has_left);
}

TEST(HttpServer, AStopLetsRunningRequestsEnd) {
  std::atomic<bool> has_begun = false;
  RunningServer server({}, [&](HttpExchange& exchange) {
    has_begun = true;
    std::this_thread::sleep_for(milliseconds(300));
    exchange.respond(200, "text/plain", "done");
  });
  LoopbackClient client(server.port()), idle(server.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  while (!has_begun) std::this_thread::sleep_for(milliseconds(1));
  server.stop();
  const HttpReply reply = client.read_reply();
  EXPECT_EQ(reply.body, "done");
  EXPECT_EQ(reply.headers.at("connection"), "close");
  EXPECT_EQ(idle.read_rest(), "");
}

TEST(HttpServer, AStopWithoutGraceEndsWhatRuns) {
  std::atomic<bool> has_begun = false;
  RunningServer server(
      {},
      [&](HttpExchange& exchange) {
        exchange.begin_events();
        for (;;) {
          exchange.send_event("more");
          has_begun = true;
          std::this_thread::sleep_for(milliseconds(5));
        }
      },
      milliseconds(0));
  LoopbackClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  while (!has_begun) std::this_thread::sleep_for(milliseconds(1));
  server.stop();
  EXPECT_THAT(client.read_rest(), HasSubstr("data: more\n\n"));
}

TEST(WebSocket, NothingFollowsTheLastMessage) {
  RunningServer server({}, [](HttpExchange& exchange) {
    WebSocket socket(exchange, "", {.gone = milliseconds(200)});
    // The other two come while the first one is being written.
    socket.send("one");
    socket.send_last("last", WebSocketClose::kPolicyViolation);
    socket.send("late");
    socket.run(
        {.on_message = [](std::string_view, bool) {}, .on_end = [](bool) {}, .is_ending = {}});
  });
  LoopbackClient client(server.port());
  client.send(std::string("GET / HTTP/1.1\r\nHost: x\r\n") + kWebSocketHeaders +
              "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n");
  // Frames of RFC 6455, section 5.2: two texts and a close with code 1008.
  EXPECT_THAT(client.read_rest(), EndsWith("\x81\x03one\x81\x04last\x88\x02\x03\xf0"));
}

}  // namespace
}  // namespace vesper::http_test
