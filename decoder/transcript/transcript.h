// What a transcription is: plain data that the decoder fills and the writers print.
//
// Times are seconds from the start of the recording. Text is what the tokens spell: it usually
// begins with a space, and may be cut inside a UTF-8 character at a segment's edge (the writers
// deal with that, see decoder/transcript/writers.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vesper {

struct Word {
  double start_s = 0, end_s = 0;
  std::string text;          // with its leading space and trailing punctuation
  double probability = 0;    // mean over the word's tokens, 0 to 1
  uint32_t n_tokens = 0;     // of the segment's text tokens, in their order
  std::string speaker = {};  // as of the segment
};

// A stretch of speech between two timestamps.
struct Segment {
  int id = 0;        // counts from 0 over the recording
  int64_t seek = 0;  // where the window that it was decoded in begins, in mel frames of 10 ms
  double start_s = 0, end_s = 0;
  std::string text;
  std::vector<int32_t> tokens;   // with the timestamp tokens around the text
  double avg_logprob = 0;        // natural logarithm, mean over the window's tokens
  double no_speech_prob = 0;     // of the window, 0 to 1
  double compression_ratio = 0;  // of the window's text: bytes over its deflated bytes
  double temperature = 0;        // that the window was decoded with
  std::string language;          // ISO 639-1 code, as Whisper has it
  std::vector<Word> words;       // empty unless word times were asked for
  int channel = 0;               // of the recording, from 1; 0: not transcribed by channel
  // "left" or "right" of two channels transcribed by themselves; "0", "1" or "?" where the louder
  // channel says who speaks; else empty.
  std::string speaker;
};

// What the model made of a stretch of sound and the transcript leaves out.
struct DroppedSpan {
  double start_s = 0, end_s = 0;
  std::string reason;  // "no speech", or "loop" for what went round and round
  std::string text;    // trimmed
};

struct Transcript {
  // Of the recording: given, or detected in its first window with speech. Empty if nothing could be
  // heard at all.
  std::string language;
  double language_probability = 0;  // 1 if the language was given or the model knows only one
  double duration_s = 0;            // of the recording
  std::vector<Segment> segments;
  // In order; what openai-whisper leaves out too is not noted.
  std::vector<DroppedSpan> dropped = {};
};

}  // namespace vesper
