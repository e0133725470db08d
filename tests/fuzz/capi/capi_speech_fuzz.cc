// Calls of the C API's speech functions.
#include "tests/fuzz/capi/capi_calls.h"
#include "tests/llm/weights/tiny_whisper_files.h"
#include "tests/temporary_folder.h"

namespace vesper::fuzz {
namespace {

// A model whose windows are 0.4 s, written once.
const std::string& model_path() {
  static const auto& folder = *new TemporaryFolder;
  static const std::string& path = *new std::string([] {
    test::TinyWhisperOptions tiny;
    tiny.n_audio_ctx = 20;
    tiny.n_text_ctx = 32;
    tiny.d_model = 32;
    tiny.n_heads = 1;
    tiny.n_encoder_layers = tiny.n_decoder_layers = 1;
    tiny.d_ffn = 32;
    const std::string model = folder.file("model");
    test::write_files(test::TinyWhisper(tiny).ctranslate2(DType::kF16), model);
    return model;
  }());
  return path;
}

// One model for all inputs, because opening it takes seconds with libFuzzer's counters.
vesper_whisper* open_model() {
  vesper_whisper_options options;
  vesper_whisper_options_init(&options, sizeof options);
  options.load.device = "cpu";
  options.load.threads = 1;
  options.load.offline = 1;
  options.vad_model = "";
  vesper_whisper* whisper = nullptr;
  require(vesper_whisper_open(model_path().c_str(), &options, &whisper) == VESPER_OK,
          vesper_last_error());
  return whisper;
}

vesper_whisper* model() {
  static vesper_whisper* const whisper = open_model();
  return whisper;
}

class Calls final : public CApiCalls {
 public:
  explicit Calls(Bytes input) : CApiCalls(input, model()) {
    for (size_t i = 0; i < samples_.size(); ++i) {
      samples_[i] = static_cast<float>(static_cast<double>(i * 7919 % 1000) / 2000 - 0.25);
    }
  }

 private:
  void close_others(void* handle) const override {
    vesper_stream_close(static_cast<vesper_stream*>(handle));
    vesper_transcript_free(static_cast<vesper_transcript*>(handle));
  }
  void close_model(void* handle) const override {
    vesper_whisper_close(static_cast<vesper_whisper*>(handle));
  }

  const char* text() {
    return choose_.one_of(std::array{static_cast<const char*>(nullptr), "", "en", "auto", "xx",
                                     "words", "\xff\xfe", ".*", "(", "all", "json", "srt", "txt",
                                     "s16le", "tiny", "/no/such/file", "ask-vad"});
  }

  vesper_pcm pcm() {
    vesper_pcm pcm{samples_.data(), samples_.size(), 16000, 1};
    switch (choose_.byte() % 8) {
      case 0:
        pcm.samples = nullptr;
        break;
      case 1:
        pcm.n_frames = std::numeric_limits<size_t>::max();
        pcm.channels = 2;
        break;
      case 2:
        pcm.sample_rate_hz = choose_.count();
        break;
      case 3:
        pcm.n_frames = choose_.byte();
        pcm.channels = choose_.byte() % 8;
        break;
      default:
        break;
    }
    return pcm;
  }

  // Null, or the defaults with some fields set.
  const vesper_transcribe_options* options() {
    if (choose_.byte() % 8 == 0) return nullptr;
    vesper_transcribe_options& o = options_;
    vesper_transcribe_options_init(&o, sizeof o);
    o.language = "en";
    o.max_new_tokens = 6;
    o.temperatures = temperatures_.data();
    o.n_temperatures = 1;
    o.beam_size = 1;
    o.on_language = on_language;
    for (int n = choose_.byte() % 6; n > 0; --n) set_field(o);
    return &o;
  }

  void set_field(vesper_transcribe_options& o) {
    using O = vesper_transcribe_options;
    static constexpr std::array kDoubles{&O::language_detection_threshold,
                                         &O::patience,
                                         &O::length_penalty,
                                         &O::repetition_penalty,
                                         &O::top_p,
                                         &O::min_p,
                                         &O::no_speech_threshold,
                                         &O::logprob_threshold,
                                         &O::compression_ratio_threshold,
                                         &O::max_initial_timestamp_s,
                                         &O::hallucination_silence_threshold_s,
                                         &O::vad_threshold,
                                         &O::vad_neg_threshold,
                                         &O::vad_min_speech_ms,
                                         &O::vad_min_silence_ms,
                                         &O::vad_pad_ms,
                                         &O::vad_max_speech_s};
    static constexpr std::array kCounts{&O::language_detection_segments,
                                        &O::beam_size,
                                        &O::best_of,
                                        &O::no_repeat_ngram_size,
                                        &O::top_k,
                                        &O::seed,
                                        &O::max_new_tokens,
                                        &O::max_segment_length,
                                        &O::channel,
                                        &O::raw_sample_rate_hz,
                                        &O::raw_channels};
    static constexpr std::array kTruths{&O::multilingual,
                                        &O::reference_rules,
                                        &O::condition_on_previous_text,
                                        &O::carry_initial_prompt,
                                        &O::suppress_model_tokens,
                                        &O::suppress_numerals,
                                        &O::without_timestamps,
                                        &O::word_timestamps,
                                        &O::split_on_word,
                                        &O::vad};
    static constexpr std::array kTexts{&O::language,
                                       &O::initial_prompt,
                                       &O::hotwords,
                                       &O::prefix,
                                       &O::suppress_regex,
                                       &O::prepend_punctuations,
                                       &O::append_punctuations,
                                       &O::raw_encoding};
    switch (choose_.byte() % 8) {
      case 0:
      case 1:
        o.*choose_.one_of(kDoubles) = choose_.number();
        break;
      case 2:
        o.*choose_.one_of(kCounts) = choose_.count();
        break;
      case 3:
        o.*choose_.one_of(kTruths) = choose_.truth();
        break;
      case 4:
        o.*choose_.one_of(kTexts) = text();
        break;
      case 5:
        o.cancellation = handle<vesper_cancellation>();
        break;
      case 6:
        set_list(o);
        break;
      default:
        o.size = size_of(sizeof o);
    }
  }

  void set_list(vesper_transcribe_options& o) {
    const size_t n = choose_.byte() % 4;
    switch (choose_.byte() % 5) {
      case 0:
        for (double& temperature : temperatures_) temperature = choose_.number();
        o.n_temperatures = n;
        break;
      case 1:
        for (double& clip : clips_) clip = choose_.number();
        o.clip_timestamps = choose_.truth() ? clips_.data() : nullptr;
        o.n_clip_timestamps = n;
        break;
      case 2:
        for (int32_t& token : tokens_) token = static_cast<int32_t>(choose_.count());
        o.suppress_tokens = choose_.truth() ? tokens_.data() : nullptr;
        o.n_suppress_tokens = n;
        break;
      case 3:
        for (const char*& rule : rules_) rule = text();
        o.disabled_rules = rules_.data();
        o.n_disabled_rules = n;
        break;
      default: {
        // Any number, as in C.
        const int channels = choose_.byte() % 5, task = choose_.byte() % 4;
        std::memcpy(&o.channels, &channels, sizeof channels);
        std::memcpy(&o.task, &task, sizeof task);
      }
    }
  }

  static int on_segment(const vesper_segment* segment, void* user) {
    require(segment->start_s <= segment->end_s && segment->text, "a damaged segment");
    return static_cast<Calls*>(user)->choose_.byte() % 4 == 3;
  }
  static void on_language(const char* language, double probability, void*) {
    require(*language != '\0' && probability >= 0 && probability <= 1.001, "a damaged language");
  }
  static void on_words(const vesper_caption_word* words, size_t n_words, double, void*) {
    for (size_t i = 0; i < n_words; ++i) require(words[i].text, "a word without text");
  }

  void call() override {
    switch (choose_.byte() % 11) {
      case 0: {
        const vesper_pcm sound = pcm();
        vesper_transcript* transcript = nullptr;
        check(vesper_whisper_transcribe_pcm(handle<vesper_whisper>(),
                                            choose_.byte() % 8 ? &sound : nullptr, options(),
                                            choose_.byte() % 2 ? on_segment : nullptr, this,
                                            choose_.byte() % 4 ? &transcript : nullptr));
        keep(transcript);
        break;
      }
      case 1: {
        vesper_transcript* transcript = nullptr;
        check(vesper_whisper_transcribe_file(handle<vesper_whisper>(), text(), options(), nullptr,
                                             nullptr, &transcript));
        keep(transcript);
        break;
      }
      case 2: {
        const vesper_pcm sound = pcm();
        char* json = nullptr;
        check(
            vesper_whisper_detect_languages_pcm(handle<vesper_whisper>(), &sound, options(), &json),
            json);
        vesper_string_free(json);
        break;
      }
      case 3: {
        const vesper_pcm sound = pcm();
        vesper_speech_range* ranges = nullptr;
        size_t n_ranges = 0;
        check(vesper_whisper_find_speech_pcm(handle<vesper_whisper>(), &sound, options(), &ranges,
                                             &n_ranges),
              ranges);
        vesper_ranges_free(ranges);
        break;
      }
      case 4: {
        vesper_stream_options captions;
        vesper_stream_options_init(&captions, sizeof captions);
        captions.step_s = choose_.number();
        captions.on_final = captions.on_partial = on_words;
        captions.on_segment = on_segment;
        captions.user = this;
        vesper_stream* stream = nullptr;
        // push() reads up to 4080 frames of samples_.
        const uint32_t channels = choose_.one_of(std::array{1u, 1u, 2u, 0u, 257u, ~0u});
        check(vesper_stream_open(handle<vesper_whisper>(), choose_.count(), channels, options(),
                                 choose_.byte() % 4 ? &captions : nullptr, &stream));
        keep(stream);
        break;
      }
      case 5:
        check(vesper_stream_push(handle<vesper_stream>(), samples_.data(), choose_.byte() * 16));
        break;
      case 6: {
        vesper_transcript* transcript = nullptr;
        check(vesper_stream_finish(handle<vesper_stream>(), &transcript));
        keep(transcript);
        break;
      }
      case 7:
        read(handle<vesper_transcript>());
        break;
      case 8:
        call_cancellation();
        break;
      case 9:
        close(handle<void>());
        break;
      default:
        check(vesper_whisper_load_vad(handle<vesper_whisper>(), text()));
    }
  }

  void read(const vesper_transcript* transcript) {
    require(vesper_transcript_text(transcript) && vesper_transcript_language(transcript),
            "a transcript without text");
    const size_t n = vesper_transcript_n_segments(transcript);
    require((vesper_transcript_segment(transcript, n) == nullptr), "a segment beyond the last");
    vesper_format_options layout;
    vesper_format_options_init(&layout, sizeof layout);
    layout.max_line_width = choose_.count();
    layout.max_words_per_line = choose_.count();
    layout.highlight_words = choose_.truth();
    char* lines = nullptr;
    check(vesper_transcript_format(transcript, text(), &layout, &lines), lines);
    vesper_string_free(lines);
  }

  std::array<float, 8192> samples_;  // half a second
  vesper_transcribe_options options_;
  std::array<double, 4> temperatures_{}, clips_{};
  std::array<int32_t, 4> tokens_{};
  std::array<const char*, 4> rules_{};
};

}  // namespace

std::vector<std::string> seeds() {
  model();  // before the time of an input counts
  return {std::string("\x00\x01\x07\x01\x00\x07\x01\x07\x02\x0a\x00\x00\x00", 13),
          std::string("\x08\x01\x00\x02\x01\x07\x01\x01\x05\x02\x00\x01\x0b\x02", 14),
          std::string("\x04\x0b\x01\x07\x01\x01\x01\x00\x01\x05\x02\xff\x05\x02\x40\x06\x02", 17),
          std::string("\x02\x07\x01\x01\x02\x04\x00\x00\x03\x07\x01\x00\x0c\x01\x01\x0f", 16)};
}

void use(Bytes input) { Calls(input).run(); }

}  // namespace vesper::fuzz
