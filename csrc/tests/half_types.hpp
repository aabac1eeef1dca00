// Half types by their definition: rounding to nearest, and the bits of a number.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "../separatrix.h"

namespace fuzz {

struct HalfType {
    int digits, lowest;  // binary digits, and the exponent of the smallest normal number
    double largest;
};

static inline HalfType half_type(std::int64_t type) {
    return type == SEPARATRIX_FLOAT16 ? HalfType{11, -14, 65504.0} : HalfType{8, -126, 0x1.fep127};
}

// The number of a half type nearest to x, with ties to even, or an infinity beyond the largest.
static inline double nearest(std::int64_t type, double x) {
    const HalfType of = half_type(type);
    if (x == 0 || !std::isfinite(x)) return x;
    const double unit = std::ldexp(1.0, std::max(std::ilogb(x), of.lowest) - of.digits + 1);
    const double rounded = std::nearbyint(x / unit) * unit;
    return std::fabs(rounded) > of.largest ? std::copysign(INFINITY, x) : rounded;
}

// The bits of a number of a half type: sign, exponent and digits.
static inline std::uint16_t half_bits(std::int64_t type, double x) {
    const HalfType of = half_type(type);
    const int stored = of.digits - 1;  // digits after the point
    const auto not_finite = ((1 << (15 - stored)) - 1) << stored;
    int bits = 0;
    if (std::isnan(x)) bits = not_finite | 1 << (stored - 1);
    else if (std::isinf(x)) bits = not_finite;
    else if (x != 0) {
        const int exponent = std::max(std::ilogb(x), of.lowest);
        const int digits = static_cast<int>(std::ldexp(std::fabs(x), stored - exponent));
        bits = digits + ((exponent - of.lowest) << stored);
    }
    return static_cast<std::uint16_t>(bits | (std::signbit(x) ? 0x8000 : 0));
}

}  // namespace fuzz
