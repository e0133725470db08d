// Where tables run: the only virtual class of the engine.
//
// In: weights, buffers and a DispatchTable. A Device records the table once, with all decisions,
// and replays it. Made by open_device, used by the model builders. One thread uses a Device at a
// time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/dtype/tensor_view.h"
#include "llm/table/dispatch_table.h"

namespace vesper {

// The format of products: of their inputs and of the multiplication. Accumulation is always f32
// (i32 for int8).
enum class Compute { kAuto, kF32, kF16, kBF16, kI8 };
inline constexpr size_t kComputeCount = 5;
// Throws Error(kUsage) if `name` is not auto, f32, f16, bf16 or int8.
Compute parse_compute(std::string_view name);
std::string_view compute_name(Compute compute);

// A device's decisions for the models on it, as data. Filled when the device is opened, read by
// builders and programs.
struct DevicePolicy {
  DevicePolicy();  // no rounding, activations named like the Compute

  // For products of a Compute with matrices of WeightUse::kAnyRows.
  struct Products {
    // Format of the inputs, for people: "int8".
    std::string activations;
    // Attention within a prompt may round its inputs to bf16: where that is faster, and the
    // products round at least as much.
    bool rounds_attention = false;
  };
  const Products& products(Compute resolved, bool is_quantized) const {
    return products_[is_quantized][static_cast<size_t>(resolved)];
  }
  Products& products(Compute resolved, bool is_quantized) {
    return products_[is_quantized][static_cast<size_t>(resolved)];
  }

  // Whether a KvCache stores the layers of a page together. Where memory is allocated as large
  // pages on first touch, a short sequence then touches fewer of them.
  bool keeps_layers_together = false;

  // Token rows of one batch of texts to be embedded: enough to keep every core or processor busy,
  // few enough that what a layer writes is still in a CPU's caches when the next one reads it.
  uint32_t embedding_batch_tokens = 512;

  // Token rows of the longest pass over a prompt.
  uint32_t most_pass_rows = 512;

  // Windows of speech that a batch encodes at once. On an H200, eight of base take 4.8 ms, and one
  // takes 1.1 ms; a CPU gains nothing.
  uint32_t encoded_windows = 1;

  // Whether a step with several times as many sequences takes little longer, while there are few: a
  // window that fails is then decoded at several temperatures at once.
  bool sequences_are_cheap = false;

  // Steps of up to this number of rows give a row the same bits, whatever their number. So do steps
  // of at least two rows more, but other bits. 0: the bits may differ between any two numbers.
  uint32_t most_alike_rows = 0;

  // Chunks of 32 ms in the longest pass of voice activity. All but the LSTM of a pass is parallel.
  uint32_t speech_chunks = 256;

  // Whether attention can prepare the heads of new positions and write their keys and values
  // (kAttentionWritesKv).
  bool attention_writes_kv = false;

  // A GPU that the CPU emulates: a product that keeps a real one busy takes minutes.
  bool is_emulated_gpu = false;

 private:
  std::array<std::array<Products, kComputeCount>, 2> products_;  // [quantized][Compute]
};

struct DeviceInfo {
  std::string kind;  // "cpu", "vulkan"
  std::string name;  // the hardware's name
  bool is_hardware_gpu = false;
  uint64_t memory_bytes = 0;  // limit for all buffers, 0: unknown
  // A capability and the kernel variants that it leads to, for people.
  struct Capability {
    std::string name, what;  // "int8 products", "AMX tiles"
  };
  std::vector<Capability> capabilities;
  DevicePolicy policy{};
};

// How a matrix is used; determines its storage.
enum class WeightUse {
  kManyRows,   // products with hundreds of rows at once: an encoder
  kAnyRows,    // products with 1 to a few hundred rows: a decoder
  kEmbedding,  // as kAnyRows, and `embed` gathers its rows
  kLookup,     // only `embed` gathers its rows
};

// A matrix on a device.
struct Weight {
  Operand data;
  Operand scale;        // f32 [n_out], absent if the format has none
  uint32_t format = 0;  // the device's name of its storage format; the `weight_format` of commands
  uint32_t n_out = 0, n_in = 0;
  // Products of this number of rows or fewer read int8 rows, and can write them (MatmulParams); 0:
  // never.
  uint32_t int8_rows = 0;
  uint32_t gate_rows = 0;        // likewise: can have gates
  uint32_t norm_rows = 0;        // likewise: can have an RMS norm of their input
  uint32_t layer_norm_rows = 0;  // likewise: can have a layer norm of their input
  // Products of this number of rows or more can have gates too.
  uint32_t gate_from_rows = UINT32_MAX;
};

using ProgramId = uint32_t;

// How a device runs a command.
struct CommandVariant {
  std::string variant;             // shader or instruction set; empty: only one
  std::array<uint32_t, 3> grid{};  // workgroups; on the CPU tasks
  uint64_t spilled_bytes = 0;      // per lane: registers that are kept in memory; 0 if not known
};

// Where the device reads its clock during a replay.
enum class Clock {
  kOff,
  kPerStage,    // at the existing barriers, possibly only in some replays of a chain
  kPerCommand,  // after each command, with an added barrier
};
// Times of the replays of one program.
struct ReplayTimes {
  uint64_t n_runs = 0;     // without those that a stop word skipped
  std::vector<double> us;  // microseconds, [stages] or [commands] of the table, summed over these
                           // runs
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;

  // The format of activations between commands for this choice and use. kAuto becomes the fastest
  // format that keeps accuracy, or stays kAuto if the device chooses per matrix by its file format.
  // Throws Error(kUsage) if the device lacks the format.
  virtual Compute resolve(Compute wanted, WeightUse use) const = 0;
  // The format that norm, attention and matmul write as input of a product, for the use, choice and
  // number of rows of a pass.
  virtual DType activation_dtype(Compute resolved, WeightUse use, uint32_t n_rows) const = 0;

  // A zeroed buffer that lives as long as the device. Throws Error(kDevice) with the requested and
  // the available size.
  virtual Operand allocate(uint64_t bytes, std::string_view label) = 0;
  // Stores a matrix for products with this choice. Throws Error(kModel) naming tensor and format if
  // the device has no kernel for it; Error(kDevice) if it does not fit.
  virtual Weight upload(const MatrixSource& source, WeightUse use, Compute resolved) = 0;

  // Copies between host and device memory, ordered with runs. Neither allocates.
  virtual void write(const Operand& to, const void* from) = 0;
  virtual void read(const Operand& from, void* to) = 0;
  // False for a device that only plans: written data need not be computed.
  virtual bool keeps_writes() const { return true; }

  // Prepares a table for replay. Throws Error(kInternal) with the label of a command that the
  // device cannot run.
  virtual ProgramId record(const DispatchTable& table) = 0;
  // The same for several tables, compiling their kernels in parallel.
  virtual std::vector<ProgramId> record_all(std::span<const DispatchTable> tables) {
    std::vector<ProgramId> ids;
    for (const DispatchTable& table : tables) ids.push_back(record(table));
    return ids;
  }
  // One per command.
  virtual std::vector<CommandVariant> variants(ProgramId program) const = 0;
  // Replays a program `times` times. With `stop` (u32), replays after it became non-zero are
  // skipped. May return before the work is done; reads wait for it.
  virtual void run(ProgramId program, uint32_t times = 1, const Operand& stop = {}) = 0;

  // Times the following replays in this way, in the usual command buffers, and resets the times.
  // Throws Error(kDevice) if the device has no clock.
  virtual void set_clock(Clock clock) = 0;
  // Waits for the replays. Empty if the program did not run since set_clock.
  virtual ReplayTimes replay_times(ProgramId program) = 0;

  // Another device on the same hardware, with buffers of its own. Another thread may use it at the
  // same time, and the work of both runs side by side if the hardware can. Null if there is none,
  // or without DeviceOptions::opens_beside.
  virtual std::unique_ptr<Device> open_beside() { return nullptr; }

  // The bytes that upload() would take, scales and padding included.
  virtual uint64_t stored_bytes(const MatrixSource& source, WeightUse use,
                                Compute resolved) const = 0;
};

struct DeviceOptions {
  uint32_t n_threads = 0;      // CPU threads; 0: one per available core
  bool full_barriers = false;  // a barrier after each command, to test the derived ones
  // CPU: seed of a random order of the tasks of a stage; 0: as listed.
  uint64_t shuffle_seed = 0;
  // Whether open_beside() will be called. A GPU takes 40 ms to open and close a second queue.
  bool opens_beside = false;
};

}  // namespace vesper
