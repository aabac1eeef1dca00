// The sets of a call of exact attention as its kernels read them, and the division of the work into tasks.
//
// One key set is the *inner* one, the others are the *prefix*. For a query i and a tuple p of prefix keys,
//
//     s_j = <scale q_i * k_p, k_j>,    k_p = k_1,p1 * ... * k_(k-2),p(k-2),
//     out_i = sum_p v_p * (sum_j e^(s_j) v_j) / sum_p sum_j e^(s_j),
//
// so the computation is ordinary attention of rows (i, p) over the inner keys. Inner keys are processed in *chunks*
// that fit in the first-level cache, and stored in *panels*: transposed, a few vectors of keys side by side. Scores are
// in units of log 2, so that e^s is a power of two.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "bfloat16.hpp"
#include "box.hpp"
#include "lanes.hpp"
#include "memory.hpp"
#include "product.hpp"
#include "stored.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

constexpr double LOG2_E = 1.4426950408889634074, LN_2 = 0.69314718055994530942;

// The division of a call's work, as a function of its shape alone.
template <class T> struct Cut {
    Index inner;           // which set is the inner one
    Index chunk;           // keys of a chunk in the forward pass
    Index backward_chunk;  // and in the backward pass
    Index width;           // columns of a row of values, padded to whole vectors
    Index depth;           // columns of a row of keys, padded in the same way
    Index queries;         // queries of a task of the forward pass
    Index groups;          // tasks of the backward pass for a head, each with separate gradients
    double pairs;          // upper bound on the pairs of a prefix and a chunk in the backward pass
    double multiply_adds;  // approximate number for the forward pass of all heads
    bool few_queries;      // whether the backward pass loops over the prefixes of a query: see exact_few_queries.hpp
    Index merged;          // tuples whose key products are written before the forward pass, or 0
    bool narrow;           // whether the forward pass may multiply pairs of bfloat16: see bfloat16.hpp
    Index narrow_chunk;    // keys of a chunk if keys and values are stored in such pairs
    Index mixed_chunk;     // and if only the values are

    static constexpr Index QUERY_BLOCK = 36;

    explicit Cut(const separatrix_call& call) {
        inner = call.sets - 1;
        for (Index m = call.sets - 2; m >= 0; --m)
            if (reach(call, m) > reach(call, inner)) inner = m;
        width = rounded_up(call.d_v, WIDTH<T>);
        depth = rounded_up(call.d, WIDTH<T>);
        const Index row = static_cast<Index>(sizeof(T)) * (call.d + width);
        chunk = whole_panels(32768 / row, 64, 256);
        backward_chunk = whole_panels(16384 / row, 64, 128);
        double tuples = 1, prefixes = 1, attended = static_cast<double>(call.query_length);
        Index entries = call.query_length * depth, sharing = call.query_length;
        for (Index m = 0; m < call.sets; ++m) {
            tuples *= static_cast<double>(reach(call, m));
            entries += call.lengths[m] * (depth + width);
            if (m == inner) continue;
            prefixes *= static_cast<double>(call.lengths[m]);
            attended *= static_cast<double>(reach(call, m));
            if (call.windows[m] >= 0) sharing = std::min(sharing, call.windows[m]);
        }
        multiply_adds = static_cast<double>(call.heads * call.query_length) * tuples * static_cast<double>(call.d + width);
        // Two sets shorter than two panels leave lanes empty, and all products of their keys fit in the second-level
        // cache.
        const bool is_short = call.sets == 2 && call.query_length >= 4 && call.windows[0] < 0 && call.windows[1] < 0 &&
                              call.lengths[inner] < 64 && call.lengths[0] * call.lengths[1] * row <= 1 << 20;
        merged = is_short ? call.lengths[0] * call.lengths[1] : 0;
        // If fewer than about 24 queries attend the products of prefix and inner keys, writing the products takes
        // longer than it saves; but the pass without them is divided into tasks by heads only.
        few_queries = call.sets > 1 && !merged && call.query_length < (call.heads / call.shared < 4 ? 4 : 24);
        narrow = HAS_BFLOAT16 && call.type == SEPARATRIX_BFLOAT16 && call.sets > 1 && !merged;
        // Scores of 16 rows, keys and values fit in the first-level cache, from which tiles are loaded faster than
        // multiplied.
        narrow_chunk = whole_panels((HAS_TILES ? 32768 : 65536) / (2 * (call.d + width)), 64, 256);
        mixed_chunk = whole_panels(65536 / (4 * call.d + 2 * width), 64, 256);
        // A task has some 10^6 multiply-adds, and whole tiles of rows at order 2.
        queries = static_cast<Index>(std::min(96.0, 1.0 + 1e6 / (tuples * static_cast<double>(call.d + width))));
        if (call.sets == 1) queries = rounded_up(queries, ROWS);
        // At most `sharing` queries attend a prefix, and together they attend at most that many more keys than one
        // query does.
        const Index span = call.windows[inner] < 0 ? call.lengths[inner]
                                                   : std::min(call.lengths[inner], reach(call, inner) + sharing);
        pairs = std::min(prefixes, attended) * static_cast<double>((span + backward_chunk - 1) / backward_chunk);
        groups = std::min<Index>(16 / std::max<Index>(call.heads, 1), (1 << 23) / std::max<Index>(entries, 1));
        groups = static_cast<Index>(std::max(1.0, std::min(static_cast<double>(groups), pairs)));
    }

    Index longest_chunk() const { return narrow ? std::max({chunk, narrow_chunk, mixed_chunk}) : chunk; }

    // Whether the backward pass is merged; not if heads of queries share keys, as they would add to the same gradients.
    bool merges_backward(const separatrix_call& call) const { return merged && call.shared == 1; }

    // The largest number of keys of a set that a query may attend.
    static Index reach(const separatrix_call& call, Index m) {
        return call.windows[m] < 0 ? call.lengths[m] : std::min(call.windows[m], call.lengths[m]);
    }

    static Index whole_panels(Index fit, Index least, Index most) {
        return std::min(most, std::max(least, fit)) / PANEL<T> * PANEL<T>;
    }
};

// The unmasked rows of a set, packed and padded by zeros.
template <class T>
void read_rows(Index type, const separatrix_tensor& x, Index head, const Seen& seen, Index width, Index padded, T* to) {
    if (seen.everything()) return read_rows(type, x, head, 0, seen.count(), width, padded, to);
    for (Index j = 0; j < seen.count(); ++j, to += padded) {
        read_row(type, x, head, seen.place(j), width, to);
        fill_zeros(to, width, padded);
    }
}

// Multiply each column of `product` by the largest magnitude of the column in rows of `depth`, a multiple of the
// vector's lanes.
template <class T> inline void multiply_amplitudes(const T* rows, Index count, Index depth, T* product) {
    for (Index l = 0; l < depth; l += WIDTH<T>) {
        Vector<T> column{};
        for (Index j = 0; j < count; ++j) column = larger_magnitude<T>(column, load(rows + j * depth + l));
        store(product + l, load(product + l) * column);
    }
}

// Transpose rows to columns of `length` numbers, a multiple of the vector's lanes, padded by zeros: square by square in
// registers. Columns are `stride` numbers apart.
template <class T>
void transpose(const T* rows, Index count, Index width, Index padded, T* to, Index length, Index stride) {
    constexpr Index W = WIDTH<T>;
    for (Index j = 0; j < length; j += W)
        for (Index l = 0; l < width; l += W) {
            Vector<T> square[W];
            for (Index r = 0; r < W; ++r)
                square[r] = j + r < count ? load(rows + (j + r) * padded + l) : Vector<T>{};
            transpose_square<T>(square);
            for (Index c = 0; c < std::min(W, width - l); ++c) store(to + (l + c) * stride + j, square[c]);
        }
}

// Rows as panels, padded by zeros.
template <class T> void write_panels(const T* rows, Index count, Index width, Index padded, T* to) {
    for (Index j = 0; j < count; j += PANEL<T>, rows += PANEL<T> * padded, to += PANEL<T> * width)
        transpose(rows, std::min(PANEL<T>, count - j), width, padded, to, PANEL<T>, PANEL<T>);
}

// One set of one head of queries: which keys are unmasked, and their keys and values in rows, padded to whole vectors.
template <class T> struct Set {
    Seen seen;
    Index count;
    Array<T> keys, values;

    Set(const separatrix_call& call, const Cut<T>& cut, Index m, Index head)
        : seen(call, m, head), count(seen.count()), keys(count * cut.depth), values(count * cut.width) {
        read(call, cut, m, head);
    }

    // Take the keys and values of another head, in the same memory if no key is masked.
    void take(const separatrix_call& call, const Cut<T>& cut, Index m, Index head) {
        if (call.masks[m].data) *this = Set(call, cut, m, head);
        else read(call, cut, m, head);
    }

private:
    void read(const separatrix_call& call, const Cut<T>& cut, Index m, Index head) {
        read_rows<T>(call.type, call.keys[m], head / call.shared, seen, call.d, cut.depth, keys);
        read_rows<T>(call.type, call.values[m], head / call.shared, seen, call.d_v, cut.width, values);
    }
};

// Heads of few tuples are grouped into tasks of some 5 10^5 multiply-adds, so that memory is rarely allocated.
class TasksOfHeads {
public:
    TasksOfHeads(double multiply_adds, Index heads)
        : heads_(heads), count_(static_cast<Index>(std::min(static_cast<double>(heads), 1 + multiply_adds / 5e5))) {}

    Index count() const { return count_; }
    Range of(Index task) const { return {heads_ * task / count_, heads_ * (task + 1) / count_}; }

private:
    Index heads_, count_;
};

// The number of consecutive heads of queries that have the same sets: the same keys with the same mask.
inline Index with_same_sets(const separatrix_call& call) {
    for (Index m = 0; m < call.sets; ++m)
        if (call.masks[m].data) return call.mask_shared;
    return call.shared;
}

// All sets of one head of queries.
template <class T> struct Sets {
    std::vector<Set<T>> sets;
    Index inner;

    Sets(const separatrix_call& call, const Cut<T>& cut, Index head) : inner(cut.inner) {
        sets.reserve(static_cast<std::size_t>(call.sets));
        for (Index m = 0; m < call.sets; ++m) sets.emplace_back(call, cut, m, head);
    }

    void take(const separatrix_call& call, const Cut<T>& cut, Index head) {
        for (Index m = 0; m < call.sets; ++m) sets[static_cast<std::size_t>(m)].take(call, cut, m, head);
    }

    const Set<T>& operator[](Index m) const { return sets[static_cast<std::size_t>(m)]; }

    // For each column of keys, the product of the largest magnitudes of all sets; NaN if one of them is.
    void write_amplitudes(Index depth, T* product) const {
        for (Index l = 0; l < depth; ++l) product[l] = 1;
        for (const Set<T>& set : sets) multiply_amplitudes<T>(set.keys, set.count, depth, product);
    }
};

// The keys of each set that a query may attend.
using Ranges = Range[SEPARATRIX_MOST_SETS];

// A tuple of the prefix sets, each key in a range; the last set varies fastest.
class Prefix {
public:
    Prefix(const Range* ranges, Index sets, Index inner) : ranges_(ranges), sets_(sets), inner_(inner) {
        for (Index m = 0; m < sets; ++m) at_[m] = ranges[m].start;
    }

    Index operator[](Index m) const { return at_[m]; }

    void advance() {
        for (Index m = sets_ - 1; m >= 0; --m) {
            if (m == inner_) continue;
            if (++at_[m] < ranges_[m].stop) return;
            at_[m] = ranges_[m].start;
        }
    }

private:
    const Range* ranges_;
    Index sets_, inner_;
    Index at_[SEPARATRIX_MOST_SETS];
};

// into = start * (the rows of a prefix tuple), the product of all of them; a null `start` is 1.
template <class T, class P>
inline void multiply_prefix(const Sets<T>& sets, const P& prefix, bool values, Index padded, const T* start, T* into) {
    const T* before = start;
    for (Index m = 0; m < static_cast<Index>(sets.sets.size()); ++m) {
        if (m == sets.inner) continue;
        const T* row = (values ? sets[m].values : sets[m].keys) + prefix[m] * padded;
        for (Index l = 0; l < padded; l += WIDTH<T>) store(into + l, before ? load(before + l) * load(row + l) : load(row + l));
        before = into;
    }
    for (Index l = 0; l < padded && !before; l += WIDTH<T>) store(into + l, all(T(1)));
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
