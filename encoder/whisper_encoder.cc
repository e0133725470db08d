#include "encoder/whisper_encoder.h"

#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

// Width of both convolutions; the second has stride 2 (Whisper's AudioEncoder).
constexpr uint32_t kConvWidth = 3;
constexpr uint32_t kConv2Stride = 2;

}  // namespace

WhisperEncoder::WhisperEncoder(Device& device, const WeightProvider& provider, Compute compute,
                               uint32_t max_windows)
    : device_(device),
      n_mels_(provider.config(ModelType::kWhisper).n_mels),
      n_audio_ctx_(provider.config().encoder().n_positions),
      stack_(device, provider, provider.config().encoder(), compute, WeightUse::kManyRows,
             max_windows * n_audio_ctx_) {
  const WeightUploader upload(device, provider, compute);
  const uint32_t d = d_model();
  conv1_ = upload.convolution("encoder.conv1", d, n_mels_, kConvWidth);
  conv2_ = upload.convolution("encoder.conv2", d, d, kConvWidth);
  position_ = upload.vector("encoder.position.weight", uint64_t{n_audio_ctx_} * d);
  const uint64_t n_rows = uint64_t{max_windows} * n_audio_ctx_;
  const uint64_t n_padded = max_windows * padded_frames();
  log_mel_ = device.allocate(dtype_bytes(DType::kF32, n_padded * n_mels_), "log-mel windows");
  conv1_out_ = device.allocate(dtype_bytes(output_dtype(), n_padded * d), "first convolution");
  x_ = device.allocate(dtype_bytes(DType::kF32, n_rows * d), "encoder residual stream");
  output_ = device.allocate(dtype_bytes(output_dtype(), n_rows * d), "encoder output");
}

void WhisperEncoder::write_window(uint32_t window, const float* log_mel) {
  const uint64_t row_bytes = dtype_bytes(DType::kF32, n_mels_);
  device_.write(log_mel_.part((window * padded_frames() + 1) * row_bytes, n_frames() * row_bytes),
                log_mel);
}

void WhisperEncoder::emit(DispatchTable& table, uint32_t n_windows) const {
  const uint32_t d = d_model();
  const auto stride = [&](uint32_t channels) {
    return static_cast<uint32_t>(padded_frames() * channels);
  };
  MatmulParams conv1{};
  conv1.n_rows = n_windows * n_frames();
  conv1.n_out = conv1.out_row_stride = d;
  conv1.n_in = kConvWidth * n_mels_;
  conv1.in_row_stride = n_mels_;
  conv1.rows_per_batch = n_frames();
  conv1.in_batch_stride = stride(n_mels_);
  conv1.out_batch_stride = stride(d);
  conv1.in_dtype = kDTypeF32;
  conv1.out_dtype = static_cast<uint32_t>(output_dtype());
  conv1.weight_format = conv1_.weight.format;
  conv1.activation = kActivationGelu;
  // Frame f is padded row f + 1.
  emit::matmul(table, "encoder.conv1", conv1, conv1_out_.from(dtype_bytes(output_dtype(), d)),
               log_mel_, conv1_.weight.data, conv1_.bias, {}, conv1_.weight.scale);

  MatmulParams conv2{};
  conv2.n_rows = n_windows * n_audio_ctx_;
  conv2.n_out = conv2.out_row_stride = d;
  conv2.n_in = kConvWidth * d;
  conv2.in_row_stride = kConv2Stride * d;
  conv2.rows_per_batch = n_audio_ctx_;
  conv2.in_batch_stride = stride(d);
  conv2.out_batch_stride = n_audio_ctx_ * d;
  conv2.in_dtype = static_cast<uint32_t>(output_dtype());
  conv2.out_dtype = kDTypeF32;
  conv2.weight_format = conv2_.weight.format;
  conv2.flags = kMatmulResidualByRow;
  conv2.activation = kActivationGelu;
  emit::matmul(table, "encoder.conv2", conv2, x_, conv1_out_, conv2_.weight.data, conv2_.bias,
               position_, conv2_.weight.scale);

  stack_.emit_bidirectional(table, n_windows * n_audio_ctx_, n_windows, x_);
  stack_.emit_final_norm(table, n_windows * n_audio_ctx_, output_, output_dtype(), x_, {});
}

}  // namespace vesper
