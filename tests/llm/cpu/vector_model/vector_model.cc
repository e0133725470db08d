// Marks programs whose kernels for AVX-512 are compiled for the vector model:
// required_instructions.cc.
extern "C" const char vesper_vector_model;
const char vesper_vector_model = 1;
