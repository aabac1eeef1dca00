// Reductions of a set's tokens for planning: the extremes of each column, and two norms of each token; and a check of
// the output of ordinary attention: whether it is finite, without a zero in its first column.
//
// For planning, the lanes are columns, in double. Each range of tokens is a task. Extremes are exact; a sum over the
// columns is rounded once for each vector of columns, and three times for the lanes.
#pragma once

#include <limits>

#include "lanes.hpp"
#include "memory.hpp"
#include "separatrix.h"
#include "tasks.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// Columns [first, first + WIDTH<double>) of a row in double, with zeros from `columns` on.
template <class T> inline Doubles columns_of(const T* row, Index first, Index columns) {
    constexpr Index W = WIDTH<double>;
    typedef T Row __attribute__((vector_size(W * sizeof(T))));
    Row x{};
    if (first + W <= columns)
        std::memcpy(&x, row + first, sizeof x);
    else
        std::memcpy(&x, row + first, static_cast<std::size_t>(columns - first) * sizeof(T));
    return __builtin_convertvector(x, Doubles);
}

inline Doubles magnitude(Doubles x) { return (Doubles)((Longs)x & 0x7fffffffffffffffll); }

// The tokens of a set, cut into ranges that stay in cache.
template <class T> class Tokens {
public:
    static constexpr Index RANGE = 4096;

    explicit Tokens(const separatrix_tokens& call)
        : call_(call), ranges_((call.length + RANGE - 1) / RANGE), tasks_(call.heads * ranges_) {}

    Index tasks() const { return tasks_; }
    Index ranges() const { return ranges_; }
    Index head(Index task) const { return task / ranges_; }
    Index first(Index task) const { return task % ranges_ * RANGE; }
    Index last(Index task) const { return first(task) + RANGE < call_.length ? first(task) + RANGE : call_.length; }

    const T* row(Index head, Index token) const {
        return static_cast<const T*>(call_.x.data) + head * call_.x.head + token * call_.x.row;
    }
    bool is_hidden(Index head, Index token) const {
        const auto* mask = static_cast<const unsigned char*>(call_.mask.data);
        return mask && !mask[head * call_.mask.head + token * call_.mask.row];
    }

private:
    const separatrix_tokens& call_;
    Index ranges_, tasks_;
};

template <class T> int extremes(const separatrix_tokens& call, double* least, double* most) {
    constexpr Index W = WIDTH<double>;
    const double infinity = std::numeric_limits<double>::infinity();
    const Tokens<T> tokens(call);
    const Index blocks = (call.d + W - 1) / W, width = blocks * W;
    Array<double> low(tokens.tasks() * width), high(tokens.tasks() * width);
    auto look = [&](Index task) {
        const Index head = tokens.head(task);
        for (Index block = 0; block < blocks; ++block) {
            Doubles lower = all(infinity), upper = all(-infinity);
            Longs not_numbers{};
            for (Index token = tokens.first(task); token < tokens.last(task); ++token) {
                if (tokens.is_hidden(head, token)) continue;
                const Doubles x = columns_of(tokens.row(head, token), block * W, call.d);
                lower = x < lower ? x : lower;
                upper = x > upper ? x : upper;
                not_numbers |= x != x;
            }
            const Doubles nan = all(std::numeric_limits<double>::quiet_NaN());
            store(low + task * width + block * W, not_numbers ? nan : lower);
            store(high + task * width + block * W, not_numbers ? nan : upper);
        }
    };
    if (const int failed = for_each_task(tokens.tasks(), look)) return failed;
    for (Index head = 0; head < call.heads; ++head)
        for (Index l = 0; l < call.d; ++l) {
            double lower = -infinity, upper = -infinity;  // of the negated entries, and of the entries
            for (Index range = 0; range < tokens.ranges(); ++range) {
                const Index at = (head * tokens.ranges() + range) * width + l;
                lower = larger(lower, -low[at]);
                upper = larger(upper, high[at]);
            }
            least[head * call.d + l] = -lower;
            most[head * call.d + l] = upper;
        }
    return SEPARATRIX_DONE;
}

template <class T> int norms(const separatrix_tokens& call, const separatrix_norm& norm) {
    constexpr Index W = WIDTH<double>;
    const Tokens<T> tokens(call);
    Array<double> partial(tokens.tasks());
    auto look = [&](Index task) {
        const Index head = tokens.head(task), stop = tokens.last(task);
        const double *factors = norm.factors + head * call.d, *weights = norm.weights + (norm.weighted ? head * call.d : 0);
        double most = 0;
        for (Index first = tokens.first(task); first < stop; first += W) {
            Doubles powers[W] = {}, weighted[W] = {};
            for (Index token = first; token < first + W && token < stop; ++token) {
                if (tokens.is_hidden(head, token)) continue;
                const T* row = tokens.row(head, token);
                for (Index l = 0; l < call.d; l += W) {
                    const Doubles y = magnitude(columns_of(row, l, call.d) * columns_of(factors, l, call.d));
                    Doubles power = y;
                    for (Index i = 1; i < norm.power; ++i) power = power * y;
                    powers[token - first] += power;
                    if (norm.weighted) weighted[token - first] += y * columns_of(weights, l, call.d);
                }
            }
            double found[W];
            const Index count = stop - first < W ? stop - first : W;
            store(found, sums_of_lanes(powers));
            for (Index i = 0; i < count; ++i) most = larger(most, found[i]);
            const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(double);
            if (norm.powers) std::memcpy(norm.powers + head * call.length + first, found, bytes);
            if (norm.weighted) {
                store(found, sums_of_lanes(weighted));
                std::memcpy(norm.weighted + head * call.length + first, found, bytes);
            }
        }
        partial[task] = most;
    };
    if (const int failed = for_each_task(tokens.tasks(), look)) return failed;
    for (Index head = 0; head < call.heads; ++head) {
        double most = 0;
        for (Index range = 0; range < tokens.ranges(); ++range)
            most = larger(most, partial[head * tokens.ranges() + range]);
        norm.largest[head] = most;
    }
    return SEPARATRIX_DONE;
}

// Whether all rows x columns entries are finite, and none is zero in the first column. `Bits` are integers of the size
// of an entry, and `infinity` is the type's representation of infinity: larger magnitudes have larger bits.
template <class Bits> int sound(Index rows, Index columns, const void* data, Bits infinity) {
    constexpr Index RANGE = 1 << 16;
    const Bits* x = static_cast<const Bits*>(data);
    const Bits magnitude = static_cast<Bits>(~(Bits(1) << (8 * sizeof(Bits) - 1)));
    const Index step = RANGE / columns + 1, count = (rows + step - 1) / step;
    const auto is_sound = [&](Index task) {
        const Index first = task * step, last = first + step < rows ? first + step : rows;
        Bits most = 0;
        for (const Bits* at = x + first * columns; at < x + last * columns; ++at) {
            const Bits size = *at & magnitude;
            most = size > most ? size : most;
        }
        Index zeros = 0;
        for (Index row = first; row < last; ++row) zeros += (x[row * columns] & magnitude) == 0;
        return most < infinity && zeros == 0;
    };
    if (count == 1) return is_sound(0);
    Array<int> found(count);
    auto look = [&](Index task) { found[task] = is_sound(task); };
    if (for_each_task(count, look)) return 0;
    for (Index task = 0; task < count; ++task)
        if (!found[task]) return 0;
    return 1;
}

inline int sound(int type, Index rows, Index columns, const void* x) {
    switch (type) {
    case SEPARATRIX_FLOAT32: return sound<std::uint32_t>(rows, columns, x, 0x7f800000u);
    case SEPARATRIX_FLOAT64: return sound<std::uint64_t>(rows, columns, x, 0x7ff0000000000000u);
    case SEPARATRIX_FLOAT16: return sound<std::uint16_t>(rows, columns, x, 0x7c00u);
    default: return sound<std::uint16_t>(rows, columns, x, 0x7f80u);
    }
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
