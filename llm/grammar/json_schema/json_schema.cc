#include "llm/grammar/json_schema/json_schema.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "error/error.h"
#include "llm/grammar/json_schema/json_text.h"
#include "llm/grammar/json_schema/shape_finder.h"

namespace vesper {
namespace {

constexpr size_t kMostRules = 20'000;
constexpr size_t kMostArrayStates = 5'000;
constexpr size_t kMostNameClasses = 64;

class SchemaGrammar {
 public:
  SchemaGrammar(std::string_view schema, const JsonSchemaOptions& options)
      : options_(options), document_(schema), finder_(document_) {}

  Grammar run() {
    const uint32_t root = rule_of({{document_.root(), false}});
    for (size_t i = 0; i < conjunctions_.size(); ++i) {
      const auto [conjunction, rule] = conjunctions_[i];
      place_ = place_of_all(conjunction);
      try {
        grammar_.define(rule, value_node(conjunction));
      } catch (const Error& error) {
        // From the parts that know texts, but no schema.
        if (!error.setting().empty()) throw;
        SchemaDocument::fail(place_, error.what());
      }
    }
    grammar_.set_root(root);
    return std::move(grammar_);
  }

 private:
  // Names of properties that are not listed, and the schemas that their values must match.
  struct NameClass {
    TextDfa names;
    bool is_any = false;         // all names
    std::vector<bool> accepted;  // by predicate
    Conjunction value;
    bool is_empty = false;  // no value matches
  };
  struct ObjectNames {
    std::set<std::string> listed;
    std::vector<const TextDfa*> predicates;
    std::vector<NameClass> classes;
  };

  std::string place_of_all(const Conjunction& conjunction) const {
    const auto positive = std::find_if(conjunction.begin(), conjunction.end(),
                                       [](const SchemaLiteral& one) { return !one.negated; });
    return document_.place(
        (positive == conjunction.end() ? conjunction.begin() : positive)->schema);
  }

  uint32_t rule_of(const Conjunction& conjunction) {
    const auto [found, is_new] = rules_.try_emplace(conjunction, 0);
    if (is_new) {
      const std::string place = place_of_all(conjunction);
      if (conjunctions_.size() >= kMostRules)
        SchemaDocument::fail(place, "expected fewer combinations of schemas");
      found->second = grammar_.add_rule("value", place);
      conjunctions_.emplace_back(conjunction, found->second);
    }
    return found->second;
  }
  // The node of a value.
  uint32_t value_of(const Conjunction& conjunction) {
    return conjunction.empty() ? json_.any_value() : grammar_.reference(rule_of(conjunction));
  }

  uint32_t value_node(const Conjunction& conjunction) {
    std::vector<uint32_t> choices;
    for (const JsonType type : kJsonTypes) {
      const std::vector<Shape> shapes = finder_.shapes_of(type, conjunction);
      // All shapes of a literal are equal.
      const size_t n = type <= JsonType::kTrue ? std::min<size_t>(shapes.size(), 1) : shapes.size();
      for (size_t i = 0; i < n; ++i) add_shape(type, shapes[i], choices);
    }
    return choices.size() == 1 ? choices[0] : grammar_.choice(choices);
  }

  void add_shape(JsonType type, const Shape& shape, std::vector<uint32_t>& choices) {
    switch (type) {
      case JsonType::kNull:
        choices.push_back(grammar_.literal("null"));
        break;
      case JsonType::kFalse:
        choices.push_back(grammar_.literal("false"));
        break;
      case JsonType::kTrue:
        choices.push_back(grammar_.literal("true"));
        break;
      case JsonType::kNumber:
        choices.push_back(number_node(shape.number));
        break;
      case JsonType::kString:
        choices.push_back(string_node(shape.string));
        break;
      case JsonType::kArray:
        choices.push_back(array_node(shape.array));
        break;
      case JsonType::kObject:
        add_object(shape.object, choices);
        break;
    }
  }

  uint32_t number_node(const NumberShape& shape) {
    if (shape.values) {
      std::vector<uint32_t> choices;
      for (const Decimal& value : ShapeFinder::listed_values(shape))
        choices.push_back(grammar_.literal(text_of(value)));
      return grammar_.choice(choices);
    }
    if (shape.set.is_unlimited())
      return shape.set.fractions ? json_.any_number() : json_.any_integer();
    return add_texts(grammar_, texts_of(shape.set), TextSpelling::kPlain);
  }

  uint32_t string_node(const StringShape& shape) {
    if (shape.is_any()) return json_.any_string();
    if (shape.values) {
      std::vector<uint32_t> choices;
      for (const std::string& value : ShapeFinder::listed_values(shape))
        choices.push_back(json_.string_of(value));
      return grammar_.choice(choices);
    }
    const bool has_length = shape.length.min > 0 || shape.length.max != kNoLimit;
    const bool has_exclusions = !shape.excluded_patterns.empty() || !shape.excluded_values.empty();
    if (shape.patterns.empty() && !has_exclusions) {
      const uint32_t max = shape.length.max == kNoLimit ? Grammar::kUnbounded : shape.length.max;
      return json_.quoted(grammar_.repeat(json_.any_character(), shape.length.min, max));
    }
    // A counter is smaller than an automaton that counts.
    if (shape.patterns.size() == 1 && !has_length && !has_exclusions) {
      const RegexNode& regex = shape.patterns[0]->regex();
      if (has_outer_anchors_only(regex, true))
        return json_.quoted(add_regex(grammar_, regex, TextSpelling::kJsonString));
    }
    return quoted_texts(ShapeFinder::texts_of(shape));
  }

  uint32_t quoted_texts(const TextDfa& texts) {
    return json_.quoted(add_texts(grammar_, texts, TextSpelling::kJsonString));
  }

  uint32_t array_node(const ArrayShape& shape);
  uint32_t unique_array_node(const ArrayShape& shape);

  void add_object(const ObjectShape& shape, std::vector<uint32_t>& choices);
  void add_object_with(const ObjectShape& shape, std::vector<ObjectShape::Values> some,
                       std::vector<uint32_t>& choices);
  ObjectNames names_of(const ObjectShape& shape, const std::vector<ObjectShape::Values>& some);
  static bool contains(const NameSet& names, const NameClass& of, const ObjectNames& all);
  // Made once for all objects with the same names.
  uint32_t name_node(const ObjectNames& all, const NameClass& names) {
    if (names.is_any) return json_.any_string();
    const auto [found, is_new] =
        name_nodes_.try_emplace({all.listed, all.predicates, names.accepted}, 0);
    if (is_new) found->second = quoted_texts(names.names);
    return found->second;
  }

  const JsonSchemaOptions options_;
  SchemaDocument document_;
  ShapeFinder finder_;
  Grammar grammar_{"JSON schema"};
  JsonText json_{grammar_};
  std::map<Conjunction, uint32_t> rules_;
  std::vector<std::pair<Conjunction, uint32_t>> conjunctions_;       // with their rules
  std::string place_;                                                // of the current conjunction
  std::map<std::pair<std::string, uint32_t>, uint32_t> properties_;  // nodes, by name and rule
  std::map<std::tuple<std::set<std::string>, std::vector<const TextDfa*>, std::vector<bool>>,
           uint32_t>
      name_nodes_;
};

uint32_t SchemaGrammar::array_node(const ArrayShape& shape) {
  if (shape.is_unique && shape.max > 1) return unique_array_node(shape);
  // From this item on, all items must match the same schemas.
  uint32_t n_places = 0;
  for (const ArrayShape::Items& items : shape.items)
    n_places = std::max(n_places, items.to == kNoLimit ? items.from : items.to);
  const uint32_t min = shape.min;
  uint32_t max = shape.max == kNoLimit ? Grammar::kUnbounded : shape.max;
  if (!options_.undescribed_values && n_places >= min && n_places > 0 &&
      ShapeFinder::item_of(shape, n_places).empty() && shape.contains.empty()) {
    max = std::min(max, n_places);
  }
  if (shape.contains.empty() && n_places == 0)
    return json_.list("[", value_of(ShapeFinder::item_of(shape, 0)), min, max, "]");

  // A rule per state: the index of the next item, and how many items matched each "contains".
  for (const ArrayShape::Contains& contains : shape.contains) {
    n_places = std::max(n_places, contains.to == kNoLimit ? contains.from : contains.to);
  }
  const bool counts = !shape.contains.empty();
  if (counts)
    n_places = std::max({n_places, min, max == Grammar::kUnbounded ? 0 : max, uint32_t{1}});
  using State = std::vector<uint32_t>;
  std::map<State, uint32_t> rules;
  std::vector<State> states;
  const auto rule_of_state = [&](const State& state) {
    const auto [found, is_new] = rules.try_emplace(state, 0);
    if (is_new) {
      found->second = grammar_.add_rule("array", place_);
      states.push_back(state);
      if (states.size() > kMostArrayStates)
        SchemaDocument::fail(place_, "expected fewer items that are counted one by one");
    }
    return found->second;
  };
  const uint32_t root = rule_of_state(State(1 + shape.contains.size()));
  for (size_t n = 0; n < states.size(); ++n) {
    const State state = states[n];
    const uint32_t index = state[0];
    const Conjunction base = ShapeFinder::item_of(shape, index);
    std::vector<uint32_t> choices;
    bool may_end = index >= min;
    for (size_t c = 0; c < shape.contains.size(); ++c)
      may_end = may_end && state[c + 1] >= shape.contains[c].min;
    if (may_end) choices.push_back(grammar_.empty());
    const auto with_comma = [&](uint32_t node) {
      return index == 0 ? node : grammar_.sequence({json_.comma(), node});
    };
    if (!counts && index == n_places) {
      const uint32_t rest_max = max == Grammar::kUnbounded ? max : max - index;
      choices = {
          grammar_.repeat(with_comma(value_of(base)), min > index ? min - index : 0, rest_max)};
    } else if (index < max) {
      // The item matches a subset of what must be contained.
      const size_t n_subsets = size_t{1} << std::min<size_t>(shape.contains.size(), 10);
      for (size_t subset = 0; subset < n_subsets; ++subset) {
        State next = state;
        next[0] = std::min(index + 1, n_places);
        Conjunction item = base;
        bool is_possible = true;
        for (size_t c = 0; c < shape.contains.size(); ++c) {
          const ArrayShape::Contains& contains = shape.contains[c];
          const bool matches = subset >> c & 1;
          if (index < contains.from || index >= contains.to) {
            is_possible = is_possible && !matches;
          } else if (matches) {
            item.push_back(contains.what);
            // More than what is demanded need not be counted, unless there is a limit.
            const uint32_t most = contains.max == kNoLimit ? contains.min : contains.max;
            is_possible = is_possible && (contains.max == kNoLimit || state[c + 1] < most);
            next[c + 1] = std::min(state[c + 1] + 1, most);
          } else if (contains.max != kNoLimit) {
            item.push_back({contains.what.schema, !contains.what.negated});
          }
        }
        if (!is_possible) continue;
        const uint32_t node = value_of(normalized(std::move(item)));
        choices.push_back(
            with_comma(grammar_.sequence({node, grammar_.reference(rule_of_state(next))})));
      }
    }
    grammar_.define(rules.at(state), grammar_.choice(choices));
  }
  return grammar_.sequence(
      {grammar_.literal("["), grammar_.reference(root), grammar_.literal("]")});
}

// Items that differ: of those that can be listed, each at most once.
uint32_t SchemaGrammar::unique_array_node(const ArrayShape& shape) {
  const auto fail = [&] {
    SchemaDocument::fail(shape.unique_place,
                         "uniqueItems is supported for items that all match one enum");
  };
  const Conjunction item = ShapeFinder::item_of(shape, 0);
  if (!shape.contains.empty() || std::any_of(shape.items.begin(), shape.items.end(),
                                             [](const auto& items) { return items.from > 0; })) {
    fail();
  }
  std::set<std::string> strings;
  std::vector<Decimal> numbers;
  std::vector<uint32_t> values;
  for (const JsonType type : kJsonTypes) {
    bool is_literal = false;
    for (const Shape& one : finder_.shapes_of(type, item)) {
      if (type == JsonType::kString && one.string.values) {
        for (std::string& value : ShapeFinder::listed_values(one.string))
          strings.insert(std::move(value));
      } else if (type == JsonType::kNumber && one.number.values) {
        for (const Decimal& value : ShapeFinder::listed_values(one.number)) {
          if (std::none_of(numbers.begin(), numbers.end(),
                           [&](const Decimal& other) { return compare(value, other) == 0; })) {
            numbers.push_back(value);
          }
        }
      } else if (type <= JsonType::kTrue) {
        is_literal = true;
      } else {
        fail();
      }
    }
    if (is_literal) add_shape(type, {}, values);
  }
  for (const std::string& value : strings) values.push_back(json_.string_of(value));
  for (const Decimal& value : numbers) values.push_back(grammar_.literal(text_of(value)));
  if (values.size() < shape.min) return grammar_.choice({});
  if (values.empty() || shape.max == 0) return grammar_.literal("[]");
  const uint32_t max = shape.max == kNoLimit ? Grammar::kUnbounded : shape.max;
  return grammar_.sequence(
      {grammar_.literal("["),
       grammar_.any_order(values, 0, json_.comma(), Grammar::kNone, shape.min, max),
       grammar_.literal("]")});
}

bool SchemaGrammar::contains(const NameSet& names, const NameClass& of, const ObjectNames& all) {
  bool is_listed = false;
  for (const TextDfa* texts : names.texts) {
    const auto predicate = std::find(all.predicates.begin(), all.predicates.end(), texts);
    is_listed = is_listed || of.accepted[size_t(predicate - all.predicates.begin())];
  }
  return is_listed != names.is_complement;
}

SchemaGrammar::ObjectNames SchemaGrammar::names_of(const ObjectShape& shape,
                                                   const std::vector<ObjectShape::Values>& some) {
  ObjectNames all;
  for (const auto& [name, required] : shape.has) all.listed.insert(name);
  for (const auto* sets : {&shape.values, &some}) {
    for (const ObjectShape::Values& values : *sets) {
      all.listed.insert(values.names->names.begin(), values.names->names.end());
      for (const TextDfa* texts : values.names->texts) {
        if (std::find(all.predicates.begin(), all.predicates.end(), texts) == all.predicates.end())
          all.predicates.push_back(texts);
      }
    }
  }
  NameClass others;
  others.is_any = all.listed.empty() && all.predicates.empty();
  if (!others.is_any) {
    others.names = complement_of(
        literal_texts(std::vector<std::string_view>(all.listed.begin(), all.listed.end())));
  }
  all.classes.push_back(std::move(others));
  for (const TextDfa* predicate : all.predicates) {
    std::vector<NameClass> split;
    for (const NameClass& one : all.classes) {
      for (const bool accepted : {true, false}) {
        NameClass part = one;
        part.names = intersection_of(one.names, accepted ? *predicate : complement_of(*predicate));
        part.accepted.push_back(accepted);
        if (!part.names.is_empty()) split.push_back(std::move(part));
      }
    }
    all.classes = std::move(split);
    if (all.classes.size() > kMostNameClasses)
      SchemaDocument::fail(place_, "expected fewer combinations of patterns for names");
  }
  for (NameClass& one : all.classes) {
    for (const ObjectShape::Values& values : shape.values) {
      if (contains(*values.names, one, all)) one.value.push_back(values.what);
    }
    one.value = normalized(std::move(one.value));
    one.is_empty = finder_.is_surely_empty(one.value, 1);
  }
  return all;
}

void SchemaGrammar::add_object(const ObjectShape& shape, std::vector<uint32_t>& choices) {
  add_object_with(shape, {}, choices);
}

// `some`: properties that are not listed, one of which each must occur.
void SchemaGrammar::add_object_with(const ObjectShape& shape, std::vector<ObjectShape::Values> some,
                                    std::vector<uint32_t>& choices) {
  if (!shape.some.empty()) {
    // Either a listed property is the one that is demanded, or another.
    ObjectShape rest = shape;
    const ObjectShape::Values one = rest.some.back();
    rest.some.pop_back();
    for (const std::string& name : names_of(shape, shape.some).listed) {
      const auto has = rest.has.find(name);
      if (!one.names->contains(name) || (has != rest.has.end() && !has->second)) continue;
      ObjectShape with = rest;
      with.has[name] = true;
      with.values.push_back(
          {std::make_shared<const NameSet>(NameSet{.names = {name}, .texts = {}}), one.what});
      add_object_with(with, some, choices);
    }
    some.push_back(one);
    add_object_with(rest, std::move(some), choices);
    return;
  }
  // Two of them might have the same name, and a reader takes the last value of a name.
  if (some.size() > 1) return;
  const ObjectNames names = names_of(shape, some);
  std::vector<uint32_t> required, optional;
  for (const std::string& name : names.listed) {
    const auto has = shape.has.find(name);
    const bool is_required = has != shape.has.end() && has->second;
    if (has != shape.has.end() && !has->second) continue;
    const Conjunction value = ShapeFinder::value_of(shape, name);
    if (!is_required && finder_.is_surely_empty(value, 1)) continue;
    const uint32_t key = value.empty() ? UINT32_MAX : rule_of(value);
    const auto [node, is_new] = properties_.try_emplace({name, key}, 0);
    if (is_new) node->second = json_.property(json_.string_of(name), value_of(value));
    (is_required ? required : optional).push_back(node->second);
  }
  for (const ObjectShape::Values& one : some) {
    std::vector<uint32_t> properties;
    for (const NameClass& of : names.classes) {
      if (!contains(*one.names, of, names)) continue;
      Conjunction value = of.value;
      value.push_back(one.what);
      properties.push_back(
          json_.property(name_node(names, of), value_of(normalized(std::move(value)))));
    }
    required.push_back(grammar_.choice(properties));
  }

  const bool is_described =
      !required.empty() || !optional.empty() ||
      std::any_of(names.classes.begin(), names.classes.end(),
                  [](const NameClass& one) { return !one.value.empty() && !one.is_empty; });
  const size_t n_listed = required.size() + optional.size();
  std::vector<uint32_t> extra;
  for (const NameClass& of : names.classes) {
    if (of.is_empty) continue;
    const bool is_kept =
        !of.value.empty() || options_.undescribed_values || !is_described || shape.min > n_listed;
    if (is_kept) extra.push_back(json_.property(name_node(names, of), value_of(of.value)));
  }
  const uint32_t max = shape.max == kNoLimit ? Grammar::kUnbounded : shape.max;
  // Other properties may repeat a name, so they are neither counted nor beside one of `some`.
  if (!some.empty() || (n_listed > 0 && max != Grammar::kUnbounded)) extra.clear();
  if (required.size() > max || (extra.empty() && n_listed < shape.min)) return;
  const uint32_t extra_node = extra.empty() ? Grammar::kNone : grammar_.choice(extra);
  if (n_listed < shape.min && shape.min > 1) {
    SchemaDocument::fail(shape.count_place,
                         "expected at most 1, or as many as there are described properties");
  }
  if (n_listed == 0 || max == 0) {
    choices.push_back(json_.list("{", extra.empty() ? grammar_.empty() : extra_node, shape.min,
                                 extra.empty() ? 0 : max, "}"));
    return;
  }
  std::vector<uint32_t> children = required;
  children.insert(children.end(), optional.begin(), optional.end());
  choices.push_back(
      grammar_.sequence({grammar_.literal("{"),
                         grammar_.any_order(children, static_cast<uint32_t>(required.size()),
                                            json_.comma(), extra_node, shape.min, max),
                         grammar_.literal("}")}));
}

}  // namespace

Grammar grammar_of_json_schema(std::string_view schema, const JsonSchemaOptions& options) {
  return SchemaGrammar(schema, options).run();
}

}  // namespace vesper
