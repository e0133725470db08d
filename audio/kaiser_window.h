// Filters with a Kaiser window: Kaiser, Nonrecursive digital filter design using the I0-sinh window
// function, 1974.
#pragma once

namespace vesper {

// sin(pi x) / (pi x).
double sinc(double x);

// The window at -1 <= x <= 1, for sidelobes of -attenuation_db. Not normalized.
double kaiser_window(double x, double attenuation_db);

// The length of a low-pass filter in samples whose transition band has this width, in cycles per
// sample.
double kaiser_length(double attenuation_db, double transition);

}  // namespace vesper
