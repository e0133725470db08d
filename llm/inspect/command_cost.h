// Minimum arithmetic and memory traffic of a command, computed from its parameters. `inspect
// --profile` divides them by the time.
#pragma once

#include <string>

#include "llm/table/dispatch_table.h"

namespace vesper {

struct CommandCost {
  double flop = 0;   // multiply-adds count 2; products and attention only
  double bytes = 0;  // each operand once; a product's matrix has `weight_bytes`
};
// `n_positions` is the length of a sequence if the command does not have it (paged or packed
// attention).
CommandCost command_cost(const Command& command, double weight_bytes, double n_positions);

// The parameters for people: "1500 rows, 384 -> 1536, gelu, f32".
std::string command_text(const Command& command);

}  // namespace vesper
