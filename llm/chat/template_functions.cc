// The functions that a template can call by name.
#include <array>
#include <ctime>

#include "error/error.h"
#include "llm/chat/template_evaluator.h"

namespace vesper::chat {
namespace {

constexpr int64_t kMaxRange = 100'000;  // Jinja's limit in its sandbox

Value range(Evaluator& evaluator, const Arguments& arguments) {
  const auto given = bind("range()", arguments, {"start", "stop", "step"}, 1);
  int64_t begin = checked_integer(*given[0], "range()");
  int64_t end = 0;
  if (given[1]) {
    end = checked_integer(*given[1], "range()");
  } else {
    std::swap(begin, end);
  }
  const int64_t step = given[2] ? checked_integer(*given[2], "range()") : 1;
  if (step == 0) fail("range(): expected a step that is not 0");
  List list;
  for (int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (list.items.size() >= static_cast<size_t>(kMaxRange)) {
      fail("range(): expected at most " + std::to_string(kMaxRange) + " numbers");
    }
    list.items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  evaluator.spend(list.items.size(), 4);
  return list;
}

// namespace() and dict(): members of a dict or pairs, then named arguments.
Value members(Evaluator& evaluator, const Arguments& arguments, bool is_namespace) {
  Dict dict;
  const auto add = [&](const Value& key, const Value& value) {
    evaluator.spend(dict.items.size() + 4);
    set_member(dict, key, value);
  };
  for (const Value& from : arguments.positional) {
    if (from.is_dict()) {
      for (const auto& [key, value] : from.as_dict().items) add(key, value);
      continue;
    }
    for (const Value& pair : evaluator.items_of(from)) {
      const auto parts = evaluator.items_of(pair);
      if (parts.size() != 2) fail("expected pairs of a key and a value");
      add(parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) add(name, value);
  dict.is_namespace = is_namespace;
  return dict;
}

Value strftime_now(Evaluator& evaluator, const Arguments& arguments) {
  const auto given = bind("strftime_now()", arguments, {"format"}, 1);
  const std::string format = checked_text(*given[0], "strftime_now()");
  if (format.empty()) return "";
  std::tm local{};
  const std::time_t now = evaluator.now();
  localtime_r(&now, &local);
  std::array<char, 4096> text{};
  const size_t n = std::strftime(text.data(), text.size(), format.c_str(), &local);
  if (n == 0) fail("strftime_now(): expected a short format of time, found \"" + format + "\"");
  return std::string(text.data(), n);
}

Value joiner(Evaluator&, const Arguments& arguments) {
  const auto given = bind("joiner()", arguments, {"sep"});
  return Callable{"joiner", [separator = given[0].value_or(", "),
                             used = std::make_shared<bool>(false)](Evaluator&, const Arguments&) {
                    const Value text = *used ? separator : Value("");
                    *used = true;
                    return text;
                  }};
}

}  // namespace

void add_functions(Evaluator& evaluator) {
  const auto add = [&](const char* name, std::function<Value(Evaluator&, const Arguments&)> call) {
    evaluator.set_global(name, Callable{name, std::move(call)});
  };
  add("range", range);
  add("joiner", joiner);
  add("strftime_now", strftime_now);
  add("namespace", [](Evaluator& e, const Arguments& a) { return members(e, a, true); });
  add("dict", [](Evaluator& e, const Arguments& a) { return members(e, a, false); });
  add("raise_exception", [](Evaluator& e, const Arguments& arguments) -> Value {
    const auto given = bind("raise_exception()", arguments, {"message"}, 1);
    throw Error(ErrorKind::kInput,
                "the model's chat template refuses this conversation: " + e.text(*given[0]));
  });
}

}  // namespace vesper::chat
