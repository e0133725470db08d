#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "audio/samples.h"
#include "audio/sources/byte_stream.h"
#include "audio/sources/reader.h"
#include "audio/sources/sample_source.h"
#include "error/error.h"
#include "tests/audio/made_recordings.h"

namespace vesper::stream_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<float> expected_samples(const std::vector<int16_t>& samples) {
  std::vector<float> expected;
  for (const int16_t s : samples) expected.push_back(static_cast<float>(s) / 32768.0f);
  return expected;
}

std::vector<int16_t> ramp(size_t n) {
  std::vector<int16_t> samples(n);
  for (size_t i = 0; i < n; ++i) samples[i] = static_cast<int16_t>(i * 7919 % 65536 - 32768);
  return samples;
}

// Replaces standard input during a scope.
class ScopedStdin {
 public:
  explicit ScopedStdin(int fd) : saved_(::dup(STDIN_FILENO)) { ::dup2(fd, STDIN_FILENO); }
  ~ScopedStdin() {
    ::dup2(saved_, STDIN_FILENO);
    ::close(saved_);
  }

 private:
  int saved_;
};

TEST(StandardInput, StreamsAWavOfUnknownLength) {
  const std::vector<int16_t> samples = ramp(100000);
  const PipeOf pipe(wav_bytes(samples, 1, 16000, 0x7FFFFFFF), 777);
  const ScopedStdin redirected(pipe.fd());
  EXPECT_EQ(read_samples("-"), expected_samples(samples));
}

TEST(StandardInput, StreamsAWavWithAChunkOfOddSize) {
  const std::vector<int16_t> samples = ramp(1000);
  std::string wav = wav_bytes(samples, 1, 16000);
  const std::string odd("LIST\3\0\0\0abc\0", 12);  // with a pad byte
  wav.insert(wav.find("data"), odd);
  const TemporaryFolder folder;
  const ScopedEnvironment tmpdir("TMPDIR", folder.file("absent"));  // spooling would fail
  const PipeOf pipe(wav, 777);
  const ScopedStdin redirected(pipe.fd());
  EXPECT_EQ(read_samples("-"), expected_samples(samples));
}

TEST(StandardInput, StreamsRf64UpToItsLength) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rf64.wav");
  write_with_sndfile(path, SF_FORMAT_RF64 | SF_FORMAT_FLOAT, 1, 16000, noise(0.5f, 5000, 4));
  std::string bytes = bytes_of(path);
  bytes += std::string("LIST\4\0\0\0abcd", 12);  // is not audio
  const PipeOf pipe(bytes, 1000);
  const ScopedStdin redirected(pipe.fd());
  EXPECT_EQ(read_samples("-"), noise(0.5f, 5000, 4));
}

TEST(StandardInput, GivesSamplesWhileTheWriterRuns) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string wav = wav_bytes(ramp(2000), 1, 16000, 0xFFFFFFFF);
  ASSERT_EQ(::write(ends[1], wav.data(), wav.size()), static_cast<ssize_t>(wav.size()));
  AudioReader reader = AudioReader::from_stream(ends[0], "pipe");
  std::vector<float> samples(1000);
  EXPECT_EQ(reader.read(samples.data(), 1000), 1000u);  // would block if it waited for the end
  ::close(ends[1]);
  EXPECT_EQ(reader.read(samples.data(), 1000), 1000u);
  EXPECT_EQ(reader.read(samples.data(), 1000), 0u);
  ::close(ends[0]);
}

TEST(StandardInput, SpoolsFlacWithoutLeavingFiles) {
  const TemporaryFolder folder, spool;
  const ScopedEnvironment tmpdir("TMPDIR", spool.path().string());
  const std::string path = folder.file("a.flac");
  write_with_sndfile(path, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 1, 16000, noise(0.5f, 50000, 4));
  const PipeOf pipe(bytes_of(path), 1000);
  const ScopedStdin redirected(pipe.fd());
  AudioReader reader("-");
  EXPECT_EQ(reader.name(), "standard input");
  EXPECT_TRUE(std::filesystem::is_empty(spool.path()));
  EXPECT_EQ(read_samples(std::move(reader)), read_samples(path));
}

TEST(ByteStream, KeepsNothingOfWhatIsSpooled) {
  const TemporaryFolder spool;
  const ScopedEnvironment tmpdir("TMPDIR", spool.path().string());
  const std::string text = "fLaC and much more";
  ByteStream stream =
      stream_of(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
  uint8_t head[6];
  EXPECT_EQ(stream.read(head, sizeof head), sizeof head);
  stream.rewind();
  const UniqueFd file = spool_to_unlinked_file(stream, "it");
  std::string spooled(100, '\0');
  spooled.resize(static_cast<size_t>(::read(file.get(), spooled.data(), spooled.size())));
  EXPECT_EQ(spooled, text);
  EXPECT_EQ(stream.head_size(), 0u);
}

TEST(StandardInput, IsReadDirectlyIfItIsAFile) {
  const TemporaryFolder folder;
  const ScopedEnvironment tmpdir("TMPDIR", folder.file("absent"));  // spooling would fail
  const std::string path = folder.file("a.flac");
  write_with_sndfile(path, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 1, 16000, noise(0.5f, 50000, 4));
  const int fd = ::open(path.c_str(), O_RDONLY);
  const ScopedStdin redirected(fd);
  EXPECT_EQ(read_samples("-"), read_samples(path));
  ::close(fd);
}

TEST(StandardInput, ReportsAFullDiskWhileSpooling) {
  const TemporaryFolder folder;
  const ScopedEnvironment tmpdir("TMPDIR", folder.file("absent"));
  const PipeOf pipe("fLaC and no more", 100);
  try {
    AudioReader::from_stream(pipe.fd(), "standard input");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("standard input"), HasSubstr("temporary file")));
  }
}

TEST(StandardInput, IsAnErrorIfEmpty) {
  const PipeOf pipe("", 1);
  try {
    AudioReader::from_stream(pipe.fd(), "standard input");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("standard input: it is empty"));
  }
}

TEST(NamedPipe, IsReadAsAStream) {
  const TemporaryFolder folder;
  const std::string path = folder.file("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const std::vector<int16_t> samples = ramp(50000);
  std::thread writer([&] { write_bytes(path, wav_bytes(samples, 1, 16000, 0)); });
  EXPECT_EQ(read_samples(path), expected_samples(samples));
  writer.join();
}

// A folder with a program ffmpeg that runs `script`.
class FakeFfmpeg {
 public:
  explicit FakeFfmpeg(const std::string& script) : path_("PATH", folder_.path().string()) {
    write_bytes(folder_.file("ffmpeg"), "#!/bin/sh\n" + script);
    ::chmod(folder_.file("ffmpeg").c_str(), 0700);
    write_bytes(folder_.file("input.m4a"), "no format that libsndfile knows");
  }
  std::string file(const std::string& name) const { return folder_.file(name); }
  std::string input() const { return file("input.m4a"); }

 private:
  TemporaryFolder folder_;
  ScopedEnvironment path_;
};

std::string complaint_about(const std::string& path) {
  try {
    read_samples(path);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInput);
    EXPECT_THAT(e.what(), Not(HasSubstr("\n")));
    return e.what();
  }
  return "";
}

TEST(Ffmpeg, DecodesFormatsThatLibsndfileCannotRead) {
  const std::vector<int16_t> samples = ramp(30000);
  FakeFfmpeg fake("exec /bin/cat \"${0%/*}/decoded.wav\"\n");
  write_bytes(fake.file("decoded.wav"), wav_bytes(samples, 1, 16000, 0xFFFFFFFF));
  EXPECT_EQ(read_samples(fake.input()), expected_samples(samples));
}

TEST(Ffmpeg, GetsAnyNameAsAFileName) {
  FakeFfmpeg fake("echo \"$@\" >\"${0%/*}/arguments\"; exec /bin/cat \"${0%/*}/decoded.wav\"\n");
  write_bytes(fake.file("decoded.wav"), wav_bytes(ramp(100), 1, 16000));
  std::filesystem::rename(fake.input(), fake.file("-i; rm 'x' .m4a"));
  read_samples(fake.file("-i; rm 'x' .m4a"));
  EXPECT_THAT(bytes_of(fake.file("arguments")),
              AllOf(HasSubstr("-i file:"), HasSubstr("-i; rm 'x' .m4a ")));
}

TEST(Ffmpeg, ReadsASpooledPipeFromItsBeginning) {
  FakeFfmpeg fake("/bin/cat /dev/fd/0 >\"${0%/*}/seen\"; exec /bin/cat \"${0%/*}/decoded.wav\"\n");
  write_bytes(fake.file("decoded.wav"), wav_bytes(ramp(100), 1, 16000));
  const std::string sent = "no format that anybody knows, " + std::string(100000, 'x');
  const PipeOf pipe(sent, 1000);
  AudioReader::from_stream(pipe.fd(), "pipe");
  EXPECT_EQ(bytes_of(fake.file("seen")), sent);
}

TEST(Ffmpeg, IsQuotedWithLibsndfileIfBothFail) {
  FakeFfmpeg fake("echo first >&2; echo 'moov atom not found' >&2; exit 3\n");
  EXPECT_THAT(complaint_about(fake.input()),
              AllOf(HasSubstr("input.m4a"), HasSubstr("status 3: moov atom not found"),
                    HasSubstr("libsndfile"), Not(HasSubstr("first"))));
}

TEST(Ffmpeg, IsAnErrorIfKilled) {
  FakeFfmpeg fake("/bin/cat \"${0%/*}/decoded.wav\"; kill -9 $$\n");
  write_bytes(fake.file("decoded.wav"), wav_bytes(ramp(30000), 1, 16000, 0xFFFFFFFF));
  EXPECT_THAT(complaint_about(fake.input()), HasSubstr("ended by signal 9"));
}

TEST(Ffmpeg, IsAnErrorIfItTakesTooLong) {
  const auto complaint = [](const std::string& path) -> std::string {
    try {
      AudioReader reader(path, {.max_decoding_s = 0.2});
      std::vector<float> samples(30000);
      reader.read(samples.data(), 30000);
      reader.read(samples.data(), 30000);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "no error";
  };
  const auto start = std::chrono::steady_clock::now();
  {
    const FakeFfmpeg fake("exec /bin/sleep 60\n");
    EXPECT_THAT(complaint(fake.input()), HasSubstr("longer than the limit of 0.2 s"));
  }
  {
    const FakeFfmpeg fake("/bin/cat \"${0%/*}/decoded.wav\"; exec /bin/sleep 60\n");
    write_bytes(fake.file("decoded.wav"), wav_bytes(ramp(30000), 1, 16000, 0xFFFFFFFF));
    EXPECT_THAT(complaint(fake.input()), HasSubstr("longer than the limit of 0.2 s"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(Ffmpeg, IsAnErrorIfItsOutputIsNotAudio) {
  FakeFfmpeg fake("echo this is no WAV at all and much longer than a header\n");
  EXPECT_THAT(complaint_about(fake.input()), HasSubstr("ffmpeg gave no audio"));
}

TEST(Ffmpeg, DoesNotBlockOnLongErrorOutput) {
  FakeFfmpeg fake(
      "i=0; while [ $i -lt 5000 ]; do echo \"a line of complaint number $i\" >&2; i=$((i+1)); "
      "done\n"
      "exec /bin/cat \"${0%/*}/decoded.wav\"\n");
  write_bytes(fake.file("decoded.wav"), wav_bytes(ramp(100), 1, 16000));
  EXPECT_EQ(read_samples(fake.input()).size(), 100u);
}

TEST(Ffmpeg, EndsWithItsReader) {
  FakeFfmpeg fake(
      "echo $$ >\"${0%/*}/pid\"; /bin/cat \"${0%/*}/decoded.wav\"; exec /bin/sleep 600\n");
  write_bytes(fake.file("decoded.wav"), wav_bytes(ramp(30000), 1, 16000, 0xFFFFFFFF));
  pid_t pid = 0;
  {
    AudioReader reader(fake.input());
    pid = std::stoi(bytes_of(fake.file("pid")));
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(Ffmpeg, IsReportedIfNotInstalled) {
  const TemporaryFolder folder;
  const ScopedEnvironment path("PATH", folder.path().string());
  write_bytes(folder.file("a.m4a"), "no format that libsndfile knows");
  EXPECT_THAT(complaint_about(folder.file("a.m4a")),
              AllOf(HasSubstr("libsndfile"), HasSubstr("ffmpeg"), HasSubstr("not on the PATH")));
}

TEST(Ffmpeg, IsReportedIfItCannotStart) {
  FakeFfmpeg fake("");
  write_bytes(fake.file("ffmpeg"), "#!/absent/interpreter\n");
  EXPECT_THAT(complaint_about(fake.input()), HasSubstr("cannot start ffmpeg"));
}

TEST(Ffmpeg, DecodesM4a) {
  const TemporaryFolder folder;
  write_with_sndfile(folder.file("a.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 2, 44100,
                     noise(0.3f, 2 * 44100, 6));
  const std::string make =
      "ffmpeg -nostdin -v quiet -i " + folder.file("a.wav") + " -c:a aac " + folder.file("a.m4a");
  ASSERT_EQ(std::system(make.c_str()), 0) << "scripts/setup.sh installs ffmpeg";
  AudioReader reader(folder.file("a.m4a"));
  EXPECT_EQ(reader.sample_rate_hz(), 44100);
  EXPECT_EQ(reader.channels(), 2);
  const std::vector<float> samples = read_samples(std::move(reader));
  EXPECT_NEAR(static_cast<double>(samples.size()), 16000.0, 1500.0);
  // m4a needs seeking, but also works through a pipe.
  const PipeOf pipe(bytes_of(folder.file("a.m4a")), 1000);
  EXPECT_EQ(read_samples(AudioReader::from_stream(pipe.fd(), "pipe")), samples);
}

// A recording from a stranger must not make ffmpeg read other files.
TEST(Ffmpeg, ReadsNoFileThatAPlaylistNames) {
  const TemporaryFolder folder;
  write_with_sndfile(folder.file("a.wav"), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1, 16000,
                     noise(0.3f, 16000, 6));
  const std::string secret = folder.file("secret.aac");
  const std::string make = "ffmpeg -nostdin -v quiet -i " + folder.file("a.wav") + " " + secret;
  ASSERT_EQ(std::system(make.c_str()), 0) << "scripts/setup.sh installs ffmpeg";
  const std::string playlists[] = {
      "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n" + secret + "\n#EXT-X-ENDLIST\n",
      "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:" + secret + "\n#EXT-X-ENDLIST\n",
      "ffconcat version 1.0\nfile '" + secret + "'\n", "ffconcat version 1.0\nfile secret.aac\n",
      "<?xml version=\"1.0\"?><MPD><Period><AdaptationSet mimeType=\"audio/mp4\">"
      "<Representation id=\"1\" bandwidth=\"1\"><BaseURL>file:" +
          secret +
          "</BaseURL>"
          "</Representation></AdaptationSet></Period></MPD>"};
  for (const std::string& playlist : playlists) {
    const std::string path = folder.file("list.m3u8");
    write_bytes(path, playlist);
    EXPECT_THAT(complaint_about(path), HasSubstr("ffmpeg")) << playlist;
    const UniqueFd file(::open(path.c_str(), O_RDONLY));
    EXPECT_THROW(AudioReader::from_stream(file.get(), "upload"), Error) << playlist;
  }
}

TEST(AudioReader, RefusesARecordingThatIsTooLong) {
  const TemporaryFolder folder;
  write_bytes(folder.file("a.wav"), wav_bytes(ramp(16000), 1, 16000));
  EXPECT_NO_THROW(AudioReader(folder.file("a.wav"), {.max_s = 1.0}));
  EXPECT_THROW(AudioReader(folder.file("a.wav"), {.max_s = 0.9}), Error);
  // A stream states no length: the error comes while it is read.
  const PipeOf pipe(wav_bytes(ramp(16000), 1, 16000, 0xFFFFFFFF), 1000);
  AudioReader reader = AudioReader::from_stream(pipe.fd(), "pipe", {.max_s = 0.9});
  EXPECT_THROW(read_samples(std::move(reader)), Error);
}

}  // namespace
}  // namespace vesper::stream_test
