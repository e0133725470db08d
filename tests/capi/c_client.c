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
  vesper_device_options options = {"cpu", "f32", 0};
  vesper_whisper* whisper = NULL;
  vesper_status status = vesper_whisper_open(model, &options, &whisper);
  text[0] = '\0';
  if (status == VESPER_OK) {
    status = vesper_whisper_transcribe_file(whisper, audio, NULL, append, &joined);
  }
  vesper_whisper_close(whisper);
  return status;
}
