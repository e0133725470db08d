#include "decoder/windows/loudness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace vesper::loudness_test {
namespace {

// Alternating uneven sound and quiet, for the given numbers of frames.
std::vector<float> sound_and_quiet(std::initializer_list<int> frames) {
  std::vector<float> loudness;
  bool is_sound = true;
  for (const int n : frames) {
    for (int i = 0; i < n; ++i) {
      loudness.push_back(is_sound ? 0.5f * std::sin(0.7f * static_cast<float>(i)) : -3.0f);
    }
    is_sound = !is_sound;
  }
  return loudness;
}

TEST(QuietFrames, AreQuietRelativeToTheirNeighbours) {
  std::vector<float> loudness = sound_and_quiet({200, 100, 200});
  const std::vector<bool> is_quiet = quiet_frames(loudness);
  for (size_t i = 0; i < loudness.size(); ++i) EXPECT_EQ(is_quiet[i], i >= 200 && i < 300) << i;
  // A pause that fills its block of 1000 frames, after sound in the block before.
  EXPECT_TRUE(quiet_frames(sound_and_quiet({1000, 200}))[1100]);
  // A quiet speaker after a loud one, far enough apart.
  for (int i = 0; i < 5000; ++i) loudness.push_back(-3);
  for (const float value : sound_and_quiet({200, 100})) loudness.push_back(value - 2.0f);
  EXPECT_FALSE(quiet_frames(loudness)[5600]);
  EXPECT_TRUE(quiet_frames(loudness)[5799]);
}

TEST(EndOfSound, IsTheEndOfTheLastSound) {
  EXPECT_EQ(end_of_sound(sound_and_quiet({200, 100, 150, 80})), 450u);
  EXPECT_EQ(end_of_sound(sound_and_quiet({200, 100, 150})), 450u);
  EXPECT_EQ(end_of_sound(sound_and_quiet({200, 100, 5, 60})), 200u) << "a click";
}

TEST(EndOfSound, IsUnknownForUniformLoudness) {
  std::vector<float> noise;
  for (int i = 0; i < 500; ++i) noise.push_back(0.2f * std::sin(1.3f * static_cast<float>(i * i)));
  EXPECT_EQ(end_of_sound(noise), 0u);
  EXPECT_EQ(end_of_sound(std::vector<float>(500, -10.0f)), 0u);
  EXPECT_EQ(end_of_sound({}), 0u);
}

}  // namespace
}  // namespace vesper::loudness_test
