// A line on the terminal that says how far the work is. Shown on stderr, only if that is a terminal
// that can rewrite a line (TERM is not "dumb"); without colour where NO_COLOR is set.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "session/model_store.h"

namespace vesper {

// Columns of the terminal that a standard stream is; 0 if it is none that can rewrite a line.
int terminal_columns(int stream);

// Whether colours are wanted: unless NO_COLOR is set.
bool wants_colour();

// Seconds since `start`.
double seconds_since(std::chrono::steady_clock::time_point start);

// "0:07", "12:34", "1:02:03". Not a number and negative times are "0:00".
std::string short_duration(double seconds);

// "12.34"
std::string short_number(double value);

// What a line of `columns` columns says: label, bar, percentage, and details that are dropped from
// the right where there is no room. A fraction below 0 is unknown: no bar.
std::string progress_text(std::string_view label, double fraction, std::string_view details,
                          int columns, bool colour);

class Progress {
 public:
  // Does nothing at all if `wanted` is false or stderr is no terminal.
  explicit Progress(bool wanted);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Starts counting the time for another piece of work.
  void start(std::string_view label);

  // Seconds of a recording: shows the real-time factor and the time left. `total_s` is 0 if it is
  // not known.
  void show_audio(double done_s, double total_s);

  // Bytes of a download, of which `before` were there when it started: shows the rate and the time
  // left. `total` is 0 if it is not known.
  void show_bytes(uint64_t done, uint64_t total, uint64_t before);

  // Removes the line, so that something else may be printed. The next show draws it again.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  double elapsed_s() const;
  bool due();
  void draw(double fraction, const std::string& details);

  bool enabled_, colour_;
  bool visible_ = false;
  std::string label_;
  Clock::time_point started_{}, drawn_{};
};

// A store that reports its downloads: where a model comes from by `note`, and its bytes by
// `progress`, as ModelStoreOptions::on_progress has them, with its name.
ModelStore reporting_store(
    bool offline, std::function<void(const std::string& text)> note,
    std::function<void(const std::string& name, uint64_t done, uint64_t total, uint64_t before)>
        progress);

// ModelStore::find, which shows the progress of a download on a terminal and notes on stderr, as
// `program`, where the model comes from.
std::filesystem::path find_model_showing(std::string_view program, const std::string& name_or_path,
                                         ModelKind kind, bool offline);

}  // namespace vesper
