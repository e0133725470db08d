// Voice activity by Silero VAD v6. In: 16 kHz samples. Out: the probability of speech of every 32
// ms.
//
// A short-time spectrum, four convolutions over its magnitudes, an LSTM and one output, as commands
// on a Device. Everything but the LSTM is computed for many chunks at once. Called by
// vad/extract_speech.h and the sessions; vad/speech_segments.h makes segments of the probabilities.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "llm/models/linear.h"
#include "llm/table/device.h"
#include "llm/weights/weight_provider.h"

namespace vesper {

class SileroVad {
 public:
  static constexpr uint32_t kChunkSamples = 512;  // at 16 kHz: one probability

  // Loads `model` onto the device, which must outlive this object: weights as safetensors with the
  // names of the package's tinygrad_model.py, or a folder with only such a file
  // (scripts/fetch-models.sh makes one from the ONNX model). Throws Error(kModel) naming a tensor
  // that is missing or has another shape; Error(kDevice).
  SileroVad(Device& device, const std::filesystem::path& model);
  // The same from open files, which are not needed afterwards.
  SileroVad(Device& device, const WeightProvider& weights);

  // Takes the next samples, [n], 16 kHz mono, full scale +-1.
  void push(const float* samples, size_t n);

  // The probability of each complete chunk that no call has returned, in order. The recording goes
  // on.
  std::vector<float> take();

  // Ends the recording and begins another one. Returns the probability of each chunk of
  // kChunkSamples that take() has not; the last chunk is padded with silence.
  std::vector<float> finish();

  // Recordings that of_recordings() takes at once; 1 on a CPU.
  size_t n_together() const { return n_together_; }
  // What finish() returns for each of up to n_together() whole recordings, computed side by side.
  // Drops a recording that has not ended.
  std::vector<std::vector<float>> of_recordings(std::span<const std::vector<float>> recordings);

 private:
  // A convolution of width 3 over zero-padded frames.
  struct Convolution {
    LinearWeights weights;
    Operand out;  // f32 [chunks, frames + 2 (last layer: frames), channels]
  };
  // The pass for a number of chunks of each of some recordings.
  struct Pass {
    uint32_t n_recordings, n_chunks;
    ProgramId program = 0;
  };

  void emit(DispatchTable& table, const Pass& pass) const;
  // Starts the pass over the first chunks of pending_ and removes their samples.
  void run(const Pass& pass);
  // Reads the probabilities of the last pass. The next chunks are prepared while it runs.
  void collect();
  void run_all(size_t least_chunks);

  Device& device_;
  const uint32_t most_chunks_;  // of a pass
  const uint32_t n_together_;
  Weight spectrum_weight_;  // [258, 256]: windowed cosines, then sines
  std::vector<Convolution> convolutions_;
  Weight input_weight_;             // [512, 128], input weights of the LSTM
  Operand gate_bias_;               // f32 [512], sum of both biases of the LSTM
  Operand recurrent_weight_;        // f32, in panels (lstm in shaders/kernel_params.h)
  LinearWeights output_;            // [1, 128]
  Operand state_;                   // f32 [n_together, 2, 128]
  Operand chunks_;                  // f32 [chunks, 640]: previous context, chunk, reflection
  Operand spectrum_;                // f32 [chunks * 4, 258]
  Operand magnitudes_;              // f32 [chunks, 6, 129], first and last row zero
  Operand gates_;                   // f32 [chunks, 512]
  Operand hidden_;                  // f32 [chunks, 128]
  Operand probabilities_;           // f32 [chunks]
  std::vector<Pass> passes_;        // of one recording; largest first, the last has one chunk
  std::vector<Pass> side_by_side_;  // of n_together recordings; largest first

  std::vector<float> pending_;  // context of the next chunk, then unused samples
  std::vector<float> input_;    // chunks of one pass, in the layout of chunks_
  std::vector<float> found_;    // probabilities so far
  uint32_t n_unread_ = 0;       // more of them on the device
};

}  // namespace vesper
