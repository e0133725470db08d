// `transcribe` with a SpeechSession that needs no model: a recording is a text file.
//
// Each line of the input is a segment of one second, except the commands:
//   !input TEXT, !device TEXT, !internal TEXT  fail with this kind of error
//   !sleep MILLISECONDS                        wait
//   !settings                                  a segment with the settings
//   !search                                    a segment with the search settings
//   !words                                     a segment with the settings of words
//   !sound                                     a segment with the settings of the audio reader
//   !languages                                 a segment with the settings of languages
//   !vad                                       a segment with the settings of the VAD
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "error/error.h"
#include "session/speech/speech_session.h"

namespace vesper {
namespace {

std::string shown(const std::optional<double>& threshold) {
  return threshold ? std::to_string(*threshold) : "none";
}

}  // namespace

struct SpeechSession::State {
  // Each line is first partial, then final. "!slow STEPS" reports slow decoding, "!slow-window
  // STEPS" slow decoding of a full window, "!wait" waits until the stream is stopped, and "!cut
  // WHY" ends the stream with a read error.
  static LiveTranscript transcribe_live(const AudioInput& audio, const SpeechEvents& events,
                                        const LiveOptions& options) {
    const double step_s = options.step_s;
    std::ifstream file;
    if (audio.path != "-") file.open(audio.path);
    std::istream& lines = audio.path == "-" ? std::cin : file;
    Transcript transcript{"en", 1, 0, {}};
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("!slow")) {
        const bool had_window = line.starts_with("!slow-window");
        options.on_slow({std::stod(line.substr(line.find(' '))) * step_s, 0.5, had_window});
        continue;
      }
      if (line == "!wait") {
        while (!options.is_stopped()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        break;
      }
      if (line.starts_with("!cut")) {
        return {transcript, std::make_exception_ptr(Error(ErrorKind::kInput, line.substr(5)))};
      }
      const double at_s = transcript.duration_s++;
      const std::vector<CaptionWord> words = {{" " + line, 1, at_s, at_s + 0.5, true},
                                              {" again", 2, at_s + 0.5, at_s + 1, false}};
      events.on_partial(words, at_s + step_s);
      events.on_final(std::span(words).first(1), at_s + 1.5);
      events.on_partial(std::span(words).last(1), at_s + 1.5);
      events.on_final(std::span(words).last(1), at_s + 2);
      events.on_partial({}, at_s + 2);
      Segment segment;
      segment.id = static_cast<int>(transcript.segments.size());
      segment.start_s = at_s;
      segment.end_s = at_s + 1;
      segment.text = words[0].text + words[1].text;
      transcript.segments.push_back(segment);
      events.on_segment(segment);
    }
    return {transcript};
  }

  // Returns the first line of the recording and two other languages.
  static std::vector<LanguageProbability> detect_languages(const AudioInput& input,
                                                           const DecodingSettings& decoding) {
    std::ifstream file(input.path);
    std::string first;
    std::getline(file, first);
    return {{first, decoding.language_detection_threshold}, {"de", 0.015}, {"fr", 0.001}};
  }

  Transcript transcribe(const AudioInput& audio, const SpeechOptions& speech,
                        const SpeechEvents& events) const {
    const DecodingSettings& decoding = speech.decoding;
    const std::string& input = audio.path;
    std::ifstream file;
    if (input != "-") file.open(input);
    std::istream& lines = input == "-" ? std::cin : file;
    Transcript transcript;
    transcript.language = "en";
    transcript.language_probability = 1;
    for (std::string line; std::getline(lines, line);) {
      const std::string command = line.substr(0, line.find(' '));
      const std::string rest = line.size() > command.size() ? line.substr(command.size() + 1) : "";
      if (command == "!input") throw Error(ErrorKind::kInput, rest);
      if (command == "!device") throw Error(ErrorKind::kDevice, rest);
      if (command == "!internal") throw std::logic_error(rest);
      if (command == "!memory") throw std::bad_alloc();
      if (command == "!sleep") {
        std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(rest)));
        continue;
      }
      Segment segment;
      segment.id = static_cast<int>(transcript.segments.size());
      segment.start_s = segment.id;
      segment.end_s = segment.id + 1;
      segment.language = "en";
      segment.text = command == "!settings" ? described(decoding)
                     : command == "!search" ? search_of(decoding)
                                            : " " + line;
      if (command == "!words") segment.text = words_of(decoding);
      if (command == "!vad") segment.text = described_vad(speech);
      if (command == "!sound") segment.text = described_sound(audio, speech.channels);
      if (command == "!languages") segment.text = described_languages(decoding);
      transcript.segments.push_back(segment);
      events.on_segment(segment);
      transcript.duration_s = segment.end_s;
      events.on_progress(segment.end_s, 10);
    }
    return transcript;
  }

  std::string described(const DecodingSettings& decoding) const {
    std::ostringstream text;
    text << "model=" << model.filename().string() << " device=" << options.device
         << " compute=" << options.compute << " threads=" << options.threads
         << " language=" << decoding.language << " translate=" << decoding.translate
         << " previous=" << decoding.condition_on_previous_text << " temperatures=";
    for (double t : decoding.temperatures) text << t << ";";
    text << " no_speech=" << shown(decoding.no_speech_threshold)
         << " logprob=" << shown(decoding.logprob_threshold)
         << " compression=" << shown(decoding.compression_ratio_threshold)
         << " prompt=" << decoding.initial_prompt << " initial=" << decoding.max_initial_timestamp_s
         << " without_timestamps=" << decoding.without_timestamps
         << " suppress_model=" << decoding.suppress_model_tokens << " suppress=";
    for (int32_t token : decoding.suppress_tokens) text << token << ";";
    return text.str();
  }

  std::string search_of(const DecodingSettings& decoding) const {
    std::ostringstream text;
    text << "candidates=" << options.max_candidates << " temperatures=";
    for (double t : decoding.temperatures) text << t << ";";
    text << " best_of=" << decoding.best_of << " length_penalty=" << shown(decoding.length_penalty)
         << " seed=" << decoding.seed << " beams=" << decoding.beam_size
         << " patience=" << decoding.patience << " repetition=" << decoding.repetition_penalty
         << " ngram=" << decoding.no_repeat_ngram_size << " top_k=" << decoding.top_k
         << " top_p=" << decoding.top_p << " min_p=" << decoding.min_p
         << " regex=" << decoding.suppress_regex << " numerals=" << decoding.suppress_numerals
         << " carry=" << decoding.carry_initial_prompt << " hotwords=" << decoding.hotwords
         << " prefix=" << decoding.prefix << " clips=";
    for (double clip : decoding.clip_timestamps) text << clip << ";";
    text << " max_new_tokens=" << decoding.max_new_tokens.value_or(0);
    return text.str();
  }

  static std::string words_of(const DecodingSettings& decoding) {
    std::ostringstream text;
    text << "words=" << decoding.word_timestamps
         << " silence=" << shown(decoding.hallucination_silence_threshold_s)
         << " length=" << decoding.max_segment_length.value_or(0)
         << " split_on_word=" << decoding.split_on_word
         << " prepended=" << decoding.punctuation.prepended
         << " appended=" << decoding.punctuation.appended;
    return text.str();
  }

  static std::string described_sound(const AudioInput& audio, Channels channels) {
    std::ostringstream text;
    text << "split=" << (channels == Channels::kSplit)
         << " label=" << (channels == Channels::kDiarize)
         << " channel=" << audio.reader.channel.value_or(-1);
    if (audio.reader.raw) {
      const RawPcm& raw = *audio.reader.raw;
      text << " raw=" << (raw.encoding == RawPcm::Encoding::kS16Le ? "s16le" : "f32le") << ","
           << raw.sample_rate_hz << "," << raw.channels;
    }
    return text.str();
  }

  static std::string described_languages(const DecodingSettings& decoding) {
    std::ostringstream text;
    text << "multilingual=" << decoding.multilingual
         << " segments=" << decoding.language_detection_segments
         << " threshold=" << decoding.language_detection_threshold;
    return text.str();
  }

  std::string described_vad(const SpeechOptions& speech) const {
    if (!speech.vad) {
      return options.vad_model.empty() ? "none" : "in doubt " + options.vad_model.string();
    }
    std::ostringstream text;
    text << "model=" << options.vad_model.filename().string()
         << " threshold=" << speech.vad->threshold
         << " min_speech=" << speech.vad->min_speech_duration_ms
         << " min_silence=" << speech.vad->min_silence_duration_ms
         << " max_speech=" << speech.vad->max_speech_duration_s
         << " pad=" << speech.vad->speech_pad_ms << " batch=" << options.batch_size;
    return text.str();
  }

  std::filesystem::path model;
  SpeechSessionOptions options;
};

SpeechSession::SpeechSession(const std::filesystem::path& model,
                             const SpeechSessionOptions& options)
    : state_(new State{model, options}) {}

SpeechSession::~SpeechSession() = default;

std::string SpeechSession::description() const { return "fake engine"; }

void SpeechSession::transcribe_many(const std::function<std::optional<SpeechJob>()>& next,
                                    const SpeechOptions& options, const ManyOptions&) {
  check_options(options);
  while (const std::optional<SpeechJob> job = next()) {
    job->on_start();
    if (job->events.is_cancelled()) continue;
    Transcript transcript;
    try {
      transcript = state_->transcribe(job->input, options, job->events);
    } catch (const std::exception& error) {
      job->on_failure(error);
      continue;
    }
    job->on_done(transcript);
  }
}

LiveTranscript SpeechSession::transcribe_live(const AudioInput& input, const SpeechOptions& options,
                                              const SpeechEvents& events, const LiveOptions& live) {
  check_options(options, SpeechTask::kLiveCaptions);
  return State::transcribe_live(input, events, live);
}

std::vector<LanguageProbability> SpeechSession::detect_languages(const AudioInput& input,
                                                                 const SpeechOptions& options,
                                                                 const SpeechEvents&) {
  return State::detect_languages(input, options.decoding);
}

}  // namespace vesper
