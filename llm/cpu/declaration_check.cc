#include "llm/cpu/declaration_check.h"

#include <algorithm>
#include <cstring>

#include "error/error.h"

namespace vesper {
namespace {

// A byte of undeclared memory: the two patterns differ in every bit, are harmless numbers as f32
// (about -6000 and 7e-4) and as f16, and from one number to the next they change, as a mean of
// equal numbers would tell nothing.
std::byte pattern_byte(size_t at, size_t pattern) {
  const uint32_t number = static_cast<uint32_t>(at / 4) * 0x9e3779b1u;
  const uint32_t mantissa = at % 4 == 3 ? 0 : number >> (8 * (at % 4)) & 0x1f;
  return static_cast<std::byte>((pattern == 0 ? 0xc5 : 0x3a) ^ mantissa);
}

}  // namespace

std::vector<DeclarationCheck::Stretch> DeclarationCheck::stretches_of(
    const Command& command) const {
  std::vector<Stretch> stretches;
  for (size_t b = 0; b < buffers_.size(); ++b) {
    std::vector<size_t> edges{0, buffers_[b].bytes()};
    for (uint32_t i = 0; i < command.n_operands; ++i) {
      const Operand& operand = command.operands[i];
      if (operand.buffer != b + 1) continue;
      edges.push_back(operand.offset_bytes);
      edges.push_back(operand.offset_bytes + operand.bytes);
    }
    std::sort(edges.begin(), edges.end());
    for (size_t e = 1; e < edges.size(); ++e) {
      if (edges[e] == edges[e - 1]) continue;
      Stretch stretch{b, edges[e - 1], edges[e], false, false};
      for (uint32_t i = 0; i < command.n_operands; ++i) {
        const Operand& operand = command.operands[i];
        if (operand.buffer != b + 1 || operand.offset_bytes > stretch.begin ||
            operand.offset_bytes + operand.bytes < stretch.end) {
          continue;
        }
        stretch.is_read = stretch.is_read || (command.reads >> i & 1);
        stretch.is_written = stretch.is_written || (command.writes >> i & 1);
      }
      stretches.push_back(stretch);
    }
  }
  return stretches;
}

void DeclarationCheck::copy_to(Memory& memory) const {
  memory.resize(buffers_.size());
  for (size_t b = 0; b < buffers_.size(); ++b) {
    memory[b].assign(buffers_[b].data(), buffers_[b].data() + buffers_[b].bytes());
  }
}

void DeclarationCheck::settle(const Stretch& stretch, const Command& command,
                              const std::string& label) {
  const auto& [b, begin, end, is_read, is_written] = stretch;
  const std::vector<std::byte>&before = before_[b], &first = after_[0][b], &second = after_[1][b];
  std::copy(before.begin() + static_cast<std::ptrdiff_t>(begin),
            before.begin() + static_cast<std::ptrdiff_t>(end), buffers_[b].data() + begin);
  if (is_read ? std::memcmp(&before[begin], &first[begin], end - begin) == 0 &&
                    std::memcmp(&before[begin], &second[begin], end - begin) == 0
              : std::memcmp(&patterns_[0][begin], &first[begin], end - begin) == 0 &&
                    std::memcmp(&patterns_[1][begin], &second[begin], end - begin) == 0) {
    return;
  }
  for (size_t at = begin; at < end; ++at) {
    // Untouched memory has what was put there, which differs unless the command may read it.
    if (is_read ? first[at] == before[at] && second[at] == before[at]
                : first[at] == patterns_[0][at] && second[at] == patterns_[1][at]) {
      continue;
    }
    if (!is_written || first[at] != second[at]) {
      throw Error(ErrorKind::kInternal,
                  "cpu: command " + label + " (" + kernel_name(command.kernel) + ") " +
                      (is_written ? "reads what it does not say, as shows in"
                                  : "writes, without saying so,") +
                      " byte " + std::to_string(at) + " of buffer " + buffers_[b].label());
    }
    buffers_[b].data()[at] = first[at];
  }
}

void DeclarationCheck::run(const Command& command, const std::string& label,
                           const std::function<void()>& run) {
  const std::vector<Stretch> stretches = stretches_of(command);
  copy_to(before_);
  for (const BufferMemory& buffer : buffers_) {
    for (size_t i = 0; i < 2; ++i) {
      for (size_t at = patterns_[i].size(); at < buffer.bytes(); ++at) {
        patterns_[i].push_back(pattern_byte(at, i));
      }
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    for (const Stretch& stretch : stretches) {
      std::byte* const data = buffers_[stretch.buffer].data();
      if (stretch.is_read) {
        std::copy_n(before_[stretch.buffer].data() + stretch.begin, stretch.end - stretch.begin,
                    data + stretch.begin);
      } else {
        std::copy_n(patterns_[i].data() + stretch.begin, stretch.end - stretch.begin,
                    data + stretch.begin);
      }
    }
    run();
    copy_to(after_[i]);
  }
  for (const Stretch& stretch : stretches) settle(stretch, command, label);
}

}  // namespace vesper
