#include "decoder/words/whisper_aligner.h"

#include <algorithm>
#include <string>

#include "decoder/words/alignment_path.h"
#include "error/error.h"
#include "error/tasks.h"

namespace vesper {
namespace {

// Tokens besides the text: at most three of the start sequence, no-timestamps, end of text.
constexpr uint32_t kFrame = 8;
// Passes for one window have multiples of 16 rows, those for several windows of 64: each size is
// recorded.
uint32_t row_step(size_t n_tasks) { return n_tasks > 1 ? 64 : 16; }

// The start sequence, no-timestamps, the text and end of text.
size_t n_rows_of(const AlignmentTask& task) { return task.start.size() + task.text.size() + 2; }

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
      max_tasks_(std::max(decoder.options().n_encoded, 1u)),
      max_task_rows_(std::min(decoder.n_ctx(), decoder.n_ctx() / 2 + kFrame)),
      max_rows_(std::min(max_task_rows_ * max_tasks_, decoder.options().max_rows)),
      self_(device, [&] {
        KvCache::Shape shape = decoder.cache().shape();
        shape.n_sequences = max_tasks_;
        shape.n_positions = max_task_rows_;
        shape.n_extra_pages = 0;
        return shape;
      }()) {
  const auto allocate = [&](uint64_t n, uint64_t size, const char* label) {
    return device.allocate(n * size, label);
  };
  rows_ = allocate(max_rows_, sizeof(Row), "alignment rows");
  cross_pages_ = allocate(max_tasks_, sizeof(int32_t), "windows to align");
  ids_ = allocate(max_rows_, sizeof(uint32_t), "tokens to align");
  logits_ = allocate(decoder.options().max_logit_rows, sizeof(float) * uint64_t{decoder.n_vocab()},
                     "alignment logits");
  probabilities_ = allocate(max_rows_, sizeof(float), "token probabilities");
  cross_.out = allocate(uint64_t{n_heads_} * max_rows_ * n_positions_, sizeof(float),
                        "cross-attention weights");
  cross_.lengths = allocate(max_tasks_, sizeof(uint32_t), "positions to align");
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
  host_cross_pages_.resize(max_tasks_);
  host_lengths_.resize(max_tasks_);
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

void WhisperAligner::check(const AlignmentTask& task) const {
  const auto in_vocabulary = [&](int32_t id) {
    return id >= 0 && static_cast<uint32_t>(id) < decoder_.n_vocab();
  };
  if (n_rows_of(task) <= std::min(max_task_rows_, max_rows_) && task.n_positions > 0 &&
      task.n_positions <= n_positions_ && task.window < n_windows_ &&
      std::all_of(task.start.begin(), task.start.end(), in_vocabulary) &&
      std::all_of(task.text.begin(), task.text.end(),
                  [&](int32_t id) { return id >= 0 && id < tokens_.eot; })) {
    return;
  }
  throw Error(ErrorKind::kInternal, "alignment: " + std::to_string(task.text.size()) +
                                        " tokens of text over " + std::to_string(task.n_positions) +
                                        " positions of window " + std::to_string(task.window) +
                                        " are more than " +
                                        std::to_string(max_task_rows_ - kFrame) +
                                        " text tokens over " + std::to_string(n_positions_) +
                                        " positions of " + std::to_string(n_windows_) + " windows");
}

std::span<const AlignmentTask> WhisperAligner::of_one_pass(
    std::span<const AlignmentTask> tasks) const {
  size_t n = 0, n_rows = 0;
  while (n < std::min<size_t>(tasks.size(), max_tasks_)) {
    n_rows += n_rows_of(tasks[n]);
    if (n_rows > max_rows_) break;
    ++n;
  }
  return tasks.first(n);
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
  const uint32_t step = row_step(tasks.size());
  const size_t n_rows = std::min<size_t>((n_used + step - 1) / step * step, max_rows_);
  host_rows_.resize(n_rows, Row{0, -1, 0, 0});
  host_ids_.resize(n_rows, 0);
  device_.write(rows_.part(0, n_rows * sizeof(Row)), host_rows_.data());
  device_.write(ids_.part(0, n_rows * sizeof(uint32_t)), host_ids_.data());
  device_.write(cross_pages_.part(0, tasks.size() * sizeof(int32_t)), host_cross_pages_.data());
  device_.write(cross_.lengths.part(0, tasks.size() * sizeof(uint32_t)), host_lengths_.data());
  return static_cast<uint32_t>(n_rows);
}

std::vector<TokenAlignment> WhisperAligner::align(std::span<const AlignmentTask> tasks) {
  for (const AlignmentTask& task : tasks) check(task);
  std::vector<TokenAlignment> alignments;
  while (alignments.size() < tasks.size()) {
    align_pass(of_one_pass(tasks.subspan(alignments.size())), alignments);
  }
  return alignments;
}

void WhisperAligner::align_pass(std::span<const AlignmentTask> tasks,
                                std::vector<TokenAlignment>& alignments) {
  const uint32_t n_rows = write_rows(tasks);
  const auto n_used = static_cast<size_t>(std::count_if(
      host_rows_.begin(), host_rows_.end(), [](const Row& row) { return row.sequence >= 0; }));
  device_.run(program_of(n_rows));
  host_weights_.resize(size_t{n_heads_} * n_rows * n_positions_);
  // Unused rows at the end have none.
  host_probabilities_.resize(n_used);
  device_.read(cross_.out.part(0, host_weights_.size() * sizeof(float)), host_weights_.data());
  device_.read(probabilities_.part(0, n_used * sizeof(float)), host_probabilities_.data());

  std::vector<size_t> first_rows;
  size_t n_before = 0;
  for (const AlignmentTask& task : tasks) {
    first_rows.push_back(n_before);
    n_before += n_rows_of(task);
  }
  const size_t first = alignments.size();
  alignments.resize(first + tasks.size());
  run_tasks(tasks.size(), 0, [&](size_t i) {
    const AlignmentTask& task = tasks[i];
    const auto n_start = static_cast<uint32_t>(task.start.size());
    const auto n_text = static_cast<uint32_t>(task.text.size());
    const HeadWeights weights{host_weights_.data() + first_rows[i] * n_positions_,
                              size_t{n_rows} * n_positions_,
                              n_positions_,
                              n_heads_,
                              static_cast<uint32_t>(n_rows_of(task)),
                              task.n_positions};
    const auto said =
        host_probabilities_.begin() + static_cast<std::ptrdiff_t>(first_rows[i] + n_start);
    alignments[first + i] = {align_rows(weights, n_start, n_text + 1), {said, said + n_text}};
  });
}

}  // namespace vesper
