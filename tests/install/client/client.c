#include <stdio.h>
#include <string.h>
#include <vesper.h>

/* Prints the version, and the message for a model that is missing. */
int main(void) {
  vesper_whisper* whisper = NULL;
  if (vesper_whisper_open("/no/such/model", NULL, &whisper) != VESPER_ERROR_MODEL) return 1;
  printf("%s\n%s\n", vesper_version(), vesper_last_error());
  return strstr(vesper_last_error(), "/no/such/model") ? 0 : 1;
}
