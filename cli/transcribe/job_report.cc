#include "cli/transcribe/job_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/terminal/progress.h"
#include "llm/tokenizer/unicode/utf8_stream.h"

namespace vesper {
namespace {

using Json = nlohmann::ordered_json;

double speed_of(double audio_s, double elapsed_s) { return audio_s / std::max(elapsed_s, 1e-3); }

// The beginning of a text, to fit a line.
std::string beginning_of(const std::string& text) {
  constexpr size_t kLongest = 60;
  return text.size() <= kLongest
             ? text
             : text.substr(0, valid_utf8_prefix({text.data(), kLongest})) + "...";
}

class TextReport final : public JobReport {
 public:
  TextReport(const std::string& program, bool quiet, bool verbose)
      : program_(program), quiet_(quiet), verbose_(verbose), progress_(!quiet) {}

  void note(const std::string& text) override {
    if (quiet_) return;
    progress_.clear();
    print_error(program_, text);
  }

  void fetching(const std::string& model, uint64_t done, uint64_t total, uint64_t before) override {
    if (fetched_ != model) {
      fetched_ = model;
      progress_.start(model);
    }
    progress_.show_bytes(done, total, before);
  }

  void loaded(const std::string& engine, double elapsed_s) override {
    progress_.clear();
    if (verbose_) note(engine + "; loaded in " + short_number(elapsed_s) + " s");
  }

  void started(const Job& job) override {
    const std::string position =
        job.count > 1 ? std::to_string(job.index + 1) + "/" + std::to_string(job.count) + " " : "";
    progress_.start(position + job.file);
  }

  void progress(const Job&, double done_s, double total_s) override {
    progress_.show_audio(done_s, total_s);
  }

  void segment(const Job&, const Segment&) override {}

  void make_room() override { progress_.clear(); }

  void done(const Job& job, const Transcript& transcript, const std::vector<std::filesystem::path>&,
            double elapsed_s) override {
    progress_.clear();
    if (!verbose_) return;
    for (const DroppedSpan& span : transcript.dropped) {
      note(job.file + ": " + short_number(span.start_s) + " to " + short_number(span.end_s) +
           " s rejected (" + span.reason + "): \"" + beginning_of(span.text) + "\"");
    }
    const std::string language = transcript.language.empty()
                                     ? " s without speech"
                                     : " s of speech in \"" + transcript.language + "\"";
    note(job.file + ": " + short_number(transcript.duration_s) + language + " transcribed in " +
         short_number(elapsed_s) + " s (" +
         short_number(speed_of(transcript.duration_s, elapsed_s)) + "x real time)");
  }

  void skipped(const Job& job, const std::vector<std::filesystem::path>&) override {
    if (verbose_) note(job.file + ": skipped, its files are complete");
  }

  void failed(const std::string& file, const Failure& failure) override {
    progress_.clear();
    print_error(program_, file, failure.message);
  }

  void failed(const Failure& failure) override {
    progress_.clear();
    print_error(program_, failure.message);
  }

  void finished(const JobTotals& totals, int) override {
    if (totals.recordings < 2) return;
    std::string counts = std::to_string(totals.recordings) +
                         " recordings: " + std::to_string(totals.done) + " transcribed";
    if (totals.skipped > 0) counts += ", " + std::to_string(totals.skipped) + " skipped";
    if (totals.failed > 0) counts += ", " + std::to_string(totals.failed) + " failed";
    if (totals.audio_s > 0) {
      counts += "; " + short_duration(totals.audio_s) + " of audio in " +
                short_duration(totals.elapsed_s) + " (" +
                short_number(speed_of(totals.audio_s, totals.elapsed_s)) + "x real time)";
    }
    note(counts);
  }

 private:
  std::string program_;
  bool quiet_, verbose_;
  Progress progress_;
  std::string fetched_;  // model that progress_ shows
};

class JsonReport final : public JobReport {
 public:
  void note(const std::string& text) override { put("note", {{"message", valid_utf8(text)}}); }

  void fetching(const std::string& model, uint64_t done, uint64_t total, uint64_t) override {
    put("fetching", {{"model", valid_utf8(model)},
                     {"done_bytes", done},
                     {"total_bytes", total > 0 ? Json(total) : Json(nullptr)}});
  }

  void loaded(const std::string& engine, double elapsed_s) override {
    put("loaded", {{"engine", valid_utf8(engine)}, {"elapsed_s", rounded(elapsed_s)}});
  }

  void started(const Job& job) override { put("start", fields(job)); }

  void progress(const Job& job, double done_s, double total_s) override {
    Json object = fields(job);
    object["done_s"] = rounded(done_s);
    object["total_s"] = total_s > 0 ? rounded(total_s) : Json(nullptr);
    put("progress", object);
  }

  void segment(const Job& job, const Segment& segment) override {
    put("segment", {{"file", valid_utf8(job.file)},
                    {"id", segment.id},
                    {"start_s", rounded(segment.start_s)},
                    {"end_s", rounded(segment.end_s)},
                    {"text", valid_utf8(segment.text)}});
  }

  void make_room() override {}

  void done(const Job& job, const Transcript& transcript,
            const std::vector<std::filesystem::path>& outputs, double elapsed_s) override {
    Json object = fields(job);
    object["outputs"] = names(outputs);
    object["language"] = valid_utf8(transcript.language);
    object["duration_s"] = rounded(transcript.duration_s);
    object["elapsed_s"] = rounded(elapsed_s);
    object["speed"] = rounded(speed_of(transcript.duration_s, elapsed_s));
    put("done", object);
  }

  void skipped(const Job& job, const std::vector<std::filesystem::path>& outputs) override {
    Json object = fields(job);
    object["outputs"] = names(outputs);
    put("skipped", object);
  }

  void failed(const std::string& file, const Failure& failure) override {
    put("error", {{"file", valid_utf8(file)},
                  {"status", failure.status},
                  {"message", valid_utf8(failure.message)}});
  }

  void failed(const Failure& failure) override {
    put("error",
        {{"file", nullptr}, {"status", failure.status}, {"message", valid_utf8(failure.message)}});
  }

  void finished(const JobTotals& totals, int status) override {
    put("summary", {{"recordings", totals.recordings},
                    {"done", totals.done},
                    {"skipped", totals.skipped},
                    {"failed", totals.failed},
                    {"audio_s", rounded(totals.audio_s)},
                    {"elapsed_s", rounded(totals.elapsed_s)},
                    {"speed", rounded(speed_of(totals.audio_s, totals.elapsed_s))},
                    {"status", status}});
  }

 private:
  // Milliseconds; infinities, which JSON lacks, become null.
  static Json rounded(double value) {
    return std::isfinite(value) ? Json(std::round(value * 1000) / 1000) : Json(nullptr);
  }

  static Json fields(const Job& job) {
    return {{"file", valid_utf8(job.file)}, {"index", job.index}, {"count", job.count}};
  }

  static Json names(const std::vector<std::filesystem::path>& paths) {
    Json list = Json::array();
    for (const std::filesystem::path& path : paths) list.push_back(valid_utf8(path.string()));
    return list;
  }

  static void put(const char* event, const Json& fields) {
    Json object{{"event", event}};
    object.update(fields);
    const std::string line = object.dump() + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
};

}  // namespace

std::unique_ptr<JobReport> make_text_report(const std::string& program, bool quiet, bool verbose) {
  return std::make_unique<TextReport>(program, quiet, verbose);
}

std::unique_ptr<JobReport> make_json_report() { return std::make_unique<JsonReport>(); }

}  // namespace vesper
