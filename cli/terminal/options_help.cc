// --help, --help-all and the manual page of an option table.
#include <algorithm>
#include <sstream>

#include "cli/terminal/options.h"
#include "cli/terminal/terminal_text.h"
#include "cli/terminal/version.h"

namespace vesper {
namespace {

constexpr size_t kScreenWidth = 80;
constexpr size_t kCommandColumn = 14;

// Lines of at most `width` columns. A line that begins with a space is not wrapped; \x1f is a
// non-breaking space.
std::vector<std::string> wrapped(const std::string& text, size_t width) {
  const auto columns = [](std::string line) {
    std::replace(line.begin(), line.end(), '\x1f', ' ');
    return static_cast<size_t>(text_width(line));
  };
  std::vector<std::string> lines;
  std::istringstream paragraphs(text);
  for (std::string paragraph; std::getline(paragraphs, paragraph);) {
    if (paragraph.empty() || paragraph.front() == ' ') {
      lines.push_back(paragraph);
      continue;
    }
    std::string line;
    std::istringstream words(paragraph);
    for (std::string word; words >> word;) {
      if (!line.empty() && columns(line) + 1 + columns(word) > width) {
        lines.push_back(std::exchange(line, {}));
      }
      line += (line.empty() ? "" : " ") + word;
    }
    lines.push_back(line);
  }
  for (std::string& line : lines) std::replace(line.begin(), line.end(), '\x1f', ' ');
  return lines;
}

// "  -o, --output FILE", "      --seed N"
std::string spelling_of(const Option& option) {
  std::string text = option.names.front().starts_with("--") ? "      " : "  ";
  for (size_t i = 0; i < option.names.size(); ++i) text += (i > 0 ? ", " : "") + option.names[i];
  return text + (option.value_name.empty() ? "" : " " + option.value_name);
}

// The text of --help-all and the manual page.
std::string long_help(const Option& option) {
  std::string text = option.full_help() + ".";
  if (!option.value.range.empty())
    text += " " + option.value_name + ": " + option.value.range + ".";
  if (!option.needed.empty()) text += " With " + option.needed + ".";
  return text + (option.details.empty() ? "" : " " + option.details);
}

constexpr const char* kModelPlaces =
    "Models are looked for in $VESPER_MODELS and in ~/.cache/vesper/models.";

std::string escaped_for_groff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\x1f') {
      out += "\\~";
    } else {
      out += c;
    }
  }
  // Otherwise it would be a groff control line.
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string summary_of(std::string_view name) {
  for (const Program& program : kPrograms) {
    if (program.name == name) return std::string(program.summary);
  }
  return "";
}

// Paragraphs; lines that begin with a space are not wrapped.
std::string groff_text(const std::string& text) {
  std::string out;
  bool is_verbatim = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(' ') != is_verbatim) {
      is_verbatim = !is_verbatim;
      out += is_verbatim ? ".nf\n" : ".fi\n";
    }
    out += escaped_for_groff(line) + "\n";
  }
  return out + (is_verbatim ? ".fi\n" : "");
}

}  // namespace

std::string OptionTable::listing(bool with_advanced) const {
  constexpr size_t kWidestSpelling = 30;
  const auto is_shown = [&](const Option& option) { return with_advanced || !option.is_advanced; };
  size_t column = 0;
  for (const Option& option : options_) {
    const size_t width = spelling_of(option).size() + 2;
    if (is_shown(option) && width <= kWidestSpelling) column = std::max(column, width);
  }
  std::string text;
  // The first section has the help options; it is printed last.
  for (size_t i = 1; i <= sections_.size(); ++i) {
    const size_t section = i % sections_.size();
    if (with_advanced) {
      text += "\n" + sections_[section].title + ":\n";
      for (const std::string& line : wrapped(sections_[section].text, kScreenWidth)) {
        text += line + "\n";
      }
    }
    for (const Option& option : options_) {
      if (option.section != section || !is_shown(option)) continue;
      const std::string help = with_advanced ? long_help(option) : option.full_help();
      std::vector<std::string> parts = wrapped(help, kScreenWidth - column);
      std::string line = spelling_of(option) + "  ";
      if (line.size() > column) {
        // A short help is beside a long name, other help below it.
        const std::vector<std::string> rest = wrapped(help, kScreenWidth - line.size());
        if (rest.size() == 1) {
          parts = rest;
        } else {
          text += spelling_of(option) + "\n";
          line.clear();
        }
      }
      for (const std::string& part : parts) {
        line.resize(std::max(line.size(), column), ' ');
        text += line + part + "\n";
        line.clear();
      }
    }
  }
  return text;
}

std::string OptionTable::help() const {
  std::string text;
  for (const std::string& usage : program_.usages) {
    text += (text.empty() ? "Usage: " : "       ") + program_.name + " " + usage + "\n";
  }
  for (const std::string& line : wrapped(program_.description, kScreenWidth)) text += line + "\n";
  for (const Program& command : program_.commands) {
    std::string name = "  " + std::string(command.name);
    name.resize(kCommandColumn, ' ');
    text += name + std::string(command.summary) + "\n";
  }
  text += "\n" + listing(false) + "\n" + kModelPlaces + "\n";
  for (const std::string& line :
       wrapped("Exit status: " + program_.exit_status + ".", kScreenWidth)) {
    text += line + "\n";
  }
  text += "\n";
  for (const std::string& example : program_.examples) text += "  " + example + "\n";
  return text;
}

std::string OptionTable::help_all() const {
  std::string text = help();
  const size_t options_begin = text.find("\n\n") + 1;
  const size_t options_end = text.find(kModelPlaces) - 1;
  return text.replace(options_begin, options_end - options_begin, listing(true));
}

std::string OptionTable::manual() const {
  std::string upper = program_.name;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  std::string text = ".TH " + upper + " 1 \"\" \"Vesper " + std::string(kVersion) +
                     "\" \"User Commands\"\n.SH NAME\n" + program_.name + " \\- " +
                     escaped_for_groff(summary_of(program_.name)) + "\n.SH SYNOPSIS\n";
  for (const std::string& usage : program_.usages) {
    text += ".B " + program_.name + "\n" + escaped_for_groff(usage) + "\n.br\n";
  }
  text += ".SH DESCRIPTION\n" + groff_text(program_.description);
  if (!program_.commands.empty()) text += ".SH COMMANDS\n";
  for (const Program& command : program_.commands) {
    text += ".TP\n.B " + std::string(command.name) + "\n" +
            escaped_for_groff(std::string(command.summary)) + ".\n";
  }
  text += ".SH OPTIONS\n";
  for (size_t i = 1; i <= sections_.size(); ++i) {
    const size_t section = i % sections_.size();
    text += ".SS " + sections_[section].title + "\n" + groff_text(sections_[section].text);
    for (const Option& option : options_) {
      if (option.section != section) continue;
      text += ".TP\n";
      for (size_t name = 0; name < option.names.size(); ++name) {
        text += (name > 0 ? ", \\fB" : "\\fB") + escaped_for_groff(option.names[name]) + "\\fR";
      }
      if (!option.value_name.empty()) {
        text += " \\fI" + escaped_for_groff(option.value_name) + "\\fR";
      }
      text += "\n" + groff_text(long_help(option));
    }
  }
  text += ".SH ENVIRONMENT\n";
  std::vector<std::pair<std::string, std::string>> environment = {
      {"VESPER_MODELS", "A folder with models, looked through before ~/.cache/vesper/models."},
      {"HF_ENDPOINT", "The mirror of Hugging Face that models are fetched from."}};
  environment.insert(environment.end(), program_.environment.begin(), program_.environment.end());
  for (const auto& [name, meaning] : environment) {
    text += ".TP\n.B " + name + "\n" + escaped_for_groff(meaning) + "\n";
  }
  text += ".SH EXIT STATUS\n" + escaped_for_groff(program_.exit_status) + ".\n.SH EXAMPLES\n.nf\n";
  for (const std::string& example : program_.examples) text += escaped_for_groff(example) + "\n";
  text += ".fi\n.SH SEE ALSO\n";
  std::string others;
  for (const Program& other : kPrograms) {
    if (program_.name == other.name) continue;
    others += (others.empty() ? "" : ", ") + std::string(other.name) + "(1)";
  }
  return text + others + "\n";
}

}  // namespace vesper
