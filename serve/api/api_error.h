// Errors in the shape of OpenAI's API: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

namespace vesper {

// A request that is refused.
class ApiError : public std::runtime_error {
 public:
  // `param`: the field of the request; empty: none. `code`: a word for programs; empty: none.
  ApiError(unsigned status, const std::string& message, std::string param = "",
           std::string code = "")
      : std::runtime_error(message),
        status_(status),
        param_(std::move(param)),
        code_(std::move(code)) {}

  unsigned status() const { return status_; }  // of HTTP
  const std::string& param() const { return param_; }
  const std::string& code() const { return code_; }

 private:
  unsigned status_;
  std::string param_, code_;
};

// A wrong field: 400, "FIELD: expected ..., found ...".
[[noreturn]] void throw_field(const std::string& field, const std::string& expected,
                              const std::string& found);

// Any exception as a refusal: vesper::Error by its kind, HttpError by its status, others as 500.
ApiError as_api_error(const std::exception& error);
ApiError as_api_error(const std::exception_ptr& error);

// The body of the response.
std::string error_body(const ApiError& error);

}  // namespace vesper
