// A language model on a device: load time, llama-bench's table, and the time of each command in a
// step and a pass. language_bench --help lists the options.
//
// ppN: a prompt of N tokens up to the first sampled token, without cache. tgN: N tokens after a
// prompt of --depth tokens. Every test warms up for 0.3 s; the result is the mean of the following
// runs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/micro/layer_labels.h"
#include "error/error.h"
#include "llm/devices/open_device.h"
#include "llm/generation/generator.h"
#include "llm/inspect/command_cost.h"
#include "llm/inspect/observed_device.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

struct Options {
  std::string model, device = "vulkan", compute = "auto", kv_type = "f16";
  std::vector<uint32_t> prompts = {512}, texts = {128}, depths = {0};  // tokens
  uint32_t n_slots = 1, n_repeats = 3;
  bool has_profile = false;
};

uint32_t greatest(const std::vector<uint32_t>& numbers) {
  return *std::max_element(numbers.begin(), numbers.end());
}

std::vector<int32_t> random_ids(uint32_t n, uint32_t n_vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(n);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % n_vocab);
  return ids;
}

// Times since the clock was set, by label, layers summed.
void print_profile(ObservedDevice& device, double n_positions) {
  for (ProgramId id = 0; id < device.programs().size(); ++id) {
    const ReplayTimes times = device.replay_times(id);
    if (times.n_runs == 0) continue;
    struct Line {
      std::string name, variant;
      double us = 0, flop = 0, bytes = 0;
      int count = 0;
    };
    const DispatchTable& table = device.programs()[id];
    const std::vector<CommandVariant> forms = device.variants(id);
    std::vector<Line> lines;
    double sum = 0;
    const auto runs = static_cast<double>(times.n_runs);
    for (size_t i = 0; i < times.us.size(); ++i) {
      const Command& command = table.commands()[i];
      const std::string name = without_layer(table.labels()[i]);
      auto line = std::find_if(lines.begin(), lines.end(),
                               [&](const Line& each) { return each.name == name; });
      if (line == lines.end()) line = lines.insert(line, Line{name, forms[i].variant});
      const ObservedDevice::Buffer* weight =
          command.kernel == Kernel::kMatmul ? device.buffer_of(command.operands[2]) : nullptr;
      const CommandCost cost =
          command_cost(command, weight ? static_cast<double>(weight->bytes) : 0, n_positions);
      line->us += times.us[i] / runs;
      line->flop += cost.flop;
      line->bytes += cost.bytes;
      ++line->count;
      sum += times.us[i] / runs;
    }
    std::printf("  program %u, %llu runs, %zu commands in %u stages, %.1f us\n", id,
                static_cast<unsigned long long>(times.n_runs), table.commands().size(),
                table.stages().back() + 1, sum);
    std::printf("  %-26s %-22s %5s %9s %9s %9s %9s\n", "command", "shader", "times", "us each",
                "us", "TFLOP/s", "GB/s");
    for (const Line& line : lines) {
      std::printf("  %-26s %-22s %5d %9.2f %9.1f %9.1f %9.0f\n", line.name.c_str(),
                  line.variant.c_str(), line.count, line.us / line.count, line.us,
                  line.flop / line.us / 1e6, line.bytes / line.us / 1e3);
    }
  }
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {
    const auto start = SteadyClock::now();
    provider_ = open_weights(options.model);
    device_ = std::make_unique<ObservedDevice>(open_device(options.device, {}),
                                               ObservedDevice::Mode::kRun);
    const double open_s = seconds_since(start);
    const Compute compute = device_->resolve(parse_compute(options.compute), WeightUse::kAnyRows);
    GeneratorOptions generation;
    const uint32_t longest =
        std::max(greatest(options.prompts), greatest(options.depths) + greatest(options.texts)) + 1;
    generation.n_ctx = (longest + 255) / 256 * 256;
    generation.n_slots = options.n_slots;
    generation.kv_types = parse_kv_types(options.kv_type);
    generation.has_filters = generation.has_penalties = false;
    generator_ = std::make_unique<Generator>(*device_, *provider_, compute, generation);
    generator_->prepare();
    std::printf("%s, %s; device open %.2f s, all loaded %.2f s, weights %.1f MB\n",
                device_->info().name.c_str(),
                device_->info()
                    .policy.products(compute, has_quantized_matrices(*provider_))
                    .activations.c_str(),
                open_s, seconds_since(start), static_cast<double>(device_->weight_bytes()) / 1e6);
  }

  void run() {
    for (const uint32_t n : options_.prompts) {
      if (n > 0) report("pp" + std::to_string(n), n, [&] { return prompt_seconds(n); });
    }
    for (const uint32_t depth : options_.depths) {
      for (const uint32_t n : options_.texts) {
        if (n == 0) continue;
        const std::string name =
            "tg" + std::to_string(n) + (depth > 0 ? " at " + std::to_string(depth) : "");
        report(name, n * generator_->n_slots(), [&] { return text_seconds(n, depth); });
      }
    }
  }

 private:
  template <class Test>
  void report(const std::string& name, uint32_t n_tokens, const Test& test) {
    // An idle GPU needs time to reach its clock rate.
    for (const auto start = SteadyClock::now(); seconds_since(start) < 0.3;) test();
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < options_.n_repeats; ++i) {
      const double rate = n_tokens / test();
      sum += rate;
      squares += rate * rate;
    }
    const double mean = sum / options_.n_repeats;
    std::printf("| %-14s | %10.1f ± %.1f t/s | %9.3f ms |\n", name.c_str(), mean,
                std::sqrt(std::max(0.0, squares / options_.n_repeats - mean * mean)),
                n_tokens / mean * 1e3);
    if (!options_.has_profile) return;
    device_->set_clock(Clock::kPerCommand);
    test();
    print_profile(*device_, n_tokens / 2.0);
    device_->set_clock(Clock::kOff);
  }

  double prompt_seconds(uint32_t n) {
    const std::vector<int32_t> ids = random_ids(n, generator_->n_vocab(), ++seed_);
    generator_->forget(0);
    const auto start = SteadyClock::now();
    generator_->start(0, ids, 1, {});
    generator_->advance(1);
    return seconds_since(start);
  }

  double text_seconds(uint32_t n, uint32_t depth) {
    for (uint32_t slot = 0; slot < generator_->n_slots(); ++slot) {
      generator_->start(slot, random_ids(std::max(depth, 1u), generator_->n_vocab(), slot + 1),
                        n + 1, {});
    }
    generator_->advance(1);
    const auto start = SteadyClock::now();
    while (generator_->advance(16)) {
    }
    return seconds_since(start);
  }

  const Options options_;
  std::unique_ptr<WeightProvider> provider_;
  std::unique_ptr<ObservedDevice> device_;
  std::unique_ptr<Generator> generator_;
  uint32_t seed_ = 0;
};

}  // namespace
}  // namespace vesper

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  vesper::Options options;
  CLI::App app("Times a language model on a device.");
  app.option_defaults()->always_capture_default();
  const CLI::Range at_least_1(1u, 1000000u);
  app.add_option("MODEL", options.model, "file or folder of the model")->required();
  app.add_option("--device", options.device, "device");
  app.add_option("--compute", options.compute, "format of products");
  app.add_option("--kv-type", options.kv_type, "format of keys and values");
  for (CLI::Option* list :
       {app.add_option("--pp", options.prompts, "tokens of prompts, as 512,2048; 0: none"),
        app.add_option("--tg", options.texts, "tokens of texts; 0: none"),
        app.add_option("--depth", options.depths, "tokens before texts")}) {
    list->delimiter(',')->allow_extra_args(false);
  }
  app.add_option("--slots", options.n_slots, "texts at once")->check(at_least_1);
  app.add_option("--repeats", options.n_repeats, "runs of a test")->check(at_least_1);
  app.add_option("--profile", options.has_profile, "1: the time of each command as well");
  try {
    app.parse(argc, argv);
    vesper::Bench(options).run();
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : vesper::exit_status(vesper::ErrorKind::kUsage);
  } catch (const vesper::Error& error) {
    std::fprintf(stderr, "language_bench: %s\n", error.what());
    return vesper::exit_status(error.kind());
  }
}
