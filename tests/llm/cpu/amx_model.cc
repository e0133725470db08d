#include "tests/llm/cpu/amx_model.h"

#include <immintrin.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/llm/cpu/modelled_features.h"

// Of the address sanitizer, if the program has it: the first address out of bounds, or null.
extern "C" __attribute__((weak)) void* __asan_region_is_poisoned(void* begin, size_t size);

namespace vesper::testing {
namespace {

constexpr unsigned kTiles = 8, kMaxRows = 16, kMaxRowBytes = 64;  // of palette 1

struct Tile {
  uint8_t rows;       // 0: not configured
  uint8_t row_bytes;  // colsb
  alignas(64) uint8_t data[kMaxRows][kMaxRowBytes];
};

struct Tiles {
  bool are_configured;
  Tile tile[kTiles];
};
thread_local Tiles tiles;

[[noreturn]] void fail(const char* instruction, const char* expected, unsigned long found) {
  char text[200];
  const int n = snprintf(text, sizeof text, "AMX model: %s: expected %s, found %lu\n", instruction,
                         expected, found);
  if (write(STDERR_FILENO, text, static_cast<size_t>(n)) < 0) _exit(1);
  abort();
}

void expect(bool holds, const char* instruction, const char* expected, unsigned long found) {
  if (!holds) fail(instruction, expected, found);
}

void expect_in_bounds(const uint8_t* from, size_t bytes, const char* instruction) {
  if (__asan_region_is_poisoned == nullptr) return;
  const void* bad = __asan_region_is_poisoned(const_cast<uint8_t*>(from), bytes);
  expect(bad == nullptr, instruction, "memory in bounds", reinterpret_cast<uintptr_t>(bad));
}

Tile& configured(unsigned index, const char* instruction) {
  expect(tiles.are_configured, instruction, "configured tiles, for tile", index);
  expect(index < kTiles, instruction, "a tile below 8", index);
  expect(tiles.tile[index].rows != 0, instruction, "rows in the configuration of tile", index);
  return tiles.tile[index];
}

void load_configuration(const uint8_t* config) {
  constexpr const char* kName = "ldtilecfg";
  constexpr size_t kRowBytesAt = 16, kRowsAt = 48, kBytes = 64;
  expect_in_bounds(config, kBytes, kName);
  expect(!tiles.are_configured, kName, "tilerelease after the previous configuration", 0);
  expect(config[0] == 1, kName, "palette 1", config[0]);
  expect(config[1] == 0, kName, "start row 0", config[1]);
  const auto expect_zeros = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      expect(config[i] == 0, kName, "zeros in reserved bytes", config[i]);
    }
  };
  expect_zeros(2, kRowBytesAt);
  expect_zeros(kRowBytesAt + 2 * kTiles, kRowsAt);
  expect_zeros(kRowsAt + kTiles, kBytes);
  memset(&tiles, 0, sizeof tiles);
  for (unsigned t = 0; t < kTiles; ++t) {
    uint16_t row_bytes;
    memcpy(&row_bytes, config + kRowBytesAt + 2 * t, sizeof row_bytes);
    const uint8_t rows = config[kRowsAt + t];
    expect(row_bytes <= kMaxRowBytes, kName, "at most 64 bytes per row", row_bytes);
    expect(rows <= kMaxRows, kName, "at most 16 rows", rows);
    expect((rows == 0) == (row_bytes == 0), kName, "rows and bytes per row, or neither, in tile",
           t);
    tiles.tile[t].rows = rows;
    tiles.tile[t].row_bytes = static_cast<uint8_t>(row_bytes);
  }
  tiles.are_configured = true;
}

void load_tile(unsigned to, const uint8_t* from, int64_t stride) {
  Tile& tile = configured(to, "tileloadd");
  memset(tile.data, 0, sizeof tile.data);
  for (unsigned r = 0; r < tile.rows; ++r, from += stride) {
    expect_in_bounds(from, tile.row_bytes, "tileloadd");
    memcpy(tile.data[r], from, tile.row_bytes);
  }
}

void store_tile(unsigned from, uint8_t* to, int64_t stride) {
  const Tile& tile = configured(from, "tilestored");
  for (unsigned r = 0; r < tile.rows; ++r, to += stride) {
    expect_in_bounds(to, tile.row_bytes, "tilestored");
    memcpy(to, tile.data[r], tile.row_bytes);
  }
}

// sums [m, n] += rows [m, k] * columns [k, n], where an element has 32 bits: two bf16 or four int8.
struct Product {
  Tile &sums, &rows, &columns;
  unsigned m, k, n;
};
Product product_of(unsigned sums, unsigned rows, unsigned columns, const char* instruction) {
  expect(sums != rows && sums != columns && rows != columns, instruction,
         "three different tiles, sums in tile", sums);
  const Product p{configured(sums, instruction),    configured(rows, instruction),
                  configured(columns, instruction), tiles.tile[sums].rows,
                  tiles.tile[columns].rows,         tiles.tile[sums].row_bytes / 4u};
  expect(p.sums.row_bytes % 4 == 0, instruction, "whole sums per row", p.sums.row_bytes);
  expect(p.rows.rows == p.m, instruction, "as many rows as sums", p.rows.rows);
  expect(p.rows.row_bytes == 4 * p.k, instruction, "rows as long as columns", p.rows.row_bytes);
  expect(p.columns.row_bytes == p.sums.row_bytes, instruction, "as many columns as sums",
         p.columns.row_bytes);
  return p;
}

// Even and odd elements have separate sums, which begin with zero. Denormal numbers are zero.
__attribute__((target("avx2,fma"))) void multiply_bf16(unsigned sums, unsigned rows,
                                                       unsigned columns) {
  const Product p = product_of(sums, rows, columns, "tdpbf16ps");
  constexpr unsigned kFlushAndDenormalsAreZero = 0x8040, kRoundToNearestUnmasked = 0x1f80;
  // The kernel restores the register of the interrupted code.
  _mm_setcsr(kRoundToNearestUnmasked | kFlushAndDenormalsAreZero);
  for (unsigned m = 0; m < p.m; ++m) {
    float even[kMaxRowBytes / 4] = {}, odd[kMaxRowBytes / 4] = {};
    for (unsigned k = 0; k < p.k; ++k) {
      uint32_t pair;
      memcpy(&pair, p.rows.data[m] + 4 * k, sizeof pair);
      const uint32_t low = pair << 16, high = pair & 0xffff0000u;
      float a0, a1;
      memcpy(&a0, &low, sizeof a0);
      memcpy(&a1, &high, sizeof a1);
      const __m256 x0 = _mm256_set1_ps(a0), x1 = _mm256_set1_ps(a1);
      for (unsigned n = 0; n < kMaxRowBytes / 4; n += 8) {
        const __m256i b =
            _mm256_load_si256(reinterpret_cast<const __m256i*>(p.columns.data[k] + 4 * n));
        const __m256 b0 = _mm256_castsi256_ps(_mm256_slli_epi32(b, 16));
        const __m256 b1 =
            _mm256_castsi256_ps(_mm256_and_si256(b, _mm256_set1_epi32(int(0xffff0000u))));
        _mm256_storeu_ps(even + n, _mm256_fmadd_ps(x0, b0, _mm256_loadu_ps(even + n)));
        _mm256_storeu_ps(odd + n, _mm256_fmadd_ps(x1, b1, _mm256_loadu_ps(odd + n)));
      }
    }
    for (unsigned n = 0; n < p.n; n += 8) {
      auto* const to = reinterpret_cast<float*>(p.sums.data[m]) + n;
      const __m256 sum = _mm256_add_ps(_mm256_loadu_ps(even + n), _mm256_loadu_ps(odd + n));
      _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), sum));
    }
    memset(p.sums.data[m] + 4 * p.n, 0, kMaxRowBytes - 4 * p.n);
  }
}

// Sums wrap around.
void multiply_int8(unsigned sums, unsigned rows, unsigned columns) {
  const Product p = product_of(sums, rows, columns, "tdpbssd");
  for (unsigned m = 0; m < p.m; ++m) {
    auto* const sum = reinterpret_cast<uint32_t*>(p.sums.data[m]);
    for (unsigned k = 0; k < p.k; ++k) {
      const auto* a = reinterpret_cast<const int8_t*>(p.rows.data[m]) + 4 * k;
      const auto* b = reinterpret_cast<const int8_t*>(p.columns.data[k]);
      for (unsigned n = 0; n < p.n; ++n, b += 4) {
        sum[n] += static_cast<uint32_t>(a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]);
      }
    }
  }
}

// A decoded instruction. All have the three-byte VEX prefix, opcode map 0F38, W 0, L 0.
struct Instruction {
  unsigned prefix = 0;  // pp: 0 none, 1 66, 2 F3, 3 F2
  unsigned opcode = 0;
  unsigned reg = 0, rm = 0, third = 0;  // tiles; rm only without memory
  bool has_memory = false;
  uint8_t* address = nullptr;  // without the index
  int64_t stride = 0;          // index * scale
  const uint8_t* end = nullptr;
};

// The general register with the number that instructions have for it.
int64_t general_register(const ucontext_t& context, unsigned number) {
  constexpr std::array<int, 16> kOrder = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                          REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                          REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[kOrder[number]];
}

// Returns whether the code may be an AMX instruction.
bool decode(const ucontext_t& context, Instruction& out) {
  const auto* at = reinterpret_cast<const uint8_t*>(context.uc_mcontext.gregs[REG_RIP]);
  if (at[0] != 0xc4 || (at[1] & 0x1f) != 2 || (at[2] & 0x84) != 0) return false;
  const unsigned more_index = at[1] & 0x40 ? 0 : 8, more_base = at[1] & 0x20 ? 0 : 8;
  out.prefix = at[2] & 3;
  out.third = ~at[2] >> 3 & 15;
  out.opcode = at[3];
  const unsigned mode = at[4] >> 6, rm = at[4] & 7;
  out.reg = (at[4] >> 3 & 7) + (at[1] & 0x80 ? 0 : 8);
  out.rm = rm + more_base;
  at += 5;
  out.has_memory = mode != 3;
  if (out.has_memory) {
    int64_t address = 0;
    bool has_base = true, is_relative = false;
    unsigned base = rm;
    if (rm == 4) {
      const unsigned index = (*at >> 3 & 7) + more_index;
      if (index != 4) out.stride = general_register(context, index) << (*at >> 6);
      base = *at++ & 7;
      has_base = mode != 0 || base != 5;
    } else if (mode == 0 && rm == 5) {
      has_base = false;
      is_relative = true;
    }
    if (has_base) address = general_register(context, base + more_base);
    if (mode == 1) {
      address += static_cast<int8_t>(*at++);
    } else if (mode == 2 || !has_base) {
      int32_t displacement;
      memcpy(&displacement, at, sizeof displacement);
      at += sizeof displacement;
      address += displacement;
    }
    if (is_relative) address += reinterpret_cast<int64_t>(at);
    out.address = reinterpret_cast<uint8_t*>(address);
  }
  out.end = at;
  return true;
}

// Returns false for an instruction that the model does not have.
bool execute(const Instruction& i) {
  constexpr unsigned kNone = 0, kF3 = 2, kF2 = 3;
  if (i.opcode == 0x49 && i.prefix == kNone && i.has_memory && i.reg == 0) {
    load_configuration(i.address + i.stride);
  } else if (i.opcode == 0x49 && i.prefix == kNone && i.reg == 0 && i.rm == 0) {
    memset(&tiles, 0, sizeof tiles);
  } else if (i.opcode == 0x49 && i.prefix == kF2 && !i.has_memory) {
    Tile& tile = configured(i.reg, "tilezero");
    memset(tile.data, 0, sizeof tile.data);
  } else if (i.opcode == 0x4b && i.prefix == kF2 && i.has_memory) {
    load_tile(i.reg, i.address, i.stride);
  } else if (i.opcode == 0x4b && i.prefix == kF3 && i.has_memory) {
    store_tile(i.reg, i.address, i.stride);
  } else if (i.opcode == 0x5c && i.prefix == kF3 && !i.has_memory) {
    multiply_bf16(i.reg, i.rm, i.third);
  } else if (i.opcode == 0x5e && i.prefix == kF2 && !i.has_memory) {
    multiply_int8(i.reg, i.rm, i.third);
  } else {
    return false;
  }
  return true;
}

// Executes the tile instruction that raised the signal, and those that follow it immediately.
void handle_illegal_instruction(int, siginfo_t*, void* raw_context) {
  auto& context = *static_cast<ucontext_t*>(raw_context);
  greg_t& position = context.uc_mcontext.gregs[REG_RIP];
  const greg_t start = position;
  Instruction instruction;
  while (decode(context, instruction) && execute(instruction)) {
    position = reinterpret_cast<greg_t>(instruction.end);
    instruction = {};
  }
  // The instruction is of another kind: it is executed again, and ends the process.
  if (position == start) signal(SIGILL, SIG_DFL);
}

}  // namespace

bool model_amx() {
  static const bool is_model = [] {
    if (features_of_cpu().amx) return false;
    struct sigaction action {};
    action.sa_sigaction = handle_illegal_instruction;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGILL, &action, nullptr) == 0;
  }();
  return is_model;
}

}  // namespace vesper::testing
