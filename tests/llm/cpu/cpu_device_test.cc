// The CPU device as a whole: a small decoder's pass gives the same bits for any threads, task order
// and barriers, allocates nothing in a replay, and unsupported commands are errors.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "error/error.h"
#include "llm/cpu/buffer_memory.h"
#include "llm/cpu/cpu_features.h"
#include "llm/cpu/thread_pool.h"
#include "tests/llm/counted_allocations.h"
#include "tests/llm/cpu/cpu_fixture.h"

namespace vesper::testing::cpu_device_test {
namespace {

// A decoder of one layer over three sequences with everything of a step: embedding, paged
// attention, an encoder's product and attention beside it, and sampling.
class SmallDecoder {
 public:
  SmallDecoder(const DeviceOptions& options, Compute compute)
      : device_(open_cpu_device(options)), compute_(compute) {
    const uint32_t d = 64, n_vocab = 301, n_ctx = 40, n_heads = 2;
    rows_ = store(*device_, std::vector<Row>{{5, 0, 0, 0}, {6, 1, 0, 0}, {7, 2, 0, 0}});
    std::vector<SequenceState> states(kSequences);
    for (SequenceState& state : states) state.max_sampled = kSteps, state.position = 1;
    states_ = store(*device_, states);
    tokens_ = device_->allocate(kSequences * kSteps * 4, "tokens");
    stop_ = device_->allocate(4, "stop");
    const std::vector<int32_t> pages{4, 1, 0, 5, 3, 2};
    const Operand page_table = store(*device_, pages);
    const Operand keys = device_->allocate(6 * 32 * d * 2, "keys");
    const Operand values = device_->allocate(6 * 32 * d * 2, "values");

    const Weight embedding = weight(n_vocab, d, WeightUse::kEmbedding);
    const Operand x = floats(kSequences * d), normed = floats(kSequences * d);
    const Operand qkv = floats(kSequences * 3 * d), attended = floats(kSequences * d);
    const Operand hidden = floats(kSequences * 4 * d), logits = floats(kSequences * n_vocab);
    const Operand ones = store(*device_, std::vector<float>(d, 1.0f));
    emit::embed(table_, "embed", {kSequences, d, embedding.format, 1.0f}, x, rows_, embedding.data,
                numbers(n_ctx * d), embedding.scale);
    const auto norm = [&](const char* label) {
      emit::norm(table_, label, {kSequences, d, 1e-5f, kNormLayer, kDTypeF32, kDTypeF32, d}, normed,
                 x, ones, {}, {});
    };
    norm("attn_norm");
    product("qkv", weight(3 * d, d), kSequences, qkv, normed, {});
    WriteKvParams write{};
    write.n_rows = kSequences;
    write.n_kv_heads = n_heads;
    write.head_dim = d / n_heads;
    write.in_row_stride = 3 * d;
    write.page_rows = 32;
    write.pages_per_sequence = 2;
    write.kv_dtypes = kv_dtypes_of(kDTypeF16, kDTypeF16);
    emit::write_kv(table_, "write_kv", write, keys, values, qkv.from(d * 4), qkv.from(2 * d * 4),
                   rows_, page_table);
    PagedAttentionParams attention{};
    attention.n_rows = kSequences;
    attention.n_heads = attention.n_kv_heads = n_heads;
    attention.head_dim = d / n_heads;
    attention.q_row_stride = 3 * d;
    attention.out_row_stride = d;
    attention.page_rows = 32;
    attention.pages_per_sequence = 2;
    attention.scale = 0.2f;
    attention.kv_dtypes = kv_dtypes_of(kDTypeF16, kDTypeF16);
    emit::paged_attention(table_, "attention", attention, attended, qkv, keys, values, rows_,
                          page_table);
    product("out", weight(d, d), kSequences, x, attended, x);
    norm("ffn_norm");
    product("up", weight(4 * d, d), kSequences, hidden, normed, {}, kActivationGelu);
    product("down", weight(d, 4 * d), kSequences, x, hidden, x);
    norm("norm");
    product("logits", embedding, kSequences, logits, normed, {});
    // Independent of the commands above.
    const Operand sound = numbers(100 * d), heard = floats(100 * 3 * d), mixed = floats(100 * d);
    product("sound.qkv", weight(3 * d, d, WeightUse::kManyRows), 100, heard, sound, {});
    AttentionParams sound_attention{};
    sound_attention.n_sequences = 2;
    sound_attention.rows_per_sequence = 50;
    sound_attention.n_heads = sound_attention.n_kv_heads = n_heads;
    sound_attention.head_dim = d / n_heads;
    sound_attention.q_row_stride = sound_attention.k_row_stride = sound_attention.v_row_stride =
        3 * d;
    sound_attention.out_row_stride = d;
    sound_attention.scale = 0.2f;
    emit::attention(table_, "sound.attention", sound_attention, mixed, heard, heard.from(d * 4),
                    heard.from(2 * d * 4));
    SamplingParams tokens{};
    tokens.n_sequences = kSequences;
    tokens.n_vocab = tokens.row_stride = n_vocab;
    tokens.chunk = 64;
    tokens.end_of_text = 250;
    tokens.timestamp_begin = 260;
    tokens.n_chunks = n_token_chunks(n_vocab, 260, 64);
    tokens.no_timestamps = 259;
    tokens.blank = 1;
    tokens.max_tokens = kSteps;
    const Operand partials =
        device_->allocate(kSequences * tokens.n_chunks * sizeof(TokenPartial), "partials");
    // Without end of text, so that all steps have work.
    std::vector<uint32_t> suppressed((n_vocab + 31) / 32, 0);
    suppressed[250 / 32] |= 1u << 250 % 32;
    const Operand suppressed_mask = store(*device_, suppressed);
    emit::sample_partials(table_, "partials", tokens, partials, logits, states_, suppressed_mask,
                          {});
    emit::sample_token(table_, "token", tokens, states_, rows_, tokens_, {}, stop_, partials,
                       suppressed_mask);
    program_ = device_->record(table_);
    outputs_ = {x, logits, keys, values, mixed, states_, tokens_};
  }

  void run(uint32_t times) { device_->run(program_, times, stop_); }

  // All bytes written by the pass.
  std::vector<uint8_t> everything() {
    std::vector<uint8_t> all;
    for (const Operand& output : outputs_) {
      const std::vector<uint8_t> bytes = fetch<uint8_t>(*device_, output);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
  std::vector<SequenceState> states() { return fetch<SequenceState>(*device_, states_); }

  static constexpr uint32_t kSequences = 3, kSteps = 20;

 private:
  Operand numbers(size_t n) { return store(*device_, random_numbers(n, ++seed_)); }
  Operand floats(size_t n) { return device_->allocate(n * 4, "floats"); }
  Weight weight(uint32_t n_out, uint32_t n_in, WeightUse use = WeightUse::kAnyRows) {
    const FileMatrix file(random_numbers(size_t{n_out} * n_in, ++seed_), n_out, n_in, DType::kF16);
    return device_->upload(file.source(), use, compute_);
  }
  void product(const char* label, const Weight& weight, uint32_t n_rows, const Operand& out,
               const Operand& in, const Operand& residual, uint32_t activation = kActivationNone) {
    MatmulParams params{};
    params.n_rows = params.rows_per_batch = n_rows;
    params.n_out = params.out_row_stride = weight.n_out;
    params.n_in = params.in_row_stride = weight.n_in;
    params.weight_format = weight.format;
    params.activation = activation;
    emit::matmul(table_, label, params, out, in, weight.data, {}, residual, weight.scale);
  }

  std::unique_ptr<Device> device_;
  Compute compute_;
  uint32_t seed_ = 0;
  DispatchTable table_;
  ProgramId program_ = 0;
  Operand rows_, states_, tokens_, stop_;
  std::vector<Operand> outputs_;
};

TEST(CpuDevice, GivesTheSameBitsForAnyThreadsAndOrder) {
  for (const Compute compute : {Compute::kF32, Compute::kI8, Compute::kAuto}) {
    std::vector<uint8_t> wanted;
    for (const uint32_t n_threads : {1u, 2u, 3u}) {
      for (const uint64_t seed : {0u, 1u, 2u, 3u}) {
        for (const bool full_barriers : {false, true}) {
          SmallDecoder decoder({n_threads, full_barriers, seed}, compute);
          decoder.run(8);
          const std::vector<uint8_t> found = decoder.everything();
          if (wanted.empty()) wanted = found;
          EXPECT_TRUE(wanted == found)
              << n_threads << " threads, seed " << seed << ", full barriers " << full_barriers
              << ", compute " << static_cast<int>(compute);
        }
      }
    }
  }
}

TEST(CpuDevice, StopsReplaysWhenStopIsSet) {
  SmallDecoder decoder({2, false, 0}, Compute::kF32);
  decoder.run(7);
  for (const SequenceState& state : decoder.states()) EXPECT_EQ(state.n_sampled, 7u);
  decoder.run(1000);
  const std::vector<uint8_t> after = decoder.everything();
  for (const SequenceState& state : decoder.states()) {
    EXPECT_EQ(state.n_sampled, SmallDecoder::kSteps);
    EXPECT_TRUE(state.finished);
  }
  decoder.run(3);
  EXPECT_TRUE(after == decoder.everything());
}

TEST(CpuDevice, AllocatesNothingInAHundredReplays) {
  if (!kAllocationsAreCounted) GTEST_SKIP() << "a sanitizer replaces malloc";
  for (const Compute compute : {Compute::kF32, Compute::kI8, Compute::kAuto}) {
    SmallDecoder decoder({3, false, 0}, compute);
    const uint64_t before = n_allocations();
    for (int i = 0; i < 100; ++i) decoder.run(1);
    EXPECT_EQ(n_allocations(), before) << "compute " << static_cast<int>(compute);
    // Checks that this test counts allocations at all.
    decoder.everything();
    EXPECT_GT(n_allocations(), before);
  }
}

template <class Body>
std::string message_of(const Body& body, ErrorKind kind) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(CpuDevice, ReportsRequestedAndAvailableMemory) {
  const auto device = cpu(1);
  const std::string message =
      message_of([&] { device->allocate(uint64_t{1} << 50, "a petabyte"); }, ErrorKind::kDevice);
  EXPECT_NE(message.find("a petabyte needs 1073741824 MiB"), std::string::npos) << message;
  EXPECT_NE(message.find("MiB are available"), std::string::npos) << message;
  message_of([&] { device->allocate(~uint64_t{0}, "everything"); }, ErrorKind::kDevice);
}

TEST(CpuDevice, AllocatesZeroedAlignedBuffers) {
  const auto device = cpu(1);
  for (const uint64_t bytes : {1u, 63u, 4096u, 5u << 20}) {
    for (const uint8_t byte : fetch<uint8_t>(*device, device->allocate(bytes, "zeros"))) {
      ASSERT_EQ(byte, 0);
    }
    EXPECT_EQ(reinterpret_cast<uintptr_t>(BufferMemory(bytes, "aligned").data()) % 64, 0u);
  }
}

TEST(CpuDevice, RefusesUnsupportedParameters) {
  const auto device = cpu(1);
  EXPECT_NE(message_of([&] { (void)device->resolve(Compute::kF16, WeightUse::kAnyRows); },
                       ErrorKind::kUsage)
                .find("found 'f16'"),
            std::string::npos);
  // A product with an output that is one byte too small; the error has its label.
  const FileMatrix file(random_numbers(12, 1), 3, 4, DType::kF16);
  const Weight weight = device->upload(file.source(), WeightUse::kAnyRows, Compute::kF32);
  MatmulParams params{};
  params.n_rows = params.rows_per_batch = 2;
  params.n_out = params.out_row_stride = 3;
  params.n_in = params.in_row_stride = 4;
  params.weight_format = weight.format;
  const Operand in = device->allocate(32, "in");
  const std::pair<uint32_t, uint64_t> mistakes[] = {{weight.format, 23}, {99, 24}};
  for (const auto& [format, bytes] : mistakes) {
    params.weight_format = format;
    DispatchTable table;
    emit::matmul(table, "layer.7.up", params, device->allocate(bytes, "out"), in, weight.data, {},
                 {}, {});
    const std::string message = message_of([&] { device->record(table); }, ErrorKind::kInternal);
    EXPECT_NE(message.find("layer.7.up (matmul)"), std::string::npos) << message;
  }
  message_of([&] { device->write(in.part(1, 32), file.bytes.data()); }, ErrorKind::kInternal);
}

TEST(CpuDevice, NamesTheTensorThatItCannotStore) {
  const auto device = cpu(1);
  FileMatrix file(random_numbers(12, 1), 3, 4, DType::kF32);
  file.view.dtype = DType::kI32;
  for (const WeightUse use : {WeightUse::kAnyRows, WeightUse::kManyRows}) {
    EXPECT_NE(
        message_of([&] { device->upload(file.source(), use, Compute::kF32); }, ErrorKind::kModel)
            .find("test.weight"),
        std::string::npos);
  }
  file.view.dtype = DType::kF32;
  file.view.shape = {12};
  message_of([&] { device->upload(file.source(), WeightUse::kAnyRows, Compute::kF32); },
             ErrorKind::kModel);
}

#ifndef NDEBUG
TEST(BufferMemory, DetectsOneByteBeforeOrAfter) {
  for (const ptrdiff_t at : {-64, -1, 100, 163}) {
    BufferMemory memory(100, "guarded");
    memory.check_canaries();
    memory.data()[at] = std::byte{1};
    EXPECT_NE(message_of([&] { memory.check_canaries(); }, ErrorKind::kInternal).find("guarded"),
              std::string::npos);
  }
}
#endif

TEST(ThreadPool, RunsEveryTaskOnceAndStagesInOrder) {
  for (const uint32_t n_threads : {1u, 2u, 5u}) {
    ThreadPool pool(n_threads);
    struct Seen {
      std::vector<uint32_t> n_tasks{3, 1, 70, 2, 1, 9};
      std::array<std::atomic<uint32_t>, 6> done{};
      std::atomic<uint32_t> out_of_order{0}, n_runs{0};
    } seen;
    TaskStages stages;
    stages.context = &seen;
    stages.n_tasks = seen.n_tasks.data();
    stages.n_stages = static_cast<uint32_t>(seen.n_tasks.size());
    stages.run_task = [](const void* context, uint32_t stage, uint32_t task, uint32_t, uint32_t) {
      Seen& s = *static_cast<Seen*>(const_cast<void*>(context));
      // All tasks of the previous stage have ended, in this repetition too.
      const uint32_t run = s.done[stage] / s.n_tasks[stage];
      if (stage > 0 && s.done[stage - 1] != (run + 1) * s.n_tasks[stage - 1]) ++s.out_of_order;
      if (task >= s.n_tasks[stage]) ++s.out_of_order;
      ++s.done[stage];
    };
    for (int i = 0; i < 50; ++i) pool.run(stages, 20, nullptr);
    EXPECT_EQ(seen.out_of_order, 0u);
    for (size_t s = 0; s < seen.n_tasks.size(); ++s) {
      EXPECT_EQ(seen.done[s], 50 * 20 * seen.n_tasks[s]);
    }
  }
}

TEST(ThreadPool, RethrowsTheExceptionOfATask) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.for_each(100,
                             [](uint32_t task, uint32_t) {
                               if (task == 7) throw std::bad_alloc();
                             }),
               std::bad_alloc);
  std::atomic<int> n_runs = 0;
  pool.for_each(100, [&](uint32_t, uint32_t) { ++n_runs; });
  EXPECT_EQ(n_runs, 100);
}

TEST(ThreadPool, SharesSlowTasksAmongThreads) {
  // Long enough for waiting threads to sleep and be woken.
  ThreadPool pool(3);
  std::atomic<uint32_t> done{0};
  for (int i = 0; i < 20; ++i) {
    pool.for_each(4, [&](uint32_t, uint32_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++done;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(done, 80u);
}

TEST(CpuFeatures, CountAtLeastOneCoreAndSomeMemory) {
  EXPECT_GE(available_cores(), 1u);
  EXPECT_GT(available_memory_bytes(), uint64_t{1} << 20);
  EXPECT_GE(total_memory_bytes(), available_memory_bytes());
}

}  // namespace
}  // namespace vesper::testing::cpu_device_test
