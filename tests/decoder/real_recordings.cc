#include "tests/decoder/real_recordings.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

#include "audio/samples.h"
#include "tests/fetched_model.h"

namespace vesper {

std::string librivox_sentence(const std::string& number) {
  return "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-" +
         number + ".wav";
}

std::vector<float> samples_of(const std::string& path, size_t seconds) {
  std::vector<float> samples = read_samples(path);
  samples.resize(std::min(samples.size(), seconds * 16000));
  return samples;
}

std::unique_ptr<SpeechSession> real_session(const std::string& name) {
  return std::make_unique<SpeechSession>(fetched_model(name),
                                         SpeechSessionOptions{.device = "cpu"});
}

std::vector<std::string> spoken_words(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    std::erase_if(word, [](char c) { return std::ispunct(static_cast<unsigned char>(c)); });
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

size_t word_differences(const std::string& a, const std::string& b) {
  const std::vector<std::string> from = spoken_words(a), to = spoken_words(b);
  std::vector<size_t> row(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t replaced = diagonal + (from[i - 1] != to[j - 1]);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

}  // namespace vesper
