// `inspect --profile`: a model runs, the device's clock says where the time goes, and what
// each stage computes and reads is set against what the device can do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/inspect/report.h"

namespace vesper {

// One stage of a recording: the commands between two barriers.
struct ProfiledStage {
  std::string pass;                 // "encode", "step", ...: what the recording does
  std::vector<std::string> labels;  // of its commands: "decoder.3.attn.q", ...
  std::string kernel;               // "matmul", or several: "matmul + write_kv"
  uint64_t n_runs = 0;
  double us = 0;               // of all runs
  double flop = 0, bytes = 0;  // of one run
  std::string label() const;   // all of `labels`
};

struct Profile {
  std::string device, compute;
  bool per_command = false;  // each command was made a stage
  std::string work;          // what it was given: "30.0 s of sound"
  double elapsed_s = 0;      // with the clock; the best of a few runs, as is the other
  double plain_s = 0;        // without it
  // What the device reaches in a large product, or in a stage if that is more, and reading a matrix
  // that no cache holds: stages whose bytes lie in a cache may read faster.
  double peak_flop_per_s = 0, peak_bytes_per_s = 0;
  std::vector<ProfiledStage> stages;  // of the run that took elapsed_s
  double overhead() const { return elapsed_s / plain_s - 1; }
};

struct ProfileOptions {
  std::filesystem::path model;
  std::string input;  // a recording or lines of text; empty: noise
  std::string device, compute;
  uint32_t threads = 0;
  bool per_command = false;
  double enough_s = 8;  // of runs, then there is no further one; at least one of each kind
};
// Throws Error(kModel, kDevice, kUsage, kInput).
Profile profile_model(const ProfileOptions& options);

std::string profile_text(const Profile& profile);
ReportJson profile_json(const Profile& profile);
std::string profile_csv(const Profile& profile);
// Chrome's trace format: each stage once a pass, with its mean time, one after another.
std::string profile_trace(const Profile& profile);

}  // namespace vesper
