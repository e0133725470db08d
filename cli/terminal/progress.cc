#include "cli/terminal/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "cli/terminal/program.h"
#include "cli/terminal/terminal_text.h"
#include "error/number_text.h"

namespace vesper {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr int kBarWidth = 20;  // columns

// The last `columns` characters, with "..." first if some were cut: the end of a path matters more.
std::string shortened(const std::string& text, size_t columns) {
  const auto starts_character = [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  };
  const auto room = static_cast<int>(columns);
  if (text_width(text) <= room) return text;
  size_t at = text.size();
  for (size_t before = at; before > 0;) {
    do {
      --before;
    } while (!starts_character(text[before]));
    if (text_width(std::string_view(text).substr(before)) + 3 > room) break;
    at = before;
  }
  return "..." + text.substr(at);
}

}  // namespace

int terminal_columns(int stream) {
  const char* terminal = std::getenv("TERM");
  if (!isatty(stream) || !terminal || std::string_view(terminal) == "dumb") return 0;
  winsize size{};
  return ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool wants_colour() {
  const char* no_color = std::getenv("NO_COLOR");  // no-color.org: if set and not empty
  return !no_color || !*no_color;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string short_duration(double seconds) {
  const long long total = seconds > 0 ? std::llround(std::min(seconds, 3.6e8)) : 0;
  return total >= 3600 ? formatted("%lld:%02lld:%02lld", total / 3600, total / 60 % 60, total % 60)
                       : formatted("%lld:%02lld", total / 60, total % 60);
}

std::string short_number(double value) { return formatted("%.2f", value); }

std::string progress_text(std::string_view label, double fraction, std::string_view details,
                          int columns, bool colour) {
  // One column stays free: some terminals wrap after the last one.
  const int room = columns - 1;
  std::string text, bar;
  int used = 0;
  if (fraction >= 0) {
    fraction = std::min(fraction, 1.0);
    const int filled = static_cast<int>(fraction * kBarWidth);
    bar = std::string(static_cast<size_t>(filled), '=') +
          std::string(static_cast<size_t>(kBarWidth - filled), ' ');
    if (colour) bar = "\033[32m" + bar + "\033[0m";
    bar = " [" + bar + "] " + formatted("%3d%%", static_cast<int>(fraction * 100));
    used = kBarWidth + 8;
  }
  const std::string name =
      shortened(printable(label), static_cast<size_t>(std::clamp(room / 3, 4, 40)));
  const int name_columns = text_width(name);
  text = name_columns + used <= room ? name + bar : name;
  used = name_columns + used <= room ? name_columns + used : name_columns;
  // Details are separated by two spaces and never cut.
  while (!details.empty()) {
    const size_t end = std::min(details.find("  "), details.size());
    if (used + 2 + static_cast<int>(end) > room) break;
    text += "  ";
    text += details.substr(0, end);
    used += 2 + static_cast<int>(end);
    details.remove_prefix(std::min(end + 2, details.size()));
  }
  return text;
}

Progress::Progress(bool wanted)
    : enabled_(wanted && terminal_columns(STDERR_FILENO) > 0), colour_(wants_colour()) {}

void Progress::start(std::string_view label) {
  clear();
  label_ = label;
  started_ = Clock::now();
  drawn_ = {};
}

double Progress::elapsed_s() const {
  return std::chrono::duration<double>(Clock::now() - started_).count();
}

bool Progress::due() { return enabled_ && Clock::now() - drawn_ >= kRedrawInterval; }

void Progress::show_audio(double done_s, double total_s) {
  if (!due()) return;
  const double elapsed = std::max(elapsed_s(), 1e-3);
  std::string details = short_duration(done_s);
  double fraction = -1;
  if (total_s > 0) {
    fraction = std::clamp(done_s / total_s, 0.0, 1.0);
    details += " of " + short_duration(total_s);
  }
  if (done_s > 0) {
    details += formatted("  %.1fx real time", done_s / elapsed);
    if (total_s > 0)
      details += "  " + short_duration(elapsed / done_s * (total_s - done_s)) + " left";
  }
  draw(fraction, details);
}

void Progress::show_bytes(uint64_t done, uint64_t total, uint64_t before) {
  if (!due()) return;
  const double rate =
      static_cast<double>(done - std::min(done, before)) / std::max(elapsed_s(), 1e-3);
  std::string details = bytes_text(done);
  double fraction = -1;
  if (total > 0) {
    fraction = static_cast<double>(done) / static_cast<double>(total);
    details += " of " + bytes_text(total);
  }
  if (rate > 0) {
    details += "  " + bytes_text(static_cast<uint64_t>(rate)) + "/s";
    if (total > done)
      details += "  " + short_duration(static_cast<double>(total - done) / rate) + " left";
  }
  draw(fraction, details);
}

void Progress::draw(double fraction, const std::string& details) {
  const std::string line = "\r\033[K" + progress_text(label_, fraction, details,
                                                      terminal_columns(STDERR_FILENO), colour_);
  std::fwrite(line.data(), 1, line.size(), stderr);
  drawn_ = Clock::now();
  visible_ = true;
}

void Progress::clear() {
  if (!visible_) return;
  std::fputs("\r\033[K", stderr);
  visible_ = false;
}

ModelStore reporting_store(
    bool offline, std::function<void(const std::string& text)> note,
    std::function<void(const std::string& name, uint64_t done, uint64_t total, uint64_t before)>
        progress) {
  ModelStoreOptions options{.offline = offline};
  const auto fetched = std::make_shared<std::string>();
  options.on_fetch = [note, fetched](const std::string& name, const std::string& url,
                                     const std::filesystem::path& target) {
    *fetched = name;
    note("fetching model " + name + " from " + url + " to " + target.string());
  };
  options.on_progress = [fetched, progress = std::move(progress)](uint64_t done, uint64_t total,
                                                                  uint64_t before) {
    progress(*fetched, done, total, before);
  };
  options.on_substitute = [note](const std::string& name, const std::string& why) {
    note("answering with " + name + ", a lesser model: " + why);
  };
  options.on_unverified = [note](const std::string& name, const std::string& repository) {
    note("warning: no digests are known for model " + name +
         ": nothing vouches for the files of repository " + repository);
  };
  options.on_wait = [note] { note("another process is fetching this model: waiting for it"); };
  return ModelStore(std::move(options));
}

std::filesystem::path find_model_showing(std::string_view program, const std::string& name_or_path,
                                         ModelKind kind, bool offline) {
  Progress progress(true);
  bool has_started = false;
  const ModelStore store = reporting_store(
      offline,
      [&](const std::string& text) {
        progress.clear();
        print_error(program, text);
      },
      [&](const std::string& name, uint64_t done, uint64_t total, uint64_t before) {
        if (!std::exchange(has_started, true)) progress.start(name);
        progress.show_bytes(done, total, before);
      });
  return store.find(name_or_path, kind);
}

}  // namespace vesper
