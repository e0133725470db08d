#include "llm/grammar/json_schema/shape_finder.h"

#include <algorithm>
#include <limits>
#include <set>

#include "error/error.h"

namespace vesper {
namespace {

constexpr size_t kMostShapes = 2'000;         // of a conjunction
constexpr size_t kMostBranches = 200'000;     // of a document, guesses not counted
constexpr size_t kMostGuessedBranches = 500;  // to answer whether schemas are disjoint
constexpr size_t kMostGuesses = 500'000;      // of a document
constexpr int kGuessDepth = 3;
constexpr size_t kMostOpenChoices = 500;

// A question whose answer takes too long, or depends on itself.
struct Unknown {};

constexpr uint32_t kNoOrigin = std::numeric_limits<uint32_t>::max();

}  // namespace

// Distributes "and" over "or".
class ShapeFinder::Search {
 public:
  Search(ShapeFinder& finder, JsonType type) : finder_(finder), type_(type) {}

  std::vector<Shape> run(const Conjunction& conjunction) {
    Branch branch;
    for (const SchemaLiteral& literal : conjunction) {
      roots_.push_back({.kind = Formula::Kind::kSchema,
                        .negated = literal.negated,
                        .parts = {},
                        .schema = literal.schema,
                        .atom = {}});
    }
    for (const Formula& root : roots_) branch.pending.push_back({&root, false, kNoOrigin});
    expand(std::move(branch));
    return std::move(shapes_);
  }

 private:
  struct Pending {
    const Formula* formula;
    bool negated;
    uint32_t origin;  // the schema that it is of, an index of origins_
  };
  struct Branch {
    Shape shape;
    std::vector<Pending> pending, choices;
    std::set<SchemaLiteral> seen;
  };
  struct Origin {
    uint32_t schema;
    uint32_t parent;  // an index of origins_
  };

  void expand(Branch branch) {
    const size_t limit = finder_.guesses_ > 0 ? kMostGuessedBranches : kMostBranches;
    if (++finder_.n_branches_ > limit || shapes_.size() > kMostShapes ||
        branch.choices.size() > kMostOpenChoices) {
      fail_or_give_up();
    }
    while (!branch.pending.empty()) {
      const Pending one = branch.pending.back();
      branch.pending.pop_back();
      if (!take(one, branch)) return;
    }
    if (branch.choices.empty()) {
      shapes_.push_back(std::move(branch.shape));
      return;
    }
    // The choice of fewest parts first.
    const auto fewest = std::min_element(branch.choices.begin(), branch.choices.end(),
                                         [](const Pending& a, const Pending& b) {
                                           return a.formula->parts.size() < b.formula->parts.size();
                                         });
    const Pending choice = *fewest;
    branch.choices.erase(fewest);
    for (const Formula& part : choice.formula->parts) {
      Branch next = branch;
      next.pending.push_back({&part, choice.negated, choice.origin});
      expand(std::move(next));
    }
  }

  // False if no value is left.
  bool take(const Pending& one, Branch& branch) {
    const Formula& formula = *one.formula;
    const bool negated = formula.negated != one.negated;
    switch (formula.kind) {
      case Formula::Kind::kAtom:
        return formula.atom(branch.shape, negated);
      case Formula::Kind::kSchema: {
        const SchemaLiteral literal{formula.schema, negated};
        for (uint32_t o = one.origin; o != kNoOrigin; o = origins_[o].parent) {
          if (origins_[o].schema != literal.schema) continue;
          if (finder_.guesses_ > 0) throw Unknown();
          SchemaDocument::fail(finder_.document_.place(literal.schema),
                               "the schema refers to itself for the same value");
        }
        if (branch.seen.contains({literal.schema, !negated})) return false;
        if (!branch.seen.insert(literal).second) return true;
        origins_.push_back({literal.schema, one.origin});
        branch.pending.push_back({&finder_.formula(literal.schema, type_), negated,
                                  static_cast<uint32_t>(origins_.size() - 1)});
        return true;
      }
      case Formula::Kind::kAll:
      case Formula::Kind::kAny:
        break;
    }
    if ((formula.kind == Formula::Kind::kAll) != negated) {
      for (const Formula& part : formula.parts)
        branch.pending.push_back({&part, negated, one.origin});
      return true;
    }
    if (formula.parts.empty()) return false;
    for (const Formula& part : formula.parts) {
      const bool holds = part.is_true() && !negated;
      const bool fails = negated && part.parts.empty() &&
                         part.kind == (part.negated ? Formula::Kind::kAll : Formula::Kind::kAny);
      if (holds || fails) return true;
    }
    // Its parts inherit the negation.
    branch.choices.push_back({&formula, negated, one.origin});
    return true;
  }

  [[noreturn]] void fail_or_give_up() const {
    if (finder_.guesses_ > 0) throw Unknown();
    SchemaDocument::fail(finder_.document_.place(roots_.empty() ? 0 : roots_[0].schema),
                         "expected fewer combinations of alternatives (anyOf, oneOf, not, if)");
  }

  ShapeFinder& finder_;
  const JsonType type_;
  std::vector<Formula> roots_;
  std::vector<Origin> origins_;
  std::vector<Shape> shapes_;
};

std::vector<Shape> ShapeFinder::shapes_of(JsonType type, const Conjunction& conjunction) {
  return Search(*this, type).run(conjunction);
}

const Formula& ShapeFinder::formula(uint32_t schema, JsonType type) {
  const std::pair key{schema, type};
  const auto known = formulas_.find(key);
  if (known != formulas_.end()) return known->second;
  if (std::find(open_.begin(), open_.end(), key) != open_.end()) throw Unknown();
  open_.push_back(key);
  try {
    Formula made = formula_of(document_, texts_, *this, schema, type);
    open_.pop_back();
    return formulas_.emplace(key, std::move(made)).first->second;
  } catch (...) {
    open_.pop_back();
    throw;
  }
}

bool ShapeFinder::are_disjoint(JsonType type, uint32_t a, uint32_t b) {
  return is_surely_empty(type, normalized({{a, false}, {b, false}}), kGuessDepth);
}

TextDfa ShapeFinder::strings_of(uint32_t schema) {
  TextDfa texts;
  const Conjunction conjunction = {{schema, false}};
  for (const Shape& shape : shapes_of(JsonType::kString, conjunction)) {
    try {
      texts = texts.is_empty() ? texts_of(shape.string) : union_of(texts, texts_of(shape.string));
    } catch (const Error& error) {
      if (!error.setting().empty()) throw;
      SchemaDocument::fail(document_.place(schema), error.what());
    }
  }
  return texts;
}

bool ShapeFinder::is_surely_empty(const Conjunction& conjunction, int depth) {
  return std::all_of(std::begin(kJsonTypes), std::end(kJsonTypes),
                     [&](JsonType type) { return is_surely_empty(type, conjunction, depth); });
}

bool ShapeFinder::is_surely_empty(JsonType type, const Conjunction& conjunction, int depth) {
  if (depth == 0) return false;
  const size_t n_branches = n_branches_;
  if (guesses_ == 0) {
    n_branches_ = 0;
    if (++n_guesses_ > kMostGuesses) return false;
  }
  ++guesses_;
  bool is_empty = false;
  try {
    const std::vector<Shape> shapes = shapes_of(type, conjunction);
    is_empty = std::all_of(shapes.begin(), shapes.end(),
                           [&](const Shape& shape) { return is_surely_empty(type, shape, depth); });
  } catch (const Unknown&) {
  } catch (...) {
    --guesses_;
    throw;
  }
  --guesses_;
  if (guesses_ == 0) n_branches_ = n_branches;
  return is_empty;
}

bool ShapeFinder::is_surely_empty(JsonType type, const Shape& shape, int depth) {
  switch (type) {
    case JsonType::kNull:
    case JsonType::kFalse:
    case JsonType::kTrue:
      return false;
    case JsonType::kNumber: {
      const NumberSet& set = shape.number.set;
      if (shape.number.values) return listed_values(shape.number).empty();
      if (!set.min || !set.max) return false;
      const int order = compare(set.min->value, set.max->value);
      return order > 0 || (order == 0 && (set.min->exclusive || set.max->exclusive));
    }
    case JsonType::kString:
      if (shape.string.values) return listed_values(shape.string).empty();
      if (shape.string.patterns.empty()) return false;
      try {
        return texts_of(shape.string).is_empty();
      } catch (const Error&) {
        return false;
      }
    case JsonType::kArray:
      for (uint32_t i = 0; i < std::min<uint64_t>(shape.array.min, 8); ++i) {
        const Conjunction item = item_of(shape.array, i);
        if (item.size() > 1 && is_surely_empty(item, depth - 1)) return true;
      }
      return false;
    case JsonType::kObject:
      for (const auto& [name, required] : shape.object.has) {
        if (!required) continue;
        const Conjunction value = value_of(shape.object, name);
        if (!value.empty() && is_surely_empty(value, depth - 1)) return true;
      }
      return false;
  }
  return false;
}

std::vector<std::string> ShapeFinder::listed_values(const StringShape& shape) {
  std::vector<std::string> values;
  StringShape rest = shape;
  rest.values.reset();
  const bool is_limited = !rest.is_any();
  const TextDfa texts = is_limited ? texts_of(rest) : TextDfa();
  for (const std::string& value : *shape.values) {
    if (!is_limited || texts.accepts(value)) values.push_back(value);
  }
  return values;
}

std::vector<Decimal> ShapeFinder::listed_values(const NumberShape& shape) {
  std::vector<Decimal> values;
  for (const Decimal& value : *shape.values) {
    const bool is_known = std::any_of(values.begin(), values.end(), [&](const Decimal& other) {
      return compare(value, other) == 0;
    });
    if (!is_known && shape.set.contains(value)) values.push_back(value);
  }
  return values;
}

TextDfa ShapeFinder::texts_of(const StringShape& shape) {
  std::optional<TextDfa> texts;
  const auto restrict = [&](const TextDfa& other) {
    texts = texts ? intersection_of(*texts, other) : other;
  };
  if (shape.values)
    restrict(
        literal_texts(std::vector<std::string_view>(shape.values->begin(), shape.values->end())));
  for (TextPattern* pattern : shape.patterns) restrict(pattern->texts());
  for (TextPattern* pattern : shape.excluded_patterns) restrict(complement_of(pattern->texts()));
  if (!shape.excluded_values.empty()) {
    restrict(complement_of(literal_texts(std::vector<std::string_view>(
        shape.excluded_values.begin(), shape.excluded_values.end()))));
  }
  if (!texts) return vesper::texts_of(all_code_points(), shape.length);
  return with_length(*texts, shape.length);
}

Conjunction ShapeFinder::item_of(const ArrayShape& shape, uint32_t index) {
  Conjunction item;
  for (const ArrayShape::Items& items : shape.items) {
    if (items.from <= index && index < items.to) item.push_back(items.what);
  }
  return normalized(std::move(item));
}

Conjunction ShapeFinder::value_of(const ObjectShape& shape, const std::string& name) {
  Conjunction value;
  for (const ObjectShape::Values& values : shape.values) {
    if (values.names->contains(name)) value.push_back(values.what);
  }
  return normalized(std::move(value));
}

Conjunction normalized(Conjunction conjunction) {
  std::sort(conjunction.begin(), conjunction.end());
  conjunction.erase(std::unique(conjunction.begin(), conjunction.end()), conjunction.end());
  return conjunction;
}

}  // namespace vesper
