#include "llm/chat/template_list_filters.h"

#include <algorithm>
#include <unordered_map>

namespace vesper::chat {
namespace {

bool is_given(const std::optional<Value>& value) { return value && !value->is_none(); }

Value list_filter(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  bind("list", arguments, {});
  List list;
  list.items = evaluator.items_of(input);
  return list;
}

Value first(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  bind("first", arguments, {});
  const auto items = evaluator.items_of(input);
  return items.empty() ? Value::undefined("there is no first item") : items.front();
}

Value last(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  bind("last", arguments, {});
  const auto items = evaluator.items_of(input);
  return items.empty() ? Value::undefined("there is no last item") : items.back();
}

Value join_filter(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("join", arguments, {"d", "attribute"});
  const std::string separator = given[0] ? evaluator.text(*given[0]) : "";
  std::string out;
  bool is_first = true;
  for (const Value& item : evaluator.items_of(input)) {
    if (!is_first) {
      evaluator.spend(separator.size());
      out += separator;
    }
    is_first = false;
    out += evaluator.text(is_given(given[1]) ? evaluator.member_by_path(item, *given[1]) : item);
  }
  return out;
}

Value reverse(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  bind("reverse", arguments, {});
  auto items = evaluator.items_of(input);
  std::reverse(items.begin(), items.end());
  if (input.is_string()) {
    std::string text;
    for (const Value& character : items) text += character.as_string();
    return text;
  }
  List list;
  list.items = std::move(items);
  return list;
}

Value map(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  List list;
  if (arguments.positional.empty()) {
    const auto given = bind("map", arguments, {"attribute", "default"}, 1);
    for (const Value& item : evaluator.items_of(input)) {
      Value member = evaluator.member_by_path(item, *given[0]);
      list.items.push_back(member.is_undefined() && given[1] ? *given[1] : member);
    }
    return list;
  }
  const std::string name = checked_text(arguments.positional.front(), "map's filter");
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin());
  for (const Value& item : evaluator.items_of(input)) {
    list.items.push_back(evaluator.apply_filter(name, item, rest));
  }
  return list;
}

// select, reject, and the same for members: items for which a test gives `wanted`.
template <bool by_member, bool wanted>
Value select(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  Arguments rest = arguments;
  const auto take = [&]() -> std::optional<Value> {
    if (rest.positional.empty()) return std::nullopt;
    Value value = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    return value;
  };
  std::optional<Value> path;
  if (by_member) {
    path = take();
    if (!path) fail("selectattr: expected the name of a member");
  }
  const std::optional<Value> test = take();
  const std::string name = test ? checked_text(*test, "select's test") : "";
  List list;
  for (const Value& item : evaluator.items_of(input)) {
    const Value of = path ? evaluator.member_by_path(item, *path) : item;
    const bool is_so = test ? evaluator.apply_test(name, of, rest) : of.truth();
    if (is_so == wanted) list.items.push_back(item);
  }
  return list;
}

// The key by which items are sorted and compared: the item or a member, in lower case unless case
// counts.
Value sort_key(Evaluator& evaluator, const Value& item, const std::optional<Value>& path,
               bool case_sensitive) {
  const auto plain = [&](Value value) -> Value {
    if (case_sensitive || !value.is_string()) return value;
    evaluator.spend(value.as_string().size());
    return lower_case(value.as_string());
  };
  if (!is_given(path)) return plain(item);
  if (!path->is_string() || path->as_string().find(',') == std::string::npos) {
    return plain(evaluator.member_by_path(item, *path));
  }
  List keys;  // in order
  std::string_view rest = path->as_string();
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    keys.items.push_back(plain(evaluator.member_by_path(item, Value(rest.substr(0, comma)))));
    if (more) rest.remove_prefix(comma + 1);
  }
  return keys;
}

using KeyedItems = std::vector<std::pair<Value, Value>>;  // key and item

void sort_by_key(Evaluator& evaluator, KeyedItems& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    // Equal values need no order.
    if (evaluator.equal(a.first, b.first)) return false;
    return evaluator.compare("<", reverse ? b.first : a.first, reverse ? a.first : b.first);
  });
}

KeyedItems keyed_items(Evaluator& evaluator, const Value& input, const std::optional<Value>& path,
                       bool case_sensitive) {
  KeyedItems items;
  for (Value& item : evaluator.items_of(input)) {
    Value key = sort_key(evaluator, item, path, case_sensitive);
    items.emplace_back(std::move(key), std::move(item));
  }
  return items;
}

Value sort(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  KeyedItems items = keyed_items(evaluator, input, given[2], is_true(given[1]));
  sort_by_key(evaluator, items, is_true(given[0]));
  List list;
  for (auto& [key, item] : items) list.items.push_back(std::move(item));
  return list;
}

Value dictsort(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (!input.is_dict()) {
    fail_type("dictsort: expected a dict", input);
  }
  const std::string by = given[1] ? checked_text(*given[1], "dictsort's order") : "key";
  if (by != "key" && by != "value") fail("dictsort: expected key or value, found " + by);
  const Value pairs = evaluator.call(method_of(input, "items"), {});
  KeyedItems items =
      keyed_items(evaluator, pairs, Value(int64_t{by == "key" ? 0 : 1}), is_true(given[0]));
  sort_by_key(evaluator, items, is_true(given[2]));
  List list;
  for (auto& [key, item] : items) list.items.push_back(std::move(item));
  return list;
}

Value unique(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Value> keys;
  List list;
  for (const auto& [key, item] : keyed_items(evaluator, input, given[1], is_true(given[0]))) {
    const bool is_known = std::any_of(keys.begin(), keys.end(), [&, &wanted = key](const Value& k) {
      return evaluator.equal(k, wanted);
    });
    if (is_known) continue;
    keys.push_back(key);
    list.items.push_back(item);
  }
  return list;
}

Value groupby(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  KeyedItems items;
  for (Value& item : evaluator.items_of(input)) {
    Value key = evaluator.member_by_path(item, *given[0]);
    if (key.is_undefined() && given[1]) key = *given[1];
    if (!is_true(given[2]) && key.is_string()) key = lower_case(key.as_string());
    items.emplace_back(std::move(key), std::move(item));
  }
  sort_by_key(evaluator, items, false);
  List groups;
  for (size_t i = 0; i < items.size();) {
    List group;
    const Value key = items[i].first;
    const Value shown = evaluator.member_by_path(items[i].second, *given[0]);
    for (; i < items.size() && evaluator.equal(items[i].first, key); ++i) {
      group.items.push_back(items[i].second);
    }
    groups.items.push_back(
        Value::tuple({shown.is_undefined() ? key : shown, Value(std::move(group))}));
  }
  return groups;
}

template <bool least>
Value extreme(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind(least ? "min" : "max", arguments, {"case_sensitive", "attribute"});
  const KeyedItems items = keyed_items(evaluator, input, given[1], is_true(given[0]));
  if (items.empty()) return Value::undefined("there is no item");
  const auto* best = &items.front();
  for (const auto& item : items) {
    if (evaluator.compare(least ? "<" : ">", item.first, best->first)) best = &item;
  }
  return best->second;
}

Value sum(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("sum", arguments, {"attribute", "start"});
  Value total = given[1].value_or(int64_t{0});
  for (const Value& item : evaluator.items_of(input)) {
    total = evaluator.binary("+", total,
                             is_given(given[0]) ? evaluator.member_by_path(item, *given[0]) : item);
  }
  return total;
}

Value batch(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("batch", arguments, {"linecount", "fill_with"}, 1);
  const int64_t size = checked_integer(*given[0], "batch's size");
  if (size < 1) fail("batch: expected a size of 1 or more");
  List batches, row;
  const auto end_row = [&] {
    batches.items.emplace_back(std::move(row));
    row = List();
  };
  for (Value& item : evaluator.items_of(input)) {
    if (static_cast<int64_t>(row.items.size()) == size) end_row();
    row.items.push_back(std::move(item));
  }
  if (!row.items.empty()) {
    if (is_given(given[1])) {
      evaluator.spend(static_cast<size_t>(size), 4);
      row.items.resize(static_cast<size_t>(size), *given[1]);
    }
    end_row();
  }
  return batches;
}

Value slice(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("slice", arguments, {"slices", "fill_with"}, 1);
  const int64_t n_slices = checked_integer(*given[0], "the number of slices");
  if (n_slices < 1) fail("slice: expected 1 slice or more");
  const auto n = static_cast<size_t>(n_slices);
  evaluator.spend(n, 4);
  const auto items = evaluator.items_of(input);
  List slices;
  size_t at = 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t size = items.size() / n + (i < items.size() % n ? 1 : 0);
    List part;
    part.items.assign(items.begin() + static_cast<std::ptrdiff_t>(at),
                      items.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    if (is_given(given[1]) && i >= items.size() % n) part.items.push_back(*given[1]);
    slices.items.emplace_back(std::move(part));
  }
  return slices;
}

const std::unordered_map<std::string_view, Filter>& list_filters() {
  static const std::unordered_map<std::string_view, Filter> table = {
      {"list", list_filter},
      {"first", first},
      {"last", last},
      {"join", join_filter},
      {"reverse", reverse},
      {"map", map},
      {"select", select<false, true>},
      {"reject", select<false, false>},
      {"selectattr", select<true, true>},
      {"rejectattr", select<true, false>},
      {"sort", sort},
      {"dictsort", dictsort},
      {"unique", unique},
      {"groupby", groupby},
      {"min", extreme<true>},
      {"max", extreme<false>},
      {"sum", sum},
      {"batch", batch},
      {"slice", slice},
  };
  return table;
}

}  // namespace

Filter find_list_filter(std::string_view name) {
  const auto found = list_filters().find(name);
  return found == list_filters().end() ? nullptr : found->second;
}

}  // namespace vesper::chat
