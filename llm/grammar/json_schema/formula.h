// Logical formulas of schemas. Their atoms restrict a shape, so that no keyword has to know whether
// it is negated or one of several alternatives. Made by KeywordReader, solved by ShapeFinder.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "llm/grammar/json_schema/shape.h"

namespace vesper {

struct Formula {
  enum class Kind : uint8_t {
    kAll,     // all parts hold; without parts: true
    kAny,     // a part holds; without parts: false
    kSchema,  // the schema holds for the same value
    kAtom,
  };
  Kind kind = Kind::kAll;
  bool negated = false;
  std::vector<Formula> parts;
  uint32_t schema = 0;
  // Adds the atom, or its negation, to a shape. False if no value is left.
  std::function<bool(Shape&, bool negated)> atom;

  bool is_true() const { return parts.empty() && kind == (negated ? Kind::kAny : Kind::kAll); }
};

inline Formula always(bool value) {
  return {.kind = value ? Formula::Kind::kAll : Formula::Kind::kAny, .parts = {}, .atom = {}};
}

inline Formula atom_of(std::function<bool(Shape&, bool)> atom) {
  return {.kind = Formula::Kind::kAtom, .parts = {}, .atom = std::move(atom)};
}

// At least `n`, or at most. `restrict`(shape, min, max) adds bounds to a shape, max up to kNoLimit.
inline Formula count_formula(uint32_t n, bool is_min,
                             std::function<bool(Shape&, uint32_t, uint32_t)> restrict) {
  return atom_of([n, is_min, restrict = std::move(restrict)](Shape& shape, bool negated) {
    if (is_min != negated) return restrict(shape, is_min ? n : n + 1, kNoLimit);
    return !(is_min && n == 0)&& restrict(shape, 0, is_min ? n - 1 : n);
  });
}

inline Formula schema_formula(uint32_t schema, bool negated = false) {
  return {.kind = Formula::Kind::kSchema,
          .negated = negated,
          .parts = {},
          .schema = schema,
          .atom = {}};
}

inline Formula with_parts(Formula::Kind kind, std::vector<Formula> parts) {
  return {.kind = kind, .parts = std::move(parts), .atom = {}};
}

inline Formula negation_of(Formula formula) {
  formula.negated = !formula.negated;
  return formula;
}

}  // namespace vesper
