// The processor's instructions for bfloat16: rounding, dot products of pairs, and tile products.
//
// With SEPARATRIX_EMULATED they are plain loops that follow the vendors' pseudocode (tests/emulated.hpp), so that the
// kernels can be tested on any processor.
//
// According to this pseudocode dot products and tile products round to nearest in any rounding mode, flush subnormal
// operands to 0, and flush subnormal results to 0. The kernels only assume that each term of a sum of n products is
// rounded at most n times, in any order: see docs/derivations/exact-attention.md.
#pragma once

#include "memory.hpp"
#include "stored.hpp"
#include "vectors.hpp"

#if defined(SEPARATRIX_EMULATED)
#include "tests/emulated.hpp"
#endif

#if SEPARATRIX_BYTES == 64 && (defined(__AVX512BF16__) || defined(SEPARATRIX_EMULATED))
#define SEPARATRIX_HAS_BFLOAT16
#endif
#if SEPARATRIX_BYTES == 64 && (defined(__AMX_BF16__) || defined(SEPARATRIX_EMULATED_TILES))
#define SEPARATRIX_HAS_TILES
#endif

namespace separatrix {
namespace SEPARATRIX_ARCH {

#ifdef SEPARATRIX_HAS_BFLOAT16
constexpr bool HAS_BFLOAT16 = true;

// Vectors of bfloat16, two numbers to a lane.
typedef std::uint16_t Halves __attribute__((vector_size(SEPARATRIX_BYTES)));

#if defined(SEPARATRIX_EMULATED)
inline Halves narrowed(Floats low, Floats high) {
    Halves to;
    for (Index i = 0; i < WIDTH<float>; ++i)
        to[i] = fuzz::to_bfloat16(low[i]), to[i + WIDTH<float>] = fuzz::to_bfloat16(high[i]);
    return to;
}

inline Floats add_dots(Floats sum, Halves a, Halves b) {
    for (Index i = 0; i < WIDTH<float>; ++i)
        sum[i] = fuzz::dot_of_pairs(sum[i], {a[2 * i], a[2 * i + 1]}, {b[2 * i], b[2 * i + 1]});
    return sum;
}
#else
// Round the numbers of two vectors to bfloat16, to nearest with ties to even; subnormal numbers become 0.
inline Halves narrowed(Floats low, Floats high) { return (Halves)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low); }

// sum + the products of both numbers of each lane.
inline Floats add_dots(Floats sum, Halves a, Halves b) {
    return (Floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
#endif
#else
constexpr bool HAS_BFLOAT16 = false;
#endif

// A tile has 16 rows of 64 bytes, and a processor has eight of them. In a tile product C + A B, C and A are stored in
// rows, C in float and A in bfloat16; row k of B holds rows 2k and 2k + 1 of the matrix, interleaved.
constexpr int TILE_ROWS = 16;
constexpr Index TILE_DEPTH = 32;

#ifdef SEPARATRIX_HAS_TILES
constexpr bool HAS_TILES = true;

// The operand of ldtilecfg; all zeros release the tiles.
struct alignas(64) TileConfiguration {
    std::uint8_t palette = 0, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
};

#if defined(SEPARATRIX_EMULATED)
static thread_local fuzz::EmulatedTiles emulated_tiles;

inline void load_configuration(const TileConfiguration& from) { emulated_tiles.configure(&from); }
inline void store_configuration(TileConfiguration& to) { emulated_tiles.store_configuration(&to); }
template <int TILE> inline void zero_tile() { emulated_tiles.zero(TILE); }
template <int TILE> inline void load_tile(const void* from, Index stride) { emulated_tiles.load(TILE, from, stride); }
template <int TILE> inline void store_tile(void* to, Index stride) { emulated_tiles.store(TILE, to, stride); }
template <int SUM, int A, int B> inline void add_tile_products() { emulated_tiles.add_products(SUM, A, B); }
#else
inline void load_configuration(const TileConfiguration& from) { asm volatile("ldtilecfg %0" : : "m"(from)); }
inline void store_configuration(TileConfiguration& to) { asm volatile("sttilecfg %0" : "=m"(to)); }
template <int TILE> inline void zero_tile() { asm volatile("tilezero %%tmm%c0" : : "i"(TILE)); }
// Rows are `stride` bytes apart.
template <int TILE> inline void load_tile(const void* from, Index stride) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(TILE), "r"(from), "r"(stride) : "memory");
}
template <int TILE> inline void store_tile(void* to, Index stride) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(TILE), "r"(to), "r"(stride) : "memory");
}
template <int SUM, int A, int B> inline void add_tile_products() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(SUM), "i"(A), "i"(B));
}
#endif

// Configure the tiles of this thread. A signal handler may have changed the configuration.
inline void configure_tiles() {
    TileConfiguration whole;
    whole.palette = 1;
    for (int tile = 0; tile < 8; ++tile) whole.row_bytes[tile] = 64, whole.rows[tile] = TILE_ROWS;
    load_configuration(whole);
}

// Configures tiles in its scope, if requested, and restores the previous configuration at its end: the thread belongs
// to PyTorch.
class ConfiguredTiles {
public:
    explicit ConfiguredTiles(bool wanted) : wanted_(wanted) {
        if (!wanted) return;
        store_configuration(before_);
        configure_tiles();
    }
    ~ConfiguredTiles() {
        if (wanted_) load_configuration(before_);
    }

private:
    const bool wanted_;
    TileConfiguration before_;
};
#else
constexpr bool HAS_TILES = false;

inline void configure_tiles() {}
struct ConfiguredTiles {
    explicit ConfiguredTiles(bool) {}
};
#endif

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
