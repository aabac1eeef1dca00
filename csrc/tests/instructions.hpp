// The processor's bfloat16 instructions, compared with their description in emulated.hpp.
//
// The kernels do not depend on the order of a sum, but a processor that fails this comparison rounds in a way that was
// never tested.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "emulated.hpp"
#include "running.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fuzz {

#if defined(__x86_64__) && defined(__GNUC__)
// Random bits, and numbers of similar size so that sums cancel, become subnormal, overflow and lie between two floats.
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

// One tile product, of numbers of similar size, some of which cancel, are subnormal or NaN.
inline void compare_tiles(Random& random) {
    alignas(64) unsigned char shapes[64] = {1}, before[64];
    for (int tile = 0; tile < 3; ++tile) shapes[16 + 2 * tile] = 64, shapes[48 + tile] = 16;
    std::uint32_t sum[256], a[256], b[256], got[256], expected[256];
    const auto size = static_cast<std::uint32_t>(random.chance(0.3) ? random.whole(57, 197) : 127);
    const auto number = [&](std::uint32_t exponent) {
        const auto bits = static_cast<std::uint32_t>(random.next() >> 32);
        if (random.chance(0.02)) return bits;
        return (bits & 0x807fffffu) | ((exponent + static_cast<std::uint32_t>(random.whole(-4, 4))) & 0xff) << 23;
    };
    for (int i = 0; i < 256; ++i) {
        sum[i] = number(2 * size - 127);
        a[i] = (number(size) & 0xffff0000u) | number(size) >> 16, b[i] = (number(size) & 0xffff0000u) | number(size) >> 16;
    }
    EmulatedTiles tiles;
    tiles.configure(shapes);
    tiles.load(0, sum, 64), tiles.load(1, a, 64), tiles.load(2, b, 64);
    tiles.add_products(0, 1, 2);
    tiles.store(0, expected, 64);
    const std::int64_t row = 64;
    asm volatile("sttilecfg %0\n ldtilecfg %1" : "=m"(before) : "m"(shapes));
    asm volatile("tileloadd (%0,%3,1), %%tmm0\n tileloadd (%1,%3,1), %%tmm1\n tileloadd (%2,%3,1), %%tmm2\n"
                 "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\n tilestored %%tmm0, (%4,%3,1)"
                 : : "r"(sum), "r"(a), "r"(b), "r"(row), "r"(got) : "memory");
    asm volatile("ldtilecfg %0" : : "m"(before));
    for (int i = 0; i < 256; ++i) {
        float x, y;
        std::memcpy(&x, &got[i], sizeof x), std::memcpy(&y, &expected[i], sizeof y);
        if (got[i] != expected[i] && !(std::isnan(x) && std::isnan(y)))
            throw Wrong("a product of tiles of bfloat16 is not what is written down");
    }
}
#else
inline void compare_instructions(Random&) {}
inline void compare_tiles(Random&) {}
#endif

}  // namespace fuzz
