// Times Whisper's passes on a Vulkan device with random weights in the shape of a model: each kind
// of command by timestamps, and whole passes replayed in succession.
// vulkan_bench --help lists the options.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "bench/micro/layer_labels.h"
#include "encoder/whisper_encoder.h"
#include "error/error.h"
#include "llm/models/decoder_model.h"
#include "llm/vulkan/vulkan_device.h"
#include "llm/weights/model_families.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

// A Whisper model of random f16 values; all tensors share one block.
class RandomModel {
 public:
  explicit RandomModel(const ModelConfig& model) {
    std::mt19937 engine(1);
    block_.resize(size_t{model.n_vocab} * model.encoder().d_model + 4096);
    for (uint16_t& half : block_) {
      // Random sign and mantissa, exponent from 2^-9 to 2^-6: sums stay finite.
      const uint32_t bits = engine();
      half = static_cast<uint16_t>((bits & 0x83ffu) | ((6u + (bits >> 16 & 3u)) << 10));
    }
    const uint64_t d = model.encoder().d_model, ffn = model.encoder().d_ffn;
    add("encoder.conv1.weight", {d, model.n_mels, 3});
    add("encoder.conv1.bias", {d});
    add("encoder.conv2.weight", {d, d, 3});
    add("encoder.conv2.bias", {d});
    add("encoder.position.weight", {model.encoder().n_positions, d});
    const auto block = [&](const std::string& prefix, const char* name) {
      add(prefix + name + "_norm.weight", {d});
      add(prefix + name + "_norm.bias", {d});
      for (const char* part : {"q", "k", "v", "out"}) {
        add(prefix + name + "." + part + ".weight", {d, d});
        if (*part != 'k') add(prefix + name + "." + part + ".bias", {d});
      }
    };
    const auto stack = [&](const std::string& name, uint32_t n_layers, bool cross) {
      for (uint32_t i = 0; i < n_layers; ++i) {
        const std::string prefix = name + ".layers." + std::to_string(i) + ".";
        block(prefix, "attn");
        if (cross) block(prefix, "cross");
        add(prefix + "ffn_norm.weight", {d});
        add(prefix + "ffn_norm.bias", {d});
        add(prefix + "ffn.up.weight", {ffn, d});
        add(prefix + "ffn.up.bias", {ffn});
        add(prefix + "ffn.down.weight", {d, ffn});
        add(prefix + "ffn.down.bias", {d});
      }
      add(name + ".norm.weight", {d});
      add(name + ".norm.bias", {d});
    };
    stack("encoder", model.encoder().n_layers, false);
    stack("decoder", model.decoder().n_layers, true);
    add("decoder.embed.weight", {model.n_vocab, d});
    add("decoder.position.weight", {model.decoder().n_positions, d});
  }

  // Valid as long as this object.
  ModelContents contents(const ModelConfig& model) const {
    ModelContents contents;
    contents.format = "random";
    contents.family = "whisper";
    contents.tensors = tensors_;
    contents.config = model;
    return contents;
  }

 private:
  void add(std::string name, std::vector<uint64_t> shape) {
    TensorView tensor;
    tensor.name = tensor.file_name = std::move(name);
    tensor.dtype = DType::kF16;
    tensor.shape = std::move(shape);
    tensor.data = block_.data() + tensors_.size() % 4096;
    tensor.bytes = tensor.n_elements() * 2;
    tensors_.push_back(std::move(tensor));
  }

  std::vector<uint16_t> block_;
  std::vector<TensorView> tensors_;
};

ModelConfig shape_named(const std::string& name) {
  ModelConfig model = start_config(whisper_family());
  StackConfig &encoder = model.encoder(), &decoder = model.decoder();
  model.n_mels = 80;
  model.n_vocab = 51865;
  encoder.n_positions = 1500;
  decoder.n_positions = 448;
  if (name == "tiny") {
    encoder.d_model = 384;
    encoder.n_heads = 6;
    encoder.n_layers = decoder.n_layers = 4;
  } else if (name == "base") {
    encoder.d_model = 512;
    encoder.n_heads = 8;
    encoder.n_layers = decoder.n_layers = 6;
  } else if (name == "large-v3-turbo") {
    model.n_mels = 128;
    model.n_vocab = 51866;
    encoder.d_model = 1280;
    encoder.n_heads = 20;
    encoder.n_layers = 32;
    decoder.n_layers = 4;
  } else {
    throw Error(ErrorKind::kUsage,
                "--shape: expected tiny, base or large-v3-turbo, found '" + name + "'");
  }
  for (StackConfig& stack : model.stacks) {
    stack.d_model = encoder.d_model;
    stack.n_heads = stack.n_kv_heads = encoder.n_heads;
    stack.head_dim = stack.d_model / stack.n_heads;
    stack.d_ffn = 4 * stack.d_model;
    stack.layers.assign(stack.n_layers, {});
  }
  return model;
}

// (parse_compute would link the CPU device and its libraries.)
// FLOP, and bytes of weights, keys and values that a command needs.
struct Work {
  double flops = 0, bytes = 0;
};
Work work_of(const Command& command) {
  Work work;
  if (command.kernel == Kernel::kMatmul) {
    const auto& p = command.params_as<MatmulParams>();
    work.flops = 2.0 * p.n_rows * p.n_out * p.n_in;
    work.bytes = static_cast<double>(command.operands[2].bytes);
  } else if (command.kernel == Kernel::kAttention) {
    const auto& p = command.params_as<AttentionParams>();
    work.flops =
        4.0 * p.n_sequences * p.rows_per_sequence * p.rows_per_sequence * p.n_heads * p.head_dim;
  } else if (command.kernel == Kernel::kPagedAttention) {
    const auto& p = command.params_as<PagedAttentionParams>();
    if (p.kv_length) {
      work.bytes = 2.0 * p.n_rows * p.kv_length * p.n_kv_heads * p.head_dim *
                   (key_dtype(p.kv_dtypes) == kDTypeF16 ? 2 : 4);
    }
  }
  return work;
}

// Times by timestamps, the best of `repeats` runs.
void print_profile(Device& device, const DispatchTable& table, ProgramId program,
                   uint32_t repeats) {
  struct Line {
    std::string name;
    double us = 0;
    Work work;
    int count = 0;
  };
  std::vector<double> best;
  for (uint32_t i = 0; i < repeats; ++i) {
    device.set_clock(Clock::kPerCommand);
    device.run(program);
    const std::vector<double> us = device.replay_times(program).us;
    if (best.empty()) best = us;
    for (size_t c = 0; c < us.size(); ++c) best[c] = std::min(best[c], us[c]);
  }
  device.set_clock(Clock::kOff);
  std::vector<Line> lines;
  double total = 0;
  for (size_t c = 0; c < best.size(); ++c) {
    const std::string name = without_layer(table.labels()[c]);
    auto line =
        std::find_if(lines.begin(), lines.end(), [&](const Line& l) { return l.name == name; });
    if (line == lines.end()) line = lines.insert(line, Line{name, 0, {}, 0});
    const Work work = work_of(table.commands()[c]);
    line->us += best[c];
    line->work.flops += work.flops;
    line->work.bytes += work.bytes;
    ++line->count;
    total += best[c];
  }
  std::printf("  %-26s %5s %9s %9s %9s %9s\n", "command", "times", "us each", "us", "TFLOP/s",
              "GB/s");
  for (const Line& line : lines) {
    std::printf("  %-26s %5d %9.2f %9.1f %9.1f %9.0f\n", line.name.c_str(), line.count,
                line.us / line.count, line.us, line.work.flops / line.us / 1e6,
                line.work.bytes / line.us / 1e3);
  }
  std::printf("  %-26s %5zu %9s %9.1f\n", "sum", best.size(), "", total);
}

// Milliseconds per pass of `replays` successive passes; the best of `repeats` times.
double pass_ms(Device& device, ProgramId program, uint32_t replays, const Operand& result,
               uint32_t repeats) {
  double best = 1e300;
  for (uint32_t i = 0; i < repeats; ++i) {
    uint32_t word = 0;
    device.read(result.part(0, 4), &word);
    const auto start = std::chrono::steady_clock::now();
    device.run(program, replays);
    device.read(result.part(0, 4), &word);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / replays);
  }
  return best;
}

struct Options {
  std::string device = "vulkan", shape = "large-v3-turbo", compute = "auto";
  uint32_t n_windows = 1, n_sequences = 1, replays = 64, repeats = 5;
};

int run(const Options& options) {
  const auto device = open_vulkan_device(options.device, DeviceOptions{});
  const ModelConfig model = shape_named(options.shape);
  const Compute compute = device->resolve(parse_compute(options.compute), WeightUse::kManyRows);
  const uint32_t n_windows = options.n_windows, n_sequences = options.n_sequences;
  const uint32_t replays = options.replays, repeats = options.repeats;
  std::printf("%s, %s, %s\n", device->info().name.c_str(), options.shape.c_str(),
              options.compute.c_str());
  auto start = std::chrono::steady_clock::now();
  const auto elapsed_ms = [&] {
    const auto now = std::chrono::steady_clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - start).count();
    start = now;
    return ms;
  };
  const RandomModel numbers(model);
  const WeightProvider weights("random", numbers.contents(model));
  std::printf("random numbers %.0f ms\n", elapsed_ms());

  WhisperEncoder encoder(*device, weights, compute, n_windows);
  DecoderModel::Options decoder_options;
  decoder_options.n_sequences = decoder_options.max_rows = n_sequences;
  decoder_options.max_logit_rows = n_sequences;
  decoder_options.n_sources = decoder_options.n_encoded = n_windows;
  const DecoderModel decoder(*device, weights, compute, decoder_options);
  const auto buffer = [&](uint64_t bytes, const char* label) {
    return device->allocate(bytes, label);
  };
  const Operand stop = buffer(4, "stop");
  uint32_t word = 0;
  device->read(stop, &word);
  std::printf("upload %.0f ms\n", elapsed_ms());

  std::mt19937 engine(2);
  std::normal_distribution<float> normal;
  std::vector<float> log_mel(size_t{encoder.n_frames()} * model.n_mels);
  for (float& value : log_mel) value = normal(engine);
  for (uint32_t w = 0; w < n_windows; ++w) encoder.write_window(w, log_mel.data());
  DispatchTable encode;
  encoder.emit(encode, n_windows);
  decoder.emit_cross_kv(encode, n_windows, encoder.output(), encoder.output_dtype());

  // A step in the middle of a text: every sequence at position 100.
  SamplingParams token{};
  token.n_sequences = n_sequences;
  token.n_vocab = token.row_stride = model.n_vocab;
  token.chunk = 1024;
  token.end_of_text = 50257;
  token.timestamp_begin = 50364;
  token.n_chunks = n_token_chunks(model.n_vocab, token.timestamp_begin, token.chunk);
  token.no_timestamps = 50363;
  token.blank = 220;
  token.max_tokens = model.decoder().n_positions;
  std::vector<SequenceState> states(n_sequences);
  std::vector<Row> rows(n_sequences);
  for (uint32_t s = 0; s < n_sequences; ++s) {
    states[s].n_sampled = 1;
    states[s].max_sampled = 1u << 30;
    states[s].position = 101;
    rows[s] = {1000, static_cast<int>(s), 100, 0};
  }
  const Operand state_buffer = buffer(states.size() * sizeof states[0], "states");
  const Operand row_buffer = buffer(rows.size() * sizeof rows[0], "rows");
  const Operand next_rows = buffer(rows.size() * sizeof rows[0], "next rows");
  const Operand tokens = buffer(uint64_t{n_sequences} * token.max_tokens * 4, "tokens");
  const Operand partials =
      buffer(uint64_t{n_sequences} * token.n_chunks * sizeof(TokenPartial), "partials");
  const Operand suppressed = buffer((model.n_vocab + 31) / 32 * 4, "suppressed tokens");
  const Operand logits = buffer(uint64_t{n_sequences} * model.n_vocab * 4, "logits");
  device->write(state_buffer, states.data());
  device->write(row_buffer, rows.data());
  DispatchTable step;
  decoder.emit_rows(step, n_sequences, decoder.context(row_buffer, PassRowOrder::kOneEach));
  decoder.emit_logits(step, n_sequences, {}, logits);
  emit::sample_partials(step, "decoder.partials", token, partials, logits, state_buffer, suppressed,
                        {});
  // The rows do not change, so that every replay is the same step.
  emit::sample_token(step, "decoder.token", token, state_buffer, next_rows, tokens, {}, stop,
                     partials, suppressed);

  elapsed_ms();
  const ProgramId encode_program = device->record(encode);
  const ProgramId step_program = device->record(step);
  std::printf("record %.0f ms\n", elapsed_ms());
  std::printf(
      "encode, %u windows: %.3f ms per pass\n", n_windows,
      pass_ms(*device, encode_program, std::max(1u, replays / 16), encoder.output(), repeats));
  print_profile(*device, encode, encode_program, repeats);
  std::printf("decode, %u sequences: %.4f ms per step\n", n_sequences,
              pass_ms(*device, step_program, replays, logits, repeats));
  const auto one = std::chrono::steady_clock::now();
  for (uint32_t i = 0; i < replays; ++i) {
    device->run(step_program, 1, stop);
    device->read(stop, &word);
  }
  std::printf(
      "decode, host reads every step: %.4f ms per step\n",
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - one).count() /
          replays);
  print_profile(*device, step, step_program, repeats);
  std::vector<float> sample(8);
  device->read(logits.part(0, 32), sample.data());
  std::printf("logits begin %g %g %g\n", sample[0], sample[1], sample[2]);
  return std::isfinite(sample[0]) ? 0 : 1;
}

}  // namespace
}  // namespace vesper

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  vesper::Options options;
  CLI::App app("Times Whisper's passes on a Vulkan device, with random weights.");
  app.option_defaults()->always_capture_default();
  const CLI::Range at_least_1(1u, 1000000u);
  app.add_option("--device", options.device, "device");
  app.add_option("--shape", options.shape, "tiny, base or large-v3-turbo");
  app.add_option("--compute", options.compute, "format of products");
  app.add_option("--windows", options.n_windows, "windows at once")->check(at_least_1);
  app.add_option("--sequences", options.n_sequences, "texts at once")->check(at_least_1);
  app.add_option("--replays", options.replays, "passes in succession")->check(at_least_1);
  app.add_option("--repeats", options.repeats, "measurements")->check(at_least_1);
  try {
    app.parse(argc, argv);
    return vesper::run(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : vesper::exit_status(vesper::ErrorKind::kUsage);
  } catch (const vesper::Error& error) {
    std::fprintf(stderr, "vulkan_bench: %s\n", error.what());
    return vesper::exit_status(error.kind());
  }
}
