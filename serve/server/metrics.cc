#include "serve/server/metrics.h"

#include <unistd.h>

#include <fstream>
#include <sstream>

#include "serve/models/model_registry.h"

namespace vesper {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result + "\"";
}

uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t n_total = 0, n_resident = 0;
  file >> n_total >> n_resident;
  return n_resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

class Text {
 public:
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    out_ << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n';
  }
  template <class Value>
  void value(const std::string& labels, Value value, const char* suffix = "") {
    out_ << name_ << suffix;
    if (!labels.empty()) out_ << '{' << labels << '}';
    out_ << ' ' << value << '\n';
  }
  std::string str() const { return out_.str(); }

 private:
  std::string name_;
  std::ostringstream out_;
};

template <class Count>
void add_counts(Text& text, ModelRegistry& models, const char* name, const char* help,
                const Count& count) {
  text.family(name, "counter", help);
  models.for_each([&](const std::string& model, auto& host) {
    if constexpr (requires { count(host); }) text.value("model=" + quoted(model), count(host));
  });
}

}  // namespace

void Metrics::add_request(const std::string& route, unsigned status, double seconds) {
  const std::lock_guard lock(mutex_);
  ++requests_[{route, status}];
  Times& times = times_[route];
  ++times.n;
  times.sum_s += seconds;
  for (size_t i = 0; i < kBuckets.size(); ++i) times.counts[i] += seconds <= kBuckets[i];
}

std::string Metrics::text(ModelRegistry& models, size_t n_connections) const {
  Text text;
  {
    const std::lock_guard lock(mutex_);
    text.family("vesper_requests_total", "counter", "Requests that have ended.");
    for (const auto& [key, n] : requests_) {
      text.value("route=" + quoted(key.first) + ",status=\"" + std::to_string(key.second) + "\"",
                 n);
    }
    text.family("vesper_request_seconds", "histogram", "Time of a request.");
    for (const auto& [route, times] : times_) {
      const std::string label = "route=" + quoted(route);
      for (size_t i = 0; i < kBuckets.size(); ++i) {
        std::ostringstream bound;
        bound << kBuckets[i];
        text.value(label + ",le=\"" + bound.str() + "\"", times.counts[i], "_bucket");
      }
      text.value(label + ",le=\"+Inf\"", times.n, "_bucket");
      text.value(label, times.sum_s, "_sum");
      text.value(label, times.n, "_count");
    }
  }
  text.family("vesper_connections", "gauge", "Open connections.");
  text.value("", n_connections);
  const auto entries = models.list();
  text.family("vesper_model_loaded", "gauge", "Whether a model is in memory.");
  for (const auto& entry : entries) {
    text.value("model=" + quoted(entry.name), entry.is_loaded ? 1 : 0);
  }
  text.family("vesper_model_memory_bytes", "gauge",
              "Memory of a model when it is loaded: weights, caches and scratch.");
  for (const auto& entry : entries) text.value("model=" + quoted(entry.name), entry.n_bytes);
  text.family("vesper_queue_length", "gauge", "Jobs that wait for a model.");
  for (const auto& entry : entries) text.value("model=" + quoted(entry.name), entry.n_waiting);
  add_counts(text, models, "vesper_prompt_tokens_total", "Tokens of prompts.",
             [](TextHost& host) { return host.n_prompt_tokens.load(); });
  add_counts(text, models, "vesper_reused_tokens_total",
             "Tokens of prompts whose keys and values were in the cache.",
             [](TextHost& host) { return host.n_reused_tokens.load(); });
  add_counts(text, models, "vesper_answer_tokens_total", "Tokens that answers sampled.",
             [](TextHost& host) { return host.n_answer_tokens.load(); });
  add_counts(text, models, "vesper_steps_total",
             "Steps of a language model; each samples a token of every running answer.",
             [](TextHost& host) { return host.n_steps.load(); });
  add_counts(text, models, "vesper_embedded_tokens_total", "Tokens that were made vectors.",
             [](EmbeddingHost& host) { return host.n_tokens.load(); });
  add_counts(text, models, "vesper_audio_seconds_total", "Seconds of transcribed recordings.",
             [](SpeechHost& host) { return static_cast<double>(host.n_audio_ms.load()) / 1000; });
  add_counts(text, models, "vesper_speech_rounds_total",
             "Rounds of a few steps of a speech model in which it decodes windows together.",
             [](SpeechHost& host) { return host.n_rounds.load(); });
  add_counts(text, models, "vesper_speech_round_windows_total",
             "Windows of these rounds; a window is in several.",
             [](SpeechHost& host) { return host.n_round_windows.load(); });
  add_counts(text, models, "vesper_busy_seconds_total", "Time in which a model had requests.",
             [](auto& host) { return host.thread().busy_s(); });
  text.family("process_resident_memory_bytes", "gauge", "Memory of the process.");
  text.value("", resident_bytes());
  return text.str();
}

}  // namespace vesper
