// A recording of several windows compared with openai-whisper 20250625 (f32, CPU) on the same
// weights: the base model from scripts/fetch-models.sh on 70.8 s of speech from Debian's
// asterisk-core-sounds-fr-wav.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "session/speech/speech_session.h"
#include "tests/decoder/greedy_settings.h"
#include "tests/decoder/real_recordings.h"
#include "tests/fetched_model.h"

namespace vesper::long_recording_test {
namespace {

constexpr char kRecording[] = "/usr/share/asterisk/sounds/fr_CA_f_June/demo-instruct.wav";

struct Golden {
  double window_s, start_s, end_s;
  double avg_logprob;  // of the window
  const char* text;
};

// tests/reference/transcribe_with_openai_whisper.py base demo-instruct.wav language=fr
const std::vector<Golden>& golden() {
  static const std::vector<Golden> segments = {
      {0.00, 0.00, 3.82, -0.2811,
       " Si vous désirez avoir plus d'informations techniques à propos d'astéristques,"},
      {0.00, 3.82, 5.72, -0.2811, " appuyez sur deux maintenant."},
      {0.00, 5.72, 9.76, -0.2811,
       " Si vous préférez tester les capacités de voix sur IP d'astéristques,"},
      {0.00, 9.76, 16.00, -0.2811,
       " vous pouvez composer 500 pour essayer une démo IAX sur un serveur chez Digium."},
      {0.00, 16.00, 19.84, -0.2811,
       " Pour que ce test fonctionne, vous devez être connecté à l'internet"},
      {0.00, 19.84, 24.24, -0.2811, " et avoir au moins une connexion avec un modem 28.8 kB."},
      {0.00, 24.24, 27.74, -0.2811, " Pour effectuer un test des cours, composez 600."},
      {27.74, 27.84, 31.66, -0.2213,
       " Ce test est fort utile lorsque vous êtes connecté à ce serveur à stéristques"},
      {27.74, 31.66, 33.48, -0.2213, " à partir d'un autre endroit."},
      {27.74, 33.48, 38.84, -0.2213,
       " La configuration de base n'a qu'un se l'usager avec le poste 1, 2, 3, 4"},
      {27.74, 38.84, 41.50, -0.2213, " et le mot de passe 4, 2, 4, 2."},
      {27.74, 41.50, 46.04, -0.2213,
       " C'est usager et configurer pour faire sonner la console quand son poste est appelé."},
      {27.74, 46.04, 48.64, -0.2213, " Si vous composez 1, 2, 3, 4,"},
      {27.74, 48.64, 51.38, -0.2213, " vous pouvez essayer de faire sonner la console."},
      {27.74, 51.38, 56.28, -0.2213,
       " Si la console est occupée ou non disponible, vous pourrez laisser un message vocal."},
      {56.28, 56.38, 59.10, -0.2953, " Pour récupérer les messages vocaux de cet usager,"},
      {56.28, 59.10, 65.44, -0.2953,
       " composez le poste 8500 afin d'entrer dans le système de la message révocale."},
      {56.28, 65.44, 70.74, -0.2953,
       " Finalement, vous pouvez appuyer sur 10 pour vous déconnecter du central téléphonique."},
  };
  return segments;
}

TEST(LongRecording, EqualsTheReferenceInEachWindow) {
  SpeechSession session(fetched_model("base"), {.device = "cpu", .compute = "f32"});
  DecodingSettings settings = greedy_settings();
  settings.policy = WindowPolicy::reference();
  settings.language = "fr";
  const Transcript transcript = session.transcribe({.path = kRecording}, {.decoding = settings});
  EXPECT_NEAR(transcript.duration_s, 70.748, 0.011);
  ASSERT_EQ(transcript.segments.size(), golden().size());
  std::string text, wanted_text;
  for (size_t i = 0; i < golden().size(); ++i) {
    const Segment& found = transcript.segments[i];
    const Golden& wanted = golden()[i];
    EXPECT_NEAR(static_cast<double>(found.seek) / 100, wanted.window_s, 0.011) << wanted.text;
    EXPECT_NEAR(found.start_s, wanted.start_s, 0.021) << wanted.text;
    EXPECT_NEAR(found.end_s, wanted.end_s, 0.021) << wanted.text;
    // The reference's recording is resampled from 8 kHz by ffmpeg, and rounded to 16 bits.
    EXPECT_NEAR(found.avg_logprob, wanted.avg_logprob, 0.01) << wanted.text;
    text += found.text;
    wanted_text += wanted.text;
  }
  EXPECT_LE(word_differences(text, wanted_text), 1u) << text;  // "cours" or "coups", badly heard
}

}  // namespace
}  // namespace vesper::long_recording_test
