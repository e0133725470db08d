#include "llm/grammar/matching/grammar_matcher.h"

#include <algorithm>

#include "error/error.h"
#include "llm/grammar/matching/configurations.h"
#include "llm/grammar/matching/mask_filler.h"

namespace vesper {

GrammarMasks::GrammarMasks(CompiledGrammar grammar,
                           std::shared_ptr<const TokenVocabulary> vocabulary)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      filler_(std::make_unique<GrammarMaskFiller>(automaton(), *vocabulary_)) {}

GrammarMasks::~GrammarMasks() = default;

constexpr uint32_t kNodesBeforeCompaction = 1024;

struct GrammarMatcher::State {
  explicit State(const GrammarAutomaton& automaton) : arena(automaton.most_items) {}
  State(const State& other)
      : arena(other.arena),
        now(other.now),
        has_ended(other.has_ended),
        drops_space(other.drops_space) {
    arena.reserve(kNodesBeforeCompaction);
  }
  // Scratch memory stays where it is, so that a copy into an existing matcher does not allocate.
  State& operator=(const State& other) {
    arena = other.arena;
    now = other.now;
    has_ended = other.has_ended;
    drops_space = other.drops_space;
    return *this;
  }

  StackArena arena;
  ConfigurationSet now;
  bool has_ended = false;    // after a stop token
  bool drops_space = false;  // the space that the next token begins with is no text
  uint32_t n_nodes_after_compaction = 0;
  std::unique_ptr<ConfigurationStepper> stepper;
  ConfigurationSet scratch[2];

  ConfigurationStepper& stepper_for(const GrammarAutomaton& automaton) {
    if (!stepper) stepper = std::make_unique<ConfigurationStepper>(automaton);
    return *stepper;
  }

  void limit_memory() {
    if (arena.n_nodes() < kNodesBeforeCompaction + 2 * n_nodes_after_compaction) return;
    std::vector<uint32_t*> nodes;
    for (auto& one : now.configurations) nodes.push_back(&one.node);
    arena.compact(nodes);
    n_nodes_after_compaction = arena.n_nodes();
  }
};

GrammarMatcher::GrammarMatcher(std::shared_ptr<const GrammarMasks> masks)
    : masks_(std::move(masks)), state_(std::make_unique<State>(masks_->automaton())) {
  reset();
}
GrammarMatcher::GrammarMatcher(const GrammarMatcher& other)
    : masks_(other.masks_), state_(std::make_unique<State>(*other.state_)) {
  state_->stepper_for(masks_->automaton());
}
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(const GrammarMatcher& other) {
  if (masks_ == other.masks_ && state_) {
    *state_ = *other.state_;
  } else {
    masks_ = other.masks_;
    state_ = std::make_unique<State>(*other.state_);
  }
  return *this;
}
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&&) noexcept = default;
GrammarMatcher::~GrammarMatcher() = default;

void GrammarMatcher::reset() {
  auto& state = *state_;
  state.has_ended = false;
  state.drops_space = masks_->vocabulary().drops_first_space();
  const auto& automaton = masks_->automaton();
  state.stepper_for(automaton).start(state.arena, automaton.root, state.now);
}

bool GrammarMatcher::fill_mask(std::span<uint32_t> bits) {
  if (bits.size() != masks_->n_words())
    throw Error(ErrorKind::kInternal, "grammar: expected a mask of " +
                                          std::to_string(masks_->n_words()) + " words, found " +
                                          std::to_string(bits.size()));
  auto& state = *state_;
  std::fill(bits.begin(), bits.end(), 0);
  if (state.has_ended) return false;
  state.limit_memory();
  masks_->filler().fill(state.arena, state.now, state.drops_space, bits);
  if (state.now.may_end)
    for (int32_t id : masks_->vocabulary().stop_ids()) bits[uint32_t(id) / 32] |= 1u << (id % 32);
  return std::any_of(bits.begin(), bits.end(), [](uint32_t word) { return word != 0; });
}

bool GrammarMatcher::accept(int32_t token) {
  const auto& vocabulary = masks_->vocabulary();
  if (token < 0 || uint32_t(token) >= vocabulary.n_tokens() || state_->has_ended) return false;
  if (vocabulary.is_stop(token)) {
    if (!state_->now.may_end) return false;
    state_->has_ended = true;
    return true;
  }
  auto bytes = vocabulary.bytes_of(token);
  if (bytes.empty()) return false;
  if (state_->drops_space && bytes.starts_with(' ')) bytes.remove_prefix(1);
  return accept_bytes(bytes);
}

bool GrammarMatcher::accept_bytes(std::string_view bytes) {
  auto& state = *state_;
  if (state.has_ended) return false;
  state.limit_memory();
  const auto& automaton = masks_->automaton();
  auto& stepper = state.stepper_for(automaton);
  const ConfigurationSet* from = &state.now;
  for (size_t i = 0; i < bytes.size(); ++i) {
    auto& to = state.scratch[i % 2];
    stepper.step(state.arena, *from, uint8_t(bytes[i]), to);
    if (to.configurations.empty() && !to.may_end) return false;
    from = &to;
  }
  state.drops_space = false;
  if (from != &state.now) {
    state.now.configurations.assign(from->configurations.begin(), from->configurations.end());
    state.now.may_end = from->may_end;
  }
  return true;
}

bool GrammarMatcher::may_end() const { return state_->has_ended || state_->now.may_end; }

bool GrammarMatcher::is_complete() const {
  return state_->has_ended || (state_->now.may_end && state_->now.configurations.empty());
}

std::string GrammarMatcher::forced_bytes(size_t limit) {
  auto& state = *state_;
  std::string forced;
  if (state.has_ended) return forced;
  state.limit_memory();
  const auto& automaton = masks_->automaton();
  auto& stepper = state.stepper_for(automaton);
  const ConfigurationSet* from = &state.now;
  while (forced.size() < limit && !from->may_end && !from->configurations.empty()) {
    const uint8_t byte = automaton.edges(from->configurations[0].state)[0].first;
    for (const auto& one : from->configurations)
      for (const auto& edge : automaton.edges(one.state))
        if (edge.first != byte || edge.last != byte) return forced;
    auto& to = state.scratch[forced.size() % 2];
    stepper.step(state.arena, *from, byte, to);
    forced += char(byte);
    from = &to;
  }
  return forced;
}

}  // namespace vesper
