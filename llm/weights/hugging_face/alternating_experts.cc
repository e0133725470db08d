#include "llm/weights/hugging_face/alternating_experts.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "error/error.h"
#include "shaders/kernel_params.h"

namespace vesper {
namespace {

constexpr uint64_t kBlock = 32, kPairBytes = 16, kBlockBytes = 17;  // of MXFP4
constexpr std::string_view kGateUp = "gate_up_proj", kDown = "down_proj";

// A part of an expert in a file.
struct Source {
  const uint8_t* data = nullptr;    // of the expert
  const uint8_t* scales = nullptr;  // of the expert, for MXFP4
  uint64_t rows = 0, columns = 0;   // of the expert
  uint64_t first = 0, step = 1;     // the part's rows: first, first + step, ...
};

// Rows of pairs of neighbours to GGUF's blocks: a scale, then elements i (low bits) and i + 16.
void to_blocks(const Source& source, uint64_t n_rows, uint8_t* out) {
  const uint64_t n_blocks = source.columns / kBlock;
  for (uint64_t i = 0; i < n_rows; ++i) {
    const uint64_t at = (source.first + i * source.step) * n_blocks;
    for (uint64_t b = 0; b < n_blocks; ++b, out += kBlockBytes) {
      const uint8_t* pairs = source.data + (at + b) * kPairBytes;
      out[0] = source.scales[at + b];
      for (uint64_t j = 0; j < kPairBytes / 2; ++j) {
        const uint8_t low = pairs[j], high = pairs[j + kPairBytes / 2];
        out[1 + 2 * j] = static_cast<uint8_t>((low & 15) | high << 4);
        out[2 + 2 * j] = static_cast<uint8_t>(low >> 4 | (high & 0xf0));
      }
    }
  }
}

// [columns, rows] to the part's rows, in tiles that fit the cache.
void to_rows(const Source& source, uint64_t element_bytes, uint64_t n_rows, uint8_t* out) {
  constexpr uint64_t kTile = 32;
  for (uint64_t row = 0; row < n_rows; row += kTile) {
    for (uint64_t column = 0; column < source.columns; column += kTile) {
      const uint64_t end_row = std::min(row + kTile, n_rows);
      const uint64_t end_column = std::min(column + kTile, source.columns);
      for (uint64_t c = column; c < end_column; ++c) {
        const uint8_t* from = source.data + c * source.rows * element_bytes;
        for (uint64_t r = row; r < end_row; ++r) {
          std::memcpy(out + (r * source.columns + c) * element_bytes,
                      from + (source.first + r * source.step) * element_bytes, element_bytes);
        }
      }
    }
  }
}

// Computes the tensors. Copies share it.
struct Computation {
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::map<std::string, Source, std::less<>> sources;  // by canonical name

  std::vector<uint8_t> operator()(const TensorView& tensor) const {
    const Source& source = sources.at(tensor.name);
    std::vector<uint8_t> bytes(tensor.bytes);
    uint64_t read_bytes = source.rows * source.columns;
    if (source.scales != nullptr) {
      to_blocks(source, tensor.shape[0], bytes.data());
      read_bytes /= 2;
    } else {
      const uint64_t element_bytes = dtype_bytes(tensor.dtype, 1);
      to_rows(source, element_bytes, tensor.shape[0], bytes.data());
      read_bytes *= element_bytes;
    }
    for (const auto& file : files) file->release(source.data, read_bytes);
    return bytes;
  }
};

// A name of the list above.
struct ExpertName {
  std::string layer;      // "decoder.layers.3."
  std::string_view stem;  // kGateUp or kDown
  std::string_view part;  // "", "_bias", "_blocks" or "_scales"
};

std::optional<ExpertName> expert_name(std::string_view name) {
  constexpr std::string_view kModel = "model.", kLayers = "layers.", kExperts = ".mlp.experts.";
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  const size_t experts = name.find(kExperts);
  if (!name.starts_with(kLayers) || experts == std::string_view::npos) return std::nullopt;
  const std::string_view leaf = name.substr(experts + kExperts.size());
  const std::string layer = "decoder." + std::string(name.substr(0, experts)) + ".";
  for (const std::string_view stem : {kGateUp, kDown}) {
    if (!leaf.starts_with(stem)) continue;
    const std::string_view part = leaf.substr(stem.size());
    if (part.empty() || part == "_bias" || part == "_blocks" || part == "_scales") {
      return ExpertName{layer, stem, part};
    }
  }
  return std::nullopt;
}

class Splitter {
 public:
  explicit Splitter(ModelContents& contents) : contents_(contents) {}

  void split() {
    std::vector<TensorView> stacks;
    std::map<std::string, UnreadableTensor> words;  // by the file's name
    std::erase_if(contents_.tensors, [&](const TensorView& tensor) {
      if (!expert_name(tensor.file_name)) return false;
      stacks.push_back(tensor);
      return true;
    });
    std::erase_if(contents_.unreadable, [&](const UnreadableTensor& tensor) {
      if (!expert_name(tensor.name)) return false;
      words.emplace(tensor.name, tensor);
      return true;
    });
    for (const TensorView& stack : stacks) add_plain(stack, *expert_name(stack.file_name));
    for (const auto& [file_name, blocks] : words) {
      const ExpertName name = *expert_name(file_name);
      if (name.part == "_scales") continue;
      if (name.part != "_blocks") {
        fail(file_name, "expected f32, f16 or bf16, found " + blocks.format);
      }
      const std::string stem = file_name.substr(0, file_name.size() - name.part.size());
      const auto scales = words.find(stem + "_scales");
      if (scales == words.end()) {
        fail(file_name, "expected a tensor " + stem + "_scales beside it, found none");
      }
      add_blocks(blocks, scales->second, name);
    }
    if (computation_->sources.empty()) return;
    computation_->files = contents_.files;
    contents_.compute = [computation = std::shared_ptr<const Computation>(computation_)](
                            const TensorView& tensor) { return (*computation)(tensor); };
  }

 private:
  [[noreturn]] void fail(const std::string& tensor, const std::string& message) const {
    throw Error(ErrorKind::kModel,
                contents_.files.front()->name() + ": tensor " + tensor + ": " + message);
  }

  void check_sizes(const std::string& tensor, const std::vector<uint64_t>& shape,
                   size_t rank) const {
    const bool has_sizes = shape.size() == rank && shape[0] <= kMostExperts &&
                           std::all_of(shape.begin(), shape.end(),
                                       [](uint64_t n) { return n > 0 && n <= UINT32_MAX; });
    if (has_sizes) return;
    fail(tensor, "expected " + std::to_string(rank) + " sizes above 0, the first at most " +
                     std::to_string(kMostExperts) + ", found shape " + shape_text(shape));
  }

  // Adds the parts of n experts, `all` the first. `view` has the format and the file's name;
  // `expert_bytes` and `expert_scales` lie between two experts.
  void add(const ExpertName& name, const char* leaf, TensorView view, uint64_t n, const Source& all,
           uint64_t expert_bytes, uint64_t expert_scales) {
    const bool alternates = name.stem == kGateUp;
    if (alternates && all.rows % 2 != 0) {
      fail(view.file_name, "expected an even number of rows, found " + std::to_string(all.rows));
    }
    const std::vector<std::string_view> parts = alternates
                                                    ? std::vector<std::string_view>{"gate", "up"}
                                                    : std::vector<std::string_view>{"down"};
    view.shape[0] = all.rows / parts.size();
    view.data = nullptr;
    view.bytes = dtype_bytes(view.dtype, view.n_elements());
    for (uint64_t e = 0; e < n; ++e) {
      for (size_t i = 0; i < parts.size(); ++i) {
        view.name =
            name.layer + "experts." + std::to_string(e) + "." + std::string(parts[i]) + leaf;
        Source source = all;
        source.data += e * expert_bytes;
        if (source.scales != nullptr) source.scales += e * expert_scales;
        source.first = i;
        source.step = parts.size();
        computation_->sources.emplace(view.name, source);
        contents_.tensors.push_back(view);
      }
    }
  }

  void add_plain(const TensorView& stack, const ExpertName& name) {
    const bool is_bias = name.part == "_bias";
    if (stack.dtype != DType::kF32 && stack.dtype != DType::kF16 && stack.dtype != DType::kBF16) {
      fail(stack.file_name,
           std::string("expected f32, f16 or bf16, found ") + dtype_descriptor(stack.dtype).name);
    }
    check_sizes(stack.file_name, stack.shape, is_bias ? 2 : 3);
    Source all;
    all.data = static_cast<const uint8_t*>(stack.data);
    all.rows = stack.shape.back();
    all.columns = is_bias ? 1 : stack.shape[1];
    TensorView view = stack;
    view.shape =
        is_bias ? std::vector<uint64_t>{all.rows} : std::vector<uint64_t>{all.rows, all.columns};
    add(name, is_bias ? ".bias" : ".weight", std::move(view), stack.shape[0], all,
        stack.bytes / stack.shape[0], 0);
  }

  void add_blocks(const UnreadableTensor& blocks, const UnreadableTensor& scales,
                  const ExpertName& name) {
    check_sizes(blocks.name, blocks.shape, 4);
    const std::vector<uint64_t> wanted(blocks.shape.begin(), blocks.shape.end() - 1);
    uint64_t n_blocks = 1;
    for (const uint64_t size : wanted) {
      if (__builtin_mul_overflow(n_blocks, size, &n_blocks)) n_blocks = UINT64_MAX / kBlock;
    }
    const auto check = [&](const UnreadableTensor& tensor, const std::vector<uint64_t>& shape,
                           uint64_t bytes) {
      if (tensor.format == "U8" && tensor.shape == shape && tensor.bytes == bytes) return;
      fail(tensor.name, "expected U8 of shape " + shape_text(shape) + " in " +
                            std::to_string(bytes) + " bytes, found " + tensor.format +
                            " of shape " + shape_text(tensor.shape) + " in " +
                            std::to_string(tensor.bytes) + " bytes");
    };
    std::vector<uint64_t> with_bytes = wanted;
    with_bytes.push_back(kPairBytes);
    check(blocks, with_bytes, n_blocks * kPairBytes);
    check(scales, wanted, n_blocks);
    Source all;
    all.data = static_cast<const uint8_t*>(blocks.data);
    all.scales = static_cast<const uint8_t*>(scales.data);
    all.rows = wanted[1];
    all.columns = wanted[2] * kBlock;
    TensorView view;
    view.file_name = blocks.name;
    view.dtype = DType::kMXFP4;
    view.shape = {all.rows, all.columns};
    add(name, ".weight", std::move(view), wanted[0], all, blocks.bytes / wanted[0],
        scales.bytes / wanted[0]);
  }

  ModelContents& contents_;
  std::shared_ptr<Computation> computation_ = std::make_shared<Computation>();
};

}  // namespace

void split_alternating_experts(ModelContents& contents) { Splitter(contents).split(); }

}  // namespace vesper
