// Scores of a few rows against panels of keys, their maxima, and the weights they become.
#pragma once

#include <limits>

#include "exponential.hpp"
#include "product.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// Keys in panels, transposed: coordinate l of the key at index j is data[j / PANEL * step + l * row + j % PANEL].
template <class T> struct Panels {
    const T* data;
    Index step, row;

    // Separate panels, one after the other, with d rows each.
    Panels(const T* panels, Index d) : data(panels), step(PANEL<T> * d), row(PANEL<T>) {}
    // Panels side by side: rows of all keys, `length` apart.
    static Panels side_by_side(const T* rows, Index length) {
        Panels made(rows, 1);
        made.row = length;
        return made;
    }

    const T* from(Index key) const { return data + key / PANEL<T> * step; }
};

// into[r][j] = <A_r, k_j> for the keys of `count` panels from the key `first` on; row r begins at into + r * stride.
template <class T, int R>
inline void scores(Index depth, Left<T> A, const Panels<T>& panels, Index first, Index count, T* into, Index stride) {
    const T* keys = panels.from(first);
    for (Index panel = 0; panel < count; ++panel) {
        Vector<T> s[R][COLUMNS] = {};
        add_product<T, R, COLUMNS>(depth, A, keys + panel * panels.step, panels.row, s);
        for (int r = 0; r < R; ++r)
            for (int n = 0; n < COLUMNS; ++n) store(into + r * stride + panel * PANEL<T> + n * WIDTH<T>, s[r][n]);
    }
}

// The largest of the numbers S[from] to S[to - 1]. NaN may be ignored here, because its weight is NaN for any maximum.
template <class T> inline T largest(const T* S, Index from, Index to) {
    constexpr Index W = WIDTH<T>;
    const Vector<T> least = all(-std::numeric_limits<T>::infinity());
    Vector<T> most = least;
    for (Index v = from / W * W; v < to; v += W) {
        Vector<T> s = load(S + v);
        if (v < from || v + W > to) s = lanes_between<T>(from - v, to - v) ? s : least;
        most = s > most ? s : most;
    }
    return largest_lane<T>(most);
}

// How scores are clamped so that their power of two is a normal number: not at all, from below, or from both sides.
enum class Kept { AS_THEY_ARE, NOT_TOO_SMALL, NEAR_ONE };

// Replace S[from] to S[to - 1] by 2^(S - peak), and the rest of their vectors by zeros; returns the sum.
template <class T, Kept KEPT> inline Vector<T> weigh(T* S, Index from, Index to, T peak) {
    constexpr Index W = WIDTH<T>;
    Vector<T> total{};
    const auto weight = [&](Index v) {
        Vector<T> s = load(S + v);
        if (KEPT != Kept::AS_THEY_ARE) s = at_least<T>(s - peak, all(Exponential<T>::LOWEST));
        if (KEPT == Kept::NEAR_ONE) s = s > all(T(1)) ? all(T(1)) : s;
        return exp2<T>(s);
    };
    Index v = from / W * W;
    const auto partial = [&] {
        const Vector<T> e = lanes_between<T>(from - v, to - v) ? weight(v) : Vector<T>{};
        store(S + v, e);
        total += e;
        v += W;
    };
    if (v < from) partial();
    for (; v + 4 * W <= to; v += 4 * W) {
        Vector<T> e[4];
        for (int i = 0; i < 4; ++i) e[i] = weight(v + i * W);
        for (int i = 0; i < 4; ++i) store(S + v + i * W, e[i]);
        total += (e[0] + e[1]) + (e[2] + e[3]);
    }
    for (; v + W <= to; v += W) {
        const Vector<T> e = weight(v);
        store(S + v, e);
        total += e;
    }
    if (v < to) partial();
    return total;
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
