// The values of chat templates: Python's, as far as Jinja templates can observe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace vesper::chat {

class Evaluator;
class Value;

// The arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// A missing name or member: false, empty, and an error in most uses.
struct Undefined {
  std::shared_ptr<const std::string> message;  // may be null
};
struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  uint32_t depth = 1;            // of nested containers, this one included
  size_t weight = 1;             // see Value::weight()
  bool holds_namespace = false;  // at any depth
};
struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in insertion order
  bool is_namespace = false;                   // members can be set
  uint32_t depth = 1;
  size_t weight = 1;
  bool holds_namespace = false;
};
struct Callable {
  std::string name;
  std::function<Value(Evaluator&, const Arguments&)> call;
  uint32_t depth = 1;  // that of the bound value + 1, or 1
};
// The variable `loop` of one iteration.
struct LoopTurn {
  std::shared_ptr<const List> items;
  size_t index = 0;
  std::shared_ptr<std::vector<Value>> seen;  // last arguments of loop.changed()
};

class Value {
 public:
  using Data =
      std::variant<Undefined, std::nullptr_t, bool, int64_t, double,
                   std::shared_ptr<const std::string>, std::shared_ptr<List>, std::shared_ptr<Dict>,
                   std::shared_ptr<const Callable>, std::shared_ptr<const LoopTurn>>;

  Value() : data_(Undefined{}) {}
  Value(std::nullptr_t) : data_(nullptr) {}
  Value(bool truth) : data_(truth) {}
  Value(int64_t number) : data_(number) {}
  Value(double number) : data_(number) {}
  Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  // Containers nested more than 100 deep are an error, and so are nested namespaces: values are
  // freed, printed and compared recursively and must have no cycles.
  Value(List list);
  Value(Dict dict);
  Value(Callable callable);
  Value(std::shared_ptr<const LoopTurn> turn) : data_(std::move(turn)) {}
  static Value undefined(std::string message);
  static Value tuple(std::vector<Value> items);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_int() || is_float() || is_bool(); }
  bool is_string() const {
    return std::holds_alternative<std::shared_ptr<const std::string>>(data_);
  }
  bool is_list() const { return std::holds_alternative<std::shared_ptr<List>>(data_); }
  bool is_dict() const { return std::holds_alternative<std::shared_ptr<Dict>>(data_); }
  bool is_callable() const {
    return std::holds_alternative<std::shared_ptr<const Callable>>(data_);
  }
  bool is_loop() const { return std::holds_alternative<std::shared_ptr<const LoopTurn>>(data_); }

  // Only for values of that type.
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const { return is_bool() ? as_bool() : std::get<int64_t>(data_); }
  double as_double() const {
    return is_float() ? std::get<double>(data_) : static_cast<double>(as_int());
  }
  const std::string& as_string() const {
    return *std::get<std::shared_ptr<const std::string>>(data_);
  }
  const std::vector<Value>& items() const { return std::get<std::shared_ptr<List>>(data_)->items; }
  const List& as_list() const { return *std::get<std::shared_ptr<List>>(data_); }
  std::shared_ptr<const List> share_list() const { return std::get<std::shared_ptr<List>>(data_); }
  const Dict& as_dict() const { return *std::get<std::shared_ptr<Dict>>(data_); }
  Dict& as_namespace() const { return *std::get<std::shared_ptr<Dict>>(data_); }
  const Callable& as_callable() const { return *std::get<std::shared_ptr<const Callable>>(data_); }
  const LoopTurn& as_loop() const { return *std::get<std::shared_ptr<const LoopTurn>>(data_); }
  // The error of an undefined value: "'x' is undefined".
  std::string undefined_message() const;

  bool truth() const;
  // Python's ==; never throws.
  bool equals(const Value& other) const;
  // For messages: "str", "int", "dict".
  const char* type_name() const;
  uint32_t depth() const;
  // Approximate number of characters and items when written out; shared items count each time. The
  // cost of comparing and printing.
  size_t weight() const;
  // Also true for values that may hold one: functions and loops.
  bool holds_namespace() const;

 private:
  Data data_;
};

// The member `key`, or null.
const Value* find_member(const Dict& dict, const Value& key);
void set_member(Dict& dict, const Value& key, Value value);

// Python's str(), repr() and json.dumps(ensure_ascii as given). `indent` < 0: on one line.
std::string text_of(const Value& value);
std::string repr_of(const Value& value);
struct JsonStyle {
  int indent = -1;
  std::string indent_text;  // used instead of `indent` spaces if not empty
  bool ascii = false;
  bool sort_keys = false;
  std::string item_separator = ", ", key_separator = ": ";
};
// Throws Error(kModel) for values that JSON lacks.
std::string json_of(const Value& value, const JsonStyle& style);
std::string repr_of(double number);

// JSON as values, keys in order.
Value value_of(const nlohmann::ordered_json& json);

// Python counts characters, not bytes: these count UTF-8 characters.
size_t count_characters(std::string_view text);
std::vector<std::string_view> characters_of(std::string_view text);

[[noreturn]] void fail(const std::string& message);
// "expected ..., found a value of type ..."
[[noreturn]] void fail_type(const std::string& expected, const Value& found);

}  // namespace vesper::chat
