// Where tables run: the one virtual class of the engine.
//
// In come weights, buffers and a DispatchTable; a Device records the table once (everything that
// can be decided is decided then) and replays it. Made by open_device, used by the model builders.
// One thread uses a Device at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/dtype/tensor_view.h"
#include "llm/table/dispatch_table.h"

namespace vesper {

// The format of products: of their inputs between commands, and of the multiplication itself.
// Accumulation is f32 (i32 for int8) always.
enum class Compute { kAuto, kF32, kF16, kBF16, kI8 };
inline constexpr size_t kComputeCount = 5;
// Throws Error(kUsage) listing the names if `name` is none of auto, f32, f16, bf16, int8.
Compute parse_compute(std::string_view name);
std::string_view compute_name(Compute compute);

// What a device decides for the models that are built on it, as data: filled once, when the device
// is opened, and read by builders and programs.
struct DevicePolicy {
  DevicePolicy();  // no rounding, activations named as the choice of products

  // For a choice of products with matrices used by kAnyRows.
  struct Products {
    // What the matrices are multiplied with, for people: "int8".
    std::string activations;
    // Whether attention among the rows of a prompt may round its factors to bf16: where that is
    // faster, and the products round more or are asked to.
    bool rounds_attention = false;
  };
  const Products& products(Compute resolved, bool is_quantized) const {
    return products_[is_quantized][static_cast<size_t>(resolved)];
  }
  Products& products(Compute resolved, bool is_quantized) {
    return products_[is_quantized][static_cast<size_t>(resolved)];
  }

  // Whether a KvCache keeps the layers of a page together: where memory is given by large pages
  // when it is first touched, a short sequence then touches few.
  bool keeps_layers_together = false;

 private:
  std::array<std::array<Products, kComputeCount>, 2> products_;  // [quantized][Compute]
};

struct DeviceInfo {
  std::string kind;  // "cpu", "vulkan"
  std::string name;  // as the hardware calls itself
  bool is_hardware_gpu = false;
  uint64_t memory_bytes = 0;  // what buffers may take in all, 0 if not known
  // For people: what it has, and which variants of kernels that leads to.
  struct Capability {
    std::string name, what;  // "int8 products", "AMX tiles"
  };
  std::vector<Capability> capabilities;
  DevicePolicy policy{};
};

// How a matrix will be used: a device chooses its storage by that.
enum class WeightUse {
  kManyRows,   // products with hundreds of rows at once: an encoder
  kAnyRows,    // products with 1 to a few hundred rows: a decoder
  kEmbedding,  // as kAnyRows, and its rows are gathered by `embed`
  kLookup,     // its rows are gathered by `embed`, and that is all
};

// A matrix on a device.
struct Weight {
  Operand data;
  Operand scale;        // f32 [n_out], absent where the format has none
  uint32_t format = 0;  // the device's own name for its storage; goes into `weight_format`
  uint32_t n_out = 0, n_in = 0;
};

using ProgramId = uint32_t;

// How a device runs a command.
struct CommandVariant {
  std::string variant;             // of the kernel: a shader, or instructions; empty: there is one
  std::array<uint32_t, 3> grid{};  // workgroups; on the CPU tasks for its threads
};

// At which points of a replay the device reads its clock.
enum class Clock {
  kOff,
  kPerStage,    // at the barriers that are there anyway, of a chain maybe in some replays only
  kPerCommand,  // after each command, with a barrier there
};
// What the clock found out about the replays of one program.
struct ReplayTimes {
  uint64_t n_runs = 0;     // but for those that a stop word left out
  std::vector<double> us;  // [stages] or [commands] of the table, of all these runs together
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;

  // The format activations have between commands for this choice, and whether the device can do it
  // for a model whose matrices are used so: resolves kAuto to the fastest that keeps accuracy, or
  // leaves it where that is chosen for each matrix by what its file has. Throws Error(kUsage) if
  // the device cannot.
  virtual Compute resolve(Compute wanted, WeightUse use) const = 0;
  // What norm, attention and matmul should write as the input of a product: by `use`, choice and
  // the rows of a pass.
  virtual DType activation_dtype(Compute resolved, WeightUse use, uint32_t n_rows) const = 0;

  // A buffer of zeros, for the device's life. Throws Error(kDevice) saying how much was wanted and
  // how much there is.
  virtual Operand allocate(uint64_t bytes, std::string_view label) = 0;
  // Stores a matrix as products with this choice want it. Throws Error(kModel) for a format that
  // the device has no kernel for, naming tensor and format; Error(kDevice) if it does not fit.
  virtual Weight upload(const MatrixSource& source, WeightUse use, Compute resolved) = 0;

  // Copies between host and device memory, in order with runs. Neither allocates.
  virtual void write(const Operand& to, const void* from) = 0;
  virtual void read(const Operand& from, void* to) = 0;
  // False for a device that a model is only planned on: what would be written need not be made.
  virtual bool keeps_writes() const { return true; }

  // Prepares a table for replay. Throws Error(kInternal) naming the label of a command that the
  // device cannot run.
  virtual ProgramId record(const DispatchTable& table) = 0;
  // The same for several, in less time where kernels have to be compiled.
  virtual std::vector<ProgramId> record_all(std::span<const DispatchTable> tables) {
    std::vector<ProgramId> ids;
    for (const DispatchTable& table : tables) ids.push_back(record(table));
    return ids;
  }
  // Of each command.
  virtual std::vector<CommandVariant> variants(ProgramId program) const = 0;
  // Replays a program `times` times. If `stop` is given (u32), replays after it became non-zero
  // do nothing. May return before the work is done; reads wait for it.
  virtual void run(ProgramId program, uint32_t times = 1, const Operand& stop = {}) = 0;

  // From here on replays are clocked so, in the same command buffers as ever; times so far are
  // forgotten. Throws Error(kDevice) if the device has no clock.
  virtual void set_clock(Clock clock) = 0;
  // Waits for the replays. Nothing if the program did not run since set_clock.
  virtual ReplayTimes replay_times(ProgramId program) = 0;

  // The bytes that upload() of this would take, scales and padding included.
  virtual uint64_t stored_bytes(const MatrixSource& source, WeightUse use,
                                Compute resolved) const = 0;
};

// The value of `name` in the environment variable VESPER_TUNING=name=value,name=value,... if it is
// there: it replaces a tuned choice of a device for an experiment. Numbers of a value are separated
// by x. The names stand where the choices are made (llm/vulkan/kernel_plan.cc).
std::optional<std::string> tuning_override(std::string_view name);

struct DeviceOptions {
  uint32_t n_threads = 0;      // for the CPU; 0: as many as there are cores to run on
  bool full_barriers = false;  // a barrier after each command, to prove the derived ones
  uint64_t shuffle_seed =
      0;  // CPU: commands of a stage run in an order drawn from this; 0: as listed
  // CPU, for tests, slow: fail at a command that touches memory which it does not declare.
  bool check_declarations = false;
};

}  // namespace vesper
