// What `transcribe` says of its options.
#pragma once

#include <string>

namespace vesper {

// --help: what most people need, on one screen.
std::string transcribe_help();

// --help-all: the same, and every other option by topic.
std::string transcribe_help_all();

}  // namespace vesper
