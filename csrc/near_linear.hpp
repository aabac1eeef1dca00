// Products with monomials that are never stored as a matrix: states, sums of queries, and gradients of near-linear
// attention.
//
// With monomials Phi (rank, n), values W (columns, n) and a matrix M (rank, columns) these are the derivatives of
// sum_n sum_alpha Phi_alpha,n <M_alpha, W_n>:
//
//     by M: Phi W^T (`add`),    by W: M^T Phi (`sums`),    by the tokens themselves (`gradient`).
//
// Tokens are given as columns of x and W, or in the layout of keys and values, which are scaled, converted and
// transposed when a tile is filled (`passes`).
//
// Lanes are tokens. Sums over tokens are accumulated in each lane of a tile in the type of the monomials; then, in
// double, over the lanes of a tile, the tiles of a task, and the tasks of a head, in order.
#pragma once

#include <algorithm>

#include "lanes.hpp"
#include "product.hpp"
#include "tasks.hpp"
#include "tile.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

template <class T> inline const T* start_of(const separatrix_tensor& x, Index head) {
    return static_cast<const T*>(x.data) + head * x.head;
}

// The division of a call's work, as a function of its shape alone.
template <class T> struct Pieces {
#if SEPARATRIX_BYTES == 64
    static constexpr int COLUMNS_OF_STATES = 10, COLUMNS_OF_SUMS = 12;
#elif defined(__aarch64__)
    static constexpr int COLUMNS_OF_STATES = 10, COLUMNS_OF_SUMS = 12;
#else
    static constexpr int COLUMNS_OF_STATES = 5, COLUMNS_OF_SUMS = 6;
#endif
    static constexpr int ALPHAS = 2, ALPHAS_OF_FEW = 4; // monomials whose products with columns are in registers
    static constexpr Index SHORT = COLUMNS * WIDTH<T>;  // tokens of a tile whose sums stay in registers
    static constexpr Index RANGE = 1024;                // tokens of a task with such tiles
    static constexpr Index MANY_BLOCKS = 16;            // blocks of index sets that are separate tasks
    Index tile;                                         // tokens of a tile that adds to a state
    Index tasks, range;                                 // tasks of a head that add to a state, and their tokens

    Pieces(const separatrix_monomials& set, Index heads, Index tokens) {
        // The stored rows fit in the second-level cache; a tile is accumulated in the lanes, and is long enough to
        // amortise the sum across lanes.
        const Index fit = (1 << 19) / (static_cast<Index>(sizeof(T)) * set.stored);
        tile = std::min<Index>(256, std::max<Index>(128, fit / 64 * 64));
        tile = std::min(tile, rounded_up(tokens, WIDTH<T>));
        // Separate sums for some sixteen tasks, each of 1,000 to 2^16 tokens.
        const Index most = std::max<Index>(16 / std::max<Index>(heads, 1), (tokens + 0xffff) / 0x10000);
        tasks = std::max<Index>(1, std::min(most, tokens / 1024));
        range = rounded_up((tokens + tasks - 1) / tasks, tile);
    }
};

// A part of a matrix (rank, columns): monomials [first, last) and columns [column, column + columns).
struct Window {
    Index first, last, column, columns;

    // Call f(first, last) for the monomials of a block that are in the window, if there are any.
    template <class F> void within(const Block& block, F&& f) const {
        const Index from = std::max(block.first, first), to = std::min(block.last, last);
        if (from < to) f(from, to);
    }
};

// The windows of a matrix; nothing outside of them is computed.
struct Windows {
    Window terms, moments;

    static Windows whole(Index rank, Index columns) { return {{0, rank, 0, columns}, {0, 0, columns, 0}}; }
    template <class F> void each(F&& f) const { f(terms), f(moments); }
};

// Tokens of a head as columns: coordinate l at x + l * x.row, column c of the values at W + c * W.row.
template <class T> class Columns {
public:
    explicit Columns(const separatrix_products& call)
        : set(*call.set), columns(call.columns), windows(Windows::whole(call.set->rank, call.columns)), call_(call) {}
    const separatrix_monomials& set;
    const Index columns;
    const Windows windows;

    void coordinates(Index head, Index start, Index count, Tile<T>& tile) const {
        tile.fill(start_of<T>(call_.x, head) + start, call_.x.row, count);
    }

    // A vector of tokens of each column, padded by zeros to `size` tokens.
    void values(Index head, Index start, Index count, T* W, Index size) const {
        for (Index c = 0; c < columns; ++c) {
            const T* from = start_of<T>(call_.W, head) + c * call_.W.row + start;
            T* into = W + c * WIDTH<T>;
            Index t = 0;
            for (; t + WIDTH<T> <= count; t += WIDTH<T>, into += columns * WIDTH<T>) store(into, load(from + t));
            for (; t < size; t += WIDTH<T>, into += columns * WIDTH<T>)
                for (Index lane = 0; lane < WIDTH<T>; ++lane) into[lane] = t + lane < count ? from[t + lane] : T(0);
        }
    }

private:
    const separatrix_products& call_;
};

// Tokens of a head as rows of numbers of type In, multiplied by factors; the values are followed by a column of ones
// and by the weights. The other monomials already include the column of ones; the moments of monomials without a
// coefficient need it too.
template <class In, class T> class Rows {
public:
    explicit Rows(const separatrix_pass& call)
        : set(*call.set), columns(call.d_v + 1 + call.weighted), windows(windows_of(call)), call_(call) {}
    const separatrix_monomials& set;
    const Index columns;
    const Windows windows;

    void coordinates(Index head, Index start, Index count, Tile<T>& tile) const {
        const In* x = start_of<In>(call_.x, head) + start * call_.x.row;
        for (Index l = 0; l < set.d; ++l) {
            // In double: a factor may be subnormal in float, where its rounding error would exceed half a unit.
            const double factor = call_.factors[head * set.d + l];
            T* into = tile.coordinate(l);
            for (Index t = 0; t < count; ++t) into[t] = static_cast<T>(static_cast<double>(x[t * call_.x.row + l]) * factor);
            if (call_.mask.data)
                for (Index t = 0; t < count; ++t)
                    if (is_hidden(head, start + t)) into[t] = T(0);
            for (Index t = count; t < tile.size(); ++t) into[t] = T(0);
        }
    }

    void values(Index head, Index start, Index count, T* W, Index size) const {
        const In* v = start_of<In>(call_.values, head) + start * call_.values.row;
        for (Index t = 0; t < size; ++t) {
            T* into = W + t / WIDTH<T> * columns * WIDTH<T> + t % WIDTH<T>;
            const bool counts = t < count && !(call_.mask.data && is_hidden(head, start + t));
            for (Index c = 0; c < call_.d_v; ++c)
                into[c * WIDTH<T>] = counts ? static_cast<T>(v[t * call_.values.row + c]) : T(0);
            into[call_.d_v * WIDTH<T>] = counts ? T(1) : T(0);
        }
        if (!call_.weighted) return;
        const In* weights = start_of<In>(call_.weights, head) + start * call_.weights.row;
        for (Index t = 0; t < size; ++t) {
            T* into = W + t / WIDTH<T> * columns * WIDTH<T> + t % WIDTH<T> + (call_.d_v + 1) * WIDTH<T>;
            const bool counts = t < count && !(call_.mask.data && is_hidden(head, start + t));
            for (Index c = 0; c < call_.weighted; ++c)
                into[c * WIDTH<T>] = counts ? static_cast<T>(weights[t * call_.weights.row + c]) : T(0);
        }
    }

private:
    static Windows windows_of(const separatrix_pass& call) {
        const Index ones = call.level_first < call.terms ? 0 : 1, column = call.d_v + 1 - ones;
        return {{0, call.terms, 0, call.d_v + 1}, {call.level_first, call.level_last, column, ones + call.weighted}};
    }

    bool is_hidden(Index head, Index token) const {
        return !static_cast<const unsigned char*>(call_.mask.data)[head * call_.mask.head + token * call_.mask.row];
    }

    const separatrix_pass& call_;
};

// Call f for columns in blocks of at most MOST, of nearly equal width: f(integral_constant<int, width>, first).
template <int MOST, class F> inline void each_block_of(Index columns, F&& f) {
    const Index blocks = (columns + MOST - 1) / MOST;
    for (Index block = 0; block < blocks; ++block) {
        const Index first = columns * block / blocks, last = columns * (block + 1) / blocks;
        with_rows<MOST>(last - first, [&](auto width) { f(width, first); });
    }
}

// into[place - first][column] receives the sum over some tokens, for the places of a block that begins with `first`,
// and 0 outside of the windows of the source.
template <class T, class Source> class Adding {
public:
    Adding(const Source& source, const Blocks& blocks, Index tile)
        : source_(source), order_(blocks.order), columns_(source.columns), monomials_(source.set, tile),
          W_(source.columns * tile) {}

    void tokens(Index head, Index first, Index last, const Block& block, double* into) {
        fill_zeros<double>(into, 0, (block.last - block.first) * columns_);
        for (Index start = first; start < last; start += monomials_.size()) {
            const Index count = std::min(monomials_.size(), last - start);
            source_.coordinates(head, start, count, monomials_);
            monomials_.multiply_out(block);
            source_.values(head, start, count, W_, monomials_.size());
            source_.windows.each([&](const Window& window) {
                window.within(block, [&](Index from, Index to) {
                    each_block_of<Pieces<T>::COLUMNS_OF_STATES>(window.columns, [&](auto width, Index number) {
                        const Index column = window.column + number;
                        add_columns<decltype(width)::value>(from, to, column, into + (from - block.first) * columns_ + column);
                        check_interrupt();
                    });
                });
            });
        }
    }

private:
    template <int C> void add_columns(Index place, Index last, Index column, double* row) const {
        constexpr int A = C > 2 ? Pieces<T>::ALPHAS : Pieces<T>::ALPHAS_OF_FEW;
        for (; place + A <= last; place += A, row += A * columns_) product<A, C>(place, column, row);
        for (; place < last; ++place, row += columns_) product<1, C>(place, column, row);
    }

    template <int A, int C> void product(Index place, Index column, double* row) const {
        const Index size = monomials_.size();
        const T *left[A], *right[A], *W = W_ + column * WIDTH<T>;
        for (int a = 0; a < A; ++a) {
            const Index alpha = order_[place + a];
            left[a] = monomials_.left(alpha), right[a] = monomials_.right(alpha);
        }
        Vector<T> sum[A][C];
        for (int a = 0; a < A; ++a)
            for (int c = 0; c < C; ++c) sum[a][c] = Vector<T>{};
        for (Index t = 0; t < size; t += WIDTH<T>, W += columns_ * WIDTH<T>) {
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
        for (int a = 0; a < A; ++a, row += columns_)
            for (int c = 0; c < C; ++c) row[c] += totals[a * C + c];
    }

    const Source& source_;
    const std::int32_t* order_;
    const Index columns_;
    Tile<T> monomials_;
    Array<T> W_;
};

// Add the tokens of a source to a state (heads, rank, columns). A task is a range of the tokens of a head, with all
// blocks of the index set, or, if there are enough blocks, a block with all ranges; either way an entry of the state is
// summed over the ranges in order.
template <class T, class Source> int add_to_state(const Source& source, Index heads, Index tokens, double* state) {
    if (!tokens || !heads) return SEPARATRIX_DONE;
    const Pieces<T> pieces(source.set, heads, tokens);
    const Index columns = source.columns, entries = source.set.rank * columns;
    const Window& level = source.windows.moments;
    const Blocks blocks(source.set, true, columns, columns * static_cast<Index>(sizeof(double)), level.first, level.last);
    const Index count = static_cast<Index>(blocks.parts.size()), ranges = (tokens + pieces.range - 1) / pieces.range;
    const bool by_block = heads * count >= Pieces<T>::MANY_BLOCKS;
    const Index summands = by_block ? 1 : ranges;
    Array<double> sums(heads * summands * entries);  // in the order of the blocks
    auto add = [&](Adding<T, Source>& adding, Index head, Index range, const Block& block, double* into) {
        const Index first = range * pieces.range;
        adding.tokens(head, first, std::min(first + pieces.range, tokens), block, into);
    };
    auto add_range = [&](Index task) {
        Adding<T, Source> adding(source, blocks, pieces.tile);
        for (const Block& block : blocks.parts)
            add(adding, task / ranges, task % ranges, block, sums + task * entries + block.first * columns);
    };
    auto add_block = [&](Index task) {
        const Block& block = blocks.parts[static_cast<std::size_t>(task % count)];
        const Index head = task / count, size = (block.last - block.first) * columns;
        double* total = sums + head * entries + block.first * columns;
        Array<double> own(ranges > 1 ? size : 0);
        Adding<T, Source> adding(source, blocks, pieces.tile);
        add(adding, head, 0, block, total);
        for (Index range = 1; range < ranges; ++range) {
            add(adding, head, range, block, own);
            for (Index entry = 0; entry < size; ++entry) total[entry] += own[entry];
        }
    };
    if (const int failed = by_block ? for_each_task(heads * count, add_block) : for_each_task(heads * ranges, add_range))
        return failed;
    auto join = [&](Index head) {
        const double* own = sums + head * summands * entries;
        for (Index place = 0; place < source.set.rank; ++place) {
            double* into = state + head * entries + blocks.order[place] * columns;
            for (Index column = 0; column < columns; ++column, ++own) {
                double total = *own;
                for (Index other = 1; other < summands; ++other) total += own[other * entries];
                into[column] += total;
            }
        }
    };
    return for_each_task(heads, join, MANY, Interrupts::DEFERRED);
}

template <class T> int products_add(const separatrix_products& call, double* state) {
    return add_to_state<T>(Columns<T>(call), call.heads, call.tokens, state);
}

template <class In, class T> int pass_add(const separatrix_pass& call, double* state) {
    return add_to_state<T>(Rows<In, T>(call), call.heads, call.tokens, state);
}

// Call f(head, first token, last token) for all tokens, in tasks of RANGE tokens.
template <class T, class F> int each_range(Index heads, Index tokens, F f) {
    const Index ranges = (tokens + Pieces<T>::RANGE - 1) / Pieces<T>::RANGE;
    auto work = [&](Index task) {
        const Index head = task / ranges, first = task % ranges * Pieces<T>::RANGE;
        f(head, first, std::min(first + Pieces<T>::RANGE, tokens));
    };
    return for_each_task(heads * ranges, work);
}

// Add to C rows `into` of SHORT sums the products of a tile's monomials [first, last) with C columns of M. Not inlined,
// because among other loops the compiler does not keep the sums in registers.
template <class T, int C>
__attribute__((noinline)) void sums_of_columns(Index first, Index last, const Tile<T>& tile, const T* M, Index stride,
                                               T* into) {
    Vector<T> sum[C][COLUMNS];
    for (int c = 0; c < C; ++c)
        for (int n = 0; n < COLUMNS; ++n) sum[c][n] = load(into + c * Pieces<T>::SHORT + n * WIDTH<T>);
    for (Index alpha = first; alpha < last; ++alpha, M += stride) {
        const T *left = tile.left(alpha), *right = tile.right(alpha);
        Vector<T> monomial[COLUMNS];
        for (int n = 0; n < COLUMNS; ++n) monomial[n] = load(left + n * WIDTH<T>) * load(right + n * WIDTH<T>);
        for (int c = 0; c < C; ++c) {
            const Vector<T> m = all(M[c]);
            for (int n = 0; n < COLUMNS; ++n) sum[c][n] = multiply_add(m, monomial[n], sum[c][n]);
        }
    }
    for (int c = 0; c < C; ++c)
        for (int n = 0; n < COLUMNS; ++n) store(into + c * Pieces<T>::SHORT + n * WIDTH<T>, sum[c][n]);
}

// Add to sums (columns, SHORT) M^T Phi for a tile and the monomials of a block, with the windows of M (rank, columns).
template <class T>
inline void sums_of_tile(const Block& block, const Windows& windows, Index columns, const Tile<T>& tile, const T* M,
                         T* sums) {
    windows.each([&](const Window& window) {
        window.within(block, [&](Index first, Index last) {
            each_block_of<Pieces<T>::COLUMNS_OF_SUMS>(window.columns, [&](auto width, Index number) {
                const Index column = window.column + number;
                sums_of_columns<T, decltype(width)::value>(first, last, tile, M + first * columns + column, columns,
                                                           sums + column * Pieces<T>::SHORT);
                check_interrupt();
            });
        });
    });
}

// M^T Phi for all tokens and the windows of M: calls finish(head, start, count, sums) with the sums (columns, SHORT) of
// each tile. If the index set takes several blocks, each block is applied to all tiles of a range before the next
// block.
template <class T, class Source, class F>
int sums_of_source(const Source& source, Index heads, Index tokens, Index columns, const Windows& windows, const T* M,
                   F finish) {
    constexpr Index SHORT = Pieces<T>::SHORT;
    const Index rank = source.set.rank;
    const Blocks blocks(source.set, false, columns, (SHORT + columns) * static_cast<Index>(sizeof(T)));
    return each_range<T>(heads, tokens, [&](Index head, Index first, Index last) {
        const Index group = blocks.parts.size() > 1 ? rounded_up(last - first, SHORT) : SHORT;
        Tile<T> tile(source.set, SHORT);
        Array<T> sums(columns * group);
        for (Index from = first; from < last; from += group) {
            const Index to = std::min(from + group, last);
            fill_zeros<T>(sums, 0, columns * group);
            for (const Block& block : blocks.parts)
                for (Index start = from; start < to; start += SHORT) {
                    source.coordinates(head, start, std::min(SHORT, to - start), tile);
                    tile.multiply_out(block);
                    sums_of_tile<T>(block, windows, columns, tile, M + head * rank * columns,
                                    sums + (start - from) * columns);
                }
            for (Index start = from; start < to; start += SHORT)
                finish(head, start, std::min(SHORT, to - start), sums + (start - from) * columns);
        }
    });
}

template <class T> int products_sums(const separatrix_products& call, const void* M, void* out) {
    constexpr Index SHORT = Pieces<T>::SHORT;
    auto finish = [&](Index head, Index start, Index count, const T* sums) {
        T* into = static_cast<T*>(out) + head * call.columns * call.tokens + start;
        for (Index c = 0; c < call.columns; ++c)
            std::memcpy(into + c * call.tokens, sums + c * SHORT, static_cast<std::size_t>(count) * sizeof(T));
    };
    const Columns<T> source(call);
    return sums_of_source<T>(source, call.heads, call.tokens, call.columns, source.windows, static_cast<const T*>(M), finish);
}

// Every token of a pass as a query. The first d_v columns of M give the numerators, the next ones the denominator, the
// moment and the weighted moments; the function writes the quotients, the denominator, the moment, and the largest of
// the weighted moments.
template <class In, class T>
int pass_attend(const separatrix_pass& call, const void* M, void* out, double* denominator, double* moment,
                double* largest) {
    constexpr Index SHORT = Pieces<T>::SHORT;
    const Index d_v = call.d_v;
    const Windows windows{{0, call.terms, 0, d_v + 1}, {call.level_first, call.level_last, d_v + 1, 1 + call.weighted}};
    auto finish = [&](Index head, Index start, Index count, const T* sums) {
        const Index token = head * call.tokens + start;
        for (Index t = 0; t < count; ++t) {
            const double total = static_cast<double>(sums[d_v * SHORT + t]);
            denominator[token + t] = total;
            moment[token + t] = static_cast<double>(sums[(d_v + 1) * SHORT + t]);
            for (Index c = 0; c < call.weighted; ++c) {
                const double weighted = static_cast<double>(sums[(d_v + 2 + c) * SHORT + t]);
                largest[token + t] = c ? larger(largest[token + t], weighted) : weighted;
            }
            In* row = static_cast<In*>(out) + (token + t) * d_v;
            for (Index c = 0; c < d_v; ++c)
                row[c] = total == 0 ? In(0) : static_cast<In>(static_cast<double>(sums[c * SHORT + t]) / total);
        }
    };
    return sums_of_source<T>(Rows<In, T>(call), call.heads, call.tokens, d_v + 2 + call.weighted, windows,
                             static_cast<const T*>(M), finish);
}

// The gradients of x and of W. The gradient of a monomial is <M_alpha, W_n>; it is passed on to its two factors at
// once, and from the stored rows, in reverse order, to their factors.
template <class T> class Pulling {
public:
    static constexpr Index SHORT = Pieces<T>::SHORT;

    explicit Pulling(const separatrix_products& call)
        : call_(call), set_(*call.set), tile_(set_, SHORT), W_(call.columns * SHORT), rows_(set_.stored * SHORT),
          coordinates_((set_.d + 1) * SHORT), sums_(call.columns * SHORT) {}

    void pull(Index head, Index start, Index count, const T* M, T* grad_x, T* grad_W) {
        tile_.fill(start_of<T>(call_.x, head) + start, call_.x.row, count);
        tile_.multiply_out();
        Tile<T>::copy_rows(start_of<T>(call_.W, head) + start, call_.W.row, call_.columns, count, W_, SHORT, SHORT);
        fill_zeros<T>(sums_, 0, call_.columns * SHORT);
        const Windows windows = Windows::whole(set_.rank, call_.columns);
        sums_of_tile<T>(Block(0, set_.rank), windows, call_.columns, tile_, M, sums_);
        for (Index c = 0; c < call_.columns; ++c)
            std::memcpy(grad_W + c * call_.tokens + start, sums_ + c * SHORT,
                        static_cast<std::size_t>(count) * sizeof(T));
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
        check_interrupt();
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
    // The gradient of a product of a row and a coordinate is passed on to both.
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
    Array<T> W_, rows_, coordinates_, sums_;
};

template <class T> int products_gradient(const separatrix_products& call, const void* M, void* grad_x, void* grad_W) {
    return each_range<T>(call.heads, call.tokens, [&](Index head, Index first, Index last) {
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
