// embed: texts to vectors, search and similarity.
#include "cli/embed/embed_program.h"

int main(int argc, char** argv) { return vesper::embed_main(argc, argv); }
