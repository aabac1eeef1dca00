// Products of matrices of bfloat16, two multiplications to a lane, where the processor has the instruction vdpbf16ps.
//
// The instruction takes pairs of numbers of bfloat16 and adds both of their products to a lane in float. By the vendors'
// pseudo-code it rounds to nearest whatever the state of the processor, takes subnormal operands for 0 and writes 0 for
// subnormal results. The kernels rely on no more than that each of the two products of a lane is rounded at most twice
// on its way into the sum, like two fused multiply-adds: the order of the two does not matter. tests/instructions.hpp
// writes down what AMD's processors do, bit by bit, and compares.
//
// Every operand lies in pairs: of a row of A, entries 2k and 2k + 1; of B, rows 2k and 2k + 1, column by column. Rows of
// A and B are padded by a zero to an even number.
#pragma once

#include "memory.hpp"
#include "product.hpp"
#include "stored.hpp"
#include "weights.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

#if SEPARATRIX_BYTES == 64 && defined(__AVX512BF16__)
constexpr bool HAS_BFLOAT16 = true;

// sum + the products of both numbers of each lane.
inline Floats add_dots(Floats sum, __m512bh a, __m512bh b) {
    return (Floats)_mm512_dpbf16_ps((__m512)sum, a, b);
}

// into[r][n] += sum over k in [0, 2 pairs) of A[r][k] B[k][n]; row r of A begins at A + r * row, a pair of rows k of B at
// B + k * stride.
template <int R, int N>
inline void add_dot_products(Index pairs, const BFloat16* A, Index row, const BFloat16* B, Index stride,
                             Floats (&into)[R][N]) {
    Floats sums[R][N];
    copy_sums(into, sums);
    for (Index k = 0; k < pairs; ++k) {
        __m512bh b[N];
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) {
            std::memcpy(&b[n], B + k * 2 * stride + n * 2 * WIDTH<float>, sizeof b[n]);
            b[n] = kept(b[n]);
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
            std::int32_t pair;
            std::memcpy(&pair, A + r * row + 2 * k, sizeof pair);
            const __m512bh a = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 2
            for (int n = 0; n < N; ++n) sums[r][n] = add_dots(sums[r][n], a, b[n]);
        }
    }
    copy_sums(sums, into);
}

// Numbers rounded to bfloat16, to the nearest and to the even one of two, subnormal numbers to 0; `count` is a whole
// number of vectors.
inline void narrow(const float* from, Index count, BFloat16* to) {
    for (Index l = 0; l < count; l += WIDTH<float>) {
        const __m256bh rounded = _mm512_cvtneps_pbh((__m512)load(from + l));
        std::memcpy(to + l, &rounded, sizeof rounded);
    }
}

// The scores of R rows against `count` panels of pairs of coordinates: see `scores` in weights.hpp.
template <int R>
inline void scores(Index d, const BFloat16* A, Index row, const BFloat16* panels, Index first, Index count, float* into,
                   Index stride) {
    const Index step = PANEL<float> * rounded_up(d, 2);
    for (Index panel = 0; panel < count; ++panel) {
        Floats s[R][COLUMNS] = {};
        add_dot_products<R, COLUMNS>((d + 1) / 2, A, row, panels + (first / PANEL<float> + panel) * step, PANEL<float>, s);
        for (int r = 0; r < R; ++r)
            for (int n = 0; n < COLUMNS; ++n)
                store(into + r * stride + panel * PANEL<float> + n * WIDTH<float>, s[r][n]);
    }
}

// Write 2^(S - peak), rounded, for the scores S[from] to S[to - 1], with zeros in the rest of their panels, and add what
// was written to `total`: a weight that is rounded in the same way wherever it is used is only a little another weight.
template <Kept KEPT>
inline void weigh(const float* S, Index from, Index to, float peak, BFloat16* into, Floats (&total)[2]) {
    constexpr Index W = WIDTH<float>;
    const __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3f80);
    Index v = from / PANEL<float> * PANEL<float>;
    const auto panel = [&](bool partial, Floats& sum) {
        Floats e[2];
        for (int i = 0; i < 2; ++i) {
            Floats s = load(S + v + i * W);
            if (KEPT != Kept::AS_THEY_ARE) s = at_least<float>(s - peak, all(Exponential<float>::LOWEST));
            e[i] = exp2<float>(s);
            if (partial) e[i] = lanes_between<float>(from - v - i * W, to - v - i * W) ? e[i] : Floats{};
        }
        const __m512bh rounded = _mm512_cvtne2ps_pbh((__m512)e[1], (__m512)e[0]);
        std::memcpy(into + v, &rounded, sizeof rounded);
        sum = add_dots(sum, rounded, ones);
        v += PANEL<float>;
    };
    if (v < from) panel(true, total[0]);
    for (; v + 2 * PANEL<float> <= to;) panel(false, total[0]), panel(false, total[1]);
    for (; v < to;) panel(v + PANEL<float> > to, total[0]);
}
#else
constexpr bool HAS_BFLOAT16 = false;

// Named where they are not called.
template <int R, int N>
void add_dot_products(Index pairs, const BFloat16* A, Index row, const BFloat16* B, Index stride, Floats (&into)[R][N]);
void narrow(const float* from, Index count, BFloat16* to);
#endif

// The upper half of a float, which is all of it for a number that was widened from bfloat16.
inline BFloat16 upper_half(float x) { return {static_cast<std::uint16_t>(static_cast<std::uint32_t>(bits_of(x)) >> 16)}; }

// Rows [0, count) of widened numbers, padded to `padded` columns, as panels of pairs of coordinates, zeros after the last.
inline Array<BFloat16> panels_of_pairs(const float* rows, Index count, Index d, Index padded) {
    const Index full = rounded_up(count, PANEL<float>), pairs = (d + 1) / 2;
    Array<BFloat16> into(full * 2 * pairs);
    for (Index j = 0; j < full; ++j)
        for (Index l = 0; l < 2 * pairs; ++l)
            into[j / PANEL<float> * PANEL<float> * 2 * pairs + l / 2 * 2 * PANEL<float> + j % PANEL<float> * 2 + l % 2] =
                j < count && l < d ? upper_half(rows[j * padded + l]) : BFloat16{0};
    return into;
}

// The same rows as pairs of rows, with a row of zeros after an odd number of them.
inline Array<BFloat16> pairs_of_rows(const float* rows, Index count, Index padded) {
    Array<BFloat16> into(rounded_up(count, 2) * padded);
    for (Index j = 0; j < rounded_up(count, 2); ++j)
        for (Index c = 0; c < padded; ++c)
            into[j / 2 * 2 * padded + c * 2 + j % 2] = j < count ? upper_half(rows[j * padded + c]) : BFloat16{0};
    return into;
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
