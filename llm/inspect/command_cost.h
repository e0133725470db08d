// What a command of a table costs by its parameters: the arithmetic and the bytes that it cannot do
// without. What `inspect --profile` divides by the time.
#pragma once

#include <string>

#include "llm/table/dispatch_table.h"

namespace vesper {

struct CommandCost {
  double flop = 0;   // multiplications and additions, of products and attention
  double bytes = 0;  // read and written once each; `weight_bytes` is the matrix of a product
};
// How far attention over pages or packed sequences looks is not in the command: `n_positions` each.
CommandCost command_cost(const Command& command, double weight_bytes, double n_positions);

// The parameters for people: "1500 rows, 384 -> 1536, gelu, f32".
std::string command_text(const Command& command);

}  // namespace vesper
