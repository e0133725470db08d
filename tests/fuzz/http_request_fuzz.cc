// Requests as bytes of a connection: headers, bodies with lengths and in chunks, uploads, JSON.
#include <sys/socket.h>

#include <atomic>

#include "serve/api/request_fields.h"
#include "serve/http/http_exchange_impl.h"
#include "serve/http/multipart.h"
#include "tests/fuzz/fuzz.h"

namespace vesper::fuzz {

std::vector<std::string> seeds() {
  const std::string post = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:8080\r\n";
  return {
      "GET /v1/models?a=%20 HTTP/1.1\r\nHost: [::1]\r\nOrigin: http://a\r\n\r\n",
      post + "Content-Length: 28\r\n\r\n{\"model\": \"a\", \"n\": [1, {}]}",
      post + "Transfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n2;a=b\r\n2]\r\n0\r\nT: x\r\n\r\n",
      post + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n[]GET / HTTP/1.0\r\n\r\n",
      post +
          "Content-Type: multipart/form-data; boundary=\"c\"\r\nContent-Length: 97\r\n\r\n"
          "--c\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n"
          "--c\r\n\r\n--c--"};
}

void use_body(HttpExchange& exchange) {
  constexpr uint64_t kMostBytes = 8192;
  const std::string_view type = exchange.header("Content-Type");
  if (type.starts_with("multipart/")) {
    MultipartParser parser(type, {.on_part = [](const MultipartPart&) {},
                                  .on_data = [](std::string_view) {},
                                  .on_part_end = [] {}});
    exchange.read_body(kMostBytes, [&](std::string_view bytes) { parser.push(bytes); });
    parser.finish();
    return;
  }
  const Json body = parse_json(exchange.read_body(kMostBytes));
  RequestFields fields(body);
  fields.text("model");
  fields.integer("n", 1, 16);
  fields.number("temperature", 0, 2);
  fields.check_all_used();
}

void use(Bytes input) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  const UniqueFd client(ends[0]);
  SocketStream server{UniqueFd(ends[1])};
  const std::string_view text = text_of(input);
  // All of it fits into the buffers of the sockets.
  do_all(text.size(), [&](size_t done, size_t left) {
    return ::send(client.get(), text.data() + done, left, MSG_NOSIGNAL | MSG_DONTWAIT);
  });
  ::shutdown(client.get(), SHUT_WR);
  server.set_limits(std::chrono::milliseconds(0));
  const std::atomic<int> n_stops = 0;
  boost::beast::flat_buffer buffer;
  try {
    for (;;) {
      HttpExchange::Impl impl(server, buffer, "client", n_stops);
      HttpExchange exchange(impl);
      if (!impl.read_header(4096)) return;
      try {
        use_body(exchange);
        exchange.respond(200, "application/json", "{}");
      } catch (const ApiError& error) {
        exchange.respond(error.status(), "application/json", error_body(error));
      }
      if (!impl.keeps_alive()) return;
    }
  } catch (const HttpError&) {
  } catch (const ConnectionLost&) {
  }
}

}  // namespace vesper::fuzz
