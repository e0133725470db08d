// Filters of single values and of strings.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "llm/chat/template_evaluator.h"
#include "llm/chat/template_list_filters.h"
#include "llm/tokenizer/unicode/characters.h"

namespace vesper::chat {
namespace {

Value default_filter(Evaluator&, const Value& input, const Arguments& arguments) {
  const auto given = bind("default", arguments, {"default_value", "boolean"});
  const bool replaces = input.is_undefined() || (is_true(given[1]) && !input.truth());
  return replaces ? given[0].value_or(Value("")) : input;
}

Value tojson(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given =
      bind("tojson", arguments, {"indent", "ensure_ascii", "separators", "sort_keys"});
  JsonStyle style;
  constexpr int64_t kMaxIndent = 100;
  if (given[0] && given[0]->is_string()) {
    style.indent_text = given[0]->as_string();
  } else if (given[0] && !given[0]->is_none()) {
    style.indent = static_cast<int>(
        std::clamp<int64_t>(checked_integer(*given[0], "tojson's indent"), 0, kMaxIndent + 1));
  }
  const bool on_lines = style.indent >= 0 || !style.indent_text.empty();
  if (style.indent > kMaxIndent || style.indent_text.size() > kMaxIndent) {
    fail("tojson: expected an indent of at most " + std::to_string(kMaxIndent));
  }
  if (on_lines) style.item_separator = ",";
  style.ascii = is_true(given[1]);
  if (given[2] && !given[2]->is_none()) {
    const auto separators = evaluator.items_of(*given[2]);
    if (separators.size() != 2) fail("tojson: expected two separators");
    style.item_separator = checked_text(separators[0], "a separator");
    style.key_separator = checked_text(separators[1], "a separator");
  }
  style.sort_keys = is_true(given[3]);
  if (input.is_undefined()) fail("tojson: " + input.undefined_message());
  const size_t room = static_cast<size_t>(std::max(style.indent, 0)) + style.indent_text.size();
  evaluator.spend(input.weight(), 1 + style.item_separator.size() / 4 +
                                      style.key_separator.size() / 4 + room * input.depth() / 4);
  return json_of(input, style);
}

Value length(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  bind("length", arguments, {});
  if (input.is_string()) {
    evaluator.spend(input.as_string().size());
    return static_cast<int64_t>(count_characters(input.as_string()));
  }
  if (input.is_list()) return static_cast<int64_t>(input.items().size());
  if (input.is_dict() && !input.as_dict().is_namespace) {
    return static_cast<int64_t>(input.as_dict().items.size());
  }
  if (input.is_undefined()) return int64_t{0};
  fail_type("length: expected a value that has a length", input);
}

Value string_filter(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  bind("string", arguments, {});
  return evaluator.text(input);
}

template <std::string (*convert)(std::string_view)>
Value convert_filter(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  bind("the filter", arguments, {});
  return convert(evaluator.text(input));
}

// Words begin after white space, hyphens and opening brackets.
std::string jinja_title(std::string_view text) {
  return title_case(text, [](char32_t c) {
    return is_white_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  });
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string url_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_.-~/").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += "0123456789ABCDEF"[static_cast<uint8_t>(c) >> 4];
      out += "0123456789ABCDEF"[static_cast<uint8_t>(c) & 15];
    }
  }
  return out;
}

Value trim(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  return evaluator.call(method_of(evaluator.text(input), "strip"), arguments);
}

Value replace_filter(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("replace", arguments, {"old", "new", "count"}, 2);
  const int64_t most =
      given[2] && !given[2]->is_none() ? checked_integer(*given[2], "replace's count") : -1;
  return replaced(evaluator, evaluator.text(input), evaluator.text(*given[0]),
                  evaluator.text(*given[1]), most);
}

Value indent(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("indent", arguments, {"width", "first", "blank"});
  std::string margin(4, ' ');
  if (given[0] && given[0]->is_string()) {
    margin = given[0]->as_string();
  } else if (given[0]) {
    const int64_t width = checked_integer(*given[0], "indent's width");
    evaluator.spend(static_cast<size_t>(std::max<int64_t>(width, 0)));
    margin.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const bool blank = is_true(given[2]);
  const std::string held = checked_text(input, "indent");
  std::string_view text = held;
  std::string out = is_true(given[1]) ? margin : "";
  for (bool first = true;; first = false) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (!first) {
      out += '\n';
      if (blank || !line.empty()) out += margin;
    }
    evaluator.spend(line.size() + margin.size() + 1);
    out += line;
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

Value int_filter(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("int", arguments, {"default", "base"});
  const int64_t base = given[1] ? checked_integer(*given[1], "int's base") : 10;
  if (base < 2 || base > 36) fail("int: expected a base from 2 to 36");
  if (input.is_undefined()) fail(input.undefined_message());
  const Value otherwise = given[0].value_or(int64_t{0});
  const auto of_double = [&](double number) -> Value {
    return std::isfinite(number) && std::fabs(number) < 9.2e18 ? Value(static_cast<int64_t>(number))
                                                               : otherwise;
  };
  if (input.is_float()) return of_double(input.as_double());
  if (input.is_number()) return input.as_int();
  if (!input.is_string()) return otherwise;
  evaluator.spend(input.as_string().size());
  if (const auto number = parse_int(input.as_string(), static_cast<int>(base))) return *number;
  if (const auto number = parse_float(input.as_string())) return of_double(*number);
  return otherwise;
}

Value float_filter(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("float", arguments, {"default"});
  if (input.is_undefined()) fail(input.undefined_message());
  if (input.is_number()) return input.as_double();
  evaluator.spend(input.weight());
  const auto number = input.is_string() ? parse_float(input.as_string()) : std::nullopt;
  return number ? Value(*number) : given[0].value_or(0.0);
}

Value abs_filter(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  bind("abs", arguments, {});
  if (!input.is_number()) {
    fail_type("abs: expected a number", input);
  }
  if (input.is_float()) return std::fabs(input.as_double());
  return input.as_int() < 0 ? evaluator.binary("-", int64_t{0}, input) : Value(input.as_int());
}

Value round_filter(Evaluator&, const Value& input, const Arguments& arguments) {
  const auto given = bind("round", arguments, {"precision", "method"});
  if (!input.is_number()) {
    fail_type("round: expected a number", input);
  }
  const int64_t precision = given[0] ? checked_integer(*given[0], "round's precision") : 0;
  const std::string method = given[1] ? checked_text(*given[1], "round's method") : "common";
  const double scale =
      std::pow(10.0, static_cast<double>(std::clamp<int64_t>(precision, -300, 300)));
  const double scaled = input.as_double() * scale;
  if (method == "ceil") return std::ceil(scaled) / scale;
  if (method == "floor") return std::floor(scaled) / scale;
  if (method != "common") fail("round: expected method common, ceil or floor, found " + method);
  const double rounded = std::nearbyint(scaled) / scale;  // rounds half to even, like Python's
                                                          // round()
  return std::isfinite(rounded) ? rounded : input.as_double();
}

Value format_filter(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  List values;
  values.is_tuple = true;
  if (arguments.named.empty()) {
    values.items = arguments.positional;
  } else {
    fail("format: expected values without names");
  }
  return percent_format(evaluator, evaluator.text(input), values);
}

Value center(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("center", arguments, {"width"});
  Arguments width;
  width.positional.push_back(given[0].value_or(int64_t{80}));
  return evaluator.call(method_of(evaluator.text(input), "center"), width);
}

Value truncate(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::string text = evaluator.text(input);
  const int64_t most = given[0] ? checked_integer(*given[0], "truncate's length") : 255;
  const std::string end = given[2] ? checked_text(*given[2], "truncate's end") : "...";
  const int64_t leeway =
      given[3] && !given[3]->is_none() ? checked_integer(*given[3], "truncate's leeway") : 5;
  const auto characters = characters_of(text);
  const auto n_end = static_cast<int64_t>(count_characters(end));
  if (most < n_end || leeway < 0) fail("truncate: expected a length of at least that of the end");
  int64_t limit = 0;
  if (__builtin_add_overflow(most, leeway, &limit)) limit = INT64_MAX;
  if (static_cast<int64_t>(characters.size()) <= limit) return text;
  std::string cut;
  for (int64_t i = 0; i < most - n_end; ++i) cut += characters[static_cast<size_t>(i)];
  if (!is_true(given[1])) cut = cut.substr(0, cut.rfind(' '));
  return cut + end;
}

Value wordcount(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  bind("wordcount", arguments, {});
  const std::string text = evaluator.text(input);
  int64_t n = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const bool belongs = is_word_character(next_character(text, at));
    n += belongs && !in_word ? 1 : 0;
    in_word = belongs;
  }
  return n;
}

Value attr(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const auto given = bind("attr", arguments, {"name"}, 1);
  if (input.is_dict() && !input.as_dict().is_namespace) {
    return method_of(input, checked_text(*given[0], "attr"));
  }
  return evaluator.member(input, checked_text(*given[0], "attr"));
}

Value items(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  bind("items", arguments, {});
  if (input.is_undefined()) return List();
  if (!input.is_dict()) {
    fail_type("items: expected a dict", input);
  }
  return evaluator.call(method_of(input, "items"), {});
}

Value safe(Evaluator&, const Value& input, const Arguments&) { return input; }

const std::unordered_map<std::string_view, Filter>& filters() {
  static const std::unordered_map<std::string_view, Filter> table = {
      {"default", default_filter},
      {"d", default_filter},
      {"tojson", tojson},
      {"length", length},
      {"count", length},
      {"string", string_filter},
      {"upper", convert_filter<upper_case>},
      {"lower", convert_filter<lower_case>},
      {"capitalize", convert_filter<capitalized>},
      {"title", convert_filter<jinja_title>},
      {"escape", convert_filter<escaped>},
      {"e", convert_filter<escaped>},
      {"urlencode", convert_filter<url_encoded>},
      {"trim", trim},
      {"replace", replace_filter},
      {"indent", indent},
      {"int", int_filter},
      {"float", float_filter},
      {"abs", abs_filter},
      {"round", round_filter},
      {"format", format_filter},
      {"center", center},
      {"truncate", truncate},
      {"wordcount", wordcount},
      {"attr", attr},
      {"items", items},
      {"safe", safe},
  };
  return table;
}

}  // namespace

Filter find_filter(std::string_view name) {
  const auto found = filters().find(name);
  return found == filters().end() ? find_list_filter(name) : found->second;
}

}  // namespace vesper::chat
