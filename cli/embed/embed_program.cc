#include "cli/embed/embed_program.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/embed/embed_input.h"
#include "cli/embed/embed_output.h"
#include "cli/embed/options.h"
#include "cli/terminal/output.h"
#include "cli/terminal/program.h"
#include "cli/terminal/progress.h"
#include "embedder/sentence_tokenizer.h"
#include "error/error.h"
#include "llm/devices/open_device.h"

namespace vesper {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kProgram = "embed";

// A text on its way through the model.
struct PendingText {
  std::string text;
  std::vector<int32_t> ids;
};

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
    // What cannot be read is found before a model is fetched and loaded.
    std::string first;
    bool more = input_.next(first);
    load();
    if (arguments_.mode == EmbedMode::kSearch) embed_query();
    const auto start = Clock::now();
    while (more) {
      take(std::exchange(first, {}));
      more = input_.next(first);
    }
    flush();
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

  bool is_binary() const {
    return arguments_.mode == EmbedMode::kVectors &&
           (format() == EmbedFormat::kNpy || format() == EmbedFormat::kF32);
  }

  void note(const std::string& text) const { print_error(kProgram, text); }

  void load() {
    const fs::path path =
        find_model_showing(kProgram, arguments_.model, ModelKind::kTextEncoder, arguments_.offline);
    const auto start = Clock::now();
    embedder_.emplace(
        path, open_device(arguments_.device, DeviceOptions{.n_threads = arguments_.threads}),
        parse_compute(arguments_.compute), arguments_.options);
    if (!arguments_.input_ids) {
      tokenizer_.emplace(path);
      if (tokenizer_->n_vocab() > embedder_->n_vocab()) {
        throw Error(ErrorKind::kModel,
                    path.string() + ": the tokenizer has " + std::to_string(tokenizer_->n_vocab()) +
                        " tokens, the weights only " + std::to_string(embedder_->n_vocab()));
      }
      if (embedder_->max_tokens() < tokenizer_->least_tokens()) {
        throw Error(ErrorKind::kUsage, "--max-tokens: expected at least " +
                                           std::to_string(tokenizer_->least_tokens()) +
                                           " for this model, found " +
                                           std::to_string(embedder_->max_tokens()));
      }
    }
    prefix_ = prompt(arguments_.prefix, {"passage", "document"});
    if (arguments_.mode == EmbedMode::kSearch) {
      query_prefix_ = prompt(arguments_.query_prefix, {"query"});
    }
    if (arguments_.verbose) {
      const DeviceInfo& device = embedder_->device().info();
      note(device.kind + " (" + device.name + "), " +
           std::string(compute_name(embedder_->compute())) + "; loaded in " +
           short_number(seconds_since(start)) + " s");
    }
  }

  // What stands before a text: what was asked for, by the name of one of the model's prompts or
  // literally; else in a search what the model has for that purpose, else what it has for all.
  std::string prompt(const std::optional<std::string>& wanted,
                     std::initializer_list<const char*> purpose) const {
    const auto& prompts = embedder_->settings().prompts;
    if (wanted) {
      const auto named = prompts.find(*wanted);
      if (named != prompts.end()) return named->second;
      for (const char* name : {"query", "passage", "document"}) {
        if (*wanted != name) continue;
        throw Error(ErrorKind::kUsage, "--prefix: this model's files name no prompt \"" + *wanted +
                                           "\"; give the text itself, such as \"" + *wanted +
                                           ": \"");
      }
      return *wanted;
    }
    if (arguments_.mode == EmbedMode::kSearch) {
      for (const char* name : purpose) {
        const auto named = prompts.find(name);
        if (named != prompts.end()) return named->second;
      }
    }
    const auto usual = prompts.find(embedder_->settings().default_prompt);
    return usual == prompts.end() ? std::string() : usual->second;
  }

  // `place` names the text in messages.
  std::vector<int32_t> ids_of(const std::string& prefix, const std::string& text,
                              const std::string& place) {
    const uint32_t most = embedder_->max_tokens();
    if (arguments_.input_ids) {
      std::vector<int32_t> ids = ids_in(text, place);
      report_cut(place, static_cast<uint32_t>(ids.size()), most);
      ids.resize(std::min<size_t>(ids.size(), most));
      return ids;
    }
    TokenizedText tokens = tokenizer_->encode(prefix + text, most);
    report_cut(place, tokens.n_tokens, most);
    return std::move(tokens.ids);
  }

  std::vector<int32_t> ids_in(const std::string& text, const std::string& place) const {
    std::vector<int32_t> ids;
    try {
      ids = parse_token_ids(text);
    } catch (const Error& error) {
      throw Error(ErrorKind::kInput, place + ": " + error.what());
    }
    for (const int32_t id : ids) {
      if (static_cast<uint32_t>(id) < embedder_->n_vocab()) continue;
      throw Error(ErrorKind::kInput, place + ": expected token ids below " +
                                         std::to_string(embedder_->n_vocab()) + ", found " +
                                         std::to_string(id));
    }
    if (ids.empty()) throw Error(ErrorKind::kInput, place + ": expected token ids, found none");
    return ids;
  }

  // The first ones by name, all of them by number at the end.
  void report_cut(const std::string& place, uint32_t n_tokens, uint32_t most) {
    constexpr uint64_t kNamed = 3;
    if (n_tokens <= most) return;
    if (++n_cut_ > kNamed) return;
    note(place + ": cut to the first " + std::to_string(most) + " of " + std::to_string(n_tokens) +
         " tokens");
  }

  void embed_query() {
    const std::vector<int32_t> ids = ids_of(query_prefix_, arguments_.query, "the query");
    const std::span<const int32_t> text(ids);
    query_.resize(embedder_->dimensions());
    embedder_->embed({&text, 1}, query_.data());
  }

  void take(std::string text) {
    // A ranking has no use for lines without a word.
    if (arguments_.mode != EmbedMode::kVectors && !arguments_.input_ids &&
        text.find_first_not_of(" \t\r") == std::string::npos) {
      blank_texts(std::move(text));
      return;
    }
    std::vector<int32_t> ids = ids_of(prefix_, text, input_.place());
    const size_t n_tokens = ids.size();
    if (n_pending_tokens_ + n_tokens > embedder_->batch_tokens() ||
        pending_.size() == embedder_->batch_texts()) {
      flush();
    }
    n_pending_tokens_ += n_tokens;
    pending_.push_back({std::move(text), std::move(ids)});
  }

  // Numbers of lines stay those of the input.
  void blank_texts(std::string text) {
    flush();
    texts_.push_back(std::move(text));
    if (arguments_.mode == EmbedMode::kSimilarity) {
      vectors_.resize(vectors_.size() + embedder_->dimensions(), 0.0f);
    }
    ++n_texts_;
  }

  void flush() {
    if (pending_.empty()) return;
    const uint32_t d = embedder_->dimensions();
    std::vector<std::span<const int32_t>> texts;
    for (const PendingText& text : pending_) texts.emplace_back(text.ids);
    std::vector<float> vectors(pending_.size() * d);
    embedder_->embed(texts, vectors.data());
    std::string out;
    for (size_t i = 0; i < pending_.size(); ++i) {
      const std::span<const float> vector(vectors.data() + i * d, d);
      if (arguments_.mode == EmbedMode::kVectors) {
        append_embedding(format(),
                         {n_texts_, arguments_.input_ids ? nullptr : &pending_[i].text,
                          static_cast<uint32_t>(pending_[i].ids.size()), vector},
                         out);
      } else if (arguments_.mode == EmbedMode::kSearch) {
        ranking_.offer({cosine(query_, vector), n_texts_, 0});
      }
      n_tokens_ += pending_[i].ids.size();
      ++n_texts_;
      if (arguments_.mode != EmbedMode::kVectors) texts_.push_back(std::move(pending_[i].text));
    }
    if (arguments_.mode == EmbedMode::kSimilarity) {
      vectors_.insert(vectors_.end(), vectors.begin(), vectors.end());
    }
    if (arguments_.mode == EmbedMode::kVectors && format() == EmbedFormat::kNpy) {
      held_back_ += out;  // the header, which comes first, has the number of rows
    } else {
      write(out);
    }
    pending_.clear();
    n_pending_tokens_ = 0;
  }

  static double cosine(std::span<const float> a, std::span<const float> b) {
    double product = 0, a_squares = 0, b_squares = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      product += double{a[i]} * b[i];
      a_squares += double{a[i]} * a[i];
      b_squares += double{b[i]} * b[i];
    }
    return product / std::max(std::sqrt(a_squares * b_squares), 1e-30);
  }

  void rank_pairs() {
    const uint32_t d = embedder_->dimensions();
    const auto vector = [&](uint64_t i) {
      return std::span<const float>(vectors_.data() + i * d, d);
    };
    const auto is_blank = [&](uint64_t i) {
      return !arguments_.input_ids && texts_[i].find_first_not_of(" \t\r") == std::string::npos;
    };
    for (uint64_t i = 0; i < n_texts_; ++i) {
      for (uint64_t j = i + 1; j < n_texts_; ++j) {
        if (is_blank(i) || is_blank(j)) continue;
        ranking_.offer({cosine(vector(i), vector(j)), i, j});
      }
    }
  }

  void finish() {
    if (arguments_.mode == EmbedMode::kVectors) {
      if (format() == EmbedFormat::kNpy) {
        write(npy_header(n_texts_, embedder_->dimensions()));
        write(held_back_);
      }
    } else {
      const bool pairs = arguments_.mode == EmbedMode::kSimilarity;
      if (pairs) rank_pairs();
      const std::vector<RankedLine> lines = ranking_.best();
      write(arguments_.format ? ranking_json(lines, pairs, texts_, *arguments_.format)
                              : ranking_text(lines, pairs, texts_));
    }
    if (file_) file_->commit();
    if (n_cut_ > 0) {
      note(std::to_string(n_cut_) + (n_cut_ == 1 ? " text was" : " texts were") +
           " cut to the first " + std::to_string(embedder_->max_tokens()) + " tokens");
    }
  }

  void write(std::string_view text) {
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
  std::optional<Embedder> embedder_;
  std::optional<SentenceTokenizer> tokenizer_;
  std::string prefix_, query_prefix_;

  std::vector<PendingText> pending_;  // of the next batch
  size_t n_pending_tokens_ = 0;
  uint64_t n_texts_ = 0, n_tokens_ = 0, n_cut_ = 0;

  std::string held_back_;     // numbers of a NumPy file
  std::vector<float> query_;  // [dimensions]
  Ranking ranking_;
  std::vector<std::string> texts_;  // of a ranking
  std::vector<float> vectors_;      // of --similarity, [texts, dimensions]
};

}  // namespace

int embed_main(int argc, const char* const* argv) {
  return run_program(kProgram, [&] {
    EmbedArguments arguments;
    if (const auto answer = parse_embed_options(argc, argv, arguments)) {
      write_to_stdout(*answer);
      return 0;
    }
    return Run(std::move(arguments)).run();
  });
}

}  // namespace vesper
