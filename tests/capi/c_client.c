#include "c_client.h"

#include <string.h>
#include <vesper.h>

struct Text {
  char* data;
  size_t size;
};

static int append(const vesper_segment* segment, void* user) {
  struct Text* text = user;
  if (segment->end_s < segment->start_s) return 1;
  strncat(text->data, segment->text, text->size - strlen(text->data) - 1);
  return 0;
}

int c_client_transcribe(const char* model, const char* audio, char* text, size_t text_size) {
  struct Text joined = {text, text_size};
  vesper_whisper_options options;
  vesper_whisper* whisper = NULL;
  vesper_status status;
  vesper_whisper_options_init(&options, sizeof options);
  options.load.device = "cpu";
  options.load.compute = "f32";
  status = vesper_whisper_open(model, &options, &whisper);
  text[0] = '\0';
  if (status == VESPER_OK) {
    status = vesper_whisper_transcribe_file(whisper, audio, NULL, append, &joined, NULL);
  }
  vesper_whisper_close(whisper);
  return status;
}

static int refuse(const vesper_segment* segment, void* user) {
  (void)segment;
  (void)user;
  return 1;
}

#define EXPECT(wanted, call)                                                      \
  do {                                                                            \
    if ((call) != (wanted)) return __LINE__;                                      \
    if ((wanted) != VESPER_OK && vesper_last_error()[0] == '\0') return __LINE__; \
  } while (0)

static int first_wrong_status(const char* model, const char* audio, vesper_whisper* whisper) {
  const float samples[2] = {0.5f, (float)(1e300 * 1e300)};
  const vesper_pcm none = {NULL, 0, 16000, 1}, missing = {NULL, 1, 16000, 1},
                   infinite = {samples, 2, 16000, 1};
  vesper_whisper_options device;
  vesper_transcribe_options options;
  vesper_whisper* other = NULL;
  vesper_whisper_options_init(&device, sizeof device);
  vesper_transcribe_options_init(&options, sizeof options);

  EXPECT(VESPER_ERROR_USAGE, vesper_whisper_open(NULL, NULL, &other));
  EXPECT(VESPER_ERROR_USAGE, vesper_whisper_open(model, NULL, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_whisper_load_vad(NULL, model));
  EXPECT(VESPER_OK, vesper_whisper_load_vad(whisper, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_whisper_transcribe_file(whisper, NULL, NULL, NULL, NULL, NULL));
  EXPECT(VESPER_ERROR_USAGE, vesper_whisper_transcribe_pcm(whisper, NULL, NULL, NULL, NULL, NULL));
  EXPECT(VESPER_ERROR_USAGE,
         vesper_whisper_transcribe_pcm(whisper, &missing, NULL, NULL, NULL, NULL));
  device.load.device = "abacus";
  EXPECT(VESPER_ERROR_USAGE, vesper_whisper_open(model, &device, &other));
  device.load.device = "cpu";
  device.load.compute = "f3";
  EXPECT(VESPER_ERROR_USAGE, vesper_whisper_open(model, &device, &other));
  device.load.compute = NULL;
  device.load.threads = 100000;
  EXPECT(VESPER_ERROR_USAGE, vesper_whisper_open(model, &device, &other));
  options.language = "klingon";
  EXPECT(VESPER_ERROR_USAGE,
         vesper_whisper_transcribe_file(whisper, audio, &options, NULL, NULL, NULL));
  options.language = NULL;
  options.vad = 1;
  EXPECT(VESPER_ERROR_USAGE,
         vesper_whisper_transcribe_file(whisper, audio, &options, NULL, NULL, NULL));

  EXPECT(VESPER_ERROR_INPUT,
         vesper_whisper_transcribe_file(whisper, "/no/such/audio.wav", NULL, NULL, NULL, NULL));
  EXPECT(VESPER_ERROR_INPUT,
         vesper_whisper_transcribe_pcm(whisper, &infinite, NULL, NULL, NULL, NULL));
  other = whisper;
  EXPECT(VESPER_ERROR_MODEL, vesper_whisper_open("/no/such/model", NULL, &other));
  if (other != NULL) return __LINE__;
  EXPECT(VESPER_ERROR_MODEL, vesper_whisper_load_vad(whisper, "/no/such/model"));
  device.load.threads = 0;
  device.load.device = "vulkan:200";
  EXPECT(VESPER_ERROR_DEVICE, vesper_whisper_open(model, &device, &other));
  EXPECT(VESPER_ERROR_STOPPED,
         vesper_whisper_transcribe_file(whisper, audio, NULL, refuse, NULL, NULL));
  EXPECT(VESPER_OK, vesper_whisper_transcribe_pcm(whisper, &none, NULL, NULL, NULL, NULL));
  EXPECT(VESPER_OK, vesper_whisper_transcribe_file(whisper, audio, NULL, NULL, NULL, NULL));
  return 0;
}

int c_client_first_wrong_status(const char* model, const char* audio) {
  vesper_whisper_options options;
  vesper_whisper* whisper = NULL;
  int line;
  vesper_whisper_options_init(&options, sizeof options);
  options.load.device = "cpu";
  if (vesper_whisper_open(model, &options, &whisper) != VESPER_OK) return __LINE__;
  line = first_wrong_status(model, audio, whisper);
  vesper_whisper_close(whisper);
  vesper_whisper_close(NULL);
  return line;
}
