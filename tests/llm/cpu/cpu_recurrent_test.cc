// activation, magnitude and lstm of the CPU device compared with plain loops in double precision.
#include "tests/llm/cpu/cpu_fixture.h"
#include "tests/llm/kernels/plain_lstm.h"

namespace vesper::testing::cpu_recurrent_test {
namespace {

TEST(CpuActivation, EqualsItsFunctionAlsoInPlace) {
  const auto device = cpu();
  for (const uint32_t n : {1u, 15u, 16u, 40000u}) {
    std::vector<float> in = random_numbers(n, n, 12.0f);
    in[0] = -1e30f;
    if (n > 2) in[2] = 1e30f;
    for (const uint32_t kind : {kActivationRelu, kActivationSigmoid}) {
      const Operand data = store(*device, in);
      const Operand out = nan_buffer(*device, n, DType::kF32);
      DispatchTable table;
      emit::activation(table, "activation", {n, kind, 0}, out, data);
      emit::activation(table, "in place", {n, kind, 0}, data, data);
      run_once(*device, table);
      const std::vector<float> found = fetch<float>(*device, out);
      for (uint32_t i = 0; i < n; ++i) {
        const double x = double{in[i]};
        const double wanted = kind == kActivationRelu ? std::max(x, 0.0) : 1 / (1 + std::exp(-x));
        ASSERT_NEAR(found[i], wanted, 1e-6 * std::abs(wanted) + 1e-30) << i << " of " << n;
      }
      EXPECT_EQ(fetch<float>(*device, data), found);
    }
  }
}

TEST(CpuMagnitude, IsThatOfComplexBins) {
  const auto device = cpu();
  const uint32_t n_bins = 129, n_rows = 500, per_batch = 4, stride = 6 * n_bins;
  const std::vector<float> in = random_numbers(n_rows * 2 * n_bins, 1);
  const Operand out = nan_buffer(*device, n_rows / per_batch * stride, DType::kF32);
  DispatchTable table;
  emit::magnitude(table, "magnitude", {n_rows, n_bins, per_batch, stride}, out, store(*device, in));
  run_once(*device, table);
  const std::vector<float> found = fetch<float>(*device, out);
  for (uint32_t at = 0; at < found.size(); ++at) {
    const uint32_t row = at % stride / n_bins, bin = at % n_bins;
    if (row >= per_batch) {
      ASSERT_TRUE(std::isnan(found[at])) << "written beyond a batch's rows";
      continue;
    }
    const float* r = &in[(at / stride * per_batch + row) * 2 * n_bins];
    ASSERT_NEAR(found[at], std::hypot(double{r[bin]}, double{r[n_bins + bin]}), 1e-6);
  }
}

TEST(CpuLstm, EqualsAPlainLoopAndKeepsItsState) {
  const auto device = cpu();
  for (const uint32_t n_hidden : {16u, 48u, 128u}) {
    const PlainLstm plain(n_hidden, random_numbers(4 * n_hidden * n_hidden, 1, 0.3f));
    const uint32_t n_sequences = 3, n_steps = 9;
    const std::vector<float> first_state = random_numbers(n_sequences * 2 * n_hidden, 2);
    std::vector<double> wanted_state(first_state.begin(), first_state.end());
    const Operand state = store(*device, first_state);
    const Operand weight = store(*device, plain.panels());
    const uint32_t n = n_sequences * n_steps;
    for (uint32_t pass = 0; pass < 2; ++pass) {
      const std::vector<float> in = random_numbers(n * 4 * n_hidden, 3 + pass, 6.0f);
      const Operand out = nan_buffer(*device, n * n_hidden, DType::kF32);
      DispatchTable table;
      emit::lstm(table, "lstm", {n_sequences, n_steps, n_hidden}, out, state, store(*device, in),
                 weight);
      run_once(*device, table);
      const std::vector<double> wanted = plain.run(in, n_sequences, wanted_state);
      const std::vector<float> found = fetch<float>(*device, out);
      for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-5) << i;
    }
    const std::vector<float> found = fetch<float>(*device, state);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted_state[i], 1e-5) << i;
  }
}

}  // namespace
}  // namespace vesper::testing::cpu_recurrent_test
