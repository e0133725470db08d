// lstm: one sequence per task, step after step. A step is a product with one row, limited by the
// cache that the weight is read from, so panels are read sequentially.
// Part of row_kernels.cc.
#if defined(VESPER_LLM_CPU_LSTM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VESPER_LLM_CPU_LSTM_INL_H_
#undef VESPER_LLM_CPU_LSTM_INL_H_
#else
#define VESPER_LLM_CPU_LSTM_INL_H_
#endif

#include <algorithm>

#include "llm/cpu/numbers-inl.h"
#include "llm/cpu/prepared_command.h"

HWY_BEFORE_NAMESPACE();
namespace vesper {
namespace HWY_NAMESPACE {

// gates[j] = in[j] + weight h, [4 * n_hidden].
HWY_INLINE void recurrent_product(uint32_t n_hidden, const float* weight, const float* h,
                                  const float* in, float* gates) {
  const F32 d;
  static_assert(kLstmPanel % (4 * kLanes) == 0);
  for (uint32_t j = 0; j < 4 * n_hidden; j += 4 * kLanes) {
    VF32 a = hn::LoadU(d, in + j), b = hn::LoadU(d, in + j + kLanes);
    VF32 c = hn::LoadU(d, in + j + 2 * kLanes), e = hn::LoadU(d, in + j + 3 * kLanes);
    const float* w = weight + size_t{j / kLstmPanel} * n_hidden * kLstmPanel + j % kLstmPanel;
    for (uint32_t k = 0; k < n_hidden; ++k, w += kLstmPanel) {
      const VF32 hk = hn::Set(d, h[k]);
      a = hn::MulAdd(hk, hn::LoadU(d, w), a);
      b = hn::MulAdd(hk, hn::LoadU(d, w + kLanes), b);
      c = hn::MulAdd(hk, hn::LoadU(d, w + 2 * kLanes), c);
      e = hn::MulAdd(hk, hn::LoadU(d, w + 3 * kLanes), e);
    }
    hn::StoreU(a, d, gates + j);
    hn::StoreU(b, d, gates + j + kLanes);
    hn::StoreU(c, d, gates + j + 2 * kLanes);
    hn::StoreU(e, d, gates + j + 3 * kLanes);
  }
}

void run_lstm(const PreparedCommand& command, uint32_t sequence, ThreadScratch& scratch) {
  const auto& params = command.params_as<LstmParams>();
  const F32 d;
  const uint32_t n = params.n_hidden;
  const float* weight = command.operand<const float>(3);
  float* h = command.operand<float>(1) + size_t{sequence} * 2 * n;
  float* c = h + n;
  float* gates = reinterpret_cast<float*>(scratch.data);
  for (uint32_t t = 0; t < params.n_steps; ++t) {
    const size_t row = size_t{sequence} * params.n_steps + t;
    recurrent_product(n, weight, h, command.operand<const float>(2) + row * 4 * n, gates);
    float* out = command.operand<float>(0) + row * n;
    for (uint32_t u = 0; u < n; u += kLanes) {
      const VF32 input = sigmoid(hn::LoadU(d, gates + u));
      const VF32 forget = sigmoid(hn::LoadU(d, gates + n + u));
      const VF32 candidate = hn::Tanh(d, hn::LoadU(d, gates + 2 * n + u));
      const VF32 output = sigmoid(hn::LoadU(d, gates + 3 * n + u));
      const VF32 cell = hn::MulAdd(forget, hn::LoadU(d, c + u), hn::Mul(input, candidate));
      const VF32 hidden = hn::Mul(output, hn::Tanh(d, cell));
      hn::StoreU(cell, d, c + u);
      hn::StoreU(hidden, d, h + u);
      hn::StoreU(hidden, d, out + u);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vesper
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vesper {

HWY_EXPORT(run_lstm);

void prepare_lstm(PreparedCommand& prepared, const CommandToPrepare& command) {
  const auto& params = command.command().params_as<LstmParams>();
  command.require(params.n_sequences > 0 && params.n_steps > 0 && params.n_hidden > 0,
                  "a size is zero");
  command.require(params.n_hidden % 16 == 0 && params.n_hidden <= 65536,
                  "n_hidden must be a multiple of 16, at most 65536");
  const uint64_t rows = uint64_t{params.n_sequences} * params.n_steps;
  const uint64_t hidden_bytes = uint64_t{params.n_hidden} * sizeof(float);
  command.require_bytes(0, rows * hidden_bytes);
  command.require_bytes(1, uint64_t{params.n_sequences} * 2 * hidden_bytes);
  command.require_bytes(2, rows * 4 * hidden_bytes);
  command.require_bytes(3, 4 * params.n_hidden * hidden_bytes);
  prepared.run = HWY_DYNAMIC_DISPATCH(run_lstm);
  prepared.n_tasks = params.n_sequences;
  prepared.scratch_bytes = 4 * hidden_bytes;
}

}  // namespace vesper
#endif

#endif
