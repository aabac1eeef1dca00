// Monomials x^alpha over an index set, for the tokens of a tile, one token per lane.
//
// A monomial whose alpha has children is *stored*: it is a row of the tile, its parent's row times a coordinate. Every
// monomial is then a product that is used as soon as it is computed,
//
//     x^alpha = row[left] * coordinate[right].
//
// If alpha has no children, these are its parent's row and its last coordinate; otherwise its own row and the number
// one, for which a row of ones follows the coordinates. So a tile keeps far fewer rows than there are monomials.
#pragma once

#include <algorithm>
#include <vector>

#include "memory.hpp"
#include "separatrix.h"
#include "vectors.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// A part of an index set: places [first, last) in an order of its monomials, and the `stored` rows that they are
// computed from, each after its parent.
struct Block {
    Index first, last, stored = 0;
    Array<std::int32_t> rows;

    Block(Index first, Index last) : first(first), last(last) {}
};

// An index set in an order of its monomials, divided into blocks of nearly equal length.
struct Blocks {
    Array<std::int32_t> order;
    std::vector<Block> parts;

    // Each monomial, with `columns` numbers, takes `bytes` bytes of the second-level cache. With few columns,
    // recomputing the rows for each block takes longer than reading the numbers from memory, so there is one block. If
    // monomials are sorted by rows, those of the level [first, last) are sorted separately.
    Blocks(const separatrix_monomials& set, bool by_row, Index columns, Index bytes, Index first = 0, Index last = 0)
        : order(set.rank) {
        const Index most = columns < FEW ? set.rank : std::max<Index>(1, CACHE / bytes);
        const Index count = (set.rank + most - 1) / most;
        if (by_row && count > 1) {
            sort_by_row(set, 0, first), sort_by_row(set, first, last), sort_by_row(set, last, set.rank);
        } else
            for (Index alpha = 0; alpha < set.rank; ++alpha) order[alpha] = static_cast<std::int32_t>(alpha);
        Array<char> needed(set.stored);
        for (Index block = 0; block < count; ++block) {
            Block part(set.rank * block / count, set.rank * (block + 1) / count);
            for (Index r = 0; r < set.stored; ++r) needed[r] = 0;
            for (Index place = part.first; place < part.last; ++place) needed[set.left[order[place]]] = 1;
            for (Index r = set.stored - 1; r > 0; --r)
                if (needed[r]) needed[set.parents[r]] = 1;
            for (Index r = 1; r < set.stored; ++r) part.stored += needed[r];
            part.rows = Array<std::int32_t>(part.stored);
            Index at = 0;
            for (Index r = 1; r < set.stored; ++r)
                if (needed[r]) part.rows[at++] = static_cast<std::int32_t>(r);
            parts.push_back(std::move(part));
        }
    }

private:
    static constexpr Index FEW = 24, CACHE = 1 << 19;

    // Sort the monomials [first, last) by the stored row that they are computed from; the order within a row is kept.
    // A counting sort, because instances of the standard library's sorting templates would be shared with other
    // architectures.
    void sort_by_row(const separatrix_monomials& set, Index first, Index last) {
        Array<Index> place(set.stored + 1);
        for (Index r = 0; r <= set.stored; ++r) place[r] = 0;
        for (Index alpha = first; alpha < last; ++alpha) ++place[set.left[alpha] + 1];
        for (Index r = 0; r < set.stored; ++r) place[r + 1] += place[r];
        for (Index alpha = first; alpha < last; ++alpha)
            order[first + place[set.left[alpha]]++] = static_cast<std::int32_t>(alpha);
    }
};

// The coordinates of `size` tokens, a multiple of the vector's lanes, and their stored monomials.
template <class T> class Tile {
public:
    // Long rows are one vector longer than the tile, so that they do not all map to the same cache lines.
    Tile(const separatrix_monomials& set, Index size)
        : set_(set), size_(size), stride_(size > 4 * WIDTH<T> ? size + WIDTH<T> : size),
          coordinates_((set.d + 1) * stride_), rows_(set.stored * stride_) {
        for (Index t = 0; t < size; ++t) coordinates_[set.d * stride_ + t] = rows_[t] = T(1);
    }

    // Read `count` tokens from coordinate l of the first at x + l * stride, and pad the tile by zeros.
    void fill(const T* x, Index stride, Index count) {
        copy_rows(x, stride, set_.d, count, coordinates_, size_, stride_);
    }

    // Compute the stored monomials from the coordinates: all of them, or those of a block.
    void multiply_out() {
        for (Index r = 1; r < set_.stored; ++r) multiply_out(r);
    }
    void multiply_out(const Block& block) {
        for (Index i = 0; i < block.stored; ++i) multiply_out(block.rows[i]);
    }

    // Copy rows of `count` numbers into rows of `size`, `into_stride` apart, padded by zeros.
    static void copy_rows(const T* from, Index stride, Index rows, Index count, T* into, Index size,
                          Index into_stride) {
        for (Index l = 0; l < rows; ++l) {
            std::memcpy(into + l * into_stride, from + l * stride, static_cast<std::size_t>(count) * sizeof(T));
            for (Index t = count; t < size; ++t) into[l * into_stride + t] = T(0);
        }
    }

    const T* row(Index r) const { return rows_ + r * stride_; }
    const T* coordinate(Index l) const { return coordinates_ + l * stride_; }
    T* coordinate(Index l) { return coordinates_ + l * stride_; }
    const T* left(Index alpha) const { return row(set_.left[alpha]); }
    const T* right(Index alpha) const { return coordinate(set_.right[alpha]); }
    Index size() const { return size_; }

private:
    void multiply_out(Index r) {
        const T *parent = row(set_.parents[r]), *x_l = coordinate(set_.coordinates[r]);
        T* into = rows_ + r * stride_;
        for (Index t = 0; t < size_; t += WIDTH<T>) store(into + t, load(parent + t) * load(x_l + t));
    }

    const separatrix_monomials& set_;
    const Index size_, stride_;
    Array<T> coordinates_, rows_;
};

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
