#include "session/conversion.h"

#include <algorithm>

#include "audio/mel/mel_filters.h"
#include "embedder/embedding_settings.h"
#include "error/error.h"
#include "llm/conversion/conversion.h"
#include "llm/conversion/gguf_keys.h"
#include "llm/conversion/whisper_plan.h"
#include "llm/dtype/quantize.h"
#include "llm/tokenizer/text_tokenizer.h"
#include "session/atomic_file.h"
#include "session/bounds.h"

namespace vesper {
namespace {

constexpr uint64_t kValuesAtOnce = 8u << 20;  // 32 MiB as f32

// Writes a plan and counts what it writes.
class ConversionWriter {
 public:
  ConversionWriter(const WeightProvider& weights, const ConversionPlan& plan,
                   const ConversionOptions& options, AtomicFile& file)
      : weights_(weights), plan_(plan), options_(options), file_(file), total_(plan.bytes()) {}

  void write() {
    write_bytes(plan_.head);
    for (const PlannedTensor& tensor : plan_.tensors) {
      write_bytes(tensor.before);
      PlannedTensor in_memory = tensor;
      std::vector<LoadedTensor> parts;
      for (TensorView& part : in_memory.parts) {
        parts.push_back(weights_.load(part));
        part = parts.back().view;
      }
      write_tensor(in_memory);
      write_bytes(std::string(plan_.padding(tensor), '\0'));
      for (const TensorView& part : tensor.parts) weights_.release(part);
    }
  }

 private:
  void write_bytes(std::string_view bytes) {
    file_.write(bytes);
    done_ += bytes.size();
    if (options_.on_progress) options_.on_progress(done_, total_);
  }

  void write_tensor(const PlannedTensor& tensor) {
    const uint64_t n_rows = tensor.n_rows(), n_columns = tensor.n_columns();
    const uint64_t row_bytes = tensor.bytes() / n_rows;
    const uint64_t rows_at_once = std::max<uint64_t>(kValuesAtOnce / n_columns, 1);
    const std::string where = weights_.path().string() + ": tensor " + tensor.parts[0].file_name;
    for (uint64_t first = 0; first < n_rows; first += rows_at_once) {
      const uint64_t n = std::min(rows_at_once, n_rows - first);
      if (tensor.is_copy()) {
        const auto* from = static_cast<const char*>(tensor.parts[0].data);
        write_bytes({from + first * row_bytes, n * row_bytes});
        continue;
      }
      blocks_.resize(n * row_bytes);
      quantize_rows(
          where, tensor.dtype, first, n, n_columns,
          [&](uint64_t row, uint64_t count, float* out) { tensor.read_rows(row, count, out); },
          options_.threads, blocks_.data());
      write_bytes({reinterpret_cast<const char*>(blocks_.data()), blocks_.size()});
    }
  }

  const WeightProvider& weights_;
  const ConversionPlan& plan_;
  const ConversionOptions& options_;
  AtomicFile& file_;
  uint64_t done_ = 0, total_;
  std::vector<uint8_t> blocks_;
};

// The entry of a list that `is_it` accepts, added if there is none.
template <typename Entry, typename IsIt>
Entry& entry_of(std::vector<Entry>& list, const IsIt& is_it, Entry added) {
  const auto found = std::find_if(list.begin(), list.end(), is_it);
  return found == list.end() ? list.emplace_back(std::move(added)) : *found;
}

ConversionReport report_of(const ConversionPlan& plan) {
  ConversionReport report;
  for (const PlannedTensor& tensor : plan.tensors) {
    const std::string name = dtype_descriptor(tensor.dtype).name;
    const std::string wanted = dtype_descriptor(tensor.wanted).name;
    auto& format =
        entry_of(report.formats, [&](const auto& row) { return row.name == name; }, {name});
    ++format.n_tensors;
    format.bytes += tensor.bytes();
    report.n_parameters += tensor.n_rows() * tensor.n_columns();
    for (const TensorView& part : tensor.parts) {
      report.source_bytes += part.bytes;
      report.was_quantized |= !tensor.is_copy() && dtype_descriptor(part.dtype).to_f32 == nullptr;
    }
    if (tensor.dtype == tensor.wanted) continue;
    ++entry_of(report.fallbacks,
               [&](const auto& row) { return row.wanted == wanted && row.used == name; },
               {wanted, name})
          .n_tensors;
  }
  report.left_out = plan.left_out;
  return report;
}

// Of several scripts, with numbers, spaces and signs: all kinds of pieces of the pre-tokenizers.
constexpr std::string_view kProbe =
    "Hello, world! It's 2024-06-30:\n\tx = 3.14159 * (y+1);  // caf\u00e9 \u4f60\u597d "
    "\u041f\u0440\u0438\u0432\u0435\u0442 \U0001F600 don't  WON'T";

bool has_planned_tensors(const WeightProvider& written, const ConversionPlan& plan) {
  const auto all = [&](const auto& tensors, const auto& is_planned) {
    return std::equal(tensors.begin(), tensors.end(), plan.tensors.begin(), plan.tensors.end(),
                      is_planned);
  };
  if (written.gguf() == nullptr) {
    return all(written.tensors(), [](const TensorView& tensor, const PlannedTensor& planned) {
      return tensor.file_name == planned.name && tensor.bytes == planned.bytes();
    });
  }
  return all(written.gguf()->tensors, [](const GgufTensor& tensor, const PlannedTensor& planned) {
    return tensor.name == planned.name && tensor.shape == planned.shape &&
           tensor.bytes == planned.bytes();
  });
}

// Reads the written file as any program would.
void check_written(const std::filesystem::path& path, const WeightProvider& source,
                   const ConversionPlan& plan) {
  const auto written = open_weights(path);
  if (!has_planned_tensors(*written, plan)) {
    throw Error(ErrorKind::kInternal,
                path.string() + ": the file does not have its plan's tensors");
  }
  if (!plan.stated) return;
  const std::string where = source.path().string() + ": ";
  const std::string difference = configuration_difference(*plan.stated, written->config());
  if (!difference.empty()) {
    throw Error(ErrorKind::kModel,
                where + "expected a model that the format can state: " + difference);
  }
  if (plan.has_tokenizer && open_text_tokenizer(source)->encode(kProbe, true, true) !=
                                open_text_tokenizer(*written)->encode(kProbe, true, true)) {
    throw Error(ErrorKind::kModel,
                where +
                    "expected a tokenizer that GGUF can state: the converted one gives a "
                    "sample text other tokens");
  }
}

// Of a text encoder: llama.cpp's number of its pooling. GGUF states neither layers behind the
// pooling nor vectors that keep their lengths.
uint32_t pooling_type(const WeightProvider& weights) {
  if (weights.gguf() != nullptr || weights.type() != ModelType::kTextEncoder) return 0;
  const EmbeddingSettings settings = read_embedding_settings(model_folder(weights.path()));
  if (!settings.dense.empty()) {
    throw Error(ErrorKind::kModel, weights.path().string() +
                                       ": expected a text encoder that ends with its pooling, "
                                       "found a dense layer in " +
                                       settings.dense[0]);
  }
  return gguf_pooling_type(settings.pooling);
}

ConversionPlan plan_of(const WeightProvider& weights, const Mixture& mixture) {
  if (weights.type() != ModelType::kWhisper) {
    return plan_gguf(weights, mixture, pooling_type(weights));
  }
  const auto n_mels = static_cast<int>(weights.config().n_mels);
  return plan_whisper(weights, mixture, slaney_mel_filters(n_mels));
}

}  // namespace

void check_options(const ConversionOptions& options) {
  find_mixture(options.type);
  if (options.threads != 0) check_bounds("threads", bounds::kThreads, options.threads);
}

ConversionReport convert_model(const ConversionOptions& options) {
  check_options(options);
  const Mixture& mixture = find_mixture(options.type);
  const auto weights = open_weights(options.model);
  const ConversionPlan plan = plan_of(*weights, mixture);
  ConversionReport report = report_of(plan);
  report.output = options.output.string();
  report.bytes = plan.bytes();
  if (plan.stated && plan.stated->decoder().n_positions < weights->config().decoder().n_positions) {
    report.shortened_context = plan.stated->decoder().n_positions;
  }
  for (const auto& source : weights->files()) {
    std::error_code error;
    if (std::filesystem::equivalent(source->name(), options.output, error)) {
      throw Error(ErrorKind::kUsage, "output",
                  "expected another file than the model's, found " + report.output);
    }
  }
  AtomicFile file(options.output);
  ConversionWriter(*weights, plan, options, file).write();
  if (!file.unfinished_path().empty()) check_written(file.unfinished_path(), *weights, plan);
  file.commit();
  return report;
}

}  // namespace vesper
