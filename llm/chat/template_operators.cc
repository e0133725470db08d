// Operators, members and subscripts of each type of value.
#include <algorithm>
#include <cmath>

#include "llm/chat/template_evaluator.h"

namespace vesper::chat {
namespace {

constexpr size_t kItemCost = 4;

[[noreturn]] void fail_operands(const std::string& sign, const Value& left, const Value& right) {
  if (left.is_undefined()) fail(left.undefined_message());
  if (right.is_undefined()) fail(right.undefined_message());
  fail("expected operands that " + sign + " is for, found " + left.type_name() + " and " +
       right.type_name());
}

[[noreturn]] void fail_overflow() { fail("expected numbers of at most 64 bits"); }

int64_t floor_divided(int64_t a, int64_t b) {
  if (b == 0) fail("expected a divisor that is not 0");
  if (b == -1) {
    if (a == INT64_MIN) fail_overflow();
    return -a;
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Value integer_result(const std::string& sign, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  if (sign == "+") {
    overflows = __builtin_add_overflow(a, b, &result);
  } else if (sign == "-") {
    overflows = __builtin_sub_overflow(a, b, &result);
  } else if (sign == "*") {
    overflows = __builtin_mul_overflow(a, b, &result);
  } else if (sign == "//") {
    result = floor_divided(a, b);
  } else if (sign == "%") {
    const int64_t quotient = floor_divided(a, b);
    result = static_cast<int64_t>(static_cast<uint64_t>(a) -
                                  static_cast<uint64_t>(quotient) * static_cast<uint64_t>(b));
  } else if (sign == "/") {
    if (b == 0) fail("expected a divisor that is not 0");
    return static_cast<double>(a) / static_cast<double>(b);
  } else {  // **
    if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
    result = 1;
    if (a == 0 || a == 1) return b == 0 ? int64_t{1} : a;
    if (a == -1) return b % 2 == 0 ? int64_t{1} : int64_t{-1};
    for (int64_t i = 0; i < b && !overflows; ++i) {
      overflows = __builtin_mul_overflow(result, a, &result);
    }
  }
  if (overflows) fail_overflow();
  return result;
}

Value float_result(const std::string& sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") return std::pow(a, b);
  if (b == 0) fail("expected a divisor that is not 0");
  if (sign == "/") return a / b;
  if (sign == "//") return std::floor(a / b);
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

bool is_text_or_list(const Value& value) { return value.is_string() || value.is_list(); }

// -1, 0 or 1; in Python's order.
int order(const std::string& sign, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (!left.is_float() && !right.is_float()) {
      return left.as_int() < right.as_int() ? -1 : left.as_int() > right.as_int() ? 1 : 0;
    }
    return left.as_double() < right.as_double() ? -1 : left.as_double() > right.as_double() ? 1 : 0;
  }
  if (left.is_string() && right.is_string()) {
    // UTF-8 sorts like its code points.
    const int result = left.as_string().compare(right.as_string());
    return result < 0 ? -1 : result > 0 ? 1 : 0;
  }
  if (left.is_list() && right.is_list()) {
    const auto &a = left.items(), &b = right.items();
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!a[i].equals(b[i])) return order(sign, a[i], b[i]);
    }
    return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  }
  fail_operands(sign, left, right);
}

// A key for a message.
std::string shown(const Value& key) {
  return key.weight() > 100 ? std::string("of type ") + key.type_name() : repr_of(key);
}

size_t size_of(const Value& value) {
  if (value.is_string()) return value.as_string().size();
  if (value.is_list()) return value.items().size();
  return value.is_dict() ? value.as_dict().items.size() : 0;
}

Value repeated(Evaluator& evaluator, const Value& of, int64_t times) {
  const auto n = static_cast<size_t>(std::max<int64_t>(times, 0));
  evaluator.spend(n, of.is_string() ? size_of(of) : kItemCost * size_of(of));
  if (size_of(of) == 0 || n == 0) {
    if (of.is_string()) return "";
    return List{{}, of.as_list().is_tuple};
  }
  if (of.is_string()) {
    std::string text;
    text.reserve(n * of.as_string().size());
    for (size_t i = 0; i < n; ++i) text += of.as_string();
    return text;
  }
  List list;
  list.is_tuple = of.as_list().is_tuple;
  for (size_t i = 0; i < n; ++i) {
    list.items.insert(list.items.end(), of.items().begin(), of.items().end());
  }
  return list;
}

bool contains(Evaluator& evaluator, const Value& whole, const Value& part) {
  evaluator.spend(whole.weight());
  if (whole.is_string()) {
    if (!part.is_string()) fail_operands("in", part, whole);
    return whole.as_string().find(part.as_string()) != std::string::npos;
  }
  if (whole.is_dict() && !whole.as_dict().is_namespace) {
    return find_member(whole.as_dict(), part) != nullptr;
  }
  if (whole.is_list()) {
    return std::any_of(whole.items().begin(), whole.items().end(),
                       [&](const Value& item) { return item.equals(part); });
  }
  if (whole.is_undefined()) return false;
  fail_operands("in", part, whole);
}

Value loop_member(const LoopTurn& turn, const std::string& name) {
  const auto n = static_cast<int64_t>(turn.items->items.size());
  const auto at = static_cast<int64_t>(turn.index);
  if (name == "index") return at + 1;
  if (name == "index0") return at;
  if (name == "revindex") return n - at;
  if (name == "revindex0") return n - at - 1;
  if (name == "first") return at == 0;
  if (name == "last") return at + 1 == n;
  if (name == "length") return n;
  if (name == "depth") return int64_t{1};  // only recursive loops have another depth
  if (name == "depth0") return int64_t{0};
  if (name == "previtem") {
    return at == 0 ? Value::undefined("there is no previous item")
                   : turn.items->items[turn.index - 1];
  }
  if (name == "nextitem") {
    return at + 1 == n ? Value::undefined("there is no next item")
                       : turn.items->items[turn.index + 1];
  }
  if (name == "cycle") {
    return Callable{"cycle", [index = turn.index](Evaluator&, const Arguments& arguments) -> Value {
                      const auto& values = arguments.positional;
                      if (values.empty()) fail("expected values for loop.cycle()");
                      return values[index % values.size()];
                    }};
  }
  if (name == "changed") {
    return Callable{
        "changed", [seen = turn.seen](Evaluator& evaluator, const Arguments& arguments) -> Value {
          evaluator.spend(arguments.positional.size());
          const bool same = std::equal(
              seen->begin(), seen->end(), arguments.positional.begin(), arguments.positional.end(),
              [&](const Value& a, const Value& b) { return evaluator.equal(a, b); });
          if (same && !seen->empty()) return false;
          for (const Value& value : arguments.positional) {
            if (value.holds_namespace()) fail("expected no namespace in loop.changed()");
          }
          *seen = arguments.positional;
          return true;
        }};
  }
  return Value::undefined("'loop' has no attribute '" + name + "'");
}

}  // namespace

Value Evaluator::binary(const std::string& sign, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    return left.is_float() || right.is_float()
               ? float_result(sign, left.as_double(), right.as_double())
               : integer_result(sign, left.as_int(), right.as_int());
  }
  if (sign == "+" && left.is_string() && right.is_string()) {
    spend(left.as_string().size() + right.as_string().size());
    return left.as_string() + right.as_string();
  }
  if (sign == "+" && left.is_list() && right.is_list() &&
      left.as_list().is_tuple == right.as_list().is_tuple) {
    spend(left.items().size() + right.items().size(), kItemCost);
    List list;
    list.is_tuple = left.as_list().is_tuple;
    list.items = left.items();
    list.items.insert(list.items.end(), right.items().begin(), right.items().end());
    return list;
  }
  if (sign == "*" && is_text_or_list(left) && right.is_number() && !right.is_float()) {
    return repeated(*this, left, right.as_int());
  }
  if (sign == "*" && is_text_or_list(right) && left.is_number() && !left.is_float()) {
    return repeated(*this, right, left.as_int());
  }
  if (sign == "%" && left.is_string()) return percent_format(*this, left.as_string(), right);
  fail_operands(sign, left, right);
}

bool Evaluator::compare(const std::string& sign, const Value& left, const Value& right) {
  spend(std::min(left.weight(), right.weight()));
  if (sign == "==") return left.equals(right);
  if (sign == "!=") return !left.equals(right);
  if (sign == "in") return contains(*this, right, left);
  if (sign == "not in") return !contains(*this, right, left);
  if (left.is_number() && right.is_number() &&
      (std::isnan(left.as_double()) || std::isnan(right.as_double()))) {
    return false;
  }
  const int result = order(sign, left, right);
  if (sign == "<") return result < 0;
  if (sign == ">") return result > 0;
  return sign == "<=" ? result <= 0 : result >= 0;
}

Value Evaluator::member(const Value& of, const std::string& name) {
  if (of.is_undefined()) fail(of.undefined_message());
  if (of.is_loop()) return loop_member(of.as_loop(), name);
  if (!of.is_dict() || !of.as_dict().is_namespace) {
    Value method = method_of(of, name);
    if (!method.is_undefined()) return method;
  }
  if (of.is_dict()) {
    spend(of.as_dict().items.size() / 8);
    if (const Value* found = find_member(of.as_dict(), name)) return *found;
  }
  return Value::undefined("'" + std::string(of.type_name()) + "' has no attribute '" + name + "'");
}

Value Evaluator::subscript(const Value& of, const Value& key) {
  if (of.is_undefined()) fail(of.undefined_message());
  if (of.is_dict() && !of.as_dict().is_namespace) {
    spend(of.as_dict().items.size() / 8);
    if (const Value* found = find_member(of.as_dict(), key)) return *found;
    return Value::undefined("a dict has no element " + shown(key));
  }
  if ((of.is_list() || of.is_string()) && key.is_number() && !key.is_float()) {
    int64_t at = key.as_int();
    const auto n =
        static_cast<int64_t>(of.is_list() ? of.items().size() : count_characters(of.as_string()));
    if (at < 0) at += n;
    if (at < 0 || at >= n) {
      return Value::undefined(std::string(of.type_name()) + " has no element " + shown(key));
    }
    if (of.is_list()) return of.items()[static_cast<size_t>(at)];
    spend(of.as_string().size());
    return characters_of(of.as_string())[static_cast<size_t>(at)];
  }
  if (key.is_string()) return member(of, key.as_string());
  return Value::undefined(std::string(of.type_name()) + " has no element " + shown(key));
}

Value Evaluator::member_by_path(const Value& of, const Value& path) {
  if (!path.is_string()) return subscript(of, path);
  Value value = of;
  std::string_view rest = path.as_string();
  for (bool more = true; more;) {
    const size_t dot = rest.find('.');
    more = dot != std::string_view::npos;
    const std::string name(rest.substr(0, dot));
    if (more) rest.remove_prefix(dot + 1);
    spend(1);
    const auto index = parse_int(name, 10);
    value = index             ? subscript(value, *index)
            : value.is_dict() ? subscript(value, name)
                              : member(value, name);
  }
  return value;
}

std::vector<Value> Evaluator::items_of(const Value& value) {
  std::vector<Value> items;
  if (value.is_list()) {
    items = value.items();
  } else if (value.is_string()) {
    spend(value.as_string().size(), kItemCost);
    for (const std::string_view character : characters_of(value.as_string())) {
      items.emplace_back(character);
    }
  } else if (value.is_dict() && !value.as_dict().is_namespace) {
    for (const auto& [key, member] : value.as_dict().items) items.push_back(key);
  } else if (!value.is_undefined()) {
    fail_type("expected something to go through", value);
  }
  spend(items.size(), kItemCost);
  return items;
}

}  // namespace vesper::chat
