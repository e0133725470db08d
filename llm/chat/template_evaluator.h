// Runs a parsed template over variables. Every step, and every character and item that is made, is
// taken from one budget, which limits time and memory for any template.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/chat/template_syntax.h"
#include "llm/chat/template_value.h"

namespace vesper::chat {

// The variables of one region of a template: the whole, an iteration of a loop, a macro call.
struct Scope {
  std::unordered_map<std::string, Value> variables;
  Scope* around = nullptr;
  bool is_needed = false;  // by a macro defined in it, which may outlive it
};

class Evaluator {
 public:
  // `now`: the time for strftime_now().
  explicit Evaluator(std::time_t now);
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;
  ~Evaluator();

  // A variable of the whole template. Large ones enlarge the budget.
  void set_global(const std::string& name, Value value);
  // Throws Error(kModel) naming the line, or Error(kInput) if the template rejects the conversation
  // (raise_exception).
  std::string run(const Block& block);

  // For functions, filters and tests.
  void spend(size_t n);  // takes n steps, characters or items from the budget
  // The same in advance, for n items of `each` characters.
  void spend(size_t n, size_t each);
  // text_of() and equality, with their cost.
  std::string text(const Value& value) {
    spend(value.weight());
    return text_of(value);
  }
  bool equal(const Value& a, const Value& b) {
    spend(std::min(a.weight(), b.weight()));
    return a.equals(b);
  }
  std::time_t now() const { return now_; }
  Value call(const Value& callee, const Arguments& arguments);
  Value member(const Value& of, const std::string& name);
  Value subscript(const Value& of, const Value& key);
  // Members by a path such as "function.name" or "0".
  Value member_by_path(const Value& of, const Value& path);
  // The items that a loop iterates over: items, characters, keys.
  std::vector<Value> items_of(const Value& value);
  Value apply_filter(const std::string& name, const Value& input, const Arguments& arguments);
  bool apply_test(const std::string& name, const Value& of, const Arguments& arguments);
  Value binary(const std::string& sign, const Value& left, const Value& right);
  bool compare(const std::string& sign, const Value& left, const Value& right);

 private:
  enum class Flow { kOn, kBreak, kContinue };
  class Deeper;
  class NewScope;

  Flow run_block(const Block& block);
  Flow run_statement(const Statement& statement);
  Flow run_for(const Statement& statement);
  void run_set(const Statement& statement);
  void assign(const Target& target, Value value);
  Value macro_of(const Statement& statement);
  std::string text_of_block(const Block& block);
  void write(std::string_view text);

  Value evaluate(const Expression& expression);
  Value evaluate_at_line(const Expression& expression);
  Value slice(const Expression& expression);
  Arguments arguments_of(const Expression& call);
  Value filter(const Expression& expression, const Value& input);
  Value name(const std::string& name) const;

  std::time_t now_;
  Scope globals_;
  Scope* scope_ = nullptr;
  std::vector<std::unique_ptr<Scope>> kept_;  // that macros still need
  std::string* out_ = nullptr;
  size_t n_left_;  // rest of the budget
  uint32_t depth_ = 0;
};

// The arguments of a call, in the order of `parameters`; missing ones are absent. Throws
// Error(kModel) for others, and if one of the first `n_required` is missing.
std::vector<std::optional<Value>> bind(const std::string& function, const Arguments& arguments,
                                       std::initializer_list<const char*> parameters,
                                       size_t n_required = 0);

// An integer; otherwise an error that names `what` and the value's type.
int64_t checked_integer(const Value& value, const std::string& what);
// A string; empty for an undefined value, as in Jinja's filters.
std::string checked_text(const Value& value, const std::string& what);

// By name, or null.
using Filter = Value (*)(Evaluator&, const Value& input, const Arguments&);
Filter find_filter(std::string_view name);

// Whether an optional argument is given and true.
inline bool is_true(const std::optional<Value>& value) { return value && value->truth(); }
using Test = bool (*)(Evaluator&, const Value& of, const Arguments&);
Test find_test(std::string_view name);
// The method `name` bound to a value; undefined if its type has none.
Value method_of(const Value& value, const std::string& name);
// range(), namespace(), raise_exception() and others.
void add_functions(Evaluator& evaluator);

// Python's int() and float() of a string; absent if it is no number.
std::optional<int64_t> parse_int(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);
std::string stripped(std::string_view text, std::optional<std::string_view> characters, bool left,
                     bool right);
std::string upper_case(std::string_view text);
std::string lower_case(std::string_view text);
// First character in upper case, the others in lower case.
std::string capitalized(std::string_view text);
// The first character of each word in upper case, the others in lower case; `separates` tells
// which characters lie between words.
std::string title_case(std::string_view text, bool (*separates)(char32_t));
std::string replaced(Evaluator& evaluator, std::string_view text, std::string_view from,
                     std::string_view to, int64_t most);
// Python's "format % values".
std::string percent_format(Evaluator& evaluator, std::string_view format, const Value& values);

}  // namespace vesper::chat
