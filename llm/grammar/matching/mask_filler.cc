#include "llm/grammar/matching/mask_filler.h"

#include <algorithm>

namespace vesper {

namespace {

constexpr uint32_t kNoIndex = UINT32_MAX;
// Visits of trie nodes with a stack, as a multiple of the trie's nodes. Beyond, one walk with all
// configurations is faster.
constexpr size_t kMostTrieVisits = 8;
// Nodes of the arena of fill_without_cache() before it is compacted.
constexpr uint32_t kMostNodes = 1 << 16;

}  // namespace

GrammarMaskFiller::GrammarMaskFiller(const GrammarAutomaton& automaton,
                                     const TokenVocabulary& vocabulary)
    : automaton_(automaton),
      vocabulary_(vocabulary),
      cache_(automaton, vocabulary),
      stepper_(automaton) {}

void GrammarMaskFiller::fill(StackArena& arena, const ConfigurationSet& set, bool drops_space,
                             std::span<uint32_t> bits) {
  bool gives_up = false;
  {
    const std::lock_guard lock(mutex_);
    cache_.limit_memory();
    arena_ = &arena;
    bits_ = bits;
    n_after_rules_ = n_visits_ = walk_level_ = 0;
    after_rule_of_.clear();
    gives_up_ = false;
    for (const auto& one : set.configurations) {
      if (gives_up_) break;
      if (!add_counted(one)) add_plain(one);
    }
    if (drops_space) replace_tokens_with_space(set);
    gives_up = gives_up_;
  }
  if (gives_up) fill_without_cache(arena, set, drops_space, bits);
}

// The tokens that begin with a space, as if they did not.
void GrammarMaskFiller::replace_tokens_with_space(const ConfigurationSet& set) {
  const auto& trie = vocabulary_.trie();
  const uint32_t space = vocabulary_.node_of_byte(' ');
  if (space == 0) return;
  const uint32_t end = trie.end[space];
  for (uint32_t t = trie.first_token[space]; t < trie.first_token[end]; ++t)
    bits_[uint32_t(trie.tokens[t]) / 32] &= ~(1u << (trie.tokens[t] % 32));
  add_tokens(space);
  if (end == space + 1) return;
  for (const auto& one : set.configurations)
    if (!gives_up_) walk(space + 1, end, cache_.local_start(one.state), one.node);
}

void GrammarMaskFiller::add_tokens(uint32_t node) {
  const auto& trie = vocabulary_.trie();
  for (uint32_t t = trie.first_token[node]; t < trie.first_token[node + 1]; ++t)
    bits_[uint32_t(trie.tokens[t]) / 32] |= 1u << (trie.tokens[t] % 32);
}

void GrammarMaskFiller::add_tokens(const StateMasks& masks) {
  for (size_t i = 0; i < masks.mask.size(); ++i) bits_[i] |= masks.mask[i];
  if (masks.mask.empty())
    for (int32_t token : masks.tokens) bits_[uint32_t(token) / 32] |= 1u << (token % 32);
}

// Adds the tokens that need at most `most` more repetitions.
void GrammarMaskFiller::add_counted_tokens(const StateMasks& masks, uint64_t most) {
  const auto& first = masks.first_of_count;
  if (most + 1 >= first.size()) {
    add_tokens(masks);
    return;
  }
  for (uint32_t t = 0; t < first[most + 1]; ++t)
    bits_[uint32_t(masks.tokens[t]) / 32] |= 1u << (masks.tokens[t] % 32);
}

// A configuration in the body of a counted repetition. Returns false if it is not in one, or in one
// that has to be walked with its stack.
bool GrammarMaskFiller::add_counted(const Configuration& one) {
  // A copy: new nodes move those of the arena.
  std::vector<StackArena::Edge>& edges = edge_scratch_;
  edges.assign(arena_->edges(one.node).begin(), arena_->edges(one.node).end());
  const auto body_of = [&](const StackArena::Edge& edge) {
    return StackArena::is_counter_frame(edge.target)
               ? automaton_.rules[edge.target & StackArena::kRuleMask].body
               : kNoIndex;
  };
  const uint32_t body = body_of(edges[0]);
  if (body == kNoIndex) return false;
  for (const auto& edge : edges)
    if (body_of(edge) != body) return false;
  const auto& masks = cache_.counted_masks_of(one.state, body);
  if (masks.is_too_large) return false;
  uint64_t most = 0;
  for (const auto& edge : edges) {
    const auto& rule = automaton_.rules[edge.target & StackArena::kRuleMask];
    most = std::max<uint64_t>(
        most, rule.max == GrammarAutomaton::kUnbounded ? UINT32_MAX : rule.max - edge.value);
    if (after_rule(edge.parent).first_bytes.meets(masks.ambiguous)) return false;
  }
  add_counted_tokens(masks, most);
  for (const auto& edge : edges) follow_counted_exits(masks, edge);
  return true;
}

void GrammarMaskFiller::add_plain(const Configuration& one) {
  const auto& masks = cache_.masks_of(one.state);
  if (masks.is_too_large) {
    walk_all(one);
    return;
  }
  if (!masks.exits.empty() && after_rule(one.node).first_bytes.meets(masks.ambiguous)) {
    walk_all(one);
    return;
  }
  add_tokens(masks);
  if (!masks.exits.empty()) follow_exits(masks, one.node);
}

void GrammarMaskFiller::walk_all(const Configuration& one) {
  walk(1, vocabulary_.trie().n_nodes(), cache_.local_start(one.state), one.node);
}

void GrammarMaskFiller::follow_exits(const StateMasks& masks, uint32_t node) {
  const auto& after = after_rule(node);
  for (size_t b = 0; b < masks.exit_bytes.size(); ++b) {
    if (!after.first_bytes.has(masks.exit_bytes[b].byte)) continue;
    const uint32_t end = b + 1 < masks.exit_bytes.size() ? masks.exit_bytes[b + 1].first
                                                         : uint32_t(masks.exits.size());
    for (uint32_t e = masks.exit_bytes[b].first; e < end && !gives_up_; ++e)
      follow(masks.exits[e], after);
  }
}

void GrammarMaskFiller::follow_counted_exits(const StateMasks& masks,
                                             const StackArena::Edge& edge) {
  const auto& rule = automaton_.rules[edge.target & StackArena::kRuleMask];
  const auto& after = after_rule(edge.parent);
  for (size_t b = 0; b < masks.exit_bytes.size(); ++b) {
    if (!after.first_bytes.has(masks.exit_bytes[b].byte)) continue;
    const uint32_t end = b + 1 < masks.exit_bytes.size() ? masks.exit_bytes[b + 1].first
                                                         : uint32_t(masks.exits.size());
    for (uint32_t e = masks.exit_bytes[b].first; e < end && !gives_up_; ++e) {
      const uint64_t done = uint64_t(edge.value) + masks.ended[e];
      if (done >= rule.min && done <= rule.max) follow(masks.exits[e], after);
    }
  }
}

const GrammarMaskFiller::AfterRule& GrammarMaskFiller::after_rule(uint32_t node) {
  if (node >= after_rule_of_.size()) after_rule_of_.resize(arena_->n_nodes(), kNoIndex);
  if (after_rule_of_[node] != kNoIndex) return after_rules_[after_rule_of_[node]];
  stepper_.end_rule(*arena_, node, scratch_);
  after_rule_of_[node] = uint32_t(n_after_rules_);
  if (after_rules_.size() == n_after_rules_) after_rules_.emplace_back();
  auto& after = after_rules_[n_after_rules_++];
  after.continuations.clear();
  after.first_bytes = {};
  for (const auto& [state, below] : scratch_.configurations) {
    const uint32_t local = cache_.local_start(state);
    after.continuations.push_back({local, below});
    after.first_bytes |= cache_.first_bytes(local);
  }
  return after;
}

// The byte of a trie node follows the end of a rule.
void GrammarMaskFiller::follow(uint32_t trie_node, const AfterRule& after) {
  const auto& trie = vocabulary_.trie();
  const uint8_t byte = trie.byte[trie_node];
  if (!after.first_bytes.has(byte)) return;
  for (const auto& [local, node] : after.continuations) {
    if (!cache_.first_bytes(local).has(byte)) continue;
    ++n_visits_;
    add_tokens(trie_node);
    if (trie.end[trie_node] > trie_node + 1)
      walk(trie_node + 1, trie.end[trie_node], cache_.next(local, byte), node);
    if (gives_up_) return;
  }
}

// Visits the trie nodes first..end-1, all descendants of the node before `first`, which led to
// `local` on top of `node`.
void GrammarMaskFiller::walk(uint32_t first, uint32_t end, uint32_t local, uint32_t node) {
  const auto& trie = vocabulary_.trie();
  if (walk_states_.size() == walk_level_) walk_states_.emplace_back(vocabulary_.longest() + 1);
  const size_t level = walk_level_++;
  walk_states_[level][trie.depth[first] - 1u] = local;
  for (uint32_t i = first; i < end;) {
    const size_t depth = trie.depth[i];
    const uint32_t from = walk_states_[level][depth - 1];
    const uint8_t byte = trie.byte[i];
    ++n_visits_;
    gives_up_ = gives_up_ || n_visits_ > kMostTrieVisits * trie.n_nodes() + 1000 ||
                cache_.has_too_many_states();
    if (gives_up_) break;
    if (cache_.ends(from)) follow(i, after_rule(node));
    const uint32_t to = cache_.next(from, byte);
    if (to == GrammarMaskCache::kDead) {
      i = trie.end[i];
      continue;
    }
    add_tokens(i);
    walk_states_[level][depth] = to;
    ++i;
  }
  --walk_level_;
}

void GrammarMaskFiller::fill_without_cache(const StackArena& arena, const ConfigurationSet& set,
                                           bool drops_space, std::span<uint32_t> bits) {
  const auto& trie = vocabulary_.trie();
  ConfigurationStepper stepper(automaton_);
  StackArena work = arena;
  std::vector<ConfigurationSet> sets(vocabulary_.longest() + 1);  // by depth
  sets[0] = set;
  for (uint32_t i = 1; i < trie.n_nodes();) {
    const size_t depth = trie.depth[i];
    if (work.n_nodes() > kMostNodes + arena.n_nodes()) {
      std::vector<uint32_t*> nodes;
      for (size_t d = 0; d < depth; ++d)
        for (auto& one : sets[d].configurations) nodes.push_back(&one.node);
      work.compact(nodes);
    }
    auto& next = sets[depth];
    if (drops_space && depth == 1 && trie.byte[i] == ' ')
      next = set;
    else
      stepper.step(work, sets[depth - 1], trie.byte[i], next);
    if (next.configurations.empty() && !next.may_end) {
      i = trie.end[i];
      continue;
    }
    for (uint32_t t = trie.first_token[i]; t < trie.first_token[i + 1]; ++t)
      bits[uint32_t(trie.tokens[t]) / 32] |= 1u << (trie.tokens[t] % 32);
    ++i;
  }
}

}  // namespace vesper
