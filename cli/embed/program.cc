// embed: computes vectors of texts, searches, reranks, and compares texts. Parses the command line,
// runs an EmbeddingSession on each text, and prints vectors or ranked lines.

#include "cli/terminal/program.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/embed/input.h"
#include "cli/embed/options.h"
#include "cli/embed/output.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "error/error.h"
#include "session/atomic_file.h"
#include "session/embedding/embedding_session.h"
#include "session/embedding/ranking.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kProgram = "embed";

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r") == std::string::npos;
}

class Run {
 public:
  explicit Run(EmbedArguments arguments)
      : arguments_(std::move(arguments)), input_(arguments_), ranking_(arguments_.top) {}

  int run() {
    if (is_binary() && arguments_.output.empty() && isatty(STDOUT_FILENO)) {
      throw Error(ErrorKind::kUsage,
                  "--format: this one is binary, and standard output is a terminal; name a file "
                  "with --output");
    }
    if (!arguments_.output.empty()) file_ = std::make_unique<AtomicFile>(arguments_.output);
    // Read the first text now, to report unreadable input before a model is downloaded and loaded.
    std::string text;
    if (input_.next(text)) first_ = std::move(text);
    load();
    if (arguments_.mode == EmbedMode::kSearch) embed_query();
    const auto start = Clock::now();
    session_->embed_many([this](bool) { return next_job(); });
    finish();
    if (arguments_.verbose) {
      const double s = std::max(seconds_since(start), 1e-6);
      note(std::to_string(n_texts_) + (n_texts_ == 1 ? " text of " : " texts of ") +
           std::to_string(n_tokens_) + " tokens in " + short_number(s) + " s (" +
           std::to_string(std::lround(static_cast<double>(n_tokens_) / s)) + " tokens/s)");
    }
    return 0;
  }

 private:
  EmbedFormat format() const { return arguments_.format.value_or(EmbedFormat::kJson); }
  bool ranks() const { return arguments_.mode != EmbedMode::kVectors; }

  bool is_binary() const {
    return !ranks() && (format() == EmbedFormat::kNpy || format() == EmbedFormat::kF32);
  }

  void note(const std::string& text) const { print_error(kProgram, text); }

  void load() {
    const fs::path path =
        find_model_showing(kProgram, arguments_.model, ModelKind::kTextEncoder, arguments_.offline);
    const auto start = Clock::now();
    session_.emplace(path, arguments_.session);
    if (!arguments_.input_ids) session_->tokenizer();
    prefix_ = prompt(arguments_.prefix, TextPurpose::kPassage);
    if (arguments_.verbose) {
      note(session_->description() + "; loaded in " + short_number(seconds_since(start)) + " s");
    }
  }

  // The prompt given as an option, else the model's prompt for this purpose.
  std::string prompt(const std::optional<std::string>& wanted, TextPurpose in_search) const {
    if (wanted) return session_->prompt(*wanted);
    return session_->prompt(arguments_.mode == EmbedMode::kSearch ? in_search : TextPurpose::kAny);
  }

  void embed_query() {
    const std::string text =
        prompt(arguments_.query_prefix, TextPurpose::kQuery) + arguments_.query;
    const Embedding query = session_->embed({&text, 1}, "").front();
    report_cut("the query", query.n_whole);
    query_ = query.vector;
  }

  // The next text to embed; none at the end.
  std::optional<EmbeddingJob> next_job() {
    write(std::exchange(out_, {}));  // output of the previous batch
    std::string text;
    while (next_text(text)) {
      const uint64_t index = n_texts_++;
      if (ranks()) {
        texts_.push_back(text);
        // Blank lines are not ranked.
        if (!arguments_.input_ids && is_blank(text)) continue;
      }
      EmbeddingJob job{tokens_of(text)};
      report_cut(input_.origin(), job.tokens.n_tokens);
      n_tokens_ += job.tokens.ids.size();
      job.on_done = [this, index, text = std::move(text)](const Embedding& embedding) {
        take(index, text, embedding);
      };
      return job;
    }
    return std::nullopt;
  }

  bool next_text(std::string& text) {
    if (!first_) return input_.next(text);
    text = *std::exchange(first_, std::nullopt);
    return true;
  }

  TokenizedText tokens_of(const std::string& text) const {
    if (arguments_.mode == EmbedMode::kRerank) {
      return session_->tokenize_pair(arguments_.query, text);
    }
    if (!arguments_.input_ids) return session_->tokenize(prefix_ + text);
    try {
      return session_->tokenize(parse_token_ids(text));
    } catch (const Error& error) {
      throw Error(ErrorKind::kInput, input_.origin() + ": " + error.what());
    }
  }

  // Names the first few truncated texts; finish() reports how many there were.
  void report_cut(const std::string& origin, uint32_t n_whole) {
    constexpr uint64_t kNamed = 3;
    if (n_whole <= session_->max_tokens() || ++n_cut_ > kNamed) return;
    note(origin + ": cut to the first " + std::to_string(session_->max_tokens()) + " of " +
         std::to_string(n_whole) + " tokens");
  }

  void take(uint64_t index, const std::string& text, const Embedding& embedding) {
    switch (arguments_.mode) {
      case EmbedMode::kVectors:
        append_embedding(
            format(),
            {index, arguments_.input_ids ? nullptr : &text, embedding.n_tokens, embedding.vector},
            format() == EmbedFormat::kNpy ? held_back_ : out_);
        return;
      case EmbedMode::kSearch:
        ranking_.offer({cosine(query_, embedding.vector), index, 0});
        return;
      case EmbedMode::kRerank:
        ranking_.offer({embedding.vector.front(), index, 0});
        return;
      case EmbedMode::kSimilarity:
        vectors_.emplace_back(index, embedding.vector);
        return;
    }
  }

  void finish() {
    switch (arguments_.mode) {
      case EmbedMode::kVectors:
        // The header needs the number of rows.
        if (format() == EmbedFormat::kNpy) {
          write(npy_header(n_texts_, session_->dimensions()) + held_back_);
        }
        break;
      case EmbedMode::kSimilarity:
        for (size_t i = 0; i < vectors_.size(); ++i) {
          for (size_t j = i + 1; j < vectors_.size(); ++j) {
            ranking_.offer({cosine(vectors_[i].second, vectors_[j].second), vectors_[i].first,
                            vectors_[j].first});
          }
        }
        [[fallthrough]];
      case EmbedMode::kSearch:
      case EmbedMode::kRerank: {
        const bool pairs = arguments_.mode == EmbedMode::kSimilarity;
        const std::vector<RankedLine> lines = ranking_.best();
        write(arguments_.format ? ranking_json(lines, pairs, texts_, *arguments_.format)
                                : ranking_text(lines, pairs, texts_));
        break;
      }
    }
    if (file_) file_->commit();
    if (n_cut_ > 0) {
      note(std::to_string(n_cut_) + (n_cut_ == 1 ? " text was" : " texts were") +
           " cut to the first " + std::to_string(session_->max_tokens()) + " tokens");
    }
  }

  void write(const std::string& text) {
    if (text.empty()) return;
    if (file_) {
      file_->write(text);
    } else {
      write_to_stdout(text);
    }
  }

  EmbedArguments arguments_;
  EmbedInput input_;
  std::unique_ptr<AtomicFile> file_;
  std::optional<EmbeddingSession> session_;
  std::string prefix_;

  std::optional<std::string> first_;  // read before the model was loaded
  uint64_t n_texts_ = 0, n_tokens_ = 0, n_cut_ = 0;
  std::string out_;        // output not yet written
  std::string held_back_;  // the data of a NumPy file, written after its header

  std::vector<float> query_;  // [dimensions]
  Ranking ranking_;
  std::vector<std::string> texts_;                                // of a ranking
  std::vector<std::pair<uint64_t, std::vector<float>>> vectors_;  // of --similarity, by text
};

}  // namespace
}  // namespace vesper

int main(int argc, char** argv) {
  return vesper::run_program(vesper::kProgram, argc, argv, [](int n, char** words) {
    vesper::EmbedArguments arguments;
    if (const auto answer = vesper::parse_embed_options(n, words, arguments)) {
      vesper::write_to_stdout(*answer);
      return 0;
    }
    return vesper::Run(std::move(arguments)).run();
  });
}
