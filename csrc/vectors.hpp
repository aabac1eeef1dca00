// Vectors of an architecture: the number of lanes, and the few operations that the kernels are built from.
//
// The kernels are compiled once for each architecture, in a separate namespace (SEPARATRIX_ARCH), with vectors of
// SEPARATRIX_BYTES. Sums, products and comparisons are the compiler's own for vector types. Only the fused multiply-add
// is chosen for each architecture: the compiler must not contract anything else (-ffp-contract=off), so that every
// rounding is visible in the source.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace separatrix {
namespace SEPARATRIX_ARCH {

using Index = std::int64_t;

typedef float Floats __attribute__((vector_size(SEPARATRIX_BYTES)));
typedef double Doubles __attribute__((vector_size(SEPARATRIX_BYTES)));
typedef std::int32_t Ints __attribute__((vector_size(SEPARATRIX_BYTES)));
typedef std::int64_t Longs __attribute__((vector_size(SEPARATRIX_BYTES)));

template <class T> struct Lanes;
template <> struct Lanes<float> {
    using Vector = Floats;
    using Bits = Ints;
};
template <> struct Lanes<double> {
    using Vector = Doubles;
    using Bits = Longs;
};

template <class T> using Vector = typename Lanes<T>::Vector;
template <class T> using Bits = typename Lanes<T>::Bits;
template <class T> constexpr Index WIDTH = SEPARATRIX_BYTES / sizeof(T);

template <class T> inline Vector<T> load(const T* from) {
    Vector<T> x;
    std::memcpy(&x, from, sizeof x);
    return x;
}

template <class T> inline void store(T* to, Vector<T> x) { std::memcpy(to, &x, sizeof x); }

template <class T> inline Vector<T> all(T x) { return x - Vector<T>{}; }

// The same vector, loaded once and kept in a register; the compiler would load it for each of its uses.
template <class V> inline V kept(V x) {
#if (SEPARATRIX_BYTES == 64 && defined(__AVX512F__))
    asm("" : "+v"(x));
#elif defined(__x86_64__) && (SEPARATRIX_BYTES == 16 || SEPARATRIX_BYTES == 32 && defined(__AVX2__))
    asm("" : "+x"(x));
#elif defined(__aarch64__)
    asm("" : "+w"(x));
#endif
    return x;
}

// a * b + c, rounded once if the architecture has fused multiply-adds.
inline Floats multiply_add(Floats a, Floats b, Floats c) {
#if SEPARATRIX_BYTES == 64 && defined(__AVX512F__)
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif SEPARATRIX_BYTES == 64 && defined(__FMA__)
    __m256 x[2], y[2], z[2];
    std::memcpy(x, &a, 64), std::memcpy(y, &b, 64), std::memcpy(z, &c, 64);
    for (int half = 0; half < 2; ++half) z[half] = _mm256_fmadd_ps(x[half], y[half], z[half]);
    std::memcpy(&c, z, 64);
    return c;
#elif SEPARATRIX_BYTES == 32 && defined(__FMA__)
    return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif SEPARATRIX_BYTES == 16 && defined(__aarch64__)
    return (Floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
#if SEPARATRIX_BYTES == 64 && defined(__AVX512F__)
    return (Doubles)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif SEPARATRIX_BYTES == 64 && defined(__FMA__)
    __m256d x[2], y[2], z[2];
    std::memcpy(x, &a, 64), std::memcpy(y, &b, 64), std::memcpy(z, &c, 64);
    for (int half = 0; half < 2; ++half) z[half] = _mm256_fmadd_pd(x[half], y[half], z[half]);
    std::memcpy(&c, z, 64);
    return c;
#elif SEPARATRIX_BYTES == 32 && defined(__FMA__)
    return (Doubles)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif SEPARATRIX_BYTES == 16 && defined(__aarch64__)
    return (Doubles)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
    return a * b + c;
#endif
}

// The larger of two numbers; x if x is NaN.
template <class T> inline Vector<T> at_least(Vector<T> x, Vector<T> least) { return x < least ? least : x; }

// The larger of two numbers or vectors; NaN if either is.
template <class X> inline X larger(X a, X b) { return ((b <= a) | (a != a)) ? a : b; }

// The larger of the magnitude `most` and that of x; NaN counts as larger than any number. Magnitudes are compared by
// their bits, read as integers.
template <class T> inline Vector<T> larger_magnitude(Vector<T> most, Vector<T> x) {
    Bits<T> bits, most_bits;
    std::memcpy(&bits, &x, sizeof x), std::memcpy(&most_bits, &most, sizeof x);
    bits &= std::numeric_limits<std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>>::max();
    most_bits = bits > most_bits ? bits : most_bits;
    std::memcpy(&most, &most_bits, sizeof most);
    return most;
}

// A bit mask with ones in the lanes [from, to) and zeros elsewhere.
template <class T> inline Bits<T> lanes_between(Index from, Index to) {
    Bits<T> lane;
    for (Index i = 0; i < WIDTH<T>; ++i) lane[i] = static_cast<decltype(lane[0] + 0)>(i);
    using Lane = std::remove_reference_t<decltype(lane[0])>;
    return (lane >= static_cast<Lane>(from)) & (lane < static_cast<Lane>(to));
}

// Combine the lanes of a vector: repeatedly the first half with the second, which keeps the chain of dependent
// operations short.
template <class T, class F> inline T combined_lanes(Vector<T> x, F&& combine) {
    T lanes[WIDTH<T>];
    store(lanes, x);
    for (Index half = WIDTH<T> / 2; half > 0; half /= 2)
        for (Index i = 0; i < half; ++i) lanes[i] = combine(lanes[i], lanes[i + half]);
    return lanes[0];
}

template <class T> inline T sum_of_lanes(Vector<T> x) {
    return combined_lanes<T>(x, [](T a, T b) { return a + b; });
}

template <class T> inline T largest_lane(Vector<T> x) {
    return combined_lanes<T>(x, [](T a, T b) { return a < b ? b : a; });
}

template <class T> inline void fill_zeros(T* into, Index from, Index to) {
    for (Index j = from; j < to; ++j) into[j] = 0;
}

inline Index rounded_up(Index n, Index to) { return (n + to - 1) / to * to; }

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
