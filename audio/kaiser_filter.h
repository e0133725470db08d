// Low-pass FIR filters: a sinc under a Kaiser window. Used by the resampler's two stages.
#pragma once

namespace vesper {

// Filter length by Kaiser's estimate, in samples: the ripple of pass and stop band is
// -`attenuation_db`, the transition band is `transition` cycles per sample wide.
double kaiser_length(double attenuation_db, double transition);

// Filter tap at `t` samples from the center, not normalized. `cutoff` is the middle of the
// transition band in cycles per sample. The window ends at +-`reach` samples.
double kaiser_tap(double t, double cutoff, double reach, double attenuation_db);

}  // namespace vesper
