// Reports of `transcribe` on stderr: lines and a progress bar for people, or JSON lines for
// programs.
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

// Recording `index` of `count`, from 0.
struct Job {
  std::string file;  // name given by the user; "stdin" for standard input
  size_t index = 0, count = 0;
};

struct JobTotals {
  size_t recordings = 0, done = 0, skipped = 0, failed = 0;
  double audio_s = 0;    // of transcribed recordings
  double elapsed_s = 0;  // from the end of loading the model
};

class JobReport {
 public:
  virtual ~JobReport() = default;

  virtual void note(const std::string& text) = 0;
  // A model is downloaded: bytes so far, `before` of them from an earlier run; `total` is 0 if
  // unknown.
  virtual void fetching(const std::string& model, uint64_t done, uint64_t total,
                        uint64_t before) = 0;
  virtual void loaded(const std::string& engine, double elapsed_s) = 0;

  virtual void started(const Job& job) = 0;
  // Seconds of the recording; `total_s` is 0 if unknown.
  virtual void progress(const Job& job, double done_s, double total_s) = 0;
  virtual void segment(const Job& job, const Segment& segment) = 0;
  // Standard output is about to be written.
  virtual void make_room() = 0;
  virtual void done(const Job& job, const Transcript& transcript,
                    const std::vector<std::filesystem::path>& outputs, double elapsed_s) = 0;
  virtual void skipped(const Job& job, const std::vector<std::filesystem::path>& outputs) = 0;
  virtual void failed(const std::string& file, const Failure& failure) = 0;
  // An error that ends the run.
  virtual void failed(const Failure& failure) = 0;
  // Once, at the end, with the exit status.
  virtual void finished(const JobTotals& totals, int status) = 0;
};

// For people. `quiet`: only failures. `verbose`: also the engine and the time of each recording.
std::unique_ptr<JobReport> make_text_report(const std::string& program, bool quiet, bool verbose);

// One object per line with an "event":
//   note      message
//   fetching  model, done_bytes, total_bytes (null if unknown)
//   loaded    engine, elapsed_s
//   start     file, index (from 0), count
//   progress  file, index, count, done_s, total_s (null if unknown)
//   segment   file, id, start_s, end_s, text
//   done      file, index, count, outputs, language, duration_s, elapsed_s, speed
//   skipped   file, index, count, outputs
//   error     file (null if it ends the whole run), status, message
//   summary   recordings, done, skipped, failed, audio_s, elapsed_s, speed, status
// Times end in _s and are seconds; speed is seconds of audio per second.
std::unique_ptr<JobReport> make_json_report();

}  // namespace vesper
