#include "llm/generation/generator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "error/error.h"
#include "llm/weights/weight_provider.h"

namespace vesper {
namespace {

// Limits of the logits of a pass that are computed at once.
constexpr uint64_t kMostLogitBytes = uint64_t{64} << 20, kMostLogitRows = 128;

// Rows of a pass over texts that resume.
constexpr uint32_t kResumedRows = 2 * kMostDraftedRows;

uint32_t most_drafted_rows(const GeneratorOptions& options, bool has_drafts) {
  return has_drafts ? kMostDraftedRows : options.resumes ? kResumedRows : 0;
}

DecoderModel::Options model_options(const Device& device, const WeightProvider& provider,
                                    const GeneratorOptions& options, uint32_t n_drafted) {
  const ModelConfig& config = provider.config(ModelType::kLanguageModel);
  DecoderModel::Options model;
  model.n_ctx = options.n_ctx != 0 ? options.n_ctx : config.decoder().n_positions;
  model.n_sequences = options.n_slots * options.beam_size;
  model.max_rows =
      std::max({DecodingLoop::most_pass_rows(device, model.n_ctx), model.n_sequences, n_drafted});
  const uint64_t row_bytes = sizeof(float) * std::max(1u, config.n_vocab);
  const auto logit_rows =
      static_cast<uint32_t>(std::clamp<uint64_t>(kMostLogitBytes / row_bytes, 1, kMostLogitRows));
  model.max_logit_rows =
      std::max({std::min(logit_rows, model.max_rows), model.n_sequences, n_drafted});
  model.kv_types = options.kv_types;
  model.recycles_pages = options.recycles_pages && options.beam_size == 1;
  model.n_extra_pages = options.beam_size > 1 ? model.n_sequences : 0;
  return model;
}

// Up to beam_size of a beam's continuations may be stop tokens.
DecodingLoop::Options loop_options(const GeneratorOptions& options, uint32_t n_drafted) {
  return {.most_beams = options.beam_size > 1 ? options.beam_size : 0,
          .n_stop_candidates = options.beam_size,
          .keeps_beam_logprobs = true,
          .most_drafted_rows = n_drafted};
}

// FNV-1a.
void mix_bytes(const void* data, size_t n, uint64_t& hash) {
  for (size_t i = 0; i < n; ++i) {
    hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001b3u;
  }
}

uint64_t model_fingerprint(const WeightProvider& provider) {
  const ModelConfig& config = provider.config();
  const StackConfig& stack = config.decoder();
  uint64_t hash = 0xcbf29ce484222325u;
  for (const uint32_t fact : {config.n_vocab, stack.d_model, stack.n_layers, stack.n_heads,
                              stack.n_kv_heads, stack.head_dim, stack.d_ffn}) {
    mix_bytes(&fact, sizeof fact, hash);
  }
  const TensorView& norm = provider.require("decoder.norm.weight");
  mix_bytes(norm.data, norm.bytes, hash);
  const std::string& changes = provider.contents().changes;
  mix_bytes(changes.data(), changes.size(), hash);
  return hash;
}

}  // namespace

Generator::Generator(Device& device, const WeightProvider& provider, Compute compute,
                     const GeneratorOptions& options, DraftSource* drafts)
    : device_(device),
      options_(options),
      model_(
          device, provider, compute,
          model_options(device, provider, options, most_drafted_rows(options, drafts != nullptr))),
      loop_(device, model_, loop_options(options, most_drafted_rows(options, drafts != nullptr))),
      slots_(options.n_slots),
      fingerprint_(model_fingerprint(provider)) {
  for (Slot& slot : slots_) slot.held.reserve(n_ctx());
  running_.reserve(options.n_slots);
  if (options.resumes) resumed_.reserve(options.n_slots);
  if (drafts)
    speculation_.emplace(device, loop_, *drafts, options.n_slots, n_ctx(),
                         options.least_draft_gain);
}

void Generator::prepare() {
  if (is_prepared_) return;
  loop_.begin({.n_slots = options_.n_slots,
               .n_candidates = options_.beam_size,
               .beam_size = has_beams() ? options_.beam_size : 0,
               .has_filters = options_.has_filters,
               .has_penalties = options_.has_penalties},
              options_.keeps_bits);
  is_prepared_ = true;
}

void Generator::set_stop_ids(std::span<const int32_t> ids) {
  loop_.set_stop_ids(ids);
  stop_ids_.assign(ids.begin(), ids.end());
  std::erase_if(stop_ids_,
                [&](int32_t id) { return id < 0 || static_cast<uint32_t>(id) >= n_vocab(); });
}

std::vector<TokenBias> Generator::bias_list(const AnswerConstraints& constraints) const {
  std::map<uint32_t, float> values;
  for (const auto& [id, value] : constraints.bias) {
    if (id < 0 || static_cast<uint32_t>(id) >= n_vocab()) {
      throw Error(ErrorKind::kUsage, "logit bias",
                  "expected token ids below " + std::to_string(n_vocab()) + ", found " +
                      std::to_string(id));
    }
    values[static_cast<uint32_t>(id)] += value;
  }
  for (const int32_t id : stop_ids_) {
    if (constraints.ignore_end) values[static_cast<uint32_t>(id)] = -INFINITY;
  }
  if (values.size() > kMostBias) {
    throw Error(ErrorKind::kUsage, "logit bias",
                "expected at most " + std::to_string(kMostBias) + " tokens, found " +
                    std::to_string(values.size()));
  }
  std::vector<TokenBias> list;
  for (const auto& [id, value] : values) list.push_back({id, value});
  return list;
}

void Generator::check_prompt(std::span<const int32_t> prompt, uint32_t n_new) const {
  if (prompt.empty()) throw Error(ErrorKind::kInput, "expected a text of at least one token");
  for (const int32_t id : prompt) {
    if (id >= 0 && static_cast<uint32_t>(id) < n_vocab()) continue;
    throw Error(ErrorKind::kInput, "expected token ids below " + std::to_string(n_vocab()) +
                                       ", the size of the vocabulary, found " + std::to_string(id));
  }
  const size_t most = n_ctx() - n_new;
  if (prompt.size() <= most) return;
  throw Error(ErrorKind::kInput, "the text has " + std::to_string(prompt.size()) +
                                     " tokens, the context of " + std::to_string(n_ctx()) +
                                     " has room for " + std::to_string(most) +
                                     (n_new > 0 ? " and an answer: " : ": ") +
                                     std::to_string(prompt.size() - most) + " too many");
}

uint32_t Generator::n_reusable(uint32_t slot, std::span<const int32_t> prompt) const {
  if (prompt.empty()) return 0;
  const Slot& at = slots_[slot];
  const auto differs =
      std::mismatch(prompt.begin(), prompt.end() - 1, at.held.begin(), at.held.end());
  const auto n = static_cast<uint32_t>(differs.first - prompt.begin());
  // The window of the next position must still be cached.
  return at.first_kept > 0 && n + 1 < at.first_kept + model_.longest_window() ? 0 : n;
}

bool Generator::start(uint32_t slot, std::span<const int32_t> prompt, uint32_t max_new,
                      const Sampling& sampling, const AnswerConstraints& constraints,
                      const std::function<bool()>& is_cancelled) {
  check_prompt(prompt, 1);
  std::vector<TokenBias> bias = bias_list(constraints);
  if ((sampling.has_filters() && !options_.has_filters) ||
      (sampling.has_penalties() && !options_.has_penalties)) {
    throw Error(ErrorKind::kInternal, "generator: made without filters or penalties");
  }
  prepare();
  Slot& at = slots_[slot];
  at.best.clear();
  at.best_logprobs.clear();
  at.n_reused = n_reusable(slot, prompt);
  at.settings = sampling.state();
  at.bias = std::move(bias);
  if (!begin_text(slot, prompt, 0, max_new, 0, constraints.grammar, is_cancelled)) return false;
  if (speculation_ && is_running(slot)) speculation_->start(slot, sampling, at.bias, is_cancelled);
  return true;
}

void Generator::resume(uint32_t slot, std::span<const int32_t> text, uint32_t max_new) {
  const auto n_sampled = static_cast<uint32_t>(text.size()) - slots_[slot].settings.first_sampled;
  // Tokens that other passes have sampled since the slot has drafted. The pass of catch_up() has
  // room for as many in every slot.
  const auto n_missing = static_cast<uint32_t>(text.size()) - 1 - n_reusable(slot, text);
  const uint32_t room = kResumedRows / std::min(n_slots(), kMostDraftedRows) - 1;
  const uint32_t n_behind = n_missing <= room ? n_missing : 0;
  begin_text(slot, text, n_sampled, max_new, n_behind, nullptr, nullptr);
}

bool Generator::begin_text(uint32_t slot, std::span<const int32_t> text, uint32_t n_sampled,
                           uint32_t max_new, uint32_t n_behind, const GrammarConstraint* grammar,
                           const std::function<bool()>& is_cancelled) {
  Slot& at = slots_[slot];
  const uint32_t n_reused = n_reusable(slot, text);
  if (n_reused == 0) at.first_kept = 0;
  at.held.resize(n_reused);
  std::function<bool(uint32_t, uint32_t)> after_pass;
  if (is_cancelled) {
    after_pass = [&](uint32_t, uint32_t) {
      float any = 0;  // a read waits for the pass
      device_.read(loop_.logits().part(0, sizeof any), &any);
      return !is_cancelled();
    };
  }
  const uint32_t end = static_cast<uint32_t>(text.size()) - 1 - n_behind;
  const uint32_t n_computed = loop_.prefill(slot, text, n_reused, end, after_pass);
  const bool is_whole = n_computed == end;
  if (!is_whole) text = text.first(n_computed + 1);
  at.n_behind = n_behind;
  const auto n_text = static_cast<uint32_t>(text.size());
  // Beams write to copies of the last page of the prompt.
  const uint32_t page_rows = model_.cache().shape().page_rows;
  hold(slot, text.first(has_beams() ? (n_text - 1) / page_rows * page_rows : n_computed));

  SequenceState& state = at.settings;
  state.first_sampled = n_text - n_sampled;
  state.n_sampled = n_sampled;
  state.max_sampled = n_sampled + std::min(max_new, n_ctx() - n_text);
  state.finished = max_new == 0 || !is_whole;
  state.is_beam = has_beams();
  state.max_finished = options_.beam_size;
  loop_.start(slot, text, {&state, 1}, {.bias = at.bias, .grammar = grammar});
  return is_whole;
}

void Generator::hold(uint32_t slot, std::span<const int32_t> tokens) {
  Slot& at = slots_[slot];
  at.held.assign(tokens.begin(), tokens.end());
  const uint32_t n_kept = model_.cache().n_kept_positions();
  // Drafted tokens were written after the last one.
  const auto n = static_cast<uint32_t>(tokens.size()) + (speculation_ ? kMostDraftedRows : 0);
  if (n_kept > 0 && n > n_kept) at.first_kept = std::max(at.first_kept, n - n_kept);
}

bool Generator::advance(uint32_t n_steps, bool may_draft) {
  running_.clear();
  for (uint32_t slot = 0; slot < n_slots(); ++slot) {
    if (is_running(slot)) running_.push_back(slot);
  }
  if (running_.empty()) return false;
  if (has_beams()) {
    for (const uint32_t slot : loop_.advance(n_steps)) find_best(slot);
    return loop_.any_is_running();
  }
  if (speculation_) {
    speculation_->advance(n_steps, may_draft);
  } else if (std::ranges::any_of(slots_, [](const Slot& at) { return at.n_behind > 0; })) {
    catch_up();
  } else {
    loop_.advance(n_steps);
  }
  for (const uint32_t slot : running_) {
    loop_.read_sampled(slot);
    // The last token has no keys yet.
    const std::span<const int32_t> tokens = loop_.tokens(slot);
    hold(slot, tokens.first(tokens.size() - 1));
  }
  return loop_.any_is_running();
}

void Generator::catch_up() {
  resumed_.clear();
  for (uint32_t slot = 0; slot < n_slots(); ++slot) {
    const uint32_t n_behind = std::exchange(slots_[slot].n_behind, 0);
    if (!is_running(slot)) continue;
    resumed_.push_back({slot, loop_.tokens(slot).last(1 + n_behind), n_behind});
  }
  if (!resumed_.empty()) loop_.advance_with_drafts(resumed_);
}

void Generator::find_best(uint32_t slot) {
  Slot& at = slots_[slot];
  double best_score = -INFINITY;
  for (FoundText& text : loop_.read_texts(slot)) {
    const size_t length = std::max<size_t>(1, text.tokens.size() + text.has_ended);
    const double score =
        text.sum_logprob / std::pow(static_cast<double>(length), double{options_.length_penalty});
    if (!(score > best_score)) continue;
    best_score = score;
    at.best.assign(text.tokens.begin(), text.tokens.end());
    at.best_logprobs = std::move(text.logprobs);
  }
}

std::span<const int32_t> Generator::sampled(uint32_t slot) const {
  return has_beams() ? slots_[slot].best : loop_.sampled(slot);
}

std::span<const float> Generator::logprobs(uint32_t slot) const {
  return has_beams() ? slots_[slot].best_logprobs : loop_.logprobs(slot);
}

void Generator::read_logits(uint32_t slot, float* out) {
  const uint64_t bytes = n_vocab() * sizeof(float);
  device_.read(loop_.logits().part(loop_.first_sequence(slot) * bytes, bytes), out);
}

void Generator::evaluate(std::span<const int32_t> tokens,
                         const std::function<void(uint32_t, uint32_t, const float*)>& take_rows) {
  check_prompt(tokens, 0);
  prepare();
  slots_[0].first_kept = 0;
  loop_.evaluate(0, tokens, take_rows);
  hold(0, tokens);
}

namespace {

constexpr char kSavedMagic[8] = {'V', 'e', 's', 'p', 'e', 'r', 'K', '3'};

struct SavedHeader {
  char magic[8];
  uint64_t fingerprint;
  uint32_t kv_dtypes, n_tokens;
  uint32_t first_kept, n_kept_positions;  // of layers with a sliding window
};

// Keys and values of every layer, in the pages of a slot's first n_tokens positions.
std::vector<Operand> saved_pages(const KvCache& cache, uint32_t slot, uint32_t beam_size,
                                 uint32_t n_tokens) {
  const KvCache::Shape& shape = cache.shape();
  const uint32_t n_pages = (n_tokens + shape.page_rows - 1) / shape.page_rows;
  std::vector<Operand> pages;
  for (uint32_t layer = 0; layer < shape.n_layers; ++layer) {
    for (const bool are_values : {false, true}) {
      const Operand& all = are_values ? cache.values(layer) : cache.keys(layer);
      const uint64_t page_bytes = are_values ? cache.value_page_bytes() : cache.key_page_bytes();
      for (uint32_t i = cache.first_kept_page(layer, n_pages); i < n_pages; ++i) {
        pages.push_back(
            all.part(cache.page_of(layer, slot, i, beam_size) * page_bytes, page_bytes));
      }
    }
  }
  return pages;
}

uint64_t saved_bytes(const std::vector<Operand>& pages, uint32_t n_tokens) {
  uint64_t bytes = sizeof(SavedHeader) + uint64_t{n_tokens} * sizeof(int32_t);
  for (const Operand& page : pages) bytes += page.bytes;
  return bytes;
}

}  // namespace

void Generator::share_prefix(uint32_t slot, std::span<const int32_t> prompt) {
  const KvCache& cache = model_.cache();
  if (has_beams() || cache.n_kept_positions() > 0 || device_.info().kind != "cpu") return;
  uint32_t best = slot, n_best = n_reusable(slot, prompt) + cache.shape().page_rows - 1;
  for (uint32_t other = 0; other < n_slots(); ++other) {
    const uint32_t n = n_reusable(other, prompt);
    if (n <= n_best) continue;
    best = other;
    n_best = n;
  }
  if (best == slot) return;
  const std::vector<Operand> from = saved_pages(cache, best, options_.beam_size, n_best);
  const std::vector<Operand> to = saved_pages(cache, slot, options_.beam_size, n_best);
  std::vector<std::byte> page;
  for (size_t i = 0; i < from.size(); ++i) {
    page.resize(from[i].bytes);
    device_.read(from[i], page.data());
    device_.write(to[i], page.data());
  }
  slots_[slot].held.assign(prompt.begin(), prompt.begin() + n_best);
}

void Generator::swap_caches(uint32_t a, uint32_t b) {
  model_.cache().swap(device_, a, b);
  std::swap(slots_[a], slots_[b]);
}

std::vector<std::byte> Generator::save(uint32_t slot) {
  const Slot& at = slots_[slot];
  const KvCache& cache = model_.cache();
  const auto n_tokens = static_cast<uint32_t>(at.held.size());
  SavedHeader header{{},       fingerprint_,  cache.shape().types.codes(),
                     n_tokens, at.first_kept, cache.n_kept_positions()};
  std::memcpy(header.magic, kSavedMagic, sizeof kSavedMagic);
  const std::vector<Operand> pages = saved_pages(cache, slot, options_.beam_size, n_tokens);
  std::vector<std::byte> bytes(saved_bytes(pages, n_tokens));
  std::memcpy(bytes.data(), &header, sizeof header);
  std::ranges::copy(std::as_bytes(std::span(at.held)), bytes.begin() + sizeof header);
  std::byte* to = bytes.data() + sizeof header + n_tokens * sizeof(int32_t);
  for (const Operand& page : pages) {
    device_.read(page, to);
    to += page.bytes;
  }
  return bytes;
}

void Generator::restore(uint32_t slot, std::span<const std::byte> bytes) {
  const KvCache& cache = model_.cache();
  SavedHeader header{};
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kSavedMagic, sizeof kSavedMagic) != 0) {
    throw Error(ErrorKind::kInput, "expected keys and values that were saved before");
  }
  if (header.fingerprint != fingerprint_ || header.kv_dtypes != cache.shape().types.codes()) {
    throw Error(ErrorKind::kInput, "it was saved with another model or another KV type");
  }
  // A context of another length keeps other positions, so the state is useless unless all are kept
  // and fit.
  if (header.n_kept_positions != cache.n_kept_positions() || header.n_tokens > n_ctx()) return;
  const std::vector<Operand> pages = saved_pages(cache, slot, options_.beam_size, header.n_tokens);
  const uint64_t wanted = saved_bytes(pages, header.n_tokens);
  if (bytes.size() != wanted) {
    throw Error(ErrorKind::kInput, "expected " + std::to_string(wanted) + " bytes, found " +
                                       std::to_string(bytes.size()));
  }
  std::vector<int32_t> tokens(header.n_tokens);
  std::ranges::copy(bytes.subspan(sizeof header, tokens.size() * sizeof(int32_t)),
                    std::as_writable_bytes(std::span(tokens)).begin());
  const std::byte* from = bytes.data() + sizeof header + tokens.size() * sizeof(int32_t);
  for (const Operand& page : pages) {
    device_.write(page, from);
    from += page.bytes;
  }
  slots_[slot].first_kept = header.first_kept;
  slots_[slot].held = std::move(tokens);
}

}  // namespace vesper
