#include "llm/cpu/onednn_product.h"

#include <omp.h>

#include <string>

#include "error/error.h"

namespace vesper {
namespace {

using dnnl::memory;

// The number of rows for which the weight's layout is chosen.
constexpr uint32_t kLayoutRows = 64;

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}
const dnnl::stream& cpu_stream() {
  static const dnnl::stream stream(cpu_engine());
  return stream;
}

memory::data_type element_type(Compute compute) {
  switch (compute) {
    case Compute::kBF16:
      return memory::data_type::bf16;
    case Compute::kI8:
      return memory::data_type::s8;
    default:
      return memory::data_type::f32;
  }
}

[[noreturn]] void fail(const dnnl::error& error, uint32_t rows, uint32_t n_out, uint32_t n_in) {
  throw Error(ErrorKind::kDevice, "oneDNN cannot multiply [" + std::to_string(rows) + ", " +
                                      std::to_string(n_in) + "] by [" + std::to_string(n_out) +
                                      ", " + std::to_string(n_in) + "]: " + error.what());
}

}  // namespace

dnnl::matmul::primitive_desc OnednnProduct::describe(uint32_t rows,
                                                     const memory::desc& weight) const {
  const memory::data_type type = element_type(compute_);
  const auto sum_type = compute_ == Compute::kI8 ? memory::data_type::s32 : memory::data_type::f32;
  const memory::desc in({rows, n_in_}, type, memory::format_tag::ab);
  const memory::desc sums({rows, n_out_}, sum_type, memory::format_tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(cpu_engine(), in, weight, sums, attributes);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(in, weight, sums), attributes,
                                      cpu_engine());
#endif
}

OnednnProduct::OnednnProduct(const void* weight, uint32_t n_out, uint32_t n_in, Compute compute)
    : n_out_(n_out), n_in_(n_in), compute_(compute) {
  omp_set_num_threads(1);
  const memory::data_type type = element_type(compute);
  try {
    const auto layout =
        describe(kLayoutRows, memory::desc({n_in, n_out}, type, memory::format_tag::any))
            .weights_desc();
    weight_ = memory(layout, cpu_engine());
    // [n_out, n_in] as it is given is [n_in, n_out] with its axes exchanged.
    memory given({{n_in, n_out}, type, memory::format_tag::ba}, cpu_engine(),
                 const_cast<void*>(weight));
    dnnl::stream stream(cpu_engine());
    dnnl::reorder(given, weight_).execute(stream, given, weight_);
    stream.wait();
  } catch (const dnnl::error& error) {
    fail(error, kLayoutRows, n_out, n_in);
  }
}

void OnednnProduct::prepare(uint32_t rows) {
  if (plans_.count(rows)) return;
  omp_set_num_threads(1);
  try {
    const auto description = describe(rows, weight_.get_desc());
    plans_[rows] = {dnnl::matmul(description), description.src_desc(), description.dst_desc(),
                    description.scratchpad_desc()};
  } catch (const dnnl::error& error) {
    fail(error, rows, n_out_, n_in_);
  }
}

size_t OnednnProduct::scratchpad_bytes(uint32_t rows) const {
  return plans_.at(rows).scratchpad.get_size();
}

void OnednnProduct::multiply(uint32_t rows, const void* in, void* sums, void* scratchpad) const {
  omp_set_num_threads(1);  // of the calling thread: no team
  const Plan& plan = plans_.at(rows);
  memory in_memory(plan.in, cpu_engine(), const_cast<void*>(in));
  memory sums_memory(plan.sums, cpu_engine(), sums);
  memory scratchpad_memory(plan.scratchpad, cpu_engine(), scratchpad);
  plan.primitive.execute(cpu_stream(), {{DNNL_ARG_SRC, in_memory},
                                        {DNNL_ARG_WEIGHTS, weight_},
                                        {DNNL_ARG_DST, sums_memory},
                                        {DNNL_ARG_SCRATCHPAD, scratchpad_memory}});
}

}  // namespace vesper
