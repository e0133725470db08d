// generate: text from language models.
#include "cli/generate/generate_program.h"

int main(int argc, char** argv) { return vesper::generate_main(argc, argv); }
