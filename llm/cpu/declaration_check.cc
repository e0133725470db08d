#include "llm/cpu/declaration_check.h"

#include <algorithm>
#include <cstring>

#include "error/error.h"

namespace vesper {
namespace {

// A byte of undeclared memory. The two patterns differ in every bit and are ordinary numbers in f32
// (about -6000 and 7e-4) and f16. They change from element to element, because a mean of equal
// elements would show nothing.
std::byte pattern_byte(size_t at, size_t pattern) {
  const uint32_t number = static_cast<uint32_t>(at / 4) * 0x9e3779b1u;
  const uint32_t mantissa = at % 4 == 3 ? 0 : number >> (8 * (at % 4)) & 0x1f;
  return static_cast<std::byte>((pattern == 0 ? 0xc5 : 0x3a) ^ mantissa);
}

}  // namespace

std::vector<DeclarationCheck::DeclaredRange> DeclarationCheck::ranges_of(
    const Command& command) const {
  std::vector<DeclaredRange> ranges;
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
      DeclaredRange range{b, edges[e - 1], edges[e], false, false};
      for (uint32_t i = 0; i < command.n_operands; ++i) {
        const Operand& operand = command.operands[i];
        if (operand.buffer != b + 1 || operand.offset_bytes > range.begin ||
            operand.offset_bytes + operand.bytes < range.end) {
          continue;
        }
        range.is_read = range.is_read || (command.reads >> i & 1);
        range.is_written = range.is_written || (command.writes >> i & 1);
      }
      ranges.push_back(range);
    }
  }
  return ranges;
}

void DeclarationCheck::copy_to(Memory& memory) const {
  memory.resize(buffers_.size());
  for (size_t b = 0; b < buffers_.size(); ++b) {
    memory[b].assign(buffers_[b].data(), buffers_[b].data() + buffers_[b].bytes());
  }
}

void DeclarationCheck::store_result(const DeclaredRange& range, const Command& command,
                                    const std::string& label) {
  const auto& [b, begin, end, is_read, is_written] = range;
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
    // Unwritten memory still has the pattern, unless the command may read it.
    if (is_read ? first[at] == before[at] && second[at] == before[at]
                : first[at] == patterns_[0][at] && second[at] == patterns_[1][at]) {
      continue;
    }
    if (!is_written || first[at] != second[at]) {
      throw Error(ErrorKind::kInternal,
                  "cpu: command " + label + " (" + kernel_name(command.kernel) + ") " +
                      (is_written ? "reads undeclared memory, which changes"
                                  : "writes undeclared memory,") +
                      " byte " + std::to_string(at) + " of buffer " + buffers_[b].label());
    }
    buffers_[b].data()[at] = first[at];
  }
}

void DeclarationCheck::run(const Command& command, const std::string& label,
                           const std::function<void()>& run) {
  const std::vector<DeclaredRange> ranges = ranges_of(command);
  copy_to(before_);
  for (const BufferMemory& buffer : buffers_) {
    for (size_t i = 0; i < 2; ++i) {
      for (size_t at = patterns_[i].size(); at < buffer.bytes(); ++at) {
        patterns_[i].push_back(pattern_byte(at, i));
      }
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    for (const DeclaredRange& range : ranges) {
      std::byte* const data = buffers_[range.buffer].data();
      if (range.is_read) {
        std::copy_n(before_[range.buffer].data() + range.begin, range.end - range.begin,
                    data + range.begin);
      } else {
        std::copy_n(patterns_[i].data() + range.begin, range.end - range.begin, data + range.begin);
      }
    }
    run();
    copy_to(after_[i]);
  }
  for (const DeclaredRange& range : ranges) store_result(range, command, label);
}

}  // namespace vesper
