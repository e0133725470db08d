#include "cli/generate/line_editor.h"

#include <histedit.h>
#include <langinfo.h>

#include <clocale>
#include <cstdio>
#include <new>
#include <string_view>

namespace vesper {
namespace {

constexpr int kRemembered = 500;

}  // namespace

struct LineEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
  std::string prompt;
  bool cancelled = false;

  ~State() {
    if (editor != nullptr) el_end(editor);
    if (history != nullptr) history_end(history);
  }

  static State& of(EditLine* editor) {
    void* state = nullptr;
    el_get(editor, EL_CLIENTDATA, &state);
    return *static_cast<State*>(state);
  }
  static char* show_prompt(EditLine* editor) { return of(editor).prompt.data(); }
  static unsigned char cancel_line(EditLine* editor, int) {
    of(editor).cancelled = true;
    return CC_NEWLINE;
  }
};

LineEditor::LineEditor(const char* program) : state_(std::make_unique<State>()) {
  // Multi-byte characters are one step for the cursor.
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
  state_->editor = el_init(program, stdin, stdout, stderr);
  state_->history = history_init();
  if (state_->editor == nullptr || state_->history == nullptr) throw std::bad_alloc();
  HistEvent event;
  history(state_->history, &event, H_SETSIZE, kRemembered);
  history(state_->history, &event, H_SETUNIQUE, 1);
  el_set(state_->editor, EL_CLIENTDATA, state_.get());
  el_set(state_->editor, EL_PROMPT, &State::show_prompt);
  el_set(state_->editor, EL_EDITOR, "emacs");
  el_set(state_->editor, EL_HIST, history, state_->history);
  // During editing Ctrl-C is an ordinary key, otherwise a signal.
  el_set(state_->editor, EL_SETTY, "-d", "-isig", nullptr);
  el_set(state_->editor, EL_ADDFN, "cancel-line", "Drop the line", &State::cancel_line);
  el_set(state_->editor, EL_BIND, "^C", "cancel-line", nullptr);
  el_set(state_->editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  state_->prompt = prompt;
  state_->cancelled = false;
  int n = 0;
  const char* line = el_gets(state_->editor, &n);
  // An empty dropped line looks like the end of input.
  const bool is_empty = line == nullptr || n <= 0;
  if (is_empty && !state_->cancelled) return std::nullopt;
  std::string text(is_empty ? "" : line, is_empty ? 0 : static_cast<size_t>(n));
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (state_->cancelled) {
    std::fputs("^C\n", stdout);
    std::fflush(stdout);
    text.clear();
  }
  return text;
}

bool LineEditor::was_cancelled() const { return state_->cancelled; }

void LineEditor::remember(const std::string& line) {
  HistEvent event;
  history(state_->history, &event, H_ENTER, line.c_str());
}

}  // namespace vesper
