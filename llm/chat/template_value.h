// The values that chat templates compute with: Python's, as far as Jinja templates can tell.
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

// A name or member that is not there: false, empty, and an error for most that is done with it.
struct Undefined {
  std::shared_ptr<const std::string> message;  // may be null
};
struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  uint32_t depth = 1;            // of containers, this one counted
  size_t weight = 1;             // see Value::weight()
  bool holds_namespace = false;  // at any depth
};
struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in the order of insertion
  bool is_namespace = false;                   // members can be set
  uint32_t depth = 1;
  size_t weight = 1;
  bool holds_namespace = false;
};
struct Callable {
  std::string name;
  std::function<Value(Evaluator&, const Arguments&)> call;
  uint32_t depth = 1;  // a method's is that of what it is bound to, and 1
};
// The variable `loop` at one turn.
struct LoopTurn {
  std::shared_ptr<const List> items;
  size_t index = 0;
  std::shared_ptr<std::vector<Value>> seen;  // what loop.changed() was last called with
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
  // Containers nested deeper than 100 are an error, as are namespaces within one another: what is
  // freed, printed or compared recursively must stay shallow and free of cycles.
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

  // Each only if it is of that kind.
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
  // What is wrong with an undefined value: "'x' is undefined".
  std::string undefined_message() const;

  bool truth() const;
  // Python's ==; never throws.
  bool equals(const Value& other) const;
  // "str", "int", "dict", for messages.
  const char* type_name() const;
  uint32_t depth() const;
  // About how many characters and items it has if it is written out: a list of one list twice has
  // twice as many. What comparing and printing cost.
  size_t weight() const;
  // Or what may hold one: a function, a loop.
  bool holds_namespace() const;

 private:
  Data data_;
};

// The member of that key, or null.
const Value* find_member(const Dict& dict, const Value& key);
void set_member(Dict& dict, const Value& key, Value value);

// Python's str(), repr() and json.dumps(ensure_ascii as given). `indent` < 0: on one line.
std::string text_of(const Value& value);
std::string repr_of(const Value& value);
struct JsonStyle {
  int indent = -1;
  std::string indent_text;  // instead of `indent` spaces, if not empty
  bool ascii = false;
  bool sort_keys = false;
  std::string item_separator = ", ", key_separator = ": ";
};
// Throws Error(kModel) for what JSON has nothing for.
std::string json_of(const Value& value, const JsonStyle& style);
std::string repr_of(double number);

// JSON as values, keys in its order.
Value value_of(const nlohmann::ordered_json& json);

// Python's strings are of characters: these count in characters of UTF-8.
size_t count_characters(std::string_view text);
std::vector<std::string_view> characters_of(std::string_view text);

[[noreturn]] void fail(const std::string& message);

}  // namespace vesper::chat
