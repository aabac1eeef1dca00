// What the two passes of the causal scan share: the division into parts, and the layout of a tile's tokens for a part.
//
// A part is some rows of the index set of one head, a multiple of the vector's lanes. The parts are independent of each
// other; each processes all tokens, tile by tile: the monomials of the tile's tokens and their ancestors are computed;
// then each vector of rows loads its states into registers and goes through the tile. So a part's states leave the
// cache once per tile, and the results of a part depend on its number alone. The parts of a head are added up at the
// end, in order.
#pragma once

#include <algorithm>
#include <cstring>

#include "memory.hpp"
#include "monomials.hpp"
#include "product.hpp"
#include "separatrix.h"
#include "tasks.hpp"
#include "vectors.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

constexpr Index TILE = 16;    // tokens
constexpr Index PARTS = 16;   // parts of a call; fewer if parts would be smaller than SMALLEST
constexpr Index SMALLEST = 32;  // vectors of rows of a part: with fewer, ancestors take as long as the rows themselves

// The division of a head's rows into parts.
struct Parts {
    Index each, vectors;  // their number, and the most vectors of rows of a part

    explicit Parts(const separatrix_scan& scan) {
        const Index all = (scan.rank + WIDTH<double> - 1) / WIDTH<double>;
        const Index wanted = (PARTS + scan.heads - 1) / std::max<Index>(scan.heads, 1);
        each = std::max<Index>(1, std::min(wanted, all / SMALLEST));
        vectors = (all + each - 1) / each;
        each = (all + vectors - 1) / vectors;
    }
};

// The number of key sets as a compile-time constant, for 1, 2 and 3 of them; 0 for a larger number, known at run time.
template <int M> constexpr int MOST = M ? M : SEPARATRIX_MOST_SETS;

template <class F> inline void with_sets(Index sets, F&& f) {
    switch (sets) {
        case 1: return f(std::integral_constant<int, 1>{});
        case 2: return f(std::integral_constant<int, 2>{});
        case 3: return f(std::integral_constant<int, 3>{});
        default: return f(std::integral_constant<int, 0>{});
    }
}

// The number of value columns whose states are in registers together, for M key sets.
#if SEPARATRIX_BYTES == 64 || defined(__aarch64__)
template <int M> constexpr int TOGETHER = M == 1 ? 12 : M == 2 ? 9 : M == 3 ? 6 : 1;
#else
template <int M> constexpr int TOGETHER = M == 1 ? 8 : M == 2 ? 4 : M == 3 ? 3 : 1;
#endif

// Call f for all columns, in groups of nearly equal width: f(std::integral_constant<int, columns>, first column).
template <int M, class F> inline void each_group_of(Index columns, F&& f) {
    const Index groups = (columns + TOGETHER<M> - 1) / TOGETHER<M>;
    for (Index group = 0; group < groups; ++group) {
        const Index first = columns * group / groups, stop = columns * (group + 1) / groups;
        with_rows<TOGETHER<M>>(stop - first, [&](auto width) { f(width, first); });
    }
}

// A part of the scan: its rows, and the current tile.
class Part {
public:
    Part(const separatrix_scan& scan, const Parts& parts, Index task, bool moments)
        : scan(scan),
          head(task / parts.each),
          number(task % parts.each),
          first(number * parts.vectors * WIDTH<double>),
          stop(std::min(scan.rank, first + parts.vectors * WIDTH<double>)),
          vectors((stop - first + WIDTH<double> - 1) / WIDTH<double>),
          columns(scan.columns + (moments ? 1 + scan.weighted : 0)),
          monomials(scan.rank, scan.d, scan.last, scan.parents, first, stop),
          stride(monomials.stride()),
          coefficients(padded(scan.coefficients)),
          values(scan.sets * TILE * columns),
          x_((scan.sets + 1) * TILE * scan.d),
          features_((scan.sets + 1) * TILE * stride) {
        std::fill_n(static_cast<double*>(features_), (scan.sets + 1) * TILE * stride, 0.0);
    }

    // Factor 0 is the query, factor m + 1 key set m; tokens are those of the tile.
    const double* x(Index factor) const { return x_ + factor * TILE * scan.d; }
    const double* features(Index factor) const { return features_ + factor * TILE * stride; }
    const double* values_of(Index set) const { return values + set * TILE * columns; }

    Index state_size() const { return vectors * scan.sets * columns * WIDTH<double>; }

    // Load the tokens [start, start + count) into the tile, for all factors or for the key sets only.
    void take(Index start, Index count, bool with_query) {
        for (Index factor = with_query ? 0 : 1; factor <= scan.sets; ++factor) {
            const double* from = factor ? scan.keys[factor - 1] : scan.query;
            double* to = x_ + factor * TILE * scan.d;
            for (Index token = 0; token < count; ++token)
                for (Index l = 0; l < scan.d; ++l) to[token * scan.d + l] = from[(head * scan.d + l) * scan.length + start + token];
            monomials.fill(count, to, features_ + factor * TILE * stride);
        }
        for (Index set = 0; set < scan.sets; ++set) {
            const double* from = scan.values[set] + head * given_columns() * scan.length + start;
            for (Index token = 0; token < count; ++token)
                for (Index c = 0; c < columns; ++c)
                    values[(set * TILE + token) * columns + c] =
                        from[given(c) * scan.length + token];
        }
    }

    // The weights of all rows, arranged in the vectors of this part, with zeros past the last row.
    Array<double> padded(const double* weights) const {
        Array<double> found(vectors * WIDTH<double>);
        for (Index i = 0; i < vectors * WIDTH<double>; ++i) found[i] = first + i < stop ? weights[first + i] : 0.0;
        return found;
    }

    // The states (heads, rank, columns) of all sets, as vectors of rows; the last column is repeated for the moments.
    void unpack(const double* const* from, double* states) const {
        each_entry([&](Index set, Index row, Index column, Index at) {
            states[at] = row < stop ? from[set][(head * scan.rank + row) * given_columns() + given(column)] : 0.0;
        });
    }

    // The last column of the vectors [from, to) is that of the moments.
    void pack(const double* states, double* const* into, Index from = 0, Index to = 0) const {
        const Index least = first + from * WIDTH<double>, most = first + to * WIDTH<double>;
        each_entry([&](Index set, Index row, Index column, Index at) {
            if (row < stop && (column != scan.columns || (row >= least && row < most)))
                into[set][(head * scan.rank + row) * given_columns() + given(column)] = states[at];
        });
    }

    const separatrix_scan& scan;
    const Index head, number, first, stop, vectors, columns;
    Monomials monomials;
    const Index stride;
    const Array<double> coefficients;
    Array<double> values;

private:
    // The columns of values and states in the call, and the one that each column of the part stands for.
    Index given_columns() const { return scan.columns + scan.weighted; }
    Index given(Index column) const { return column < scan.columns ? column : column - 1; }

    template <class F> void each_entry(F&& f) const {
        Index at = 0;
        for (Index v = 0; v < vectors; ++v)
            for (Index set = 0; set < scan.sets; ++set)
                for (Index column = 0; column < columns; ++column)
                    for (Index lane = 0; lane < WIDTH<double>; ++lane)
                        f(set, first + v * WIDTH<double> + lane, column, at++);
    }

    Array<double> x_, features_;
};

// Add the first `count` tokens of the tile to the states `from`, into `to`, which may be the same.
template <int M, int N>
inline void advance(const Part& part, Index column, Index count, const double* from, double* to) {
    const int sets = M ? M : static_cast<int>(part.scan.sets);
    const Index columns = part.columns, stride = part.stride;
    for (Index v = 0; v < part.vectors; ++v)
        for (int m = 0; m < sets; ++m) {
            const Index at = ((v * sets + m) * columns + column) * WIDTH<double>;
            const double* keys = part.features(m + 1) + part.first + v * WIDTH<double>;
            const double* values = part.values_of(m) + column;
            Vector<double> state[N];
            for (int n = 0; n < N; ++n) state[n] = load(from + at + n * WIDTH<double>);
            for (Index t = 0; t < count; ++t) {
                const Vector<double> key = load(keys + t * stride);
                for (int n = 0; n < N; ++n) state[n] = multiply_add(key, all(values[t * columns + n]), state[n]);
            }
            for (int n = 0; n < N; ++n) store(to + at + n * WIDTH<double>, state[n]);
        }
}

// Add up the parts of each head: `parts` (each, heads, count) into `total` (heads, count), in order.
inline int add_up(Index each, Index heads, Index count, const double* parts, double* total) {
    auto add = [&](Index head) {
        double* into = total + head * count;
        std::memcpy(into, parts + head * count, static_cast<std::size_t>(count) * sizeof(double));
        for (Index part = 1; part < each; ++part) {
            const double* from = parts + (part * heads + head) * count;
            for (Index i = 0; i < count; ++i) into[i] += from[i];
        }
    };
    return for_each_task(heads, add);
}

// A result that is a sum over the parts of a head; if there is one part, it is written directly.
class Summed {
public:
    Summed(const Parts& parts, Index heads, Index count, double* total)
        : each_(parts.each), heads_(heads), count_(count), total_(total), parts_(each_ > 1 ? each_ * heads * count : 0) {}

    double* of(const Part& part) const {
        return each_ > 1 ? parts_ + (part.number * heads_ + part.head) * count_ : total_ + part.head * count_;
    }

    int finish() const { return each_ > 1 ? add_up(each_, heads_, count_, parts_, total_) : SEPARATRIX_DONE; }

private:
    Index each_, heads_, count_;
    double* total_;
    Array<double> parts_;
};

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
