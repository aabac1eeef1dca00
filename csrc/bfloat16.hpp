// Matrix products of bfloat16, for processors with dot products of pairs (vdpbf16ps) or of tiles (tdpbf16ps).
//
// Both operands store entries in pairs: a row of A has entries 2k and 2k + 1 side by side; B has rows 2k and 2k + 1
// interleaved, column by column. Rows of A and B are padded by zeros to a multiple of STEP, the number of entries of a
// row of A that an instruction takes.
#pragma once

#include "bfloat16_instructions.hpp"
#include "memory.hpp"
#include "product.hpp"
#include "weights.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

constexpr Index STEP = HAS_TILES ? TILE_DEPTH : 2;
constexpr int NARROW_ROWS = HAS_TILES ? TILE_ROWS : ROWS, NARROW_COLUMNS = HAS_TILES ? 4 : COLUMNS;

#ifdef SEPARATRIX_HAS_BFLOAT16
#ifdef SEPARATRIX_HAS_TILES
// Products of 16 rows of A with up to 4 tiles of columns of B, one for each argument C. The accumulators are
// interleaved to hide the latency of an instruction. The third and fourth tile of B begin `two` entries after the first
// two.
template <int... C>
inline void multiply_tiles(std::integer_sequence<int, C...>, Index steps, const BFloat16* A, Index row, const BFloat16* B,
                           Index stride, Index two, float* into, Index into_stride) {
    constexpr Index BYTES = sizeof(BFloat16), COLUMN = 2 * TILE_ROWS;
    (zero_tile<C>(), ...);
    for (Index k = 0; k < steps; ++k, A += STEP, B += STEP * stride) {
        load_tile<4>(A, BYTES * row);
        ((load_tile<5 + C % 3>(B + C / 2 * two + C % 2 * COLUMN, 2 * BYTES * stride), add_tile_products<C, 4, 5 + C % 3>()), ...);
    }
    (store_tile<C>(into + C * WIDTH<float>, static_cast<Index>(sizeof(float)) * into_stride), ...);
}

// into[r][n] = sum over k in [0, STEP * steps) of A[r][k] B[k][n], valid for the first R rows; row r of A begins at A +
// r * row, a pair of rows k of B at B + k * stride.
template <int R, int N>
inline void dot_products(Index steps, const BFloat16* A, Index row, const BFloat16* B, Index stride,
                         Floats (&into)[NARROW_ROWS][N]) {
    multiply_tiles(std::make_integer_sequence<int, N>(), steps, A, row, B, stride, 4 * WIDTH<float>,
                   reinterpret_cast<float*>(into), N * WIDTH<float>);
}

// The scores of R rows against `count` panels of pairs of coordinates: see `scores` in weights.hpp. Writes 16 rows.
template <int R>
inline void scores(Index d, const BFloat16* A, Index row, const BFloat16* panels, Index first, Index count, float* into,
                   Index stride) {
    const Index step = PANEL<float> * rounded_up(d, STEP);
    panels += first / PANEL<float> * step;
    for (Index panel = 0; panel < count; panel += 2)
        with_rows<2>(std::min<Index>(2, count - panel), [&](auto some) {
            multiply_tiles(std::make_integer_sequence<int, COLUMNS * decltype(some)::value>(), rounded_up(d, STEP) / STEP, A, row,
                           panels + panel * step, PANEL<float>, step, into + panel * PANEL<float>, stride);
        });
}
#else
template <int R, int N>
inline void dot_products(Index steps, const BFloat16* A, Index row, const BFloat16* B, Index stride,
                         Floats (&into)[NARROW_ROWS][N]) {
    Floats sums[R][N] = {};
    for (Index k = 0; k < steps; ++k) {
        Halves b[N];
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) {
            std::memcpy(&b[n], B + k * 2 * stride + n * 2 * WIDTH<float>, sizeof b[n]);
            b[n] = kept(b[n]);
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
            std::int32_t pair;
            std::memcpy(&pair, A + r * row + 2 * k, sizeof pair);
            const Halves a = (Halves)(pair - Ints{});
#pragma GCC unroll 2
            for (int n = 0; n < N; ++n) sums[r][n] = add_dots(sums[r][n], a, b[n]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) into[r][n] = sums[r][n];
}

template <int R>
inline void scores(Index d, const BFloat16* A, Index row, const BFloat16* panels, Index first, Index count, float* into,
                   Index stride) {
    const Index step = PANEL<float> * rounded_up(d, STEP);
    for (Index panel = 0; panel < count; ++panel) {
        Floats s[NARROW_ROWS][COLUMNS];
        dot_products<R, COLUMNS>((d + 1) / 2, A, row, panels + (first / PANEL<float> + panel) * step, PANEL<float>, s);
        for (int r = 0; r < R; ++r)
            for (int n = 0; n < COLUMNS; ++n)
                store(into + r * stride + panel * PANEL<float> + n * WIDTH<float>, s[r][n]);
    }
}
#endif

// Round floats to bfloat16; `count` is a multiple of the vector's lanes.
inline void narrow(const float* from, Index count, BFloat16* to) {
    for (Index l = 0; l < count; l += WIDTH<float>) {
        const Halves rounded = narrowed(load(from + l), Floats{});
        std::memcpy(to + l, &rounded, sizeof rounded / 2);
    }
}

// Write 2^(S - peak), rounded, for the scores S[from] to S[to - 1], with zeros in the rest of their panels, and add the
// rounded weights to `total`. The same rounded weights are used everywhere, so that rounding only replaces a weight by
// a slightly different weight.
template <Kept KEPT>
inline void weigh(const float* S, Index from, Index to, float peak, BFloat16* into, Floats (&total)[2]) {
    constexpr Index W = WIDTH<float>;
    const Halves ones = Halves{} + std::uint16_t{0x3f80};
    Index v = from / PANEL<float> * PANEL<float>;
    const auto panel = [&](bool partial, Floats& sum) {
        Floats e[2];
        for (int i = 0; i < 2; ++i) {
            Floats s = load(S + v + i * W);
            if (KEPT != Kept::AS_THEY_ARE) s = at_least<float>(s - peak, all(Exponential<float>::LOWEST));
            e[i] = exp2<float>(s);
            if (partial) e[i] = lanes_between<float>(from - v - i * W, to - v - i * W) ? e[i] : Floats{};
        }
        const Halves rounded = narrowed(e[0], e[1]);
        std::memcpy(into + v, &rounded, sizeof rounded);
        sum = add_dots(sum, rounded, ones);
        v += PANEL<float>;
    };
    if (v < from) panel(true, total[0]);
    for (; v + 2 * PANEL<float> <= to;) panel(false, total[0]), panel(false, total[1]);
    for (; v < to;) panel(v + PANEL<float> > to, total[0]);
}
#else
// Declarations for code that names these functions but never calls them.
template <int R, int N>
void dot_products(Index steps, const BFloat16* A, Index row, const BFloat16* B, Index stride, Floats (&into)[NARROW_ROWS][N]);
void narrow(const float* from, Index count, BFloat16* to);
#endif

// The upper half of a float, which is exact for a number widened from bfloat16.
inline BFloat16 upper_half(float x) { return {static_cast<std::uint16_t>(static_cast<std::uint32_t>(bits_of(x)) >> 16)}; }

// Rows [0, count) of widened numbers, padded by zeros to `padded` columns, as panels of pairs of coordinates.
inline Array<BFloat16> panels_of_pairs(const float* rows, Index count, Index d, Index padded) {
    const Index full = rounded_up(count, PANEL<float>), depth = rounded_up(d, STEP);
    Array<BFloat16> into(full * depth);
    for (Index j = 0; j < full; ++j)
        for (Index l = 0; l < depth; ++l)
            into[j / PANEL<float> * PANEL<float> * depth + l / 2 * 2 * PANEL<float> + j % PANEL<float> * 2 + l % 2] =
                j < count && l < d ? upper_half(rows[j * padded + l]) : BFloat16{0};
    return into;
}

// The same rows as pairs of rows, padded by rows of zeros.
inline Array<BFloat16> pairs_of_rows(const float* rows, Index count, Index padded) {
    const Index full = rounded_up(count, STEP);
    Array<BFloat16> into(full * padded);
    for (Index j = 0; j < full; ++j)
        for (Index c = 0; c < padded; ++c)
            into[j / 2 * 2 * padded + c * 2 + j % 2] = j < count ? upper_half(rows[j * padded + c]) : BFloat16{0};
    return into;
}

// Whether the tile instructions, if there are any, give the right products of small integers, which are exact.
#ifdef SEPARATRIX_HAS_TILES
inline bool tiles_work() {
    const ConfiguredTiles tiles(true);
    const auto a = [](Index r, Index k) { return static_cast<float>((7 * r + 3 * k) % 11 - 5); };
    const auto b = [](Index k, Index c) { return static_cast<float>((5 * k + 9 * c) % 13 - 6); };
    BFloat16 A[TILE_ROWS * STEP], B[STEP * TILE_ROWS];
    for (Index k = 0; k < STEP; ++k)
        for (Index r = 0; r < TILE_ROWS; ++r) {
            A[r * STEP + k] = upper_half(a(r, k));
            B[k / 2 * 2 * TILE_ROWS + r * 2 + k % 2] = upper_half(b(k, r));
        }
    Floats product[TILE_ROWS][1];
    dot_products<TILE_ROWS, 1>(1, A, STEP, B, TILE_ROWS, product);
    for (Index r = 0; r < TILE_ROWS; ++r)
        for (Index c = 0; c < TILE_ROWS; ++c) {
            float sum = 0;
            for (Index k = 0; k < STEP; ++k) sum += a(r, k) * b(k, c);
            if (product[r][0][c] != sum) return false;
        }
    return true;
}
#else
inline bool tiles_work() { return true; }
#endif

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
