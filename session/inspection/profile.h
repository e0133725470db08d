// Runs a model, times its stages with the device's clock, and compares the arithmetic and memory
// traffic of each stage with the peak of the device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace vesper {

// One stage of a program: the commands between two barriers.
struct ProfiledStage {
  std::string pass;                 // "encode", "step", ...: purpose of the program
  std::vector<std::string> labels;  // "decoder.3.attn.q", ...
  std::string kernel;               // "matmul", or several: "matmul + write_kv"
  uint64_t n_runs = 0;
  double us = 0;               // microseconds, of all runs
  double flop = 0, bytes = 0;  // per run
  std::string label() const;   // all of `labels`
};

struct Profile {
  std::string device, compute;
  bool per_command = false;  // each command is a stage
  std::string work;          // its input: "30.0 s of audio"
  double elapsed_s = 0;      // with the clock; best of a few runs, like plain_s
  double plain_s = 0;        // without the clock
  // Peak of a large product, or of a stage if that is higher, and of reading a matrix larger than
  // the caches. Stages that read from a cache may exceed it.
  double peak_flop_per_s = 0, peak_bytes_per_s = 0;
  std::vector<ProfiledStage> stages;  // of the run that took elapsed_s
  double overhead() const { return elapsed_s / plain_s - 1; }
};

struct ProfileOptions {
  std::filesystem::path model;
  // A file: audio for Whisper and a VAD model, lines for a text encoder, a prompt for a language
  // model. Empty: noise.
  std::string input;
  std::string device = "auto", compute = "auto";  // as in SpeechSessionOptions
  uint32_t threads = 0;                           // of the CPU device; 0: one for each core
  bool per_command = false;                       // clock after each command instead of at barriers
  double enough_s = 8;  // total time of the runs; at least one run of each kind
};
// Throws Error(kModel, kDevice, kUsage, kInput).
Profile profile_model(const ProfileOptions& options);

}  // namespace vesper
