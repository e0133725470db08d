#include "audio/sources/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>

#include "audio/samples.h"
#include "error/error.h"
#include "tests/audio/made_recordings.h"

namespace vesper::reader_test {
namespace {

using testing::HasSubstr;

std::vector<float> read_all(AudioReader reader, size_t block = 1000) {
  std::vector<float> samples;
  while (true) {
    const size_t before = samples.size();
    samples.resize(before + block);
    const size_t got = reader.read(samples.data() + before, block);
    samples.resize(before + got);
    if (got < block) return samples;
  }
}

// The error of reading `path` to its end, "" without one.
std::string complaint_about(const std::string& path, ReaderOptions options = {}) {
  try {
    read_all(AudioReader(path, options));
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    return e.what();
  }
  return "";
}

struct Format {
  const char* name;
  int format;
  float tolerance;  // of a sample
};

TEST(AudioReader, ReadsEveryLosslessFormat) {
  const TemporaryFolder folder;
  const Format formats[] = {
      {"8.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_U8, 1.0f / 128},
      {"16.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1.0f / 32768},
      {"24.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_24, 2e-7f},
      {"32.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_32, 2e-7f},
      {"f32.wav", SF_FORMAT_WAV | SF_FORMAT_FLOAT, 0.0f},
      {"f64.wav", SF_FORMAT_WAV | SF_FORMAT_DOUBLE, 0.0f},
      {"extensible.wav", SF_FORMAT_WAVEX | SF_FORMAT_PCM_16, 1.0f / 32768},
      {"rf64.wav", SF_FORMAT_RF64 | SF_FORMAT_PCM_16, 1.0f / 32768},
      {"ulaw.wav", SF_FORMAT_WAV | SF_FORMAT_ULAW, 0.02f},
      {"16.aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_16, 1.0f / 32768},
      {"24.aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_24, 2e-7f},
      {"16.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 1.0f / 32768},
      {"24.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_24, 2e-7f},
      {"16.au", SF_FORMAT_AU | SF_FORMAT_PCM_16, 1.0f / 32768},
      {"16.caf", SF_FORMAT_CAF | SF_FORMAT_PCM_16, 1.0f / 32768},
  };
  const std::vector<float> samples = tone(440, 0.5, 12345, 22050);
  for (const Format& f : formats) {
    const std::string path = folder.file(f.name);
    write_with_sndfile(path, f.format, 1, 22050, samples);
    const std::string bytes = bytes_of(path);
    const std::span<const uint8_t> memory(reinterpret_cast<const uint8_t*>(bytes.data()),
                                          bytes.size());
    AudioReader reader(path);
    EXPECT_EQ(reader.sample_rate_hz(), 22050) << f.name;
    EXPECT_EQ(reader.channels(), 1) << f.name;
    EXPECT_EQ(reader.frames_if_known(), 12345u) << f.name;
    const std::vector<float> read = read_all(std::move(reader));
    ASSERT_EQ(read.size(), samples.size()) << f.name;
    for (size_t i = 0; i < samples.size(); ++i) {
      ASSERT_NEAR(read[i], samples[i], f.tolerance) << f.name << ", sample " << i;
    }
    // The same through a pipe and from memory, with any decoder.
    const PipeOf pipe(bytes, 5000);
    EXPECT_EQ(read_all(AudioReader::from_stream(pipe.fd(), "pipe")), read) << f.name;
    EXPECT_EQ(read_all(AudioReader::from_memory(memory, "memory")), read) << f.name;
  }
}

TEST(AudioReader, ReadsEveryLossyFormat) {
  const TemporaryFolder folder;
  const Format formats[] = {
      {"vorbis.ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS, 0},
      {"opus.ogg", SF_FORMAT_OGG | SF_FORMAT_OPUS, 0},
      {"mp3.mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, 0},
  };
  const std::vector<float> samples = tone(440, 0.5, 48000, 48000);
  for (const Format& f : formats) {
    const std::string path = folder.file(f.name);
    write_with_sndfile(path, f.format, 1, 48000, samples);
    const std::vector<float> read = read_all(AudioReader(path));
    ASSERT_NEAR(static_cast<double>(read.size()), 48000.0, 3000.0) << f.name;
    // Decoders may add a delay: checks only the frequency and amplitude.
    double sine = 0.0, cosine = 0.0;
    for (size_t i = 10000; i < 10000 + 24000; ++i) {
      const double phase = 2.0 * M_PI * 440.0 * static_cast<double>(i) / 48000.0;
      sine += read[i] * std::sin(phase) / 12000.0;
      cosine += read[i] * std::cos(phase) / 12000.0;
    }
    EXPECT_NEAR(std::hypot(sine, cosine), 0.5, 0.02) << f.name;
    const PipeOf pipe(bytes_of(path), 3000);
    EXPECT_EQ(read_all(AudioReader::from_stream(pipe.fd(), "pipe")), read) << f.name;
  }
}

TEST(AudioReader, MixesChannelsToTheirMean) {
  const TemporaryFolder folder;
  for (const int channels : {2, 3, 6, 8}) {
    const std::vector<float> interleaved = noise(0.9f, 5000 * static_cast<size_t>(channels), 21);
    const std::string path = folder.file("many.wav");
    write_with_sndfile(path, SF_FORMAT_WAVEX | SF_FORMAT_FLOAT, channels, 48000, interleaved);
    AudioReader reader(path);
    EXPECT_EQ(reader.channels(), channels);
    const std::vector<float> mono = read_all(std::move(reader));
    ASSERT_EQ(mono.size(), 5000u);
    for (size_t i = 0; i < mono.size(); ++i) {
      double mean = 0.0;
      for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
        mean += interleaved[i * static_cast<size_t>(channels) + c] / channels;
      }
      ASSERT_NEAR(mono[i], mean, 1e-6) << "frame " << i << " of " << channels << " channels";
    }
  }
}

TEST(AudioReader, DoesNotDependOnBlockSizes) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.flac");
  write_with_sndfile(path, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 2, 44100, noise(0.5f, 20000, 3));
  const std::vector<float> whole = read_all(AudioReader(path), 100000);
  EXPECT_EQ(whole.size(), 10000u);
  EXPECT_EQ(read_all(AudioReader(path), 7), whole);
  EXPECT_EQ(read_all(AudioReader(path), 4096), whole);
}

TEST(AudioReader, ReportsInvalidPaths) {
  const TemporaryFolder folder;
  EXPECT_THAT(complaint_about(folder.file("absent.wav")),
              AllOf(HasSubstr("absent.wav"), HasSubstr("No such file")));
  EXPECT_THAT(complaint_about(folder.path().string()), HasSubstr("is a directory"));
  write_bytes(folder.file("empty.wav"), "");
  EXPECT_THAT(complaint_about(folder.file("empty.wav")), HasSubstr("is empty"));
  write_bytes(folder.file("text.txt"), "These are words and no sound.\n");
  EXPECT_THAT(complaint_about(folder.file("text.txt"), {.use_ffmpeg = false}),
              AllOf(HasSubstr("text.txt"), HasSubstr("libsndfile")));
  EXPECT_THAT(complaint_about(std::string("a\0b", 3)), HasSubstr("zero byte"));
  EXPECT_THAT(complaint_about(""), HasSubstr("No such file"));
}

TEST(AudioReader, RefusesARecordingWithoutSamples) {
  const TemporaryFolder folder;
  write_bytes(folder.file("none.wav"), wav_bytes({}, 1, 16000));
  EXPECT_THAT(complaint_about(folder.file("none.wav")), HasSubstr("no audio sample"));
  const PipeOf pipe(wav_bytes({}, 1, 16000), 10);
  EXPECT_THROW(AudioReader::from_stream(pipe.fd(), "pipe"), Error);
}

TEST(AudioReader, RefusesInvalidRatesAndChannels) {
  const TemporaryFolder folder;
  const std::vector<int16_t> samples(3000, 100);
  write_bytes(folder.file("slow.wav"), wav_bytes(samples, 1, 999));
  EXPECT_THAT(complaint_about(folder.file("slow.wav")),
              AllOf(HasSubstr("999 samples a second"), HasSubstr("expected 1000 to 768000")));
  write_bytes(folder.file("fast.wav"), wav_bytes(samples, 1, 768001));
  EXPECT_THAT(complaint_about(folder.file("fast.wav")), HasSubstr("768001"));
  write_bytes(folder.file("wide.wav"), wav_bytes(samples, 300, 16000));
  EXPECT_THAT(complaint_about(folder.file("wide.wav")), HasSubstr("300 channels"));
}

TEST(AudioReader, RefusesNaNAndInfinityWithTheirTime) {
  const TemporaryFolder folder;
  const std::string path = folder.file("nan.wav");
  for (const float bad : {NAN, INFINITY, -INFINITY, 1e30f}) {
    std::vector<float> samples(8000, 0.1f);
    samples[4000] = bad;
    write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, 1, 8000, samples);
    EXPECT_THAT(complaint_about(path), AllOf(HasSubstr("not a number"), HasSubstr("0.5"))) << bad;
  }
}

TEST(AudioReader, ReportsATruncatedRecording) {
  const TemporaryFolder folder;
  const std::string wav = wav_bytes(std::vector<int16_t>(16000, 77), 1, 16000);
  write_bytes(folder.file("cut.wav"), wav.substr(0, 44 + 8000));
  EXPECT_THAT(complaint_about(folder.file("cut.wav")),
              AllOf(HasSubstr("cut off"), HasSubstr("promises 1 s"), HasSubstr("0.25 s")));
  const PipeOf pipe(wav.substr(0, 44 + 8000), 100);
  EXPECT_THROW(read_all(AudioReader::from_stream(pipe.fd(), "pipe")), Error);

  const std::string path = folder.file("whole.flac");
  write_with_sndfile(path, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 1, 16000, noise(0.5f, 48000, 2));
  const std::string flac = bytes_of(path);
  write_bytes(folder.file("cut.flac"), flac.substr(0, flac.size() / 2));
  EXPECT_THAT(complaint_about(folder.file("cut.flac")),
              AnyOf(HasSubstr("cut off"), HasSubstr("damaged")));
}

TEST(AudioReader, ReadsAFileWithAnIncompleteHeader) {
  const TemporaryFolder folder;
  const std::vector<int16_t> samples(5000, 123);
  for (const uint32_t stated : {0x7FFFFFFFu, 0xFFFFFFFFu, 0x80000000u, 0x7FFFFFDAu, 0u}) {
    const std::string bytes = wav_bytes(samples, 1, 16000, stated);
    write_bytes(folder.file("open.wav"), bytes);
    EXPECT_EQ(read_all(AudioReader(folder.file("open.wav"))).size(), 5000u) << stated;
    const PipeOf pipe(bytes, 1000);
    AudioReader reader = AudioReader::from_stream(pipe.fd(), "pipe");
    EXPECT_FALSE(reader.frames_if_known()) << stated;
    EXPECT_EQ(read_all(std::move(reader)).size(), 5000u) << stated;
  }
}

TEST(AudioReader, IgnoresChunksAfterTheSamples) {
  const TemporaryFolder folder;
  const std::string bytes = wav_bytes(std::vector<int16_t>(500, 123), 1, 16000) +
                            "LIST\x08\0\0\0 words  " + std::string(100, 'x');
  write_bytes(folder.file("tagged.wav"), bytes);
  EXPECT_EQ(read_all(AudioReader(folder.file("tagged.wav"))).size(), 500u);
  const PipeOf pipe(bytes, 30);
  EXPECT_EQ(read_all(AudioReader::from_stream(pipe.fd(), "pipe")).size(), 500u);
}

TEST(Recording, IsResampledTo16Kilohertz) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.wav");
  for (const int rate : {8000, 16000, 44100, 48000}) {
    write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, rate,
                       tone(440, 0.5, static_cast<size_t>(rate) * 3, rate));
    const std::vector<float> samples = read_samples(path);
    ASSERT_EQ(samples.size(), 48000u) << rate;
    const std::vector<float> expected = tone(440, 0.5, 48000, 16000);
    for (size_t i = 4000; i < 44000; ++i) ASSERT_NEAR(samples[i], expected[i], 1e-4) << rate;

    const MelSpectrogram mel = read_log_mel(AudioReader(path), 80);
    MelSpectrogram same(80);
    same.push(samples.data(), samples.size());
    same.finish();
    ASSERT_EQ(mel.content_frames(), 300u);
    std::vector<float> rows(300 * 80), same_rows(300 * 80);
    mel.log_mel(0, 300, rows.data());
    same.log_mel(0, 300, same_rows.data());
    EXPECT_EQ(rows, same_rows) << rate;
  }
}

TEST(Recording, ReportsItsProgressUpToOne) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.wav");
  constexpr size_t kSamples = 3 * SampleReader::kBlockFrames + 1000;
  write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 16000, noise(0.1f, kSamples, 1));
  std::vector<double> progress;
  read_log_mel(AudioReader(path), 80, {}, [&](double p) { progress.push_back(p); });
  EXPECT_GT(progress.size(), 3u);
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_EQ(progress.back(), 1.0);
}

std::vector<float> rest_of(SampleReader& reader) {
  std::vector<float> samples;
  for (auto block = reader.next(); !block.empty(); block = reader.next()) {
    samples.insert(samples.end(), block.begin(), block.end());
  }
  return samples;
}

TEST(SampleReader, ReadsTheSameAhead) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.wav");
  write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 44100, noise(0.1f, 100000, 1));
  SampleReader reader(AudioReader(path), 4096);
  reader.read_ahead();
  SampleReader moved = std::move(reader);
  EXPECT_EQ(rest_of(moved), read_samples(path));
  EXPECT_EQ(moved.progress(), 1.0);
  EXPECT_TRUE(moved.next().empty()) << "again at the end";
}

TEST(SampleReader, ReadsAheadFromTheNextBlock) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.wav");
  write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 16000, noise(0.1f, 20000, 1));
  SampleReader reader(AudioReader(path), 4096);
  const auto block = reader.next();
  std::vector<float> samples(block.begin(), block.end());
  reader.read_ahead();
  const std::vector<float> rest = rest_of(reader);
  samples.insert(samples.end(), rest.begin(), rest.end());
  EXPECT_EQ(samples, read_samples(path));
}

TEST(SampleReader, FailsAheadAfterTheSamplesBeforeTheFault) {
  std::string bytes = wav_bytes(std::vector<int16_t>(20000, 1000), 1, 16000);
  bytes.resize(bytes.size() - 10000);
  const TemporaryFolder folder;
  write_bytes(folder.file("a.wav"), bytes);
  SampleReader reader(AudioReader(folder.file("a.wav")), 4096);
  reader.read_ahead();
  size_t n_samples = 0;
  const auto read_all = [&] {
    for (auto block = reader.next(); !block.empty(); block = reader.next()) {
      n_samples += block.size();
    }
  };
  EXPECT_THROW(read_all(), Error);
  EXPECT_EQ(n_samples, 3 * 4096u);
}

TEST(SampleReader, MayBeAbandonedWhileItReadsAhead) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.wav");
  write_with_sndfile(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 16000, noise(0.1f, 200000, 1));
  SampleReader reader(AudioReader(path), 64);
  reader.read_ahead();
}

}  // namespace
}  // namespace vesper::reader_test
