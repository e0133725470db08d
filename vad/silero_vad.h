// Voice activity by Silero VAD v6: 16 kHz samples in, for every 32 ms the probability of speech
// out.
//
// A short-time spectrum, four convolutions over its magnitudes, a long short-term memory and one
// output, as commands on a Device; all but the memory is computed for many chunks at once. Called
// by the programs before the log-mel is decoded; vad/speech_segments.h makes segments of
// what comes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "llm/models/transformer.h"
#include "llm/table/device.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

class SileroVad {
 public:
  static constexpr uint32_t kChunkSamples = 512;  // at 16 kHz: one probability

  // Loads `model`, weights as safetensors under the names of the package's tinygrad_model.py, or a
  // folder with such a file alone (scripts/fetch-models.sh makes one of the ONNX model), onto
  // the device, which must outlive this. Throws Error(kModel) naming the tensor that is missing or
  // has another shape; Error(kDevice).
  SileroVad(Device& device, const std::filesystem::path& model);
  // The same of files that are open, which are not needed later.
  SileroVad(Device& device, const WeightProvider& weights);

  // Takes the next samples, [n], 16 kHz mono, full scale +-1.
  void push(const float* samples, size_t n);

  // Ends the program and begins another: the probabilities of the one that ended, each of
  // kChunkSamples from its start on, the last chunk filled up with silence.
  std::vector<float> finish();

 private:
  // A convolution of three taps over zero-padded frames.
  struct Convolution {
    LinearWeights weights;
    Operand out;  // f32 [chunks, frames + 2 (none for the last), channels]
  };
  // The pass for a certain number of chunks.
  struct Pass {
    uint32_t n_chunks;
    ProgramId program;
  };

  void emit(DispatchTable& table, uint32_t n_chunks) const;
  // Runs the pass over the first chunks of pending_ and forgets their samples.
  void run(const Pass& pass);
  void run_all(size_t least_chunks);

  Device& device_;
  Weight spectrum_weight_;  // [258, 256]: windowed cosines above sines
  std::vector<Convolution> convolutions_;
  Weight input_weight_;       // [512, 128] of the memory's input
  Operand gate_bias_;         // f32 [512], both biases of the memory together
  Operand recurrent_weight_;  // f32, in panels (lstm in shaders/kernel_params.h)
  LinearWeights output_;      // [1, 128]
  Operand state_;             // f32 [2, 128]
  Operand chunks_;            // f32 [chunks, 640]: the context before, the chunk, its reflection
  Operand spectrum_;          // f32 [chunks * 4, 258]
  Operand magnitudes_;        // f32 [chunks, 6, 129], the first and last row zero
  Operand gates_;             // f32 [chunks, 512]
  Operand hidden_;            // f32 [chunks, 128]
  Operand probabilities_;     // f32 [chunks]
  std::vector<Pass> passes_;  // the largest first, the last of one chunk

  std::vector<float> pending_;  // the context of the next chunk, then samples not used yet
  std::vector<float> input_;    // one pass's chunks, as chunks_ has them
  std::vector<float> found_;    // probabilities so far
};

}  // namespace vesper
