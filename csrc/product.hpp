// The inner loop of every matrix product: a few rows of A by a few vectors of columns of B, in registers.
#pragma once

#include <type_traits>

#include "vectors.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// The number of rows of a tile, and of vectors of its columns: the accumulators, a vector of B and an entry of A fill
// the registers.
#if SEPARATRIX_BYTES == 64
constexpr int ROWS = 12;
#elif defined(__aarch64__)
constexpr int ROWS = 12;
#else
constexpr int ROWS = 6;
#endif
constexpr int COLUMNS = 2;
template <class T> constexpr Index PANEL = COLUMNS * WIDTH<T>;

// An operand that is read entry by entry: row r and column k are at data[r * row + k * column].
template <class T> struct Left {
    const T* data;
    Index row, column;
};

// Copy sums to local variables, or back. The loops here and in the products are unrolled; otherwise GCC 12 keeps the
// sums in memory and stores them after every product.
template <class V, int R, int N> inline void copy_sums(const V (&from)[R][N], V (&to)[R][N]) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) to[r][n] = from[r][n];
}

// into[r][n] += sum over k in [0, depth) of A[r][k] B[k][n], with row k of B at B + k * stride.
template <class T, int R, int N>
inline void add_product(Index depth, Left<T> A, const T* B, Index stride, Vector<T> (&into)[R][N]) {
    Vector<T> sums[R][N];
    copy_sums(into, sums);
    for (Index k = 0; k < depth; ++k) {
        Vector<T> b[N];
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) b[n] = load(B + k * stride + n * WIDTH<T>);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
            const Vector<T> a = all(A.data[r * A.row + k * A.column]);
#pragma GCC unroll 2
            for (int n = 0; n < N; ++n) sums[r][n] = multiply_add(a, b[n], sums[r][n]);
        }
    }
    copy_sums(sums, into);
}

// Call f with the number of rows as a compile-time constant: f(std::integral_constant<int, rows>).
template <int R = ROWS, class F> inline void with_rows(Index rows, F&& f) {
    if constexpr (R == 1) {
        f(std::integral_constant<int, 1>{});
    } else {
        if (rows == R) f(std::integral_constant<int, R>{});
        else with_rows<R - 1>(rows, static_cast<F&&>(f));
    }
}

// Call f for all columns of a row, up to MOST vectors at a time: f(std::integral_constant<int, vectors>, first column).
template <class T, int MOST = COLUMNS, class F> inline void each_column_of(Index width, F&& f) {
    Index column = 0;
    for (; column + MOST * WIDTH<T> <= width; column += MOST * WIDTH<T>) f(std::integral_constant<int, MOST>{}, column);
    if (column < width) with_rows<MOST - 1>((width - column) / WIDTH<T>, [&](auto vectors) { f(vectors, column); });
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
