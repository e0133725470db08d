#include "llm/grammar/matching/mask_cache.h"

#include <algorithm>
#include <numeric>

namespace vesper {

namespace {

constexpr size_t kMostExits = 1 << 17;          // of one state
constexpr size_t kMostMasksBytes = 128u << 20;  // of all states
constexpr size_t kFewLocalStates = 1 << 14;     // kept between masks

uint64_t hash_of(const ConfigurationSet& set) {
  uint64_t hash = set.may_end;
  for (const auto& one : set.configurations) {
    hash = (hash ^ (uint64_t(one.state) << 32 | one.node)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

GrammarMaskCache::GrammarMaskCache(const GrammarAutomaton& automaton,
                                   const TokenVocabulary& vocabulary)
    : automaton_(automaton),
      vocabulary_(vocabulary),
      stepper_(automaton),
      arena_(automaton.most_items) {
  index_of({});
}

void GrammarMaskCache::limit_memory() {
  if (masks_bytes_ > kMostMasksBytes) {
    masks_.clear();
    masks_bytes_ = 0;
  }
  if (ends_.size() <= kFewLocalStates && arena_.n_nodes() <= 4 * kFewLocalStates) return;
  sets_.clear();
  ends_.clear();
  first_bytes_.clear();
  next_.clear();
  by_hash_.clear();
  starts_.clear();
  rule_starts_.clear();
  arena_ = StackArena(automaton_.most_items);
  index_of({});
}

uint32_t GrammarMaskCache::index_of(const ConfigurationSet& set) {
  auto& same_hash = by_hash_[hash_of(set)];
  for (uint32_t local : same_hash)
    if (sets_[local] == set) return local;
  const auto local = uint32_t(sets_.size());
  same_hash.push_back(local);
  sets_.push_back(set);
  ends_.push_back(set.may_end);
  ByteSet first;
  for (const auto& one : set.configurations)
    for (const auto& edge : automaton_.edges(one.state)) first.add(edge.first, edge.last);
  first_bytes_.push_back(first);
  next_.resize(next_.size() + 256, kDead);
  for (uint32_t byte = 0; byte < 256; ++byte)
    if (first.has(uint8_t(byte))) next_[size_t(local) * 256 + byte] = kUnknown;
  return local;
}

uint32_t GrammarMaskCache::compute_next(uint32_t local, uint8_t byte) {
  stepper_.step(arena_, sets_[local], byte, scratch_);
  const uint32_t next = index_of(scratch_);
  next_[size_t(local) * 256 + byte] = next;
  return next;
}

uint32_t GrammarMaskCache::local_start(uint32_t state) {
  const auto [place, is_new] = starts_.try_emplace(automaton_.states[state].byte_class, kDead);
  if (is_new) place->second = index_of({{{state, StackArena::kBottom}}, false});
  return place->second;
}

uint32_t GrammarMaskCache::local_start_of_rule(uint32_t rule) {
  const auto [place, is_new] = rule_starts_.try_emplace(rule, kDead);
  if (!is_new) return place->second;
  stepper_.start(arena_, rule, scratch_);
  scratch_.may_end = false;  // an empty body counts as none
  return place->second = index_of(scratch_);
}

const StateMasks& GrammarMaskCache::masks_of(uint32_t state) {
  const uint32_t byte_class = automaton_.states[state].byte_class;
  const auto [place, is_new] = masks_.try_emplace(uint64_t(byte_class) << 32);
  if (is_new) place->second = compute_masks(local_start(state), kDead);
  return place->second;
}

const StateMasks& GrammarMaskCache::counted_masks_of(uint32_t state, uint32_t body) {
  const uint32_t byte_class = automaton_.states[state].byte_class;
  const auto [place, is_new] = masks_.try_emplace(uint64_t(byte_class) << 32 | (body + 1));
  if (is_new) place->second = compute_masks(local_start(state), local_start_of_rule(body));
  return place->second;
}

StateMasks GrammarMaskCache::compute_masks(uint32_t local, uint32_t body) {
  const auto& trie = vocabulary_.trie();
  StateMasks masks;
  masks.is_too_large = true;  // unless the end of the walk is reached
  struct Found {
    uint32_t index;  // a token's id, or a trie node
    uint16_t count;
  };
  std::vector<Found> tokens, exits;
  // By depth in the trie: the local state, and the bodies that have ended.
  std::vector<uint32_t> states(vocabulary_.longest() + 1);
  std::vector<uint16_t> ended(states.size());
  states[0] = local;
  const bool counted = body != kDead;
  for (uint32_t i = 1; i < trie.n_nodes();) {
    const size_t depth = trie.depth[i];
    const uint8_t byte = trie.byte[i];
    uint32_t from = states[depth - 1];
    const bool after_end = ends(from);
    uint16_t count = ended[depth - 1];
    if (counted && after_end) {
      if (!sets_[from].configurations.empty()) return masks;  // the body may go on after its end
      from = body;
    }
    const uint32_t to = next(from, byte);
    if (to == kDead) {
      if (after_end) exits.push_back({i, count});
      if (exits.size() > kMostExits || has_too_many_states()) return masks;
      i = trie.end[i];
      continue;
    }
    if (after_end) masks.ambiguous.add(byte);
    if (counted && ends(to)) ++count;
    states[depth] = to;
    ended[depth] = count;
    // A token that ends inside of a body needs that body too.
    const auto needed = uint16_t(count + (ends(to) ? 0 : 1));
    for (uint32_t t = trie.first_token[i]; t < trie.first_token[i + 1]; ++t)
      tokens.push_back({uint32_t(trie.tokens[t]), needed});
    ++i;
  }
  if (has_too_many_states()) return masks;
  masks.is_too_large = false;

  if (tokens.size() > vocabulary_.n_words() / 2) {
    masks.mask.resize(vocabulary_.n_words());
    for (const auto& token : tokens) masks.mask[token.index / 32] |= 1u << (token.index % 32);
  }
  if (counted)
    std::stable_sort(tokens.begin(), tokens.end(),
                     [](const auto& a, const auto& b) { return a.count < b.count; });
  if (counted || masks.mask.empty())
    for (const auto& token : tokens) masks.tokens.push_back(int32_t(token.index));
  if (counted) {
    for (uint32_t t = 0; t < tokens.size(); ++t)
      while (masks.first_of_count.size() <= tokens[t].count) masks.first_of_count.push_back(t);
    masks.first_of_count.push_back(uint32_t(tokens.size()));
  }
  std::stable_sort(exits.begin(), exits.end(), [&](const auto& a, const auto& b) {
    return trie.byte[a.index] < trie.byte[b.index];
  });
  for (const auto& exit : exits) {
    const uint8_t byte = trie.byte[exit.index];
    if (masks.exit_bytes.empty() || masks.exit_bytes.back().byte != byte)
      masks.exit_bytes.push_back({byte, uint32_t(masks.exits.size())});
    masks.exits.push_back(exit.index);
    if (counted) masks.ended.push_back(exit.count);
  }
  masks_bytes_ +=
      sizeof(masks) + 4 * (masks.mask.size() + masks.tokens.size()) + 6 * masks.exits.size();
  return masks;
}

}  // namespace vesper
