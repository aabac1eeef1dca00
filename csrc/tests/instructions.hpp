// The instructions for bfloat16 as AMD's processors execute them, written out for one lane, and compared with them.
//
// The vendors' pseudo-code says: operands that are subnormal count as 0, results that are subnormal become 0, every
// operation rounds to nearest with ties to even whatever the state of the processor, and no exception is raised. A
// lane of vdpbf16ps is
//
//     sum = fma(a_1, b_1, sum),    sum = fma(a_0, b_0, sum),
//
// the odd product first. The kernels do not depend on the order, but a processor that fails this comparison rounds
// in a way that has not been looked at.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "running.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fuzz {

inline float without_subnormal(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

inline float of_bfloat16(std::uint16_t bits) {
    const std::uint32_t wide = std::uint32_t(bits) << 16;
    float x;
    std::memcpy(&x, &wide, sizeof x);
    return without_subnormal(x);
}

inline float fused(float a, float b, float c) { return without_subnormal(std::fma(a, b, without_subnormal(c))); }

// One lane of vdpbf16ps: sum + <a, b> for pairs a and b.
inline float dot_of_pairs(float sum, const std::uint16_t (&a)[2], const std::uint16_t (&b)[2]) {
    for (int k : {1, 0}) sum = fused(of_bfloat16(a[k]), of_bfloat16(b[k]), sum);
    return sum;
}

// One number of vcvtne2ps2pbf16.
inline std::uint16_t to_bfloat16(float x) {
    if (std::isnan(x)) return 0x7fc0;
    return half_bits(SEPARATRIX_BFLOAT16, nearest(SEPARATRIX_BFLOAT16, double(without_subnormal(x))));
}

#if defined(__x86_64__) && defined(__GNUC__)
// Random bits, and numbers near each other so that sums cancel, become subnormal, overflow and lie between two floats.
__attribute__((target("avx512f,avx512bf16"))) inline void compare_instructions(Random& random) {
    const auto number = [&](int exponent) {
        const auto bits = static_cast<std::uint32_t>(random.next() >> 32);
        if (random.chance(0.1)) return bits;
        const auto biased = static_cast<std::uint32_t>(127 + exponent + random.whole(-4, 4)) & 0xff;
        return (bits & 0x807fffffu) | biased << 23;
    };
    const int size = random.chance(0.3) ? static_cast<int>(random.whole(-70, 70)) : 0;
    std::uint32_t a[16], b[16], sum[16], got[16], more[16];
    for (int i = 0; i < 16; ++i) {
        a[i] = (number(size) & 0xffff0000u) | number(size) >> 16;
        b[i] = (number(size) & 0xffff0000u) | number(size) >> 16;
        sum[i] = number(2 * size), more[i] = number(size);
    }
    const __m512 added = _mm512_dpbf16_ps((__m512)_mm512_loadu_si512(sum), (__m512bh)_mm512_loadu_si512(a),
                                          (__m512bh)_mm512_loadu_si512(b));
    std::memcpy(got, &added, sizeof got);
    const __m512bh rounded = _mm512_cvtne2ps_pbh((__m512)_mm512_loadu_si512(more), (__m512)_mm512_loadu_si512(sum));
    std::uint16_t narrow[32];
    std::memcpy(narrow, &rounded, sizeof narrow);
    for (int i = 0; i < 32; ++i) {
        float x;
        std::memcpy(&x, i < 16 ? &sum[i] : &more[i - 16], sizeof x);
        const bool none = std::isnan(x) && (narrow[i] & 0x7fff) > 0x7f80;
        if (!none && narrow[i] != to_bfloat16(x)) throw Wrong("a float is not rounded to bfloat16 as written down");
    }
    for (int i = 0; i < 16; ++i) {
        const std::uint16_t x[2] = {std::uint16_t(a[i]), std::uint16_t(a[i] >> 16)};
        const std::uint16_t y[2] = {std::uint16_t(b[i]), std::uint16_t(b[i] >> 16)};
        float before, after;
        std::memcpy(&before, &sum[i], sizeof before), std::memcpy(&after, &got[i], sizeof after);
        const float expected = dot_of_pairs(before, x, y);
        if (std::memcmp(&expected, &after, sizeof after) && !(std::isnan(expected) && std::isnan(after)))
            throw Wrong("a dot product of bfloat16 is not what is written down");
    }
}
#else
inline void compare_instructions(Random&) {}
#endif

}  // namespace fuzz
