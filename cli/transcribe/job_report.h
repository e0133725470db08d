// What `transcribe` says on stderr while it works through its recordings: lines and a progress bar
// for people, or JSON lines for other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/terminal/program.h"
#include "decoder/transcript/transcript.h"

namespace vesper {

// Recording `index` of `count`, counted from 0.
struct Job {
  std::string file;  // as the user named it; "stdin" for standard input
  size_t index = 0, count = 0;
};

struct JobTotals {
  size_t recordings = 0, done = 0, skipped = 0, failed = 0;
  double audio_s = 0;    // of the recordings that were transcribed
  double elapsed_s = 0;  // from the loading of the model on, without it
};

class JobReport {
 public:
  virtual ~JobReport() = default;

  virtual void note(const std::string& text) = 0;
  // A model is being fetched: bytes so far, `before` of them from an earlier run; `total` is 0 if
  // it is not known.
  virtual void fetching(const std::string& model, uint64_t done, uint64_t total,
                        uint64_t before) = 0;
  virtual void loaded(const std::string& engine, double elapsed_s) = 0;

  virtual void started(const Job& job) = 0;
  // Seconds of the recording; `total_s` is 0 if it is not known.
  virtual void progress(const Job& job, double done_s, double total_s) = 0;
  virtual void segment(const Job& job, const Segment& segment) = 0;
  // Something is about to be printed on standard output.
  virtual void make_room() = 0;
  virtual void done(const Job& job, const Transcript& transcript,
                    const std::vector<std::filesystem::path>& outputs, double elapsed_s) = 0;
  virtual void skipped(const Job& job, const std::vector<std::filesystem::path>& outputs) = 0;
  virtual void failed(const std::string& file, const Failure& failure) = 0;
  // What ends the whole run.
  virtual void failed(const Failure& failure) = 0;
  // Once at the end, with the exit status.
  virtual void finished(const JobTotals& totals, int status) = 0;
};

// For people. With `quiet` failures are all that it says; with `verbose` it says what is used and
// how long each recording took.
std::unique_ptr<JobReport> make_text_report(const std::string& program, bool quiet, bool verbose);

// An object a line, each with an "event":
//   note      message
//   fetching  model, done_bytes, total_bytes (null if not known)
//   loaded    engine, elapsed_s
//   start     file, index (from 0), count
//   progress  file, index, count, done_s, total_s (null if not known)
//   segment   file, id, start_s, end_s, text
//   done      file, index, count, outputs, language, duration_s, elapsed_s, speed
//   skipped   file, index, count, outputs
//   error     file (null if it ends the whole run), status, message
//   summary   recordings, done, skipped, failed, audio_s, elapsed_s, speed, status
// Times end in _s and are seconds; speed is seconds of audio for each second of work.
std::unique_ptr<JobReport> make_json_report();

}  // namespace vesper
