#include "vad/silero_vad.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "error/error.h"
#include "llm/weights/hugging_face/safetensors.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

// Sizes from the tensor shapes and silero_vad/tinygrad_model.py of the package 6.2.3.
constexpr uint32_t kContext = 64;  // samples before a chunk that the model also reads
constexpr uint32_t kReflected = 64;
constexpr uint32_t kSeen = kContext + SileroVad::kChunkSamples + kReflected;
constexpr uint32_t kDft = 256, kHop = 128, kBins = 129;
constexpr uint32_t kFrames = (kSeen - kDft) / kHop + 1;
constexpr uint32_t kTaps = 3;
constexpr uint32_t kHidden = 128;

struct ConvolutionShape {
  const char* name;
  uint32_t n_in, n_out, stride, in_frames, out_frames;
};
constexpr std::array<ConvolutionShape, 4> kConvolutions = {{{"conv1", kBins, 128, 1, 4, 4},
                                                            {"conv2", 128, 64, 2, 4, 2},
                                                            {"conv3", 64, 64, 2, 2, 1},
                                                            {"conv4", 64, kHidden, 1, 1, 1}}};
static_assert(kFrames == kConvolutions.front().in_frames);

// Chunks of the passes of a recording, after the longest one: 8 s, 2 s, and 0.5 s.
constexpr std::array<uint32_t, 3> kPassChunks = {256, 64, 16};
// More silence fills the last pass, so that a recording that ends needs no passes of one chunk.
constexpr size_t kLastPass = kPassChunks.back();

// Rows of a convolution's output, with padding for the next one.
uint32_t out_rows(size_t index) {
  const uint32_t frames = kConvolutions[index].out_frames;
  return index + 1 < kConvolutions.size() ? frames + 2 : frames;
}

uint64_t float_bytes(uint64_t n) { return n * sizeof(float); }

size_t whole_passes(size_t n_chunks) { return (n_chunks + kLastPass - 1) / kLastPass * kLastPass; }

// Writes the chunk after the context at `first`, [kContext + kChunkSamples], as chunks_ has it.
void write_chunk(const float* first, float* out) {
  const float* const end = first + kContext + SileroVad::kChunkSamples;
  out = std::copy(first, end, out);
  // Mirrored at the last sample, without repeating it.
  std::reverse_copy(end - 1 - kReflected, end - 1, out);
}

std::unique_ptr<WeightProvider> open_silero(const std::filesystem::path& path) {
  Safetensors file;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    file = read_safetensors(ModelFiles(path));
  } else {
    auto mapped = std::make_shared<const MappedFile>(path);
    if (!is_safetensors(*mapped)) {
      throw Error(ErrorKind::kModel,
                  path.string() + ": expected Silero VAD as safetensors, found another format");
    }
    read_safetensors(std::move(mapped), file);
  }
  ModelContents contents;
  contents.format = "safetensors";
  contents.family = "silero-vad";
  contents.files = std::move(file.files);
  contents.tensors = std::move(file.tensors);
  contents.unreadable = std::move(file.unreadable);
  return std::make_unique<WeightProvider>(path, std::move(contents));
}

const TensorView& require_shape(const WeightProvider& provider, const std::string& name,
                                const std::vector<uint64_t>& shape) {
  const TensorView& tensor = provider.require(name);
  if (tensor.shape == shape) return tensor;
  throw Error(ErrorKind::kModel, provider.path().string() + ": tensor " + name +
                                     " of Silero VAD: expected " + shape_text(shape) + ", found " +
                                     shape_text(tensor.shape));
}

// Converts [4 * kHidden, kHidden] to the panels of the kernel lstm.
std::vector<float> in_panels(const std::vector<float>& weight) {
  std::vector<float> panels(weight.size());
  for (size_t j = 0; j < 4 * kHidden; ++j) {
    for (size_t k = 0; k < kHidden; ++k) {
      panels[(j / kLstmPanel * kHidden + k) * kLstmPanel + j % kLstmPanel] =
          weight[j * kHidden + k];
    }
  }
  return panels;
}

}  // namespace

SileroVad::SileroVad(Device& device, const std::filesystem::path& model)
    : SileroVad(device, *open_silero(model)) {}

SileroVad::SileroVad(Device& device, const WeightProvider& weights)
    : device_(device),
      most_chunks_(std::max(device.info().policy.speech_chunks, kPassChunks.front())),
      n_together_(most_chunks_ / kPassChunks.front()),
      pending_(kContext, 0.0f),
      input_(size_t{most_chunks_} * kSeen) {
  // f32, to equal the reference. The model is small.
  const Compute compute = device.resolve(Compute::kF32, WeightUse::kManyRows);
  const WeightUploader upload(device, weights, compute);
  const auto buffer = [&](uint64_t n, const char* label) {
    return device.allocate(float_bytes(n), label);
  };

  const TensorView& spectrum = require_shape(weights, "stft_conv.weight", {2 * kBins, 1, kDft});
  spectrum_weight_ =
      device.upload({{&spectrum}, MatrixKind::kConvolution}, WeightUse::kManyRows, compute);
  for (size_t i = 0; i < kConvolutions.size(); ++i) {
    const ConvolutionShape& shape = kConvolutions[i];
    require_shape(weights, std::string(shape.name) + ".weight", {shape.n_out, shape.n_in, kTaps});
    convolutions_.push_back(
        {upload.convolution(shape.name, shape.n_out, shape.n_in, kTaps),
         buffer(uint64_t{most_chunks_} * out_rows(i) * shape.n_out, shape.name)});
  }
  const TensorView& input = require_shape(weights, "lstm_cell.weight_ih", {4 * kHidden, kHidden});
  input_weight_ = device.upload({{&input}}, WeightUse::kManyRows, compute);
  const auto vector = [&](const char* name, const std::vector<uint64_t>& shape) {
    return read_f32(require_shape(weights, name, shape));
  };
  std::vector<float> bias = vector("lstm_cell.bias_ih", {4 * kHidden});
  const std::vector<float> more = vector("lstm_cell.bias_hh", {4 * kHidden});
  std::transform(bias.begin(), bias.end(), more.begin(), bias.begin(), std::plus<float>());
  gate_bias_ = buffer(bias.size(), "lstm_cell.bias");
  device.write(gate_bias_, bias.data());
  const std::vector<float> panels =
      in_panels(vector("lstm_cell.weight_hh", {4 * kHidden, kHidden}));
  recurrent_weight_ = buffer(panels.size(), "lstm_cell.weight_hh");
  device.write(recurrent_weight_, panels.data());
  require_shape(weights, "final_conv.weight", {1, kHidden, 1});
  output_ = upload.convolution("final_conv", 1, kHidden, 1);

  state_ = buffer(uint64_t{n_together_} * 2 * kHidden, "state of voice activity");
  chunks_ = buffer(uint64_t{most_chunks_} * kSeen, "samples for voice activity");
  spectrum_ = buffer(uint64_t{most_chunks_} * kFrames * 2 * kBins, "spectrum for voice activity");
  magnitudes_ = buffer(uint64_t{most_chunks_} * (kFrames + 2) * kBins, "magnitudes");
  gates_ = buffer(uint64_t{most_chunks_} * 4 * kHidden, "gates of voice activity");
  hidden_ = buffer(uint64_t{most_chunks_} * kHidden, "memory of voice activity");
  probabilities_ = buffer(most_chunks_, "probabilities of speech");
  if (n_together_ > 1) passes_.push_back({1, most_chunks_});
  for (const uint32_t n_chunks : kPassChunks) {
    passes_.push_back({1, n_chunks});
    if (n_together_ > 1) side_by_side_.push_back({n_together_, n_chunks});
  }
  passes_.push_back({1, 1});
  std::vector<Pass*> all;
  for (Pass& pass : passes_) all.push_back(&pass);
  for (Pass& pass : side_by_side_) all.push_back(&pass);
  std::vector<DispatchTable> tables(all.size());
  for (size_t i = 0; i < all.size(); ++i) emit(tables[i], *all[i]);
  const std::vector<ProgramId> programs = device.record_all(tables);
  for (size_t i = 0; i < all.size(); ++i) all[i]->program = programs[i];
}

void SileroVad::emit(DispatchTable& table, const Pass& pass) const {
  const uint32_t n_chunks = pass.n_recordings * pass.n_chunks;
  MatmulParams spectrum{};
  spectrum.n_rows = n_chunks * kFrames;
  spectrum.n_out = spectrum.out_row_stride = 2 * kBins;
  spectrum.n_in = kDft;
  spectrum.in_row_stride = kHop;
  spectrum.rows_per_batch = kFrames;
  spectrum.in_batch_stride = kSeen;
  spectrum.out_batch_stride = kFrames * 2 * kBins;
  spectrum.in_dtype = spectrum.out_dtype = kDTypeF32;
  spectrum.weight_format = spectrum_weight_.format;
  emit::matmul(table, "vad.spectrum", spectrum, spectrum_, chunks_, spectrum_weight_.data, {}, {},
               spectrum_weight_.scale);
  emit::magnitude(table, "vad.magnitude",
                  {n_chunks * kFrames, kBins, kFrames, (kFrames + 2) * kBins},
                  magnitudes_.from(float_bytes(kBins)), spectrum_);

  Operand in = magnitudes_;
  for (size_t i = 0; i < kConvolutions.size(); ++i) {
    const ConvolutionShape& shape = kConvolutions[i];
    const Convolution& convolution = convolutions_[i];
    const std::string label = std::string("vad.") + shape.name;
    MatmulParams params{};
    params.n_rows = n_chunks * shape.out_frames;
    params.n_out = params.out_row_stride = shape.n_out;
    params.n_in = kTaps * shape.n_in;
    params.in_row_stride = shape.stride * shape.n_in;
    params.rows_per_batch = shape.out_frames;
    params.in_batch_stride = (shape.in_frames + 2) * shape.n_in;
    params.out_batch_stride = out_rows(i) * shape.n_out;
    params.in_dtype = params.out_dtype = kDTypeF32;
    params.weight_format = convolution.weights.weight.format;
    const bool padded = out_rows(i) > shape.out_frames;
    emit::matmul(table, label, params, convolution.out.from(padded ? float_bytes(shape.n_out) : 0),
                 in, convolution.weights.weight.data, convolution.weights.bias, {},
                 convolution.weights.weight.scale);
    // The padding is included and stays zero.
    emit::activation(table, label + ".relu",
                     {n_chunks * out_rows(i) * shape.n_out, kActivationRelu, 0}, convolution.out,
                     convolution.out);
    in = convolution.out;
  }

  emit_linear(table, "vad.gates", {input_weight_, gate_bias_}, n_chunks, gates_, DType::kF32, in,
              DType::kF32);
  emit::lstm(table, "vad.lstm", {pass.n_recordings, pass.n_chunks, kHidden}, hidden_, state_,
             gates_, recurrent_weight_);
  emit::activation(table, "vad.lstm.relu", {n_chunks * kHidden, kActivationRelu, 0}, hidden_,
                   hidden_);
  emit_linear(table, "vad.output", output_, n_chunks, probabilities_, DType::kF32, hidden_,
              DType::kF32);
  emit::activation(table, "vad.sigmoid", {n_chunks, kActivationSigmoid, 0}, probabilities_,
                   probabilities_);
}

void SileroVad::run(const Pass& pass) {
  for (uint32_t i = 0; i < pass.n_chunks; ++i) {
    write_chunk(&pending_[i * kChunkSamples], &input_[size_t{i} * kSeen]);
  }
  collect();
  device_.write(chunks_.part(0, float_bytes(uint64_t{pass.n_chunks} * kSeen)), input_.data());
  device_.run(pass.program);
  n_unread_ = pass.n_chunks;
  pending_.erase(pending_.begin(),
                 pending_.begin() + static_cast<std::ptrdiff_t>(pass.n_chunks * kChunkSamples));
}

void SileroVad::collect() {
  if (n_unread_ == 0) return;
  const size_t before = found_.size();
  found_.resize(before + n_unread_);
  device_.read(probabilities_.part(0, float_bytes(n_unread_)), found_.data() + before);
  n_unread_ = 0;
}

// Runs passes while at least `least_chunks` chunks are pending.
void SileroVad::run_all(size_t least_chunks) {
  for (const Pass& pass : passes_) {
    while ((pending_.size() - kContext) / kChunkSamples >= std::max<size_t>(pass.n_chunks, 1) &&
           pass.n_chunks >= least_chunks) {
      run(pass);
    }
  }
}

void SileroVad::push(const float* samples, size_t n) {
  // In blocks of one pass, so that pending_ stays small.
  const size_t block = size_t{most_chunks_} * kChunkSamples;
  for (size_t done = 0; done < n; done += block) {
    pending_.insert(pending_.end(), samples + done, samples + std::min(n, done + block));
    run_all(most_chunks_);
  }
}

std::vector<float> SileroVad::take() {
  run_all(1);
  collect();
  return std::exchange(found_, {});
}

std::vector<float> SileroVad::finish() {
  collect();
  const size_t n_left = (pending_.size() - kContext + kChunkSamples - 1) / kChunkSamples;
  const size_t n_all = found_.size() + n_left;
  pending_.resize(kContext + whole_passes(n_left) * kChunkSamples, 0.0f);
  run_all(1);
  collect();
  found_.resize(n_all);
  pending_.assign(kContext, 0.0f);
  const std::vector<float> rest(size_t{n_together_} * 2 * kHidden, 0.0f);
  device_.write(state_, rest.data());
  return std::exchange(found_, {});
}

std::vector<std::vector<float>> SileroVad::of_recordings(
    std::span<const std::vector<float>> recordings) {
  if (recordings.size() > n_together_) {
    throw Error(ErrorKind::kInternal, "voice activity: expected at most " +
                                          std::to_string(n_together_) + " recordings, found " +
                                          std::to_string(recordings.size()));
  }
  finish();
  std::vector<std::vector<float>> padded, found(recordings.size());
  std::vector<size_t> n_chunks;
  size_t n_all = 0;
  for (const std::vector<float>& samples : recordings) {
    n_chunks.push_back((samples.size() + kChunkSamples - 1) / kChunkSamples);
    n_all = std::max(n_all, whole_passes(n_chunks.back()));
  }
  for (const std::vector<float>& samples : recordings) {
    std::vector<float>& with_silence = padded.emplace_back(kContext + n_all * kChunkSamples);
    std::ranges::copy(samples, with_silence.begin() + kContext);
  }
  const std::vector<Pass>& passes = n_together_ > 1 ? side_by_side_ : passes_;
  std::vector<float> read(most_chunks_);
  for (size_t done = 0; done < n_all;) {
    const Pass& pass = *std::ranges::find_if(
        passes, [&](const Pass& each) { return each.n_chunks <= n_all - done; });
    const size_t n = pass.n_chunks;
    for (size_t r = 0; r < recordings.size(); ++r) {
      for (size_t i = 0; i < n; ++i) {
        write_chunk(&padded[r][(done + i) * kChunkSamples], &input_[(r * n + i) * kSeen]);
      }
    }
    device_.write(chunks_.part(0, float_bytes(recordings.size() * n * kSeen)), input_.data());
    device_.run(pass.program);
    device_.read(probabilities_.part(0, float_bytes(recordings.size() * n)), read.data());
    for (size_t r = 0; r < recordings.size(); ++r) {
      const size_t end = std::min(done + n, n_chunks[r]);
      for (size_t i = done; i < end; ++i) found[r].push_back(read[r * n + (i - done)]);
    }
    done += n;
  }
  finish();
  return found;
}

}  // namespace vesper
