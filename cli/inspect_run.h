// The parts of `inspect` that build a Whisper model on a device: what it needs, what it does, and
// how long that takes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/inspect_report.h"
#include "llm/inspect/observed_device.h"

namespace vesper {

// What the model will take on that device, found by building it there without loading it. Throws
// Error(kModel, kDevice, kUsage).
MemoryNeed plan_memory(const std::filesystem::path& model, const std::string& device,
                       const std::string& compute);

// Every command that the model records on that device.
std::string table_text(const ObservedDevice& device);
ReportJson table_json(const ObservedDevice& device);
ReportJson model_table(const std::filesystem::path& model, const std::string& device,
                       const std::string& compute, std::string* text);

// One command of a profile.
struct ProfiledCommand {
  std::string pass;   // "encode", "step", ...: what the recording does
  std::string label;  // "decoder.3.attn.q"
  std::string kernel;
  uint64_t n_runs = 0;
  double us = 0;               // of all runs
  double flop = 0, bytes = 0;  // of one run
};

struct Profile {
  std::string device, compute;
  double audio_s = 0;    // seconds of the recording
  double elapsed_s = 0;  // with a clock around each command
  // What the device reaches in a large product, and reading a matrix that no cache holds.
  double peak_flop_per_s = 0, peak_bytes_per_s = 0;
  std::vector<ProfiledCommand> commands;
};

struct ProfileOptions {
  std::filesystem::path model;
  std::string recording;  // empty: 30 s of noise
  std::string device, compute;
  uint32_t threads = 0;
};
Profile profile_model(const ProfileOptions& options);

std::string profile_text(const Profile& profile);
ReportJson profile_json(const Profile& profile);
std::string profile_csv(const Profile& profile);
// Chrome's trace format: each command once a pass, with its mean time, one after another.
std::string profile_trace(const Profile& profile);

}  // namespace vesper
