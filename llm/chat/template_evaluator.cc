#include "llm/chat/template_evaluator.h"

#include <algorithm>

#include "error/error.h"

namespace vesper::chat {
namespace {

// Steps, characters and items for any template, and for each character of the conversation, which
// templates copy a few times.
constexpr size_t kBudget = 50'000'000;
constexpr size_t kBudgetPerCharacter = 50;
constexpr uint32_t kMaxEvaluationDepth = 1000;  // of nested expressions, tags and calls
constexpr size_t kScopeCost = 16;

}  // namespace

class Evaluator::Deeper {
 public:
  explicit Deeper(Evaluator& evaluator) : evaluator_(evaluator) {
    if (++evaluator.depth_ <= kMaxEvaluationDepth) return;
    --evaluator.depth_;
    fail("expected calls nested at most 1000 deep");
  }
  ~Deeper() { --evaluator_.depth_; }

 private:
  Evaluator& evaluator_;
};

// Variables until the end of a region.
class Evaluator::NewScope {
 public:
  NewScope(Evaluator& evaluator, Scope* around)
      : evaluator_(evaluator), before_(evaluator.scope_), scope_(std::make_unique<Scope>()) {
    evaluator.spend(kScopeCost);
    scope_->around = around;
    evaluator.scope_ = scope_.get();
  }
  ~NewScope() {
    evaluator_.scope_ = before_;
    if (!scope_->is_needed) return;
    for (Scope* scope = scope_->around; scope != nullptr; scope = scope->around) {
      scope->is_needed = true;
    }
    evaluator_.kept_.push_back(std::move(scope_));
  }
  Scope& operator*() { return *scope_; }
  Scope* operator->() { return scope_.get(); }

 private:
  Evaluator& evaluator_;
  Scope* before_;
  std::unique_ptr<Scope> scope_;
};

Evaluator::Evaluator(std::time_t now) : now_(now), scope_(&globals_), n_left_(kBudget) {
  globals_.is_needed = true;
  add_functions(*this);
}

Evaluator::~Evaluator() = default;

void Evaluator::set_global(const std::string& name, Value value) {
  size_t more = 0;
  if (__builtin_mul_overflow(value.weight(), kBudgetPerCharacter, &more) ||
      __builtin_add_overflow(n_left_, more, &n_left_)) {
    n_left_ = SIZE_MAX;
  }
  globals_.variables[name] = std::move(value);
}

void Evaluator::spend(size_t n) {
  if (n > n_left_) fail("expected a template that needs fewer steps and characters");
  n_left_ -= n;
}

void Evaluator::spend(size_t n, size_t each) {
  size_t product = 0;
  if (__builtin_mul_overflow(n, each, &product)) product = SIZE_MAX;
  spend(product);
}

std::string Evaluator::run(const Block& block) {
  std::string out;
  out_ = &out;
  NewScope scope(*this, &globals_);
  run_block(block);
  return out;
}

void Evaluator::write(std::string_view text) {
  spend(text.size());
  *out_ += text;
}

std::string Evaluator::text_of_block(const Block& block) {
  std::string text;
  std::string* before = out_;
  out_ = &text;
  try {
    run_block(block);
  } catch (...) {
    out_ = before;
    throw;
  }
  out_ = before;
  return text;
}

Evaluator::Flow Evaluator::run_block(const Block& block) {
  const Deeper deeper(*this);
  for (const auto& statement : block) {
    const Flow flow = run_statement(*statement);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Evaluator::Flow Evaluator::run_statement(const Statement& statement) {
  spend(1);
  switch (statement.kind) {
    case Statement::Kind::kText:
      write(statement.text);
      break;
    case Statement::Kind::kOutput:
      write(text(evaluate(*statement.expression)));
      break;
    case Statement::Kind::kIf:
      for (size_t i = 0; i < statement.blocks.size(); ++i) {
        if (i < statement.conditions.size() && !evaluate(*statement.conditions[i]).truth())
          continue;
        return run_block(statement.blocks[i]);
      }
      break;
    case Statement::Kind::kFor:
      return run_for(statement);
    case Statement::Kind::kSet:
    case Statement::Kind::kSetBlock:
      run_set(statement);
      break;
    case Statement::Kind::kMacro:
      scope_->variables[statement.text] = macro_of(statement);
      break;
    case Statement::Kind::kCallBlock: {
      const Expression& call_expression = *statement.expression;
      const Value callee = evaluate(*call_expression.parts.front());
      Arguments arguments = arguments_of(call_expression);
      arguments.named.emplace_back("caller", macro_of(statement));
      write(text(call(callee, arguments)));
      break;
    }
    case Statement::Kind::kFilterBlock: {
      std::string inner;
      {
        NewScope scope(*this, scope_);
        inner = text_of_block(statement.blocks.front());
      }
      write(text(filter(*statement.expression, std::move(inner))));
      break;
    }
    case Statement::Kind::kWith: {
      std::vector<Value> values;
      for (const auto& [name, expression] : statement.assignments) {
        values.push_back(evaluate(*expression));
      }
      NewScope scope(*this, scope_);
      for (size_t i = 0; i < values.size(); ++i) {
        scope->variables[statement.assignments[i].first] = std::move(values[i]);
      }
      return run_block(statement.blocks.front());
    }
    case Statement::Kind::kPart:
      return run_block(statement.blocks.front());
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

Evaluator::Flow Evaluator::run_for(const Statement& statement) {
  const Value of = evaluate_at_line(*statement.expression);
  std::vector<Value> items = items_of(of);
  if (statement.condition) {
    std::vector<Value> chosen;
    for (Value& item : items) {
      NewScope scope(*this, scope_);
      assign(statement.target, item);
      if (evaluate(*statement.condition).truth()) chosen.push_back(std::move(item));
    }
    items = std::move(chosen);
  }
  if (items.empty()) {
    return statement.blocks.size() > 1 ? run_block(statement.blocks[1]) : Flow::kOn;
  }
  List list;
  list.items = std::move(items);
  const Value shared(std::move(list));
  auto seen = std::make_shared<std::vector<Value>>();
  for (size_t i = 0; i < shared.items().size(); ++i) {
    NewScope scope(*this, scope_);
    auto turn = std::make_shared<LoopTurn>();
    turn->items = shared.share_list();
    turn->index = i;
    turn->seen = seen;
    scope->variables["loop"] = Value(std::shared_ptr<const LoopTurn>(std::move(turn)));
    assign(statement.target, shared.items()[i]);
    if (run_block(statement.blocks.front()) == Flow::kBreak) break;
  }
  return Flow::kOn;
}

void Evaluator::run_set(const Statement& statement) {
  if (statement.kind == Statement::Kind::kSet) {
    return assign(statement.target, evaluate(*statement.expression));
  }
  Value value;
  {
    NewScope scope(*this, scope_);
    value = text_of_block(statement.blocks.front());
  }
  if (statement.expression) value = filter(*statement.expression, value);
  assign(statement.target, std::move(value));
}

void Evaluator::assign(const Target& target, Value value) {
  spend(1);
  if (!target.member.empty()) {
    const Value of = name(target.names.front());
    if (!of.is_dict() || !of.as_dict().is_namespace) {
      fail("expected a namespace to set \"" + target.member + "\" of, found " + of.type_name());
    }
    if (value.holds_namespace()) fail("expected no namespace in a namespace");
    spend(of.as_dict().items.size());
    return set_member(of.as_namespace(), target.member, std::move(value));
  }
  if (!target.is_spread) {
    scope_->variables[target.names.front()] = std::move(value);
    return;
  }
  std::vector<Value> items = items_of(value);
  if (items.size() != target.names.size()) {
    fail("expected " + std::to_string(target.names.size()) + " values to assign, found " +
         std::to_string(items.size()));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    scope_->variables[target.names[i]] = std::move(items[i]);
  }
}

// A macro, or the caller of a call block: a function that returns text.
Value Evaluator::macro_of(const Statement& statement) {
  scope_->is_needed = true;
  Scope* around = scope_;
  Callable macro;
  macro.name = statement.text.empty() ? "caller" : statement.text;
  macro.call = [&statement, around](Evaluator& evaluator, const Arguments& arguments) -> Value {
    const Deeper deeper(evaluator);
    NewScope scope(evaluator, around);
    const auto& parameters = statement.parameters;
    List rest;
    Dict others;
    std::vector<bool> given(parameters.size());
    for (size_t i = 0; i < arguments.positional.size(); ++i) {
      if (i < parameters.size()) {
        scope->variables[parameters[i].name] = arguments.positional[i];
        given[i] = true;
      } else {
        rest.items.push_back(arguments.positional[i]);
      }
    }
    for (const auto& [name, value] : arguments.named) {
      bool known = name == "caller";
      if (known) scope->variables["caller"] = value;
      for (size_t i = 0; i < parameters.size(); ++i) {
        if (parameters[i].name != name) continue;
        scope->variables[name] = value;
        given[i] = known = true;
      }
      if (!known) set_member(others, name, value);
    }
    rest.is_tuple = true;
    scope->variables["varargs"] = std::move(rest);
    scope->variables["kwargs"] = std::move(others);
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (given[i]) continue;
      scope->variables[parameters[i].name] =
          parameters[i].otherwise
              ? evaluator.evaluate(*parameters[i].otherwise)
              : Value::undefined("parameter '" + parameters[i].name + "' was not provided");
    }
    return evaluator.text_of_block(statement.blocks.front());
  };
  return macro;
}

Value Evaluator::name(const std::string& name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->around) {
    const auto found = scope->variables.find(name);
    if (found != scope->variables.end()) return found->second;
  }
  return Value::undefined("'" + name + "' is undefined");
}

Arguments Evaluator::arguments_of(const Expression& call_expression) {
  Arguments arguments;
  for (size_t i = 1; i < call_expression.parts.size(); ++i) {
    arguments.positional.push_back(evaluate(*call_expression.parts[i]));
  }
  for (const auto& [key, expression] : call_expression.named) {
    arguments.named.emplace_back(key, evaluate(*expression));
  }
  if (call_expression.spread_items) {
    for (Value& item : items_of(evaluate(*call_expression.spread_items))) {
      arguments.positional.push_back(std::move(item));
    }
  }
  if (call_expression.spread_names) {
    const Value names = evaluate(*call_expression.spread_names);
    if (!names.is_dict()) fail(std::string("expected a dict after **, found ") + names.type_name());
    spend(names.as_dict().items.size());
    for (const auto& [key, value] : names.as_dict().items) {
      arguments.named.emplace_back(text(key), value);
    }
  }
  return arguments;
}

Value Evaluator::filter(const Expression& expression, const Value& input) {
  const Deeper deeper(*this);
  const ExpressionPtr& before = expression.parts.front();
  // In {% filter a|b %} the first filter has no input expression.
  const Value taken = before == nullptr ? input : filter(*before, input);
  return apply_filter(expression.text, taken, arguments_of(expression));
}

Value Evaluator::apply_filter(const std::string& name, const Value& input,
                              const Arguments& arguments) {
  spend(1);
  const Filter found = find_filter(name);
  if (found == nullptr) fail("expected a known filter, found \"" + name + "\"");
  return found(*this, input, arguments);
}

bool Evaluator::apply_test(const std::string& name, const Value& of, const Arguments& arguments) {
  spend(1);
  const Test found = find_test(name);
  if (found == nullptr) fail("expected a known test, found \"" + name + "\"");
  return found(*this, of, arguments);
}

Value Evaluator::call(const Value& callee, const Arguments& arguments) {
  spend(1);
  if (callee.is_undefined()) fail(callee.undefined_message());
  if (!callee.is_callable()) {
    fail_type("expected a function to call", callee);
  }
  const Deeper deeper(*this);
  return callee.as_callable().call(*this, arguments);
}

Value Evaluator::evaluate(const Expression& expression) {
  spend(1);
  const Deeper deeper(*this);
  switch (expression.kind) {
    case Expression::Kind::kConstant:
      return expression.value;
    case Expression::Kind::kName:
      return name(expression.text);
    case Expression::Kind::kNot:
      return !evaluate(*expression.parts[0]).truth();
    case Expression::Kind::kAnd: {
      Value left = evaluate(*expression.parts[0]);
      return left.truth() ? evaluate(*expression.parts[1]) : left;
    }
    case Expression::Kind::kOr: {
      Value left = evaluate(*expression.parts[0]);
      return left.truth() ? left : evaluate(*expression.parts[1]);
    }
    case Expression::Kind::kConditional:
      if (evaluate(*expression.parts[1]).truth()) return evaluate(*expression.parts[0]);
      return expression.parts[2] ? evaluate(*expression.parts[2])
                                 : Value::undefined("an expression without else is undefined");
    default:
      return evaluate_at_line(expression);
  }
}

// Adds the line to the message of an error, once.
Value Evaluator::evaluate_at_line(const Expression& expression) try {
  const auto part = [&](size_t i) { return evaluate(*expression.parts[i]); };
  switch (expression.kind) {
    case Expression::Kind::kList:
    case Expression::Kind::kTuple: {
      List list;
      list.is_tuple = expression.kind == Expression::Kind::kTuple;
      for (const ExpressionPtr& item : expression.parts) list.items.push_back(evaluate(*item));
      return list;
    }
    case Expression::Kind::kDict: {
      Dict dict;
      for (size_t i = 0; i + 1 < expression.parts.size(); i += 2) {
        spend(dict.items.size());
        set_member(dict, part(i), part(i + 1));
      }
      return dict;
    }
    case Expression::Kind::kMember:
      return member(part(0), expression.text);
    case Expression::Kind::kSubscript:
      return subscript(part(0), part(1));
    case Expression::Kind::kSlice:
      return slice(expression);
    case Expression::Kind::kCall: {
      const Value callee = part(0);
      return call(callee, arguments_of(expression));
    }
    case Expression::Kind::kFilter:
      return apply_filter(expression.text, part(0), arguments_of(expression));
    case Expression::Kind::kTest:
      return apply_test(expression.text, part(0), arguments_of(expression));
    case Expression::Kind::kNegate:
      return binary("-", int64_t{0}, part(0));
    case Expression::Kind::kPlus:
      return binary("+", int64_t{0}, part(0));
    case Expression::Kind::kBinary: {
      const Value left = part(0);
      return binary(expression.text, left, part(1));
    }
    case Expression::Kind::kConcatenate: {
      std::string joined;
      for (const ExpressionPtr& piece : expression.parts) {
        joined += text(evaluate(*piece));
        spend(joined.size());
      }
      return joined;
    }
    case Expression::Kind::kCompare: {
      Value left = part(0);
      for (size_t i = 0; i < expression.operators.size(); ++i) {
        Value right = part(i + 1);
        if (!compare(expression.operators[i], left, right)) return false;
        left = std::move(right);
      }
      return true;
    }
    default:
      return evaluate(expression);
  }
} catch (const Error& error) {
  const std::string message = error.what();
  if (error.kind() != ErrorKind::kModel || message.starts_with("line ")) throw;
  throw Error(error.kind(), "line " + std::to_string(expression.line) + ": " + message);
}

Value Evaluator::slice(const Expression& expression) {
  const Value of = evaluate(*expression.parts[0]);
  std::array<std::optional<int64_t>, 3> limits;
  for (size_t i = 0; i < 3; ++i) {
    if (!expression.parts[i + 1]) continue;
    const Value limit = evaluate(*expression.parts[i + 1]);
    if (!limit.is_none()) limits[i] = checked_integer(limit, "an index of a slice");
  }
  const int64_t step = limits[2].value_or(1);
  if (step == 0) fail("expected a slice whose step is not 0");
  if (!of.is_string() && !of.is_list()) {
    fail(of.is_undefined()
             ? of.undefined_message()
             : std::string("expected text or a list to slice, found ") + of.type_name());
  }
  std::vector<std::string_view> characters;
  if (of.is_string()) {
    spend(of.as_string().size());
    characters = characters_of(of.as_string());
  }
  const auto n = static_cast<int64_t>(of.is_string() ? characters.size() : of.items().size());
  const auto position = [&](std::optional<int64_t> limit, int64_t otherwise) {
    if (!limit) return otherwise;
    const int64_t at = *limit < 0 ? *limit + n : *limit;
    return std::clamp<int64_t>(at, step < 0 ? -1 : 0, step < 0 ? n - 1 : n);
  };
  const int64_t begin = position(limits[0], step < 0 ? n - 1 : 0);
  const int64_t end = position(limits[1], step < 0 ? -1 : n);
  std::string text;
  List list;
  if (of.is_list()) list.is_tuple = of.as_list().is_tuple;
  for (int64_t at = begin; step < 0 ? at > end : at < end;) {
    if (of.is_string()) {
      text += characters[static_cast<size_t>(at)];
    } else {
      list.items.push_back(of.items()[static_cast<size_t>(at)]);
    }
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  spend(text.size() + list.items.size());
  if (of.is_string()) return text;
  return list;
}

}  // namespace vesper::chat
