// Layout of matrices in device memory: row-major f32, f16 or int8 (with a scale per row), each row
// padded with zeros to a multiple of 32 elements.
#ifndef VESPER_SHADERS_WEIGHTS_GLSL_
#define VESPER_SHADERS_WEIGHTS_GLSL_

uint padded_columns(uint n_in) { return (n_in + 31u) & ~31u; }

float load_weight(Address address, uint i, uint format) {
  if (format == kDTypeI8) return float(int(I8Buffer(address).v[i]));
  return load_float(address, i, format);
}

#endif
