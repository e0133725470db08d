// A progress line on stderr, if that is a terminal that can rewrite a line (TERM is not "dumb");
// without color if NO_COLOR is set.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "session/models/model_store.h"

namespace vesper {

// Columns of the terminal of a standard stream; 0 if it is none that can rewrite a line.
int terminal_columns(int stream);

// Whether to use colors: unless NO_COLOR is set.
bool wants_colour();

// Seconds since `start`.
double seconds_since(std::chrono::steady_clock::time_point start);

// "0:07", "12:34", "1:02:03". NaN and negative times are "0:00".
std::string short_duration(double seconds);

// "12.34"
std::string short_number(double value);

// A line of at most `columns` columns: label, bar, percentage, and details, truncated at the right.
// A fraction below 0 is unknown: no bar.
std::string progress_text(std::string_view label, double fraction, std::string_view details,
                          int columns, bool colour);

class Progress {
 public:
  // Does nothing if `wanted` is false or stderr is no terminal.
  explicit Progress(bool wanted);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Starts the time of the next task.
  void start(std::string_view label);

  // Seconds of audio: shows the real-time factor and the remaining time. `total_s` is 0 if unknown.
  void show_audio(double done_s, double total_s);

  // Bytes of a download, `before` of them present at its start: shows the rate and the remaining
  // time. `total` is 0 if unknown.
  void show_bytes(uint64_t done, uint64_t total, uint64_t before);

  // Removes the line before other output. The next show draws it again.
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

// A store that reports downloads: the URL to `note`, and the bytes to `progress`, as
// ModelStoreOptions::on_progress, with the model's name.
ModelStore reporting_store(
    bool offline, std::function<void(const std::string& text)> note,
    std::function<void(const std::string& name, uint64_t done, uint64_t total, uint64_t before)>
        progress);

// ModelStore::find with download progress on a terminal, and a note of the URL on stderr, as
// `program`.
std::filesystem::path find_model_showing(std::string_view program, const std::string& name_or_path,
                                         ModelKind kind, bool offline);

}  // namespace vesper
