// Products with monomials that are never written: states, sums of queries, and gradients of near-linear attention.
//
// With monomials Phi (rank, n), values W (columns, n) and a matrix M (rank, columns) these are the derivatives of
// sum_n sum_alpha Phi_alpha,n <M_alpha, W_n>:
//
//     by M: Phi W^T (`add`),    by W: M^T Phi (`sums`),    by the tokens themselves (`gradient`).
//
// Lanes are tokens. What is added up over tokens is added up in each lane of a tile in the type of the monomials; then,
// in double, the lanes of a tile, the tiles of a task, and the tasks of a head, in their order.
#pragma once

#include <algorithm>

#include "lanes.hpp"
#include "product.hpp"
#include "tasks.hpp"
#include "tile.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// How a call is cut: a function of its shape alone.
template <class T> struct Pieces {
#if SEPARATRIX_BYTES == 64
    static constexpr int COLUMNS_OF_STATES = 10, COLUMNS_OF_SUMS = 12;
#elif defined(__aarch64__)
    static constexpr int COLUMNS_OF_STATES = 10, COLUMNS_OF_SUMS = 12;
#else
    static constexpr int COLUMNS_OF_STATES = 5, COLUMNS_OF_SUMS = 6;
#endif
    static constexpr int ALPHAS = 2;                    // monomials whose products with columns are in registers
    static constexpr Index SHORT = COLUMNS * WIDTH<T>;  // tokens of a tile whose sums stay in registers
    static constexpr Index RANGE = 1024;                // tokens of a task of these
    Index tile;                                         // tokens of a tile that adds to a state
    Index tasks, range;                                 // tasks of a head that add to a state, and their tokens

    explicit Pieces(const separatrix_products& call) {
        // The stored rows stay in the second cache; a tile is added up in the lanes, and long enough to be worth it.
        const Index fit = (1 << 19) / (static_cast<Index>(sizeof(T)) * call.set->stored);
        tile = std::min<Index>(256, std::max<Index>(128, fit / 64 * 64));
        tile = std::min(tile, rounded_up(call.tokens, WIDTH<T>));
        // Sums of their own for some sixteen tasks at the most, each of a thousand tokens at the least.
        const Index most = std::max<Index>(1, 16 / std::max<Index>(call.heads, 1));
        tasks = std::max<Index>(1, std::min(most, call.tokens / 1024));
        range = rounded_up((call.tokens + tasks - 1) / tasks, tile);
    }
};

template <class T> inline const T* head_of(const separatrix_tensor& x, Index head) {
    return static_cast<const T*>(x.data) + head * x.head;
}

// Call f for columns in blocks of at most MOST, about as wide as each other: f(integral_constant<int, width>, first).
template <int MOST, class F> inline void each_block_of(Index columns, F&& f) {
    const Index blocks = (columns + MOST - 1) / MOST;
    for (Index block = 0; block < blocks; ++block) {
        const Index first = columns * block / blocks, last = columns * (block + 1) / blocks;
        with_rows<MOST>(last - first, [&](auto width) { f(width, first); });
    }
}

// into[alpha][column] gets the sum over the tokens of a tile, or has it added.
template <class T> class Adding {
public:
    Adding(const separatrix_products& call, Index tile)
        : call_(call), monomials_(*call.set, tile), W_(call.columns * tile) {}

    void tokens(Index head, Index first, Index last, double* into) {
        bool adds = false;
        for (Index start = first; start < last; start += monomials_.size(), adds = true) {
            const Index count = std::min(monomials_.size(), last - start);
            monomials_.fill(head_of<T>(call_.x, head) + start, call_.x.row, count);
            pack_values(head, start, count);
            each_block_of<Pieces<T>::COLUMNS_OF_STATES>(call_.columns, [&](auto width, Index column) {
                constexpr int C = decltype(width)::value;
                Index alpha = 0;
                for (; alpha + Pieces<T>::ALPHAS <= call_.set->rank; alpha += Pieces<T>::ALPHAS)
                    product<Pieces<T>::ALPHAS, C>(alpha, column, adds, into);
                for (; alpha < call_.set->rank; ++alpha) product<1, C>(alpha, column, adds, into);
            });
        }
    }

private:
    // A vector of tokens of each column, side by side, with zeros behind the last token.
    void pack_values(Index head, Index start, Index count) {
        for (Index c = 0; c < call_.columns; ++c) {
            const T* from = head_of<T>(call_.W, head) + c * call_.W.row + start;
            T* into = W_ + c * WIDTH<T>;
            Index t = 0;
            for (; t + WIDTH<T> <= count; t += WIDTH<T>, into += call_.columns * WIDTH<T>) store(into, load(from + t));
            for (; t < monomials_.size(); t += WIDTH<T>, into += call_.columns * WIDTH<T>)
                for (Index lane = 0; lane < WIDTH<T>; ++lane) into[lane] = t + lane < count ? from[t + lane] : T(0);
        }
    }

    template <int A, int C> void product(Index alpha, Index column, bool adds, double* into) const {
        const Index size = monomials_.size();
        const T *left[A], *right[A], *W = W_ + column * WIDTH<T>;
        for (int a = 0; a < A; ++a) left[a] = monomials_.left(alpha + a), right[a] = monomials_.right(alpha + a);
        Vector<T> sum[A][C];
        for (int a = 0; a < A; ++a)
            for (int c = 0; c < C; ++c) sum[a][c] = Vector<T>{};
        for (Index t = 0; t < size; t += WIDTH<T>, W += call_.columns * WIDTH<T>) {
            Vector<T> monomial[A];
            for (int a = 0; a < A; ++a) monomial[a] = load(left[a] + t) * load(right[a] + t);
            for (int c = 0; c < C; ++c) {
                const Vector<T> w = kept(load(W + c * WIDTH<T>));
                for (int a = 0; a < A; ++a) sum[a][c] = multiply_add(monomial[a], w, sum[a][c]);
            }
        }
        constexpr int GROUP = static_cast<int>(WIDTH<double>), GROUPS = (A * C + GROUP - 1) / GROUP;
        double totals[GROUPS * GROUP];
        for (int group = 0; group < GROUPS; ++group) {
            Doubles lanes[GROUP];
            for (int i = 0; i < GROUP; ++i) {
                const int number = group * GROUP + i;
                lanes[i] = number < A * C ? widened(sum[number / C][number % C]) : Doubles{};
            }
            store(totals + group * GROUP, sums_of_lanes(lanes));
        }
        for (int a = 0; a < A; ++a) {
            double* row = into + (alpha + a) * call_.columns + column;
            for (int c = 0; c < C; ++c) row[c] = adds ? row[c] + totals[a * C + c] : totals[a * C + c];
        }
    }

    const separatrix_products& call_;
    Tile<T> monomials_;
    Array<T> W_;
};

template <class T> int products_add(const separatrix_products& call, double* state) {
    if (!call.tokens || !call.heads) return SEPARATRIX_DONE;
    const Pieces<T> pieces(call);
    const Index entries = call.set->rank * call.columns;
    Array<double> sums(call.heads * pieces.tasks * entries);
    auto add = [&](Index task) {
        const Index head = task / pieces.tasks, first = task % pieces.tasks * pieces.range;
        Adding<T>(call, pieces.tile).tokens(head, first, std::min(first + pieces.range, call.tokens), sums + task * entries);
    };
    if (const int failed = for_each_task(call.heads * pieces.tasks, add)) return failed;
    auto join = [&](Index head) {
        double *into = state + head * entries, *own = sums + head * pieces.tasks * entries;
        // A range that begins behind the last token was left out, and so were those behind it.
        const Index used = (call.tokens + pieces.range - 1) / pieces.range;
        for (Index entry = 0; entry < entries; ++entry) {
            double total = own[entry];
            for (Index task = 1; task < used; ++task) total += own[task * entries + entry];
            into[entry] += total;
        }
    };
    return for_each_task(call.heads, join);
}

// Call f(head, tile, first token, how many) for all tokens in short tiles, in tasks of RANGE tokens.
template <class T, class F> int each_short_tile(const separatrix_products& call, F f) {
    const Index ranges = (call.tokens + Pieces<T>::RANGE - 1) / Pieces<T>::RANGE;
    auto work = [&](Index task) {
        const Index head = task / ranges, first = task % ranges * Pieces<T>::RANGE;
        f(head, first, std::min(first + Pieces<T>::RANGE, call.tokens));
    };
    return for_each_task(call.heads * ranges, work);
}

// out (heads, columns, tokens) = M^T Phi, with M (heads, rank, columns).
template <class T>
inline void sums_of_tile(const separatrix_products& call, const Tile<T>& tile, const T* M, T* out, Index count) {
    each_block_of<Pieces<T>::COLUMNS_OF_SUMS>(call.columns, [&](auto width, Index column) {
        constexpr int C = decltype(width)::value;
        Vector<T> sum[C][COLUMNS] = {};
        const T* row = M + column;
        for (Index alpha = 0; alpha < call.set->rank; ++alpha, row += call.columns) {
            const T *left = tile.left(alpha), *right = tile.right(alpha);
            Vector<T> monomial[COLUMNS];
            for (int n = 0; n < COLUMNS; ++n) monomial[n] = load(left + n * WIDTH<T>) * load(right + n * WIDTH<T>);
            for (int c = 0; c < C; ++c) {
                const Vector<T> m = all(row[c]);
                for (int n = 0; n < COLUMNS; ++n) sum[c][n] = multiply_add(m, monomial[n], sum[c][n]);
            }
        }
        T lanes[C][Pieces<T>::SHORT];
        for (int c = 0; c < C; ++c)
            for (int n = 0; n < COLUMNS; ++n) store(lanes[c] + n * WIDTH<T>, sum[c][n]);
        for (int c = 0; c < C; ++c)
            std::memcpy(out + (column + c) * call.tokens, lanes[c], static_cast<std::size_t>(count) * sizeof(T));
    });
}

template <class T> int products_sums(const separatrix_products& call, const void* M, void* out) {
    return each_short_tile<T>(call, [&](Index head, Index first, Index last) {
        constexpr Index SHORT = Pieces<T>::SHORT;
        Tile<T> tile(*call.set, SHORT);
        for (Index start = first; start < last; start += SHORT) {
            const Index count = std::min(SHORT, last - start);
            tile.fill(head_of<T>(call.x, head) + start, call.x.row, count);
            sums_of_tile<T>(call, tile, static_cast<const T*>(M) + head * call.set->rank * call.columns,
                            static_cast<T*>(out) + head * call.columns * call.tokens + start, count);
        }
    });
}

// The gradients of x and of W. That of a monomial is <M_alpha, W_n>; it goes to its two factors at once, and from the
// stored rows, the last one first, to theirs.
template <class T> class Pulling {
public:
    static constexpr Index SHORT = Pieces<T>::SHORT;

    explicit Pulling(const separatrix_products& call)
        : call_(call), set_(*call.set), tile_(set_, SHORT), W_(call.columns * SHORT), rows_(set_.stored * SHORT),
          coordinates_((set_.d + 1) * SHORT) {}

    void pull(Index head, Index start, Index count, const T* M, T* grad_x, T* grad_W) {
        tile_.fill(head_of<T>(call_.x, head) + start, call_.x.row, count);
        Tile<T>::copy_rows(head_of<T>(call_.W, head) + start, call_.W.row, call_.columns, count, W_, SHORT, SHORT);
        sums_of_tile<T>(call_, tile_, M, grad_W + start, count);
        for (Index i = 0; i < set_.stored * SHORT; ++i) rows_[i] = 0;
        for (Index i = 0; i < (set_.d + 1) * SHORT; ++i) coordinates_[i] = 0;
        for (Index alpha = 0; alpha < set_.rank; ++alpha) {
            const T* row = M + alpha * call_.columns;
            Vector<T> grad[COLUMNS] = {};
            for (Index c = 0; c < call_.columns; ++c) {
                const Vector<T> m = all(row[c]);
                for (int n = 0; n < COLUMNS; ++n)
                    grad[n] = multiply_add(m, load(W_ + c * SHORT + n * WIDTH<T>), grad[n]);
            }
            hand_on(grad, set_.left[alpha], set_.right[alpha]);
        }
        for (Index r = set_.stored - 1; r > 0; --r) {
            Vector<T> grad[COLUMNS];
            for (int n = 0; n < COLUMNS; ++n) grad[n] = load(rows_ + r * SHORT + n * WIDTH<T>);
            hand_on(grad, set_.parents[r], set_.coordinates[r]);
        }
        for (Index l = 0; l < set_.d; ++l)
            std::memcpy(grad_x + l * call_.tokens + start, coordinates_ + l * SHORT,
                        static_cast<std::size_t>(count) * sizeof(T));
    }

private:
    // The gradient of a product of a row and a coordinate goes to both.
    void hand_on(const Vector<T> (&grad)[COLUMNS], Index r, Index l) {
        const T *row = tile_.row(r), *x = tile_.coordinate(l);
        T *to_row = rows_ + r * SHORT, *to_x = coordinates_ + l * SHORT;
        for (Index n = 0, t = 0; n < COLUMNS; ++n, t += WIDTH<T>) {
            store(to_row + t, multiply_add(grad[n], load(x + t), load(to_row + t)));
            store(to_x + t, multiply_add(grad[n], load(row + t), load(to_x + t)));
        }
    }

    const separatrix_products& call_;
    const separatrix_monomials& set_;
    Tile<T> tile_;
    Array<T> W_, rows_, coordinates_;
};

template <class T> int products_gradient(const separatrix_products& call, const void* M, void* grad_x, void* grad_W) {
    return each_short_tile<T>(call, [&](Index head, Index first, Index last) {
        Pulling<T> pulling(call);
        for (Index start = first; start < last; start += Pieces<T>::SHORT)
            pulling.pull(head, start, std::min(Pieces<T>::SHORT, last - start),
                         static_cast<const T*>(M) + head * call.set->rank * call.columns,
                         static_cast<T*>(grad_x) + head * call.set->d * call.tokens,
                         static_cast<T*>(grad_W) + head * call.columns * call.tokens);
    });
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
