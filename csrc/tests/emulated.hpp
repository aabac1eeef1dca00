// The bfloat16 instructions, in plain loops that follow the vendors' pseudocode.
//
// Subnormal operands count as 0, subnormal results become 0, every operation rounds to nearest with ties to even in any
// rounding mode, and no exception is raised. A lane of vdpbf16ps, as AMD's processors execute it, is
//
//     sum = fma(a_1, b_1, sum),    sum = fma(a_0, b_0, sum),
//
// the odd product first. tdpbf16ps sums the even and the odd products of a row and a column separately, from zero, adds
// the two sums, and adds the result to the destination:
//
//     even = fma(a_2k, b_2k, even),    odd = fma(a_2k+1, b_2k+1, odd)    for k in [0, 16),    sum = sum + (even + odd).
//
// The kernels do not depend on the order of these sums. Functions are static: the programs that call them are compiled
// for different processors, and the linker must not merge them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "half_types.hpp"

namespace fuzz {

static inline float without_subnormal(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

static inline float of_bfloat16(std::uint16_t bits) {
    const std::uint32_t wide = std::uint32_t(bits) << 16;
    float x;
    std::memcpy(&x, &wide, sizeof x);
    return without_subnormal(x);
}

static inline float fused(float a, float b, float c) { return without_subnormal(std::fma(a, b, without_subnormal(c))); }

// One lane of vdpbf16ps: sum + <a, b> for pairs a and b.
static inline float dot_of_pairs(float sum, const std::uint16_t (&a)[2], const std::uint16_t (&b)[2]) {
    for (int k : {1, 0}) sum = fused(of_bfloat16(a[k]), of_bfloat16(b[k]), sum);
    return sum;
}

// One lane of vcvtne2ps2pbf16.
static inline std::uint16_t to_bfloat16(float x) {
    if (std::isnan(x)) return 0x7fc0;
    return half_bits(SEPARATRIX_BFLOAT16, nearest(SEPARATRIX_BFLOAT16, double(without_subnormal(x))));
}

// The tiles of a thread and their configuration: 64 bytes, with the palette in the first, the bytes of a row of each tile
// from byte 16 on, two bytes each, and the rows of each tile from byte 48 on. Where a processor would raise an exception
// because tiles are not configured or do not fit together, the program ends.
class EmulatedTiles {
public:
    void configure(const void* from) {
        std::memcpy(configuration_, from, sizeof configuration_);
        std::memset(data_, 0, sizeof data_);
    }
    void store_configuration(void* to) const { std::memcpy(to, configuration_, sizeof configuration_); }

    void zero(int tile) {
        rows_of(tile);
        std::memset(data_[tile], 0, sizeof data_[tile]);
    }

    void load(int tile, const void* from, std::int64_t stride) {
        zero(tile);
        for (int r = 0; r < rows_of(tile); ++r)
            std::memcpy(data_[tile][r], static_cast<const char*>(from) + r * stride, row_bytes(tile));
    }

    void store(int tile, void* to, std::int64_t stride) const {
        for (int r = 0; r < rows_of(tile); ++r)
            std::memcpy(static_cast<char*>(to) + r * stride, data_[tile][r], row_bytes(tile));
    }

    // tdpbf16ps.
    void add_products(int sum, int a, int b) {
        if (rows_of(sum) != rows_of(a) || row_bytes(sum) != row_bytes(b) || row_bytes(a) != 4 * std::size_t(rows_of(b)))
            fail("their shapes do not fit");
        for (int m = 0; m < rows_of(sum); ++m)
            for (std::size_t n = 0; n < row_bytes(sum) / 4; ++n) {
                float even = 0, odd = 0, before;
                for (std::size_t k = 0; k < row_bytes(a) / 4; ++k) {
                    even = fused(of_bfloat16(half(a, m, 2 * k)), of_bfloat16(half(b, int(k), 2 * n)), even);
                    odd = fused(of_bfloat16(half(a, m, 2 * k + 1)), of_bfloat16(half(b, int(k), 2 * n + 1)), odd);
                }
                std::memcpy(&before, data_[sum][m] + 4 * n, sizeof before);
                const float after = without_subnormal(without_subnormal(before) + without_subnormal(even + odd));
                std::memcpy(data_[sum][m] + 4 * n, &after, sizeof after);
            }
    }

private:
    [[noreturn]] static void fail(const char* why) {
        std::fprintf(stderr, "tiles of bfloat16: %s\n", why);
        std::abort();
    }

    int rows_of(int tile) const {
        if (configuration_[0] != 1 || !configuration_[48 + tile]) fail("they are not configured");
        return configuration_[48 + tile];
    }
    std::size_t row_bytes(int tile) const {
        return configuration_[16 + 2 * tile] + std::size_t(256) * configuration_[17 + 2 * tile];
    }
    std::uint16_t half(int tile, int row, std::size_t column) const {
        std::uint16_t bits;
        std::memcpy(&bits, data_[tile][row] + 2 * column, sizeof bits);
        return bits;
    }

    unsigned char configuration_[64] = {};
    unsigned char data_[8][16][64] = {};
};

}  // namespace fuzz
