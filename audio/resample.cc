#include "audio/resample.h"

#include <samplerate.h>

#include <algorithm>
#include <new>
#include <string>

#include "audio/polyphase_resampler.h"
#include "audio/sources/reader.h"
#include "error/error.h"

namespace vesper {
namespace {

// samples per block: libsamplerate counts in long, but uses int internally
constexpr size_t kBlock = 8192;

Error broken(int code) {
  return Error(ErrorKind::kInternal, std::string("libsamplerate failed: ") + src_strerror(code));
}

}  // namespace

void Resampler::Close::operator()(void* converter) const {
  src_delete(static_cast<SRC_STATE*>(converter));
}

Resampler::Resampler(int from_hz) : from_hz_(from_hz) {
  if (from_hz < AudioReader::kMinSampleRateHz || from_hz > AudioReader::kMaxSampleRateHz) {
    throw Error(ErrorKind::kInternal, "resampler: expected a rate of 1000 to 768000 Hz, found " +
                                          std::to_string(from_hz));
  }
  if (from_hz == kSampleRateHz) return;
  if (PolyphaseResampler::suits(from_hz, kSampleRateHz)) {
    polyphase_ = std::make_unique<PolyphaseResampler>(from_hz, kSampleRateHz);
    return;
  }
  int code = 0;
  converter_.reset(src_new(SRC_SINC_BEST_QUALITY, 1, &code));
  // The only error with valid arguments (SRC_ERR_MALLOC_FAILED is not in its header).
  if (!converter_) throw std::bad_alloc();
}

Resampler::~Resampler() = default;

void Resampler::push(const float* samples, size_t n, std::vector<float>& out) {
  if (polyphase_) return polyphase_->push(samples, n, out);
  if (!converter_) {
    out.insert(out.end(), samples, samples + n);
    return;
  }
  n_in_ += n;
  for (size_t done = 0; done < n;) {
    const size_t block = std::min(kBlock, n - done);
    convert(samples + done, block, false, out);
    done += block;
  }
}

void Resampler::finish(std::vector<float>& out) {
  if (polyphase_) return polyphase_->finish(out);
  if (!converter_) return;
  convert(nullptr, 0, true, out);
  // The converter counts in floating point and may end one sample early or late.
  const uint64_t rate = static_cast<uint64_t>(from_hz_);
  const uint64_t expected = (n_in_ * kSampleRateHz + rate / 2) / rate;
  if (n_out_ > expected) {
    out.resize(out.size() - std::min<uint64_t>(out.size(), n_out_ - expected));
  } else {
    out.insert(out.end(), expected - n_out_, 0.0f);
  }
  n_out_ = expected;
}

void Resampler::convert(const float* samples, size_t n, bool is_last, std::vector<float>& out) {
  const float none = 0.0f;
  SRC_DATA data = {};
  data.data_in = n > 0 ? samples : &none;
  data.input_frames = static_cast<long>(n);
  data.end_of_input = is_last ? 1 : 0;
  data.src_ratio = static_cast<double>(kSampleRateHz) / from_hz_;
  while (true) {
    const size_t before = out.size();
    out.resize(before + kBlock);
    data.data_out = out.data() + before;
    data.output_frames = static_cast<long>(kBlock);
    const int code = src_process(static_cast<SRC_STATE*>(converter_.get()), &data);
    if (code != 0) throw broken(code);
    out.resize(before + static_cast<size_t>(data.output_frames_gen));
    n_out_ += static_cast<uint64_t>(data.output_frames_gen);
    data.data_in += data.input_frames_used;
    data.input_frames -= data.input_frames_used;
    if (data.output_frames_gen == 0 && data.input_frames == 0) return;
  }
}

}  // namespace vesper
