#include "llm/grammar/matching/configurations.h"

#include <algorithm>

#include "error/error.h"

namespace vesper {

namespace {

constexpr size_t kMostConfigurations = 10'000;
constexpr size_t kMostEdges = 100'000;
constexpr uint32_t kFree = UINT32_MAX;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

uint64_t hash_of_edges(std::span<const StackArena::Edge> edges) {
  uint64_t hash = edges.size();
  for (const auto& edge : edges)
    hash = mix(mix(hash, uint64_t(edge.target) << 32 | edge.value),
               uint64_t(edge.item) << 32 | edge.parent);
  return hash;
}

}  // namespace

void StackArena::reserve(uint32_t n_nodes) {
  nodes_.reserve(n_nodes);
  edges_.reserve(n_nodes);
}

StackArena::StackArena(uint32_t most_items)
    : words_(std::max<size_t>((most_items + 63) / 64, 1)),
      sets_(words_),
      node_slots_(16, kFree),
      set_slots_(16, kFree) {
  insert_slot(set_slots_, hash_of_set(sets_), 0);
  const Edge end{kEnd, 0, 0, 0};
  node_of({&end, 1});
}

// Linear probing; the tables are at most half full.
void StackArena::insert_slot(std::vector<uint32_t>& slots, uint64_t hash, uint32_t index) const {
  size_t i = hash & (slots.size() - 1);
  while (slots[i] != kFree) i = (i + 1) & (slots.size() - 1);
  slots[i] = index;
}

uint64_t StackArena::hash_of_set(std::span<const uint64_t> set) const {
  uint64_t hash = 0;
  for (uint64_t word : set) hash = mix(hash, word);
  return hash;
}

uint32_t StackArena::node_of(std::span<const Edge> edges) {
  const uint64_t hash = hash_of_edges(edges);
  for (size_t i = hash & (node_slots_.size() - 1); node_slots_[i] != kFree;
       i = (i + 1) & (node_slots_.size() - 1)) {
    const auto found = this->edges(node_slots_[i]);
    if (std::equal(found.begin(), found.end(), edges.begin(), edges.end())) return node_slots_[i];
  }
  const auto node = uint32_t(nodes_.size());
  nodes_.push_back({uint32_t(edges_.size()), uint32_t(edges.size())});
  edges_.insert(edges_.end(), edges.begin(), edges.end());
  if (2 * nodes_.size() > node_slots_.size()) {
    node_slots_.assign(2 * node_slots_.size(), kFree);
    for (uint32_t i = 0; i < node; ++i) insert_slot(node_slots_, hash_of_edges(this->edges(i)), i);
  }
  insert_slot(node_slots_, hash, node);
  return node;
}

uint32_t StackArena::with_item(uint32_t set, uint32_t item) {
  const auto at = [&](uint32_t index) { return std::span(sets_).subspan(index * words_, words_); };
  const auto added = uint32_t(sets_.size() / words_);
  sets_.resize(sets_.size() + words_);
  std::copy_n(at(set).begin(), words_, at(added).begin());
  sets_[added * words_ + item / 64] |= uint64_t{1} << (item % 64);
  const uint64_t hash = hash_of_set(at(added));
  for (size_t i = hash & (set_slots_.size() - 1); set_slots_[i] != kFree;
       i = (i + 1) & (set_slots_.size() - 1)) {
    const auto found = at(set_slots_[i]);
    if (!std::equal(found.begin(), found.end(), at(added).begin())) continue;
    sets_.resize(sets_.size() - words_);
    return set_slots_[i];
  }
  if (2 * (added + 1) > set_slots_.size()) {
    set_slots_.assign(2 * set_slots_.size(), kFree);
    for (uint32_t i = 0; i < added; ++i) insert_slot(set_slots_, hash_of_set(at(i)), i);
  }
  insert_slot(set_slots_, hash, added);
  return added;
}

void StackArena::compact(std::span<uint32_t* const> nodes) {
  std::vector<bool> needed(nodes_.size());
  for (const uint32_t* node : nodes) needed[*node] = true;
  // A node's edges lead to nodes before it.
  for (size_t i = nodes_.size(); i-- > 1;)
    if (needed[i])
      for (const auto& edge : edges(uint32_t(i))) needed[edge.parent] = true;
  StackArena kept(uint32_t(words_ * 64));
  std::vector<uint32_t> numbers(nodes_.size());
  std::vector<Edge> edges_of_one;
  for (uint32_t i = 1; i < nodes_.size(); ++i) {
    if (!needed[i]) continue;
    const auto old = edges(i);
    edges_of_one.assign(old.begin(), old.end());
    for (auto& edge : edges_of_one) {
      edge.parent = numbers[edge.parent];
      if (!is_order_frame(edge.target)) continue;
      uint32_t set = 0;
      for (uint32_t item = 0; item < words_ * 64; ++item)
        if (has_item(edge.value, item)) set = kept.with_item(set, item);
      edge.value = set;
    }
    std::sort(edges_of_one.begin(), edges_of_one.end());
    numbers[i] = kept.node_of(edges_of_one);
  }
  for (uint32_t* node : nodes) *node = numbers[*node];
  *this = std::move(kept);
}

ConfigurationStepper::ConfigurationStepper(const GrammarAutomaton& automaton)
    : automaton_(automaton),
      seen_(64),
      seen_slots_(64, 0),
      open_edges_(automaton.rules.size()),
      closed_(automaton.rules.size()) {}

void ConfigurationStepper::start(StackArena& arena, uint32_t rule, ConfigurationSet& out) {
  begin(arena);
  call(rule, {kInherit, 0, 0, StackArena::kBottom});
  may_end_ = automaton_.rules[rule].nullable;
  finish(out);
}

void ConfigurationStepper::step(StackArena& arena, const ConfigurationSet& from, uint8_t byte,
                                ConfigurationSet& out) {
  begin(arena);
  for (const auto& [state, node] : from.configurations)
    for (const auto& edge : automaton_.edges(state)) {
      if (edge.first > byte) break;
      if (edge.last >= byte) visit(edge.target, node);
    }
  finish(out);
}

void ConfigurationStepper::end_rule(StackArena& arena, uint32_t node, ConfigurationSet& out) {
  begin(arena);
  visit(kEndRule, node);
  finish(out);
}

void ConfigurationStepper::begin(StackArena& arena) {
  arena_ = &arena;
  pending_.clear();
  result_.clear();
  if (++round_ == 0) {
    std::fill(seen_slots_.begin(), seen_slots_.end(), 0);
    round_ = 1;
  }
  n_seen_ = n_edges_ = 0;
  // Left over from a call that threw.
  for (uint32_t rule : open_rules_) open_edges_[rule].clear();
  open_rules_.clear();
  may_end_ = false;
}

void ConfigurationStepper::visit(uint32_t state, uint32_t node) {
  const Configuration one{state, node};
  const auto slot_of = [&](const Configuration& c) {
    size_t i = mix(mix(0, c.state), c.node) & (seen_.size() - 1);
    while (seen_slots_[i] == round_ && seen_[i] != c) i = (i + 1) & (seen_.size() - 1);
    return i;
  };
  size_t slot = slot_of(one);
  if (seen_slots_[slot] == round_) return;
  if (2 * (n_seen_ + 1) > seen_.size()) {
    std::vector<Configuration> kept;
    for (size_t i = 0; i < seen_.size(); ++i)
      if (seen_slots_[i] == round_) kept.push_back(seen_[i]);
    seen_.resize(2 * seen_.size());
    seen_slots_.assign(seen_.size(), 0);
    for (const auto& c : kept) {
      const size_t i = slot_of(c);
      seen_[i] = c;
      seen_slots_[i] = round_;
    }
    slot = slot_of(one);
  }
  seen_[slot] = one;
  seen_slots_[slot] = round_;
  ++n_seen_;
  check_size();
  pending_.push_back(one);
}

void ConfigurationStepper::check_size() const {
  if (n_seen_ > 4 * kMostConfigurations || result_.size() > kMostConfigurations ||
      n_edges_ > kMostEdges)
    throw Error(ErrorKind::kUsage, automaton_.setting,
                "expected fewer than " + std::to_string(kMostConfigurations) +
                    " ways to read a text, found a grammar that is too ambiguous");
}

void ConfigurationStepper::run() {
  while (!pending_.empty()) {
    const auto [state, node] = pending_.back();
    pending_.pop_back();
    if (state == kEndRule)
      pop(node);
    else
      expand(state, node);
  }
}

void ConfigurationStepper::expand(uint32_t state, uint32_t node) {
  const auto& one = automaton_.states[state];
  // A rule that ends where it was called is left to its callers, which skip nullable rules.
  const bool is_open = node & kOpenNode;
  if (!automaton_.edges(state).empty()) {
    result_.push_back({state, node});
    check_size();
  }
  if (one.accepts && !is_open) visit(kEndRule, node);
  for (const auto& [rule, then] : automaton_.calls_of(state)) {
    const bool nullable = automaton_.rules[rule].nullable;
    if (then == GrammarAutomaton::kTailCall) {
      call(rule, {kInherit, 0, 0, node});
      if (nullable && !is_open) visit(kEndRule, node);
    } else {
      call(rule, {then, 0, 0, node});
      if (nullable) visit(then, node);
    }
  }
}

void ConfigurationStepper::pop(uint32_t node) {
  const size_t n = arena_->edges(node).size();
  for (size_t i = 0; i < n; ++i) {
    const Edge edge = arena_->edges(node)[i];  // a copy: the arena may grow
    if (edge.target == StackArena::kEnd)
      may_end_ = true;
    else if (StackArena::is_order_frame(edge.target))
      end_item(edge);
    else if (StackArena::is_counter_frame(edge.target))
      end_counted(edge);
    else
      visit(edge.target, edge.parent);
  }
}

void ConfigurationStepper::end_counted(const Edge& edge) {
  const auto& rule = automaton_.rules[edge.target & StackArena::kRuleMask];
  const uint32_t done = edge.value + 1;
  if (done >= rule.min) visit(kEndRule, edge.parent);
  if (rule.max == GrammarAutomaton::kUnbounded)
    call(rule.body, {edge.target, std::min(done, rule.min), 0, edge.parent});
  else if (done < rule.max)
    call(rule.body, {edge.target, done, 0, edge.parent});
}

void ConfigurationStepper::end_item(const Edge& edge) {
  const uint32_t index = edge.target & StackArena::kRuleMask;
  const auto& rule = automaton_.rules[index];
  if (edge.item == StackArena::kSeparator) {
    choose_item(index, edge.value, edge.parent);
    return;
  }
  const uint32_t set =
      edge.item == StackArena::kExtra ? edge.value : arena_->with_item(edge.value, edge.item);
  bool complete = true;
  uint32_t n_chosen = 0;
  for (uint32_t item = 0; item < rule.n_items; ++item) {
    if (arena_->has_item(set, item)) {
      ++n_chosen;
    } else if (item < rule.n_required) {
      complete = false;
    }
  }
  if (complete && n_chosen >= rule.min) visit(kEndRule, edge.parent);
  if (n_chosen >= std::min(rule.n_items, rule.max) && rule.extra == GrammarAutomaton::kNone) return;
  call(rule.separator, {edge.target, set, StackArena::kSeparator, edge.parent});
  if (automaton_.rules[rule.separator].nullable) choose_item(index, set, edge.parent);
}

// `rule` is called, and its node gets `edge`.
void ConfigurationStepper::call(uint32_t rule, const Edge& edge) {
  auto& edges = open_edges_[rule];
  const bool is_new = edges.empty();
  edges.push_back(edge);
  ++n_edges_;
  check_size();
  if (!is_new) return;
  open_rules_.push_back(rule);
  const auto& one = automaton_.rules[rule];
  switch (one.kind) {
    case GrammarAutomaton::RuleKind::kStates:
      visit(one.start, kOpenNode | rule);
      break;
    case GrammarAutomaton::RuleKind::kCounter:
      if (one.max > 0) call(one.body, {StackArena::kCounterFrame | rule, 0, 0, kOpenNode | rule});
      break;
    case GrammarAutomaton::RuleKind::kAnyOrder:
      choose_item(rule, 0, kOpenNode | rule);
      break;
  }
}

void ConfigurationStepper::choose_item(uint32_t rule, uint32_t set, uint32_t parent) {
  const auto& one = automaton_.rules[rule];
  const uint32_t target = StackArena::kOrderFrame | rule;
  uint32_t n_chosen = 0;
  for (uint32_t i = 0; i < one.n_items; ++i) n_chosen += arena_->has_item(set, i);
  for (uint32_t i = 0; i < one.n_items && n_chosen < one.max; ++i)
    if (!arena_->has_item(set, i))
      call(automaton_.items[one.first_item + i], {target, set, i, parent});
  if (one.extra != GrammarAutomaton::kNone)
    call(one.extra, {target, set, StackArena::kExtra, parent});
}

// Callers before the rules that they call, so that the nodes of callers are known.
void ConfigurationStepper::close_nodes() {
  std::sort(open_rules_.begin(), open_rules_.end(), [&](uint32_t a, uint32_t b) {
    return automaton_.rules[a].left_rank < automaton_.rules[b].left_rank;
  });
  size_t n_copied = 0;
  for (uint32_t rule : open_rules_) {
    edge_scratch_.clear();
    for (Edge edge : open_edges_[rule]) {
      if (edge.parent & kOpenNode) edge.parent = closed_[edge.parent & ~kOpenNode];
      if (edge.target != kInherit) {
        edge_scratch_.push_back(edge);
        continue;
      }
      const auto inherited = arena_->edges(edge.parent);
      edge_scratch_.insert(edge_scratch_.end(), inherited.begin(), inherited.end());
    }
    n_copied += edge_scratch_.size();
    n_edges_ = std::max(n_edges_, n_copied);
    check_size();
    std::sort(edge_scratch_.begin(), edge_scratch_.end());
    edge_scratch_.erase(std::unique(edge_scratch_.begin(), edge_scratch_.end()),
                        edge_scratch_.end());
    closed_[rule] = arena_->node_of(edge_scratch_);
    open_edges_[rule].clear();
  }
  open_rules_.clear();
}

void ConfigurationStepper::finish(ConfigurationSet& out) {
  run();
  close_nodes();
  for (auto& one : result_)
    if (one.node & kOpenNode) one.node = closed_[one.node & ~kOpenNode];
  std::sort(result_.begin(), result_.end());
  result_.erase(std::unique(result_.begin(), result_.end()), result_.end());
  out.configurations.assign(result_.begin(), result_.end());
  out.may_end = may_end_;
}

}  // namespace vesper
