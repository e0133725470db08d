// The result of a transcription: plain data, filled by the decoder and printed by the writers.
//
// Times are seconds from the start of the recording. Text is the decoded tokens: it usually begins
// with a space, and may end inside a UTF-8 character (the writers handle this).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vesper {

struct Word {
  double start_s = 0, end_s = 0;
  std::string text;          // with leading space and trailing punctuation
  double probability = 0;    // mean of the word's tokens, 0 to 1
  uint32_t n_tokens = 0;     // of the segment's text tokens, in order
  std::string speaker = {};  // that of the segment
};

// Speech between two timestamps.
struct Segment {
  int id = 0;        // from 0 in a recording
  int64_t seek = 0;  // first frame of the decoded window, mel frames of 10 ms
  double start_s = 0, end_s = 0;
  std::string text;
  std::vector<int32_t> tokens;   // including timestamp tokens
  double avg_logprob = 0;        // natural logarithm, mean over the window's tokens
  double no_speech_prob = 0;     // of the window, 0 to 1
  double compression_ratio = 0;  // of the window's text: bytes / deflated bytes
  double temperature = 0;        // of the window's attempt
  std::string language;          // ISO 639-1 code, as in Whisper
  // Transcript::language_probability of its recording or channel.
  double language_probability = 0;
  std::vector<Word> words;  // empty without word times
  int channel = 0;          // of the recording, from 1; 0: all channels together
  // "left" or "right" if two channels are transcribed separately; "0", "1" or "?" from the louder
  // channel; otherwise empty.
  std::string speaker;
};

// Decoded text that is not in the transcript.
struct DroppedSpan {
  double start_s = 0, end_s = 0;
  std::string reason;  // "no speech", or "loop"
  std::string text;    // trimmed
};

struct Transcript {
  // Given, or detected in the first window with speech. Empty if no speech was found.
  std::string language;
  double language_probability = 0;  // 1 if the language was given or is the model's only one
  double duration_s = 0;            // of the recording
  std::vector<Segment> segments;
  // In order. Text that openai-whisper rejects too is not listed.
  std::vector<DroppedSpan> dropped = {};
};

}  // namespace vesper
