// The ranges of the sessions' settings: check_options() enforces them, and the programs show them
// in their help. Upper bounds without a source only limit memory and run time.
#pragma once

#include <cstdint>
#include <limits>

#include "decoder/decoding_settings.h"
#include "error/bounds.h"
#include "shaders/kernel_params.h"

namespace vesper::bounds {

// Speech and text
inline constexpr Bounds<uint32_t> kThreads{1, 1024};
inline constexpr Bounds<uint32_t> kBeamSize{1, kMostBeams};
inline constexpr Bounds<double> kTemperature{0, 100};
inline constexpr Bounds<double> kProbability{0, 1};
inline constexpr Bounds<uint32_t> kTopK{0, std::numeric_limits<int32_t>::max()};  // 0: all tokens
inline constexpr Bounds<double> kRepetitionPenalty{0.01, 100};

// Speech
inline constexpr Bounds<uint32_t> kBatchSize{1, 64};
inline constexpr Bounds<uint32_t> kBestOf{1, 64};
inline constexpr Bounds<double> kPatience{0.01, kMostPatience};
inline constexpr Bounds<double> kLengthPenalty{0, 1};                   // as openai-whisper checks
inline constexpr Bounds<uint32_t> kLanguageDetectionSegments{1, 1000};  // windows of 30 s
inline constexpr Bounds<double> kMaxInitialTimestamp{0, 30};            // seconds of a window
inline constexpr Bounds<uint32_t> kMaxTokens{1, 448};                   // Whisper's text context
inline constexpr Bounds<uint32_t> kNoRepeatNgramSize{0, 448};
inline constexpr Bounds<uint32_t> kMaxSegmentLength{1, 1000};    // characters
inline constexpr Bounds<double> kHallucinationSilence{0, 3600};  // seconds
inline constexpr Bounds<double> kVadThreshold{0.01, 0.99};       // probability
inline constexpr Bounds<double> kVadDuration{0, 3600e3};         // milliseconds
inline constexpr Bounds<double> kVadMaxSpeech{1, std::numeric_limits<double>::infinity()};  // s
inline constexpr Bounds<double> kStreamStep{0.2, 20};  // seconds

// Text
inline constexpr Bounds<uint32_t> kSlots{1, 1024};
inline constexpr Bounds<uint32_t> kContext{2, 1u << 24};        // tokens
inline constexpr Bounds<double> kTextLengthPenalty{-100, 100};  // above 0: long texts
inline constexpr Bounds<double> kPenalty{-100, 100};            // of logits
inline constexpr Bounds<uint32_t> kTopLogprobs{0, 1000};
inline constexpr Bounds<uint32_t> kPenaltyWindow{0, std::numeric_limits<int32_t>::max()};
inline constexpr Bounds<uint32_t> kAnswerTokens{1, std::numeric_limits<int32_t>::max()};

// Embeddings
inline constexpr Bounds<uint32_t> kBatchTokens{1, 1u << 20};

}  // namespace vesper::bounds
