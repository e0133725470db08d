// A software model of the AMX instructions that llm/cpu uses, for CPUs without AMX: the machine
// code of the kernels runs as it was built, the CPU raises SIGILL at each tile instruction, and the
// signal's handler executes it. So faults of the compiler's treatment of an intrinsic show too.
//
// Every thread has its own tiles.
//
// What a CPU would answer with #UD or #GP ends the process with a message on stderr: a tile without
// configuration, an invalid configuration, operands whose shapes do not fit. So does what a CPU
// permits but no kernel means: a second configuration before _tile_release(), a start row, and
// memory that the address sanitizer knows to be out of bounds.
//
// Source of encodings, checks and arithmetic: Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 2, LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TILERELEASE, TDPBF16PS, TDPBSSD.
#pragma once

namespace vesper::testing {

// Installs the handler if the CPU lacks AMX. Returns whether it did, now or before.
bool model_amx();

}  // namespace vesper::testing
