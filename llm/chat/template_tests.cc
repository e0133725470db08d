// Tests: the expressions after `is` in a template.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "llm/chat/template_evaluator.h"

namespace vesper::chat {
namespace {

// The argument of a test.
Value operand(const Arguments& arguments) { return *bind("a test", arguments, {"other"}, 1)[0]; }

template <const char* sign>
bool compares(Evaluator& evaluator, const Value& of, const Arguments& arguments) {
  return evaluator.compare(sign, of, operand(arguments));
}

constexpr char kEqual[] = "==", kUnequal[] = "!=", kLess[] = "<", kAtMost[] = "<=", kMore[] = ">",
               kAtLeast[] = ">=", kIn[] = "in";

bool is_same(const Value& a, const Value& b) {
  // Python's `is` for the single objects that templates can make.
  return std::string_view(a.type_name()) == b.type_name() && a.equals(b);
}

bool rest_is(const Value& of, int64_t divisor, int64_t rest) {
  const int64_t number = checked_integer(of, "a test of divisibility");
  if (divisor == 0) fail("expected a divisor that is not 0");
  return divisor == -1 ? rest == 0 : (number % divisor + divisor) % divisor == rest;
}

const std::unordered_map<std::string_view, Test>& tests() {
  using E = Evaluator;
  using V = const Value;
  using A = const Arguments;
  static const std::unordered_map<std::string_view, Test> table = {
      {"defined", [](E&, V& of, A&) { return !of.is_undefined(); }},
      {"undefined", [](E&, V& of, A&) { return of.is_undefined(); }},
      {"none", [](E&, V& of, A&) { return of.is_none(); }},
      {"boolean", [](E&, V& of, A&) { return of.is_bool(); }},
      {"true", [](E&, V& of, A&) { return of.is_bool() && of.as_bool(); }},
      {"false", [](E&, V& of, A&) { return of.is_bool() && !of.as_bool(); }},
      {"integer", [](E&, V& of, A&) { return of.is_int(); }},
      {"float", [](E&, V& of, A&) { return of.is_float(); }},
      {"number", [](E&, V& of, A&) { return of.is_number(); }},
      {"string", [](E&, V& of, A&) { return of.is_string(); }},
      {"mapping", [](E&, V& of, A&) { return of.is_dict() && !of.as_dict().is_namespace; }},
      {"sequence",
       [](E&, V& of, A&) {
         return of.is_string() || of.is_list() || of.is_undefined() ||
                (of.is_dict() && !of.as_dict().is_namespace);
       }},
      {"iterable",
       [](E&, V& of, A&) {
         return of.is_string() || of.is_list() || of.is_undefined() || of.is_loop() ||
                (of.is_dict() && !of.as_dict().is_namespace);
       }},
      // Undefined values of Jinja are callable.
      {"callable", [](E&, V& of, A&) { return of.is_callable() || of.is_undefined(); }},
      {"escaped", [](E&, V&, A&) { return false; }},
      {"lower",
       [](E& e, V& of, A&) {
         const std::string text = e.text(of);
         return lower_case(text) == text && upper_case(text) != text;
       }},
      {"upper",
       [](E& e, V& of, A&) {
         const std::string text = e.text(of);
         return upper_case(text) == text && lower_case(text) != text;
       }},
      {"even", [](E&, V& of, A&) { return rest_is(of, 2, 0); }},
      {"odd", [](E&, V& of, A&) { return rest_is(of, 2, 1); }},
      {"divisibleby",
       [](E&, V& of, A& a) { return rest_is(of, checked_integer(operand(a), "a divisor"), 0); }},
      {"sameas",
       [](E& e, V& of, A& a) {
         e.spend(of.weight());
         return is_same(of, operand(a));
       }},
      {"filter", [](E&, V& of, A&) { return of.is_string() && find_filter(of.as_string()); }},
      {"test", [](E&, V& of, A&) { return of.is_string() && find_test(of.as_string()); }},
      {"eq", compares<kEqual>},
      {"equalto", compares<kEqual>},
      {"==", compares<kEqual>},
      {"ne", compares<kUnequal>},
      {"!=", compares<kUnequal>},
      {"lt", compares<kLess>},
      {"lessthan", compares<kLess>},
      {"<", compares<kLess>},
      {"le", compares<kAtMost>},
      {"<=", compares<kAtMost>},
      {"gt", compares<kMore>},
      {"greaterthan", compares<kMore>},
      {">", compares<kMore>},
      {"ge", compares<kAtLeast>},
      {">=", compares<kAtLeast>},
      {"in", compares<kIn>},
  };
  return table;
}

}  // namespace

Test find_test(std::string_view name) {
  const auto found = tests().find(name);
  return found == tests().end() ? nullptr : found->second;
}

}  // namespace vesper::chat
