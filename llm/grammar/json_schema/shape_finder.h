// Finds the shapes of a conjunction of schemas. In: schemas that hold or do not hold for a value.
// Out: for each JSON type the alternatives, as shapes; a value matches all schemas if and only if
// it has one of them.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "llm/grammar/json_schema/keywords.h"

namespace vesper {

class ShapeFinder : private SchemaQuestions {
 public:
  explicit ShapeFinder(SchemaDocument& document) : document_(document) {}

  // Throws Error(kUsage), "JSON schema": as formula_of(), a schema that refers to itself for the
  // same value, more than 2,000 alternatives.
  std::vector<Shape> shapes_of(JsonType type, const Conjunction& conjunction);

  // Texts of a shape. Throws Error(kUsage) without a setting if its automaton is too large.
  static TextDfa texts_of(const StringShape& shape);
  // The values that are listed and fit the rest of the shape.
  static std::vector<std::string> listed_values(const StringShape& shape);
  static std::vector<Decimal> listed_values(const NumberShape& shape);

  // The schemas that item `index` of an array, or property `name` of an object, must match.
  static Conjunction item_of(const ArrayShape& shape, uint32_t index);
  static Conjunction value_of(const ObjectShape& shape, const std::string& name);

  // Whether it is known that no value matches. Looks `depth` levels into arrays and objects.
  bool is_surely_empty(const Conjunction& conjunction, int depth);

  SchemaDocument& document() { return document_; }

 private:
  class Search;

  bool are_disjoint(JsonType type, uint32_t a, uint32_t b) override;
  TextDfa strings_of(uint32_t schema) override;
  bool is_surely_empty(JsonType type, const Conjunction& conjunction, int depth);
  bool is_surely_empty(JsonType type, const Shape& shape, int depth);
  const Formula& formula(uint32_t schema, JsonType type);

  SchemaDocument& document_;
  SchemaTexts texts_;
  std::map<std::pair<uint32_t, JsonType>, Formula> formulas_;
  std::vector<std::pair<uint32_t, JsonType>> open_;  // formulas that are being made
  int guesses_ = 0;        // calls of is_surely_empty() that are being answered
  size_t n_guesses_ = 0;   // that were made
  size_t n_branches_ = 0;  // of the current guess, or of all of the document
};

// Sorts, and removes repetitions.
Conjunction normalized(Conjunction conjunction);

}  // namespace vesper
