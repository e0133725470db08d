// Sounds without speech, generated from formulas and a seed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vesper {

struct MadeSound {
  std::string name;
  // [n] samples at 16 kHz with a maximum of 1.
  std::function<std::vector<float>(size_t n, uint32_t seed)> make;
};

// Hum, clicks, sweeps, applause, pink noise, rain, a telephone tone, chords, beeps, an engine.
const std::vector<MadeSound>& made_sounds();

}  // namespace vesper
