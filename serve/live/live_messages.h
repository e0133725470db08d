// The messages of a live stream: JSON texts from and to the client. docs/serve.md lists them.
#pragma once

#include <exception>
#include <span>
#include <string>
#include <string_view>

#include "decoder/transcript/transcript.h"
#include "decoder/windows/live/live_captions.h"
#include "serve/live/live_decoder.h"

namespace vesper {

// The first message of a client. Throws ApiError(400) that names what is wrong.
LiveTurnSettings parse_live_start(std::string_view text);
// Whether a later message says that no audio follows; throws ApiError(400) for any other.
void check_live_end(std::string_view text);

std::string live_ready(const std::string& model);
// `type`: "final" or "partial".
std::string live_words(std::string_view type, std::span<const CaptionWord> words,
                       double received_s);
std::string live_done(const Transcript& transcript);
std::string live_error(const std::exception& error);

}  // namespace vesper
