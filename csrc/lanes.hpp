// Sums across the lanes of one or several vectors, and transposed squares of numbers.
#pragma once

#include "vectors.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// Lanes of two vectors, selected by number: those of the second follow those of the first.
#if defined(__clang__)
#define SEPARATRIX_PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SEPARATRIX_PICK(a, b, ...) __builtin_shuffle(a, b, Longs{__VA_ARGS__})
#endif

// Interleave the lanes of two vectors: those of their first halves, and those of their second halves.
template <class T> inline void interleave(Vector<T> a, Vector<T> b, Vector<T>& first, Vector<T>& second) {
#if defined(__clang__)
    T from[2][WIDTH<T>], to[2 * WIDTH<T>];
    store(from[0], a), store(from[1], b);
    for (Index i = 0; i < WIDTH<T>; ++i) to[2 * i] = from[0][i], to[2 * i + 1] = from[1][i];
    first = load(to), second = load(to + WIDTH<T>);
#else
    Bits<T> lane;
    for (Index i = 0; i < WIDTH<T>; ++i) lane[i] = static_cast<decltype(lane[0] + 0)>(i / 2 + i % 2 * WIDTH<T>);
    first = __builtin_shuffle(a, b, lane), second = __builtin_shuffle(a, b, lane + WIDTH<T> / 2);
#endif
}

// The lanes of a vector, selected by number.
template <class T> inline Vector<T> picked(Vector<T> x, Bits<T> lanes) {
#if defined(__clang__)
    Vector<T> to;
    for (Index i = 0; i < WIDTH<T>; ++i) to[i] = x[lanes[i]];
    return to;
#else
    return __builtin_shuffle(x, lanes);
#endif
}

// Transpose a square: each step interleaves the rows of its two halves.
template <class T> inline void transpose_square(Vector<T> (&rows)[WIDTH<T>]) {
    constexpr Index W = WIDTH<T>;
    for (Index step = 1; step < W; step *= 2) {
        Vector<T> next[W];
#pragma GCC unroll 8
        for (Index i = 0; i < W / 2; ++i) interleave<T>(rows[i], rows[i + W / 2], next[2 * i], next[2 * i + 1]);
#pragma GCC unroll 16
        for (Index i = 0; i < W; ++i) rows[i] = next[i];
    }
}

// The sums of the lanes of as many vectors as a vector has lanes, in one vector, by repeatedly adding pairs of vectors.
inline Doubles sums_of_lanes(const Doubles (&x)[WIDTH<double>]) {
#if SEPARATRIX_BYTES == 64
    Doubles y[4], z[2];
    for (int i = 0; i < 4; ++i)
        y[i] = SEPARATRIX_PICK(x[2 * i], x[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14) +
               SEPARATRIX_PICK(x[2 * i], x[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    for (int i = 0; i < 2; ++i)
        z[i] = SEPARATRIX_PICK(y[2 * i], y[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
               SEPARATRIX_PICK(y[2 * i], y[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
    return SEPARATRIX_PICK(z[0], z[1], 0, 1, 2, 3, 8, 9, 10, 11) +
           SEPARATRIX_PICK(z[0], z[1], 4, 5, 6, 7, 12, 13, 14, 15);
#elif SEPARATRIX_BYTES == 32
    Doubles y[2];
    for (int i = 0; i < 2; ++i)
        y[i] = SEPARATRIX_PICK(x[2 * i], x[2 * i + 1], 0, 4, 2, 6) + SEPARATRIX_PICK(x[2 * i], x[2 * i + 1], 1, 5, 3, 7);
    return SEPARATRIX_PICK(y[0], y[1], 0, 1, 4, 5) + SEPARATRIX_PICK(y[0], y[1], 2, 3, 6, 7);
#else
    return SEPARATRIX_PICK(x[0], x[1], 0, 2) + SEPARATRIX_PICK(x[0], x[1], 1, 3);
#endif
}

// The same lanes in double; for floats, the sums of pairs that are half a vector apart.
inline Doubles widened(Doubles x) { return x; }
inline Doubles widened(Floats x) {
    typedef float Half __attribute__((vector_size(SEPARATRIX_BYTES / 2)));
    Half half[2];
    std::memcpy(half, &x, sizeof x);
    return __builtin_convertvector(half[0], Doubles) + __builtin_convertvector(half[1], Doubles);
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
