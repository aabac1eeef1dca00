// Numbers as tensors store them: in the type of the arithmetic, or in a 16-bit half type.
//
// Arithmetic is in float or double. A half type is widened when a row is read, which is exact, and rounded when a
// result is written: once, to nearest with ties to even, and to infinity beyond the largest number. Both use integers
// and a float in each lane, so that the compiler vectorises them for every architecture. bfloat16.hpp has bfloat16
// products, which some processors compute without widening.
#pragma once

#include <cmath>

#include "separatrix.h"
#include "vectors.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

struct Float16 {
    std::uint16_t bits;
};

struct BFloat16 {
    std::uint16_t bits;
};

inline std::int32_t bits_of(float x) {
    std::int32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

inline float of_bits(std::int32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

// The exponent of a float, in its bit position.
constexpr std::int32_t exponent(std::int32_t biased) { return biased << 23; }

// Select one of two by comparing non-negative numbers, without a branch, so that the loop can be vectorised.
inline std::int32_t below(std::int32_t x, std::int32_t limit, std::int32_t then, std::int32_t otherwise) {
    const std::int32_t yes = (x - limit) >> 31;
    return (then & yes) | (otherwise & ~yes);
}

inline float widened(float x) { return x; }
inline double widened(double x) { return x; }
inline float widened(BFloat16 x) { return of_bits(static_cast<std::int32_t>(static_cast<std::uint32_t>(x.bits) << 16)); }

// The exponent bias of float16 is 112 less than that of float. A subnormal number is 2^-14 less than a normal number
// with the same digits; infinity and NaN have the largest exponent in either type.
inline float widened(Float16 x) {
    const std::int32_t magnitude = (x.bits & 0x7fff) << 13;
    const float subnormal = of_bits(magnitude + exponent(113)) - 0x1p-14f;
    const std::int32_t whole = magnitude + below(magnitude, exponent(31), exponent(112), exponent(224));
    const std::int32_t found = below(magnitude, exponent(1), bits_of(subnormal), whole);
    return of_bits(found | (x.bits & 0x8000) * -0x10000);
}

inline void round_to(float& to, float x) { to = x; }
inline void round_to(double& to, double x) { to = x; }

inline void round_to(BFloat16& to, float x) {
    const auto bits = static_cast<std::uint32_t>(bits_of(x)), rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    to.bits = static_cast<std::uint16_t>(x == x ? rounded : 0x7fc0u);
}

// Below 2^-14 the sum with 1/2 is rounded at the last digit of a subnormal number; from 2^16 on the result is infinite.
inline void round_to(Float16& to, float x) {
    const std::int32_t magnitude = bits_of(x) & 0x7fffffff, sign = bits_of(x) >> 16 & 0x8000;
    const float at_half = of_bits(magnitude) + 0.5f;
    const std::int32_t normal = (magnitude - exponent(112) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    const std::int32_t finite = below(magnitude, exponent(113), bits_of(at_half) - exponent(126), normal);
    const std::int32_t beyond = below(exponent(255), magnitude, 0x7e00, 0x7c00);
    to.bits = static_cast<std::uint16_t>(below(magnitude, exponent(143), finite, beyond) | sign);
}

// Call f with a number of the type that tensors are stored in: f(S{}). T is the type of the arithmetic.
template <class T, class F> inline void as_stored(Index type, F&& f) {
    if constexpr (sizeof(T) == 4) {
        if (type == SEPARATRIX_FLOAT16) return f(Float16{});
        if (type == SEPARATRIX_BFLOAT16) return f(BFloat16{});
    }
    f(T{});
}

template <class S> inline const S* row_of(const separatrix_tensor& x, Index head, Index row) {
    return static_cast<const S*>(x.data) + head * x.head + row * x.row;
}

// A row of a tensor, widened.
template <class T>
inline void read_row(Index type, const separatrix_tensor& x, Index head, Index row, Index width, T* to) {
    as_stored<T>(type, [&](auto stored) {
        const auto* from = row_of<decltype(stored)>(x, head, row);
        for (Index l = 0; l < width; ++l) to[l] = widened(from[l]);
    });
}

// Row number `row` of a contiguous result, rounded.
template <class T> inline void write_row(Index type, const T* from, Index width, void* into, Index row) {
    as_stored<T>(type, [&](auto stored) {
        auto* to = static_cast<decltype(stored)*>(into) + row * width;
        for (Index l = 0; l < width; ++l) round_to(to[l], from[l]);
    });
}

// Rows [first, first + count) of a head, widened, into rows of `padded` numbers, padded by zeros. Contiguous rows of
// the arithmetic type are read in whole vectors, as long as these end within the last row.
template <class T>
inline void read_rows(Index type, const separatrix_tensor& x, Index head, Index first, Index count, Index width,
                      Index padded, T* to) {
    Index j = 0;
    if (x.row == width && type == (sizeof(T) == 4 ? SEPARATRIX_FLOAT32 : SEPARATRIX_FLOAT64)) {
        const T* from = row_of<T>(x, head, first);
        const Index last = padded - WIDTH<T>;
        const Bits<T> rest = lanes_between<T>(0, width - last);
        for (; (count - j) * width >= padded; ++j, from += width, to += padded) {
            for (Index l = 0; l < last; l += WIDTH<T>) store(to + l, load(from + l));
            store(to + last, rest ? load(from + last) : Vector<T>{});
        }
    }
    for (; j < count; ++j, to += padded) {
        read_row(type, x, head, first + j, width, to);
        fill_zeros(to, width, padded);
    }
}

// Rows [row, row + count) of a contiguous result, rounded, from rows of `padded` numbers. In the arithmetic type they
// are written in whole vectors; the next row overwrites what is written past the end of a row.
template <class T>
inline void write_rows(Index type, const T* from, Index count, Index width, Index padded, void* into, Index row) {
    Index j = 0;
    if (type == (sizeof(T) == 4 ? SEPARATRIX_FLOAT32 : SEPARATRIX_FLOAT64)) {
        T* to = static_cast<T*>(into) + row * width;
        for (; (count - j) * width >= padded; ++j, from += padded, to += width)
            for (Index l = 0; l < padded; l += WIDTH<T>) store(to + l, load(from + l));
    }
    for (; j < count; ++j, from += padded) write_row(type, from, width, into, row + j);
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
