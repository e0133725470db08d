#include "decoder/words/whisper_aligner.h"

#include <algorithm>
#include <string>

#include "decoder/words/word_times.h"
#include "error/error.h"

namespace vesper {
namespace {

// Tokens besides the text: at most three of the start sequence, no-timestamps, end of text.
constexpr uint32_t kFrame = 8;
// Passes have multiples of this number of rows.
constexpr uint32_t kRowStep = 16;

}  // namespace

WhisperAligner::WhisperAligner(Device& device, const DecoderModel& decoder,
                               const WhisperTokens& tokens,
                               std::span<const std::array<uint32_t, 2>> heads)
    : device_(device),
      decoder_(decoder),
      tokens_(tokens),
      n_heads_(static_cast<uint32_t>(heads.size())),
      n_windows_(decoder.options().n_sources),
      n_positions_(decoder.n_source_positions()),
      max_task_rows_(std::min(decoder.n_ctx(), decoder.n_ctx() / 2 + kFrame)),
      max_rows_(std::min(max_task_rows_ * n_windows_, decoder.options().max_rows)),
      self_(device, [&] {
        KvCache::Shape shape = decoder.cache().shape();
        shape.n_sequences = n_windows_;
        shape.n_positions = max_task_rows_;
        shape.n_extra_pages = 0;
        return shape;
      }()) {
  const auto allocate = [&](uint64_t n, uint64_t size, const char* label) {
    return device.allocate(n * size, label);
  };
  rows_ = allocate(max_rows_, sizeof(Row), "alignment rows");
  cross_pages_ = allocate(n_windows_, sizeof(int32_t), "windows to align");
  ids_ = allocate(max_rows_, sizeof(uint32_t), "tokens to align");
  logits_ = allocate(decoder.options().max_logit_rows, sizeof(float) * uint64_t{decoder.n_vocab()},
                     "alignment logits");
  probabilities_ = allocate(max_rows_, sizeof(float), "token probabilities");
  cross_.out = allocate(uint64_t{n_heads_} * max_rows_ * n_positions_, sizeof(float),
                        "cross-attention weights");
  cross_.lengths = allocate(n_windows_, sizeof(uint32_t), "positions to align");
  for (uint32_t layer = 0; layer < decoder.config().n_layers; ++layer) {
    std::vector<uint32_t> of_layer;
    for (const auto& [l, head] : heads) {
      if (l == layer) of_layer.push_back(head);
    }
    Operand& operand = cross_.heads.emplace_back();
    if (of_layer.empty()) continue;
    operand = allocate(of_layer.size(), sizeof(uint32_t), "alignment heads");
    device.write(operand, of_layer.data());
  }
  host_cross_pages_.resize(n_windows_);
  host_lengths_.resize(n_windows_);
}

ProgramId WhisperAligner::program_of(uint32_t n_rows) {
  const auto [entry, is_new] = programs_.try_emplace(n_rows);
  if (!is_new) return entry->second;
  DispatchTable table;
  TransformerStack::CausalContext context = decoder_.context(rows_);
  context.self = &self_;
  context.cross_pages = cross_pages_;
  context.weights = &cross_;
  decoder_.emit_rows(table, n_rows, context);
  const uint32_t most = decoder_.options().max_logit_rows;
  for (uint32_t first = 0; first < n_rows; first += most) {
    const uint32_t n = std::min(most, n_rows - first);
    decoder_.emit_logits(table, n, {}, logits_, {}, first);
    RangeProbabilitiesParams range{};
    range.n_rows = n;
    range.row_stride = decoder_.n_vocab();
    range.softmax_count = static_cast<uint32_t>(tokens_.eot);
    range.out_count = 1;
    emit::range_probabilities(table, "align.probabilities", range,
                              probabilities_.part(first * sizeof(float), n * sizeof(float)),
                              logits_, ids_.part(first * sizeof(uint32_t), n * sizeof(uint32_t)));
  }
  return entry->second = device_.record(table);
}

void WhisperAligner::check(std::span<const AlignmentTask> tasks) const {
  if (tasks.size() > n_windows_) {
    throw Error(ErrorKind::kInternal, "alignment: " + std::to_string(tasks.size()) +
                                          " windows, but there is room for " +
                                          std::to_string(n_windows_));
  }
  const auto in_vocabulary = [&](int32_t id) {
    return id >= 0 && static_cast<uint32_t>(id) < decoder_.n_vocab();
  };
  size_t n_rows = 0;
  for (const AlignmentTask& task : tasks) n_rows += task.start.size() + task.text.size() + 2;
  if (n_rows > max_rows_) {
    throw Error(ErrorKind::kInternal, "alignment: " + std::to_string(n_rows) +
                                          " tokens, but there is room for " +
                                          std::to_string(max_rows_));
  }
  for (const AlignmentTask& task : tasks) {
    if (task.start.size() + task.text.size() + 2 <= max_task_rows_ && task.n_positions > 0 &&
        task.n_positions <= n_positions_ && task.window < n_windows_ &&
        std::all_of(task.start.begin(), task.start.end(), in_vocabulary) &&
        std::all_of(task.text.begin(), task.text.end(),
                    [&](int32_t id) { return id >= 0 && id < tokens_.eot; })) {
      continue;
    }
    throw Error(ErrorKind::kInternal,
                "alignment: " + std::to_string(task.text.size()) + " tokens of text over " +
                    std::to_string(task.n_positions) + " positions of window " +
                    std::to_string(task.window) + " are more than " +
                    std::to_string(max_task_rows_ - kFrame) + " text tokens over " +
                    std::to_string(n_positions_) + " positions of " + std::to_string(n_windows_) +
                    " windows");
  }
}

uint32_t WhisperAligner::write_rows(std::span<const AlignmentTask> tasks) {
  host_rows_.clear();
  host_ids_.clear();
  for (uint32_t t = 0; t < tasks.size(); ++t) {
    const AlignmentTask& task = tasks[t];
    int32_t position = 0;
    const auto add = [&](int32_t token, int32_t next) {
      host_rows_.push_back({token, static_cast<int32_t>(t), position++, 0});
      host_ids_.push_back(static_cast<uint32_t>(next));
    };
    for (int32_t token : task.start) add(token, 0);
    int32_t last = tokens_.notimestamps;
    for (int32_t token : task.text) {
      add(last, token);
      last = token;
    }
    add(last, 0);
    add(tokens_.eot, 0);
    host_cross_pages_[t] = static_cast<int32_t>(task.window);
    host_lengths_[t] = task.n_positions;
  }
  const size_t n_used = host_rows_.size();
  const size_t n_rows = std::min<size_t>((n_used + kRowStep - 1) / kRowStep * kRowStep, max_rows_);
  host_rows_.resize(n_rows, Row{0, -1, 0, 0});
  host_ids_.resize(n_rows, 0);
  device_.write(rows_.part(0, n_rows * sizeof(Row)), host_rows_.data());
  device_.write(ids_.part(0, n_rows * sizeof(uint32_t)), host_ids_.data());
  device_.write(cross_pages_.part(0, tasks.size() * sizeof(int32_t)), host_cross_pages_.data());
  device_.write(cross_.lengths.part(0, tasks.size() * sizeof(uint32_t)), host_lengths_.data());
  return static_cast<uint32_t>(n_rows);
}

std::vector<TokenAlignment> WhisperAligner::align(std::span<const AlignmentTask> tasks) {
  if (tasks.empty()) return {};
  check(tasks);
  const uint32_t n_rows = write_rows(tasks);
  const auto n_used = static_cast<size_t>(std::count_if(
      host_rows_.begin(), host_rows_.end(), [](const Row& row) { return row.sequence >= 0; }));
  device_.run(program_of(n_rows));
  host_weights_.resize(size_t{n_heads_} * n_rows * n_positions_);
  // Unused rows at the end have none.
  host_probabilities_.resize(n_used);
  device_.read(cross_.out.part(0, host_weights_.size() * sizeof(float)), host_weights_.data());
  device_.read(probabilities_.part(0, n_used * sizeof(float)), host_probabilities_.data());

  std::vector<TokenAlignment> alignments;
  size_t first_row = 0;
  for (const AlignmentTask& task : tasks) {
    const auto n_start = static_cast<uint32_t>(task.start.size());
    const auto n_text = static_cast<uint32_t>(task.text.size());
    const HeadWeights weights{host_weights_.data() + first_row * n_positions_,
                              size_t{n_rows} * n_positions_,
                              n_positions_,
                              n_heads_,
                              n_start + n_text + 2,
                              task.n_positions};
    const auto said =
        host_probabilities_.begin() + static_cast<std::ptrdiff_t>(first_row + n_start);
    alignments.push_back({align_rows(weights, n_start, n_text + 1), {said, said + n_text}});
    first_row += weights.n_rows;
  }
  return alignments;
}

}  // namespace vesper
