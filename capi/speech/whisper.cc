#include "capi/speech/whisper.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "capi/library.h"
#include "capi/options.h"
#include "capi/speech/transcribe_options.h"
#include "capi/speech/transcript.h"
#include "error/error.h"
#include "llm/devices/open_device.h"
#include "llm/tokenizer/whisper_tokens.h"
#include "session/models/model_store.h"

namespace capi = vesper::capi;

namespace vesper::capi {
namespace {

vesper_whisper_options default_whisper_options() {
  const SpeechSessionOptions session;
  vesper_whisper_options options{};
  options.size = sizeof options;
  options.load = default_load_options();
  options.max_candidates = session.max_candidates;
  options.batch_size = session.batch_size;
  options.kv_type = "f16";
  return options;
}

std::shared_ptr<vesper_whisper> open_whisper(const char* model,
                                             const vesper_whisper_options* caller) {
  const vesper_whisper_options given = read_options("options", caller, default_whisper_options());
  const vesper_load_options load = read_load_options(given.load);
  SpeechSessionOptions options;
  set_engine(load, options);
  options.max_candidates = given.max_candidates;
  options.batch_size = given.batch_size;
  options.kv_type = given.kv_type ? parse_kv_types(given.kv_type) : KvTypes();
  // Before a download.
  check_options(options);
  require_device_name(options.device);

  const ModelStore store = model_store(load);
  const auto path = store.find(model, ModelKind::kSpeech);
  if (!given.vad_model) {
    options.vad_model = store.find_installed(kVadModel).value_or("");
  } else if (*given.vad_model != '\0') {
    options.vad_model = store.find(given.vad_model, ModelKind::kVad);
  }
  auto whisper = std::make_shared<vesper_whisper>(path, options, load.offline != 0);
  log(VESPER_LOG_INFO, std::string(model) + ": " + whisper->description);
  return whisper;
}

// `source`: a path or a vesper_pcm.
template <class Source>
vesper_status transcribe(const char* function, vesper_whisper* whisper, const Source* source,
                         const vesper_transcribe_options* options, vesper_on_segment on_segment,
                         void* user, vesper_transcript** transcript) {
  if (transcript) *transcript = nullptr;
  return guarded(function, whisper, [&] {
    const Use use("whisper", whisper);
    const SpeechCall call(options);
    SpeechEvents events = call.events;
    events.on_segment = segment_event(on_segment, user);
    Transcript result = use->session.transcribe(call.input(source), call.speech, events);
    if (transcript) {
      *transcript = add_object(std::make_shared<vesper_transcript>(std::move(result)));
    }
  });
}

// Codes and names need no escapes. (Destructors of nlohmann's JSON would end the process without
// memory.)
std::string language_object(const std::string& language, double probability) {
  const auto index = find_whisper_language(language);
  const std::string name = index ? whisper_languages()[*index].name : language;
  std::array<char, 32> number{};
  std::to_chars(number.data(), number.data() + number.size() - 1, probability);
  return R"({"language":")" + language + R"(","name":")" + name + R"(","probability":)" +
         number.data() + "}";
}

template <class Source>
vesper_status detect_languages(const char* function, vesper_whisper* whisper, const Source* source,
                               const vesper_transcribe_options* options, char** json) {
  if (json) *json = nullptr;
  return guarded(function, whisper, [&] {
    const Use use("whisper", whisper);
    required("json", json);
    const SpeechCall call(options);
    std::string all;
    for (const auto& [language, probability] :
         use->session.detect_languages(call.input(source), call.speech, call.events)) {
      all += (all.empty() ? "[" : ",") + language_object(language, probability);
    }
    *json = copied_string((all.empty() ? "[" : all) + "]");
  });
}

template <class Source>
vesper_status find_speech(const char* function, vesper_whisper* whisper, const Source* source,
                          const vesper_transcribe_options* options, vesper_speech_range** ranges,
                          size_t* n_ranges) {
  if (ranges) *ranges = nullptr;
  if (n_ranges) *n_ranges = 0;
  return guarded(function, whisper, [&] {
    const Use use("whisper", whisper);
    required("ranges", ranges);
    required("n_ranges", n_ranges);
    const SpeechCall call(options);
    const std::vector<TimeRange> found =
        use->session.find_speech(call.input(source), call.vad, call.events);
    if (found.empty()) return;
    auto* array =
        static_cast<vesper_speech_range*>(std::malloc(found.size() * sizeof(vesper_speech_range)));
    if (!array) throw std::bad_alloc();
    for (size_t i = 0; i < found.size(); ++i) array[i] = {found[i].start_s, found[i].end_s};
    *ranges = array;
    *n_ranges = found.size();
  });
}

// The files of vesper_whisper_transcribe_files as jobs.
class FileJobs {
 public:
  FileJobs(const char* function, const SpeechCall& call, std::vector<const char*> paths,
           vesper_on_transcript on_transcript, void* user)
      : function_(function),
        call_(call),
        paths_(std::move(paths)),
        on_transcript_(on_transcript),
        user_(user) {}

  std::optional<SpeechJob> next() {
    if (n_started_ == paths_.size()) return std::nullopt;
    const size_t index = n_started_++;
    SpeechJob job{.input = call_.input(paths_[index]), .events = call_.events};
    job.on_done = [this, index](const Transcript& transcript) {
      pass(index, add_object(std::make_shared<vesper_transcript>(transcript)), VESPER_OK, "");
    };
    job.on_failure = [this, index](const std::exception&) {
      // A cancellation is for all files.
      if (call_.events.is_cancelled && call_.events.is_cancelled()) throw;
      const vesper_status status = fail(function_, nullptr);
      pass(index, nullptr, status, std::string(vesper_last_error()).c_str());
    };
    return job;
  }

 private:
  void pass(size_t index, vesper_transcript* transcript, vesper_status status,
            const char* message) const {
    if (on_transcript_(index, transcript, status, message, user_) != 0) throw_stopped();
  }

  const char* function_;
  const SpeechCall& call_;
  const std::vector<const char*> paths_;
  const vesper_on_transcript on_transcript_;
  void* const user_;
  size_t n_started_ = 0;
};

std::vector<const char*> paths_argument(const char* const* paths, size_t n_paths) {
  if (n_paths > 0) required("paths", paths);
  std::vector<const char*> all;
  for (size_t i = 0; i < n_paths; ++i) {
    if (!paths[i]) {
      throw ArgumentError("paths", "expected " + std::to_string(n_paths) +
                                       " paths, found NULL at index " + std::to_string(i));
    }
    all.push_back(paths[i]);
  }
  return all;
}

}  // namespace
}  // namespace vesper::capi

extern "C" {

void vesper_whisper_options_init(vesper_whisper_options* options, size_t size) {
  capi::init_options(__func__, options, size, capi::default_whisper_options);
}

vesper_status vesper_whisper_open(const char* model, const vesper_whisper_options* options,
                                  vesper_whisper** whisper) {
  return capi::open_object(__func__, model, "whisper", whisper,
                           [&] { return capi::open_whisper(model, options); });
}

void vesper_whisper_close(vesper_whisper* whisper) {
  capi::close_object(__func__, "whisper", whisper);
}

const char* vesper_whisper_description(const vesper_whisper* whisper) {
  return capi::guarded_value(__func__, whisper, "", [&] {
    return capi::find_object("whisper", whisper)->description.c_str();
  });
}

int vesper_whisper_is_multilingual(const vesper_whisper* whisper) {
  return capi::guarded_value(__func__, whisper, 0, [&] {
    return capi::find_object("whisper", whisper)->is_multilingual ? 1 : 0;
  });
}

vesper_status vesper_whisper_load_vad(vesper_whisper* whisper, const char* model) {
  return capi::guarded(__func__, whisper, [&] {
    const capi::Use use("whisper", whisper);
    if (!model || *model == '\0') return use->session.load_vad("");
    vesper_load_options load = capi::default_load_options();
    load.offline = use->never_downloads ? 1 : 0;
    use->session.load_vad(capi::model_store(load).find(model, vesper::ModelKind::kVad));
  });
}

vesper_status vesper_whisper_transcribe_file(vesper_whisper* whisper, const char* path,
                                             const vesper_transcribe_options* options,
                                             vesper_on_segment on_segment, void* user,
                                             vesper_transcript** transcript) {
  return capi::transcribe(__func__, whisper, path, options, on_segment, user, transcript);
}

vesper_status vesper_whisper_transcribe_pcm(vesper_whisper* whisper, const vesper_pcm* pcm,
                                            const vesper_transcribe_options* options,
                                            vesper_on_segment on_segment, void* user,
                                            vesper_transcript** transcript) {
  return capi::transcribe(__func__, whisper, pcm, options, on_segment, user, transcript);
}

vesper_status vesper_whisper_transcribe_files(vesper_whisper* whisper, const char* const* paths,
                                              size_t n_paths,
                                              const vesper_transcribe_options* options,
                                              vesper_on_transcript on_transcript, void* user) {
  const char* function = __func__;
  return capi::guarded(function, whisper, [&] {
    const capi::Use use("whisper", whisper);
    capi::required("on_transcript", on_transcript);
    const capi::SpeechCall call(options);
    capi::FileJobs jobs(function, call, capi::paths_argument(paths, n_paths), on_transcript, user);
    use->session.transcribe_many([&] { return jobs.next(); }, call.speech);
  });
}

vesper_status vesper_whisper_detect_languages_file(vesper_whisper* whisper, const char* path,
                                                   const vesper_transcribe_options* options,
                                                   char** json) {
  return capi::detect_languages(__func__, whisper, path, options, json);
}

vesper_status vesper_whisper_detect_languages_pcm(vesper_whisper* whisper, const vesper_pcm* pcm,
                                                  const vesper_transcribe_options* options,
                                                  char** json) {
  return capi::detect_languages(__func__, whisper, pcm, options, json);
}

vesper_status vesper_whisper_find_speech_file(vesper_whisper* whisper, const char* path,
                                              const vesper_transcribe_options* options,
                                              vesper_speech_range** ranges, size_t* n_ranges) {
  return capi::find_speech(__func__, whisper, path, options, ranges, n_ranges);
}

vesper_status vesper_whisper_find_speech_pcm(vesper_whisper* whisper, const vesper_pcm* pcm,
                                             const vesper_transcribe_options* options,
                                             vesper_speech_range** ranges, size_t* n_ranges) {
  return capi::find_speech(__func__, whisper, pcm, options, ranges, n_ranges);
}

void vesper_ranges_free(vesper_speech_range* ranges) { std::free(ranges); }

}  // extern "C"
