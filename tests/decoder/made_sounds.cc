#include "tests/decoder/made_sounds.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace vesper {
namespace {

constexpr double kRate = 16000, kTurn = 6.283185307179586;
using Samples = std::vector<float>;

// The same numbers for a seed on every machine, unlike the distributions of <random>.
class Chance {
 public:
  explicit Chance(uint32_t seed) : engine_(seed) {}
  double between(double low, double high) { return low + (high - low) * engine_() / 4294967296.0; }
  size_t below(size_t n) { return static_cast<size_t>(between(0, static_cast<double>(n))); }

 private:
  std::mt19937 engine_;
};

Samples with_maximum_1(Samples samples) {
  float loudest = 1e-9f;
  for (const float x : samples) loudest = std::max(loudest, std::abs(x));
  for (float& x : samples) x /= loudest;
  return samples;
}

template <class OfTime>
Samples of_time(size_t n, const OfTime& value) {
  Samples samples(n);
  for (size_t i = 0; i < n; ++i) {
    samples[i] = static_cast<float>(value(static_cast<double>(i) / kRate));
  }
  return samples;
}

// Adds `length` samples of value(seconds since `begin`) at `begin`, limited to the end.
template <class OfTime>
void add(Samples& samples, size_t begin, size_t length, const OfTime& value) {
  for (size_t i = 0; i < length && begin + i < samples.size(); ++i) {
    samples[begin + i] += static_cast<float>(value(static_cast<double>(i) / kRate));
  }
}

Samples hum(size_t n, uint32_t seed) {
  Chance chance(seed);
  const double mains = chance.between(0, 1) < 0.5 ? 50 : 60;
  return of_time(n, [&](double t) {
    double sum = 0;
    for (const int k : {1, 2, 3, 5, 7}) sum += std::sin(kTurn * mains * k * t + k * seed) / k;
    return sum;
  });
}

Samples clicks(size_t n, uint32_t seed) {
  Chance chance(seed);
  Samples samples(n);
  for (size_t i = 0; i < n / 8000; ++i) {
    add(samples, chance.below(n), 8, [&](double) { return chance.between(-1, 1); });
  }
  return samples;
}

// Up and down between 200 and 1000 Hz.
Samples sweeps(size_t n, uint32_t seed) {
  const double period_s = 1.2 + 0.1 * (seed % 5);
  double phase = 0;
  return of_time(n, [&](double t) {
    const double x = std::fmod(t, period_s) / period_s;
    phase += (200 + 800 * (x < 0.5 ? 2 * x : 2 - 2 * x)) / kRate;
    return std::sin(kTurn * phase);
  });
}

Samples applause(size_t n, uint32_t seed) {
  Chance chance(seed);
  Samples samples(n);
  for (size_t i = 0; i < n / 130; ++i) {
    const double loudness = chance.between(0.2, 1);
    add(samples, chance.below(n), 800,
        [&](double t) { return loudness * chance.between(-1, 1) * std::exp(-t / 0.008); });
  }
  return samples;
}

// Equal power in every octave: the sum of noises that change at halving rates (Voss).
Samples pink_noise(size_t n, uint32_t seed) {
  Chance chance(seed);
  std::vector<double> rows(14, 0);
  Samples samples(n);
  for (size_t i = 0; i < n; ++i) {
    double sum = chance.between(-1, 1);
    for (size_t k = 0; k < rows.size(); ++k) {
      if (i % (size_t{1} << k) == 0) rows[k] = chance.between(-1, 1);
      sum += rows[k];
    }
    samples[i] = static_cast<float>(sum);
  }
  return samples;
}

Samples rain(size_t n, uint32_t seed) {
  Chance chance(seed);
  Samples samples = pink_noise(n, seed + 1);
  for (float& x : samples) x *= 0.03f;
  for (size_t i = 0; i < n / 53; ++i) {
    const double hz = chance.between(1500, 6000), loudness = chance.between(0, 0.4);
    add(samples, chance.below(n), 300,
        [&](double t) { return loudness * std::exp(-t / 0.004) * std::sin(kTurn * hz * t); });
  }
  return samples;
}

Samples telephone(size_t n, uint32_t seed) {
  const double on_s = seed % 2 == 0 ? 1e9 : 0.5;  // dial tone, or busy
  return of_time(n, [&](double t) {
    return std::fmod(t, 1) < on_s ? std::sin(kTurn * 350 * t) + std::sin(kTurn * 440 * t) : 0;
  });
}

Samples chords(size_t n, uint32_t seed) {
  constexpr int kChords[4][3] = {{0, 4, 7}, {9, 12, 16}, {5, 9, 12}, {7, 11, 14}};
  Samples samples(n);
  const size_t length = 16000;
  for (size_t i = 0; i * length < n; ++i) {
    for (const int note : kChords[(i + seed) % 4]) {
      const double hz = 220 * std::pow(2, note / 12.0);
      add(samples, i * length, length, [&](double t) {
        double sum = 0;
        for (int k = 1; k < 6; ++k) sum += std::sin(kTurn * hz * k * t + note) / std::pow(k, 1.5);
        return sum * std::min(1.0, t / 0.01) * std::exp(-t / 0.6);
      });
    }
  }
  return samples;
}

Samples beeps(size_t n, uint32_t seed) {
  const double hz = 800 + 100 * (seed % 5);
  return of_time(n, [&](double t) { return std::fmod(t, 2) < 0.2 ? std::sin(kTurn * hz * t) : 0; });
}

Samples engine(size_t n, uint32_t seed) {
  Chance chance(seed);
  std::vector<double> loudness;
  for (int k = 1; k < 20; ++k) loudness.push_back(chance.between(0.2, 1) / std::pow(k, 0.7));
  const Samples rumble = pink_noise(n, seed + 1);
  double phase = 0;
  Samples samples = of_time(n, [&](double t) {
    phase += 30 * (1 + 0.1 * std::sin(kTurn * 0.2 * t)) / kRate;
    double sum = 0;
    for (size_t k = 0; k < loudness.size(); ++k) {
      sum += loudness[k] *
             std::sin(kTurn * phase * static_cast<double>(k + 1) + static_cast<double>(k * k));
    }
    return sum;
  });
  for (size_t i = 0; i < n; ++i) samples[i] += 0.1f * rumble[i];
  return samples;
}

}  // namespace

const std::vector<MadeSound>& made_sounds() {
  static const std::vector<MadeSound> sounds = [] {
    std::vector<MadeSound> all = {{"hum", hum},
                                  {"clicks", clicks},
                                  {"sweeps", sweeps},
                                  {"applause", applause},
                                  {"pink noise", pink_noise},
                                  {"rain", rain},
                                  {"telephone", telephone},
                                  {"chords", chords},
                                  {"beeps", beeps},
                                  {"engine", engine}};
    for (MadeSound& sound : all) {
      sound.make = [make = sound.make](size_t n, uint32_t seed) {
        return with_maximum_1(make(n, seed));
      };
    }
    return all;
  }();
  return sounds;
}

}  // namespace vesper
