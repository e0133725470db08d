#include <cmath>

#include "tests/llm/kernels/plain_lstm.h"
#include "tests/llm/vulkan/device_fixture.h"

namespace vesper::recurrent_kernels_test {
namespace {

class RecurrentKernels : public VulkanTest {};

TEST_F(RecurrentKernels, ActivationEqualsItsFunction) {
  for (const uint32_t kind : {kActivationRelu, kActivationSigmoid}) {
    std::vector<float> in = random(1000, 5.0f);
    in[3] = 1e30f;
    in[4] = -1e30f;
    const auto n = static_cast<uint32_t>(in.size());
    const Operand data = store(in, DType::kF32), out = poisoned(n, DType::kF32);
    DispatchTable table;
    emit::activation(table, "activation", {n, kind, 0}, out, data);
    emit::activation(table, "in place", {n, kind, 0}, data, data);
    run(table);
    const std::vector<float> found = load(out, DType::kF32);
    for (uint32_t i = 0; i < n; ++i) {
      const double x = double{in[i]};
      const double wanted = kind == kActivationRelu ? std::max(x, 0.0) : 1 / (1 + std::exp(-x));
      ASSERT_NEAR(found[i], wanted, 1e-5 * std::abs(wanted) + 1e-7) << i;
    }
    EXPECT_EQ(load(data, DType::kF32), found);
  }
}

TEST_F(RecurrentKernels, MagnitudeIsThatOfComplexBins) {
  constexpr uint32_t kBins = 129, kRows = 20, kPerBatch = 4, kStride = 6 * kBins;
  std::vector<float> in = random(kRows * 2 * kBins);
  const Operand out = poisoned(kRows / kPerBatch * kStride, DType::kF32);
  DispatchTable table;
  emit::magnitude(table, "magnitude", {kRows, kBins, kPerBatch, kStride}, out,
                  store(in, DType::kF32));
  run(table);
  const std::vector<float> found = load(out, DType::kF32);
  for (uint32_t at = 0; at < found.size(); ++at) {
    const uint32_t row = at % kStride / kBins, bin = at % kBins;
    if (row >= kPerBatch) {
      ASSERT_TRUE(std::isnan(found[at])) << "written beyond a batch's rows";
      continue;
    }
    const float* r = &in[(at / kStride * kPerBatch + row) * 2 * kBins];
    ASSERT_NEAR(found[at], std::hypot(double{r[bin]}, double{r[kBins + bin]}), 1e-5);
  }
}

TEST_F(RecurrentKernels, LstmEqualsAPlainLoopAndKeepsItsState) {
  for (const uint32_t n_hidden : {16u, 128u}) {
    constexpr uint32_t kSequences = 2, kSteps = 5;
    const PlainLstm plain(n_hidden, random(size_t{4} * n_hidden * n_hidden, 0.2f));
    std::vector<float> first_state = random(kSequences * 2 * n_hidden);
    const Operand state = store(first_state, DType::kF32);
    std::vector<double> wanted_state(first_state.begin(), first_state.end());
    std::vector<float> panels = plain.panels();
    const Operand weight = store(panels, DType::kF32);
    for (int pass = 0; pass < 2; ++pass) {
      std::vector<float> in = random(size_t{kSequences} * kSteps * 4 * n_hidden, 4.0f);
      in[1] = 200.0f;  // exp overflows
      const Operand out = poisoned(size_t{kSequences} * kSteps * n_hidden, DType::kF32);
      DispatchTable table;
      emit::lstm(table, "lstm", {kSequences, kSteps, n_hidden}, out, state, store(in, DType::kF32),
                 weight);
      run(table);
      const std::vector<double> wanted = plain.run(in, kSequences, wanted_state);
      const std::vector<float> found = load(out, DType::kF32);
      for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 2e-5) << i;
    }
    const std::vector<float> found = load(state, DType::kF32);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted_state[i], 2e-5);
  }
}

}  // namespace
}  // namespace vesper::recurrent_kernels_test
