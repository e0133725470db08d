#include "tests/llm/table/stage_check_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "error/error.h"

namespace vesper {
namespace {

// A byte of memory without defined content. The two patterns differ in every bit and are ordinary
// numbers in f32 (about -6000 and 7e-4) and f16. They change from element to element, because a
// mean of equal elements would show nothing.
std::byte pattern_byte(size_t at, size_t pattern) {
  const uint32_t number = static_cast<uint32_t>(at / 4) * 0x9e3779b1u;
  const uint32_t mantissa = at % 4 == 3 ? 0 : number >> (8 * (at % 4)) & 0x1f;
  return static_cast<std::byte>((pattern == 0 ? 0xc5 : 0x3a) ^ mantissa);
}

bool reads(const Command& command, uint32_t operand) { return command.reads >> operand & 1; }
bool writes(const Command& command, uint32_t operand) { return command.writes >> operand & 1; }

// A table of one command.
template <size_t... I>
void add_command(DispatchTable& table, const Command& command, const std::string& label,
                 std::index_sequence<I...>) {
  table.add(command.kernel, label, {command.operands[I]...}, command.reads, command.writes,
            command.params);
}
DispatchTable single(const Command& command, const std::string& label) {
  DispatchTable table;
  [&]<size_t... N>(std::index_sequence<N...>) {
    ((command.n_operands == N ? add_command(table, command, label, std::make_index_sequence<N>())
                              : void()),
     ...);
  }
  (std::make_index_sequence<kMaxOperands + 1>());
  return table;
}

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorKind::kInternal, what); }

std::string name_of(const DispatchTable& table, size_t index) {
  return table.labels()[index] + " (" + kernel_name(table.commands()[index].kernel) + ")";
}

bool is_one_of(const std::vector<std::string>& labels, const std::string& label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

}  // namespace

StageCheckDevice::StageCheckDevice(std::unique_ptr<Device> device, StageCheckOptions options)
    : ForwardingDevice(std::move(device)), options_(std::move(options)), random_(options_.seed) {}

void StageCheckDevice::add_buffer(const Operand& operand, std::string label) {
  if (!operand.present()) return;
  // A device may skip ids for its own buffers.
  if (buffers_.size() < operand.buffer) buffers_.resize(operand.buffer);
  Buffer& added = buffer(operand.buffer);
  added.label = std::move(label);
  added.content.resize(operand.offset_bytes + operand.bytes);
  const bool is_zeroed = is_one_of(options_.zeroed, added.label);
  added.states.assign(added.content.size(), is_zeroed ? State::kDefined : State::kUnwritten);
  added.n_poisoned = is_zeroed ? 0 : added.content.size();
  device_->read(whole(operand.buffer), added.content.data());
}

Operand StageCheckDevice::allocate(uint64_t bytes, std::string_view label) {
  const Operand operand = device_->allocate(bytes, label);
  add_buffer(operand, std::string(label));
  return operand;
}

Weight StageCheckDevice::upload(const MatrixSource& source, WeightUse use, Compute resolved) {
  const Weight weight = device_->upload(source, use, resolved);
  const std::string& label = source.parts.front()->name;
  for (const auto& [operand, name] :
       {std::pair(weight.data, label), std::pair(weight.scale, label + " scales")}) {
    if (!operand.present()) continue;
    add_buffer(operand, name);
    Buffer& known = buffer(operand.buffer);
    std::fill(known.states.begin(), known.states.end(), State::kDefined);
    known.n_poisoned = 0;
  }
  return weight;
}

void StageCheckDevice::write(const Operand& to, const void* from) {
  device_->write(to, from);
  Buffer& known = buffer(to.buffer);
  std::copy_n(static_cast<const std::byte*>(from), to.bytes,
              known.content.data() + to.offset_bytes);
  for (size_t at = 0; at < to.bytes; ++at) set_state(known, to.offset_bytes + at, State::kDefined);
}

void StageCheckDevice::set_state(Buffer& buffer, size_t at, State state) {
  if (buffer.n_poisoned == 0 && state == State::kDefined) return;
  buffer.n_poisoned -= buffer.states[at] != State::kDefined;
  buffer.n_poisoned += state != State::kDefined;
  buffer.states[at] = state;
}

void StageCheckDevice::read(const Operand& from, void* to) {
  const Buffer& known = buffer(from.buffer);
  for (size_t at = 0; at < from.bytes && known.n_poisoned > 0; ++at) {
    if (known.states[from.offset_bytes + at] != State::kUndefined) continue;
    fail("the host reads byte " + std::to_string(from.offset_bytes + at) + " of buffer " +
         known.label + ", which depends on memory that nothing has written" + known.cause);
  }
  std::copy_n(known.content.data() + from.offset_bytes, from.bytes, static_cast<std::byte*>(to));
}

ProgramId StageCheckDevice::record(const DispatchTable& table) {
  Program program{table, options_.stages(table), {}};
  if (options_.checks_declared) check_declared(program);
  std::vector<DispatchTable> commands;
  for (size_t i = 0; i < table.commands().size(); ++i) {
    commands.push_back(single(table.commands()[i], table.labels()[i]));
  }
  program.commands = device_->record_all(commands);
  programs_.push_back(std::move(program));
  return static_cast<ProgramId>(programs_.size() - 1);
}

std::vector<CommandVariant> StageCheckDevice::variants(ProgramId program) const {
  std::vector<CommandVariant> all;
  for (const ProgramId command : programs_.at(program).commands) {
    all.push_back(device_->variants(command).front());
  }
  return all;
}

void StageCheckDevice::check_declared(const Program& program) const {
  struct Access {
    size_t command;
    Operand operand;
    bool is_write;
  };
  std::vector<Access> of_stage;
  for (size_t i = 0; i < program.stages.size(); ++i) {
    if (i > 0 && program.stages[i] != program.stages[i - 1]) of_stage.clear();
    const Command& command = program.table.commands()[i];
    for (uint32_t o = 0; o < command.n_operands; ++o) {
      if (!reads(command, o) && !writes(command, o)) continue;
      const Access access{i, command.operands[o], writes(command, o)};
      for (const Access& other : of_stage) {
        if (other.command == i || other.operand.buffer != access.operand.buffer) continue;
        const uint64_t first = std::max(access.operand.offset_bytes, other.operand.offset_bytes);
        const uint64_t end = std::min(access.operand.offset_bytes + access.operand.bytes,
                                      other.operand.offset_bytes + other.operand.bytes);
        if (first >= end || (!access.is_write && !other.is_write)) continue;
        fail(name_of(program.table, i) + " and " + name_of(program.table, other.command) +
             " need a barrier: both access byte " + std::to_string(first) + " of buffer " +
             buffers_.at(access.operand.buffer - 1).label);
      }
      of_stage.push_back(access);
    }
  }
}

std::vector<StageCheckDevice::Touched> StageCheckDevice::touched_by(const Command& command) const {
  std::vector<Touched> touched;
  for (uint32_t o = 0; o < command.n_operands; ++o) {
    const BufferId id = command.operands[o].buffer;
    const auto is_same = [&](const Touched& other) { return other.id == id; };
    if (id == kNoBuffer || std::any_of(touched.begin(), touched.end(), is_same)) continue;
    std::vector<size_t> edges{0, buffers_.at(id - 1).content.size()};
    for (uint32_t i = 0; i < command.n_operands; ++i) {
      const Operand& operand = command.operands[i];
      if (operand.buffer != id) continue;
      edges.push_back(operand.offset_bytes);
      edges.push_back(operand.offset_bytes + operand.bytes);
    }
    std::sort(edges.begin(), edges.end());
    std::vector<Range> ranges;
    for (size_t e = 1; e < edges.size(); ++e) {
      if (edges[e] == edges[e - 1]) continue;
      Range range{edges[e - 1], edges[e], false, false};
      for (uint32_t i = 0; i < command.n_operands; ++i) {
        const Operand& operand = command.operands[i];
        if (operand.buffer != id || operand.offset_bytes > range.begin ||
            operand.offset_bytes + operand.bytes < range.end) {
          continue;
        }
        range.is_read = range.is_read || reads(command, i);
        range.is_written = range.is_written || writes(command, i);
      }
      ranges.push_back(range);
    }
    const bool is_constant = buffers_[id - 1].n_poisoned == 0 && ranges.size() == 1 &&
                             ranges[0].is_read && !ranges[0].is_written;
    if (!is_constant) touched.push_back({id, std::move(ranges), {}, {}});
  }
  return touched;
}

void StageCheckDevice::run_twice(std::vector<Touched>& touched, ProgramId command, bool poisons) {
  for (size_t run = 0; run < 2; ++run) {
    Bytes& pattern = patterns_[run];
    for (Touched& t : touched) {
      const Buffer& known = buffer(t.id);
      while (pattern.size() < known.content.size()) {
        pattern.push_back(pattern_byte(pattern.size(), run));
      }
      t.before[run] = known.content;
      for (const Range& range : t.ranges) {
        if (!range.is_read) {
          std::copy_n(&pattern[range.begin], range.end - range.begin, &t.before[run][range.begin]);
        } else if (poisons && known.n_poisoned > 0) {
          for (size_t at = range.begin; at < range.end; ++at) {
            if (known.states[at] != State::kDefined) t.before[run][at] = pattern[at];
          }
        }
      }
      device_->write(whole(t.id), t.before[run].data());
    }
    device_->run(command, 1, {});
    for (Touched& t : touched) {
      t.after[run].resize(t.before[run].size());
      device_->read(whole(t.id), t.after[run].data());
    }
  }
}

std::string StageCheckDevice::poisoned_operands(const std::vector<Touched>& touched) const {
  std::string labels;
  for (const Touched& t : touched) {
    const Buffer& known = buffers_[t.id - 1];
    const bool is_poisoned = std::any_of(t.ranges.begin(), t.ranges.end(), [&](const Range& range) {
      const auto first = known.states.begin() + static_cast<std::ptrdiff_t>(range.begin);
      const auto end = known.states.begin() + static_cast<std::ptrdiff_t>(range.end);
      return range.is_read && known.n_poisoned > 0 &&
             std::any_of(first, end, [](State state) { return state != State::kDefined; });
    });
    if (is_poisoned) labels += (labels.empty() ? " " : ", ") + known.label;
  }
  return labels;
}

void StageCheckDevice::run_command(const Program& program, size_t index) {
  ++n_checked_;
  const ProgramId command = program.commands[index];
  const std::string name = name_of(program.table, index);
  const std::vector<Touched> ranges = touched_by(program.table.commands()[index]);
  std::vector<Touched> touched = ranges, with_content;
  run_twice(touched, command, true);
  for (size_t i = 0; i < touched.size(); ++i) {
    const Touched& t = touched[i];
    Buffer& known = buffer(t.id);
    const bool varies = is_one_of(options_.varying, known.label);
    const auto where = [&](size_t at) {
      return " byte " + std::to_string(at) + " of buffer " + known.label;
    };
    for (const Range& range : t.ranges) {
      if (t.is_unchanged(range.begin, range.end - range.begin)) continue;
      for (size_t at = range.begin; at < range.end; ++at) {
        if (t.is_unchanged(at)) continue;
        if (!range.is_written) fail(name + " writes undeclared memory," + where(at));
        const bool defined = varies || t.after[0][at] == t.after[1][at];
        if (!defined && with_content.empty()) {
          with_content = ranges;
          run_twice(with_content, command, false);
          known.cause = ": a result of " + name + " from" + poisoned_operands(ranges);
        }
        const Touched& result = defined ? t : with_content[i];
        if (!result.is_unchanged(at)) {
          if (!varies && result.after[0][at] != result.after[1][at]) {
            fail(name + " reads undeclared memory, which changes" + where(at));
          }
          known.content[at] = result.after[0][at];
        }
        set_state(known, at, defined ? State::kDefined : State::kUndefined);
      }
    }
  }
  for (const Touched& t : touched) device_->write(whole(t.id), buffer(t.id).content.data());
}

void StageCheckDevice::run(ProgramId id, uint32_t times, const Operand& stop) {
  const Program& program = programs_.at(id);
  std::vector<size_t> order(program.commands.size());
  for (; times > 0; --times) {
    uint32_t stopped = 0;
    if (stop.present()) read(stop.part(0, sizeof stopped), &stopped);
    if (stopped != 0) break;
    std::iota(order.begin(), order.end(), size_t{0});
    for (auto first = order.begin(); first != order.end();) {
      const auto last = std::find_if(first, order.end(), [&](size_t command) {
        return program.stages[command] != program.stages[*first];
      });
      std::shuffle(first, last, random_);
      for (; first != last; ++first) run_command(program, *first);
    }
  }
  check_memory();
}

void StageCheckDevice::check_memory() {
  Bytes found;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const Buffer& known = buffers_[i];
    if (known.content.empty()) continue;
    found.resize(known.content.size());
    device_->read(whole(static_cast<BufferId>(i + 1)), found.data());
    if (std::memcmp(found.data(), known.content.data(), found.size()) == 0) continue;
    const auto differs = std::mismatch(found.begin(), found.end(), known.content.begin());
    fail("a command changed byte " + std::to_string(differs.first - found.begin()) + " of buffer " +
         known.label + " without declaring it");
  }
}

}  // namespace vesper
