// Shell completions of an option table.
#include "cli/terminal/options.h"

namespace vesper {
namespace {

// In single quotes, for all three shells.
std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

// The words that a shell offers: those without spaces.
std::string words_of(const OptionValue& value) {
  std::string text;
  for (const auto* words : {&value.choices, &value.suggestions}) {
    for (const std::string& word : *words) {
      if (word == "vulkan:N") continue;  // a pattern
      text += (text.empty() ? "" : " ") + word;
    }
  }
  return text;
}

bool has_files(Completion completion) { return completion != Completion::kNone; }

std::string joined_names(const std::vector<Program>& commands, const char* separator) {
  std::string text;
  for (const Program& command : commands) {
    text += (text.empty() ? "" : separator) + std::string(command.name);
  }
  return text;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

}  // namespace

std::string OptionTable::completions(const std::string& shell) const {
  if (shell == "bash") return bash_completions();
  return shell == "zsh" ? zsh_completions() : fish_completions();
}

std::string OptionTable::bash_completions() const {
  std::string cases, all;
  for (const Option& option : options_) {
    std::string pattern;
    for (const std::string& name : option.names) {
      all += (all.empty() ? "" : " ") + name;
      pattern += (pattern.empty() ? "" : "|") + name;
    }
    if (option.value.is_flag) continue;
    cases += "    " + pattern + ")\n";
    if (const std::string words = words_of(option.value); !words.empty()) {
      cases +=
          std::string(option.value.is_list ? "      [[ $cur == *,* ]] && head=${cur%,*},\n" : "") +
          "      mapfile -t COMPREPLY < <(compgen -P \"$head\" -W " + in_quotes(words) +
          " -- \"${cur#\"$head\"}\")\n";
    }
    if (has_files(option.value.completion)) {
      cases += option.value.completion == Completion::kFolder ? "      _vesper_files -d\n"
                                                              : "      _vesper_files -f\n";
    }
    cases += "      return ;;\n";
  }
  const std::string function = "_vesper_" + program_.name;
  std::string command_case, positionals;
  if (!program_.commands.empty()) {
    // The command's own function completes the rest.
    command_case = "  if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} == @(" +
                   joined_names(program_.commands, "|") +
                   ") ]]; then\n"
                   "    COMP_WORDS=(\"${COMP_WORDS[@]:1}\")\n"
                   "    ((--COMP_CWORD))\n"
                   "    declare -F \"_vesper_${COMP_WORDS[0]}\" >/dev/null ||\n"
                   "      source <(" +
                   program_.name +
                   " \"${COMP_WORDS[0]}\" --completions bash)\n"
                   "    \"_vesper_${COMP_WORDS[0]}\"\n"
                   "    return\n  fi\n";
    positionals = "    return\n  fi\n  mapfile -t COMPREPLY < <(compgen -W " +
                  in_quotes(joined_names(program_.commands, " ") + " help") + " -- \"$cur\")\n";
  } else if (has_files(positional_completion_)) {
    positionals = "    return\n  fi\n  _vesper_files -f\n";
  } else {
    positionals = "  fi\n";
  }
  return "# Completions of " + program_.name + " for bash: source <(" + program_.name +
         " --completions bash)\n"
         "_vesper_files() {\n"
         "  local path\n"
         "  compopt -o filenames\n"
         "  while IFS= read -r path; do COMPREPLY+=(\"$path\"); done < <(compgen \"$1\" -- "
         "\"$cur\")\n"
         "}\n" +
         function + "() {\n" + command_case +
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} head= i\n"
         "  COMPREPLY=()\n"
         "  # --name=value comes as three words.\n"
         "  if [[ $cur == = ]]; then cur=\n"
         "  elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do [[ ${COMP_WORDS[i]} == -- ]] && prev=--; done\n"
         "  case $prev in\n" +
         cases +
         "  esac\n"
         "  if [[ $cur == -* && $prev != -- ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W " +
         in_quotes(all) + " -- \"$cur\")\n" + positionals + "}\ncomplete -F " + function + " " +
         program_.name + "\n";
}

std::string OptionTable::zsh_completions() const {
  std::string text = "#compdef " + program_.name + "\n# Completions of " + program_.name +
                     " for zsh: in a folder of $fpath, as _" + program_.name + "\n";
  if (!program_.commands.empty()) {
    text += "if (( CURRENT > 2 )) && [[ $words[2] == (" + joined_names(program_.commands, "|") +
            ") ]]; then\n"
            "  shift words\n"
            "  (( --CURRENT ))\n"
            "  eval \"$(" +
            program_.name +
            " $words[1] --completions zsh)\"\n"
            "  return\n"
            "fi\n";
  }
  text += "_arguments -s";
  for (const Option& option : options_) {
    std::string exclusive, names;
    for (const std::string& name : option.names) {
      exclusive += (exclusive.empty() ? "" : " ") + name;
      names += (names.empty() ? "" : ",") + name;
    }
    std::string help = replaced(option.help, "\\", "\\\\");
    for (const char* special : {"[", "]", ":"}) {
      help = replaced(help, special, "\\" + std::string(special));
    }
    std::string rest = "[" + help + "]";
    if (!option.value.is_flag) {
      const std::string words = replaced(words_of(option.value), ":", "\\:");
      const char* files = option.value.completion == Completion::kFolder ? "_files -/" : "_files";
      std::string action = " ";
      if (!words.empty() && has_files(option.value.completion)) {
        action = "{_alternative \"words:word:(" + words + ")\" \"files:file:" + files + "\"}";
      } else if (!words.empty() && option.value.is_list) {
        action = "_values -s , word " + words;
      } else if (!words.empty()) {
        action = "(" + words + ")";
      } else if (has_files(option.value.completion)) {
        action = files;
      }
      rest += ":" + replaced(option.value_name, ":", "\\:") + ":" + action;
    }
    const std::string first = option.value.is_repeatable ? "*" : "(" + exclusive + ")";
    text += " \\\n  ";
    if (option.names.size() == 1) {
      text += in_quotes(first + names + rest);
    } else {
      text += in_quotes(first) + "{" + names + "}" + in_quotes(rest);
    }
  }
  if (!program_.commands.empty()) {
    text += " \\\n  " + in_quotes("*:command:(" + joined_names(program_.commands, " ") + " help)");
  }
  if (positionals_) {
    text += " \\\n  " + in_quotes("*:" + positional_name_ + ":" +
                                  (has_files(positional_completion_) ? "_files" : " "));
  }
  return text + "\n";
}

std::string OptionTable::fish_completions() const {
  std::string text = "# Completions of " + program_.name + " for fish: " + program_.name +
                     " --completions fish | source\n";
  if (!has_files(positional_completion_)) text += "complete -c " + program_.name + " -f\n";
  if (!program_.commands.empty()) {
    const std::string names = joined_names(program_.commands, " ");
    for (const Program& command : program_.commands) {
      text += "complete -c " + program_.name + " -n 'not __fish_seen_subcommand_from " + names +
              "' -a " + std::string(command.name) + " -d " +
              in_quotes(std::string(command.summary)) + "\n";
    }
    text += "complete -c " + program_.name + " -n '__fish_seen_subcommand_from " + names +
            "' -a '(__fish_complete_subcommand)'\n";
  }
  for (const Option& option : options_) {
    text += "complete -c " + program_.name;
    for (const std::string& name : option.names) {
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (!option.value.is_flag) {
      text += has_files(option.value.completion) ? " -r -F" : " -x";
      if (const std::string words = words_of(option.value); !words.empty()) {
        text += " -a " + in_quotes(words);
      }
    }
    text += " -d " + in_quotes(option.help) + "\n";
  }
  return text;
}

}  // namespace vesper
