#include <vesper.h>

#include <cstring>
#include <iostream>

// Prints the version, and the message for a model that is missing.
int main() {
  vesper_whisper* whisper = nullptr;
  if (vesper_whisper_open("/no/such/model", nullptr, &whisper) != VESPER_ERROR_MODEL) return 1;
  std::cout << vesper_version() << "\n" << vesper_last_error() << "\n";
  return std::strstr(vesper_last_error(), "/no/such/model") ? 0 : 1;
}
