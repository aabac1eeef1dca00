// The monomials of a token over an index set, each the product of its parent and a coordinate, and their gradients.
#pragma once

#include <vector>

#include "memory.hpp"
#include "vectors.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// A run: consecutive children of consecutive parents, by the same coordinate; no child of a run is a parent in it.
struct Run {
    Index coordinate, parent, child, count;
};

// How the monomials of the rows [first, stop) of an index set, and of their ancestors, are computed: row i > 0 is row
// parents[i] < i times coordinate last[i]; row 0 is 1. The monomials of a token take `stride` entries.
class Monomials {
public:
    Monomials(Index rank, Index d, const std::int64_t* last, const std::int64_t* parents, Index first, Index stop)
        : rank_(rank), d_(d), padded_(rounded_up(rank, WIDTH<double>)) {
        Array<char> needed(rank);
        for (Index i = 0; i < rank; ++i) needed[i] = i >= first && i < stop;
        for (Index i = rank - 1; i > 0; --i)
            if (needed[i]) needed[parents[i]] = 1;
        bool follows = false;
        for (Index i = 1; i < rank; ++i) {
            if (!needed[i]) {
                follows = false;
                continue;
            }
            if (follows) {
                Run& run = runs_.back();
                if (run.coordinate == last[i] && run.parent + run.count == parents[i] && parents[i] < run.child) {
                    ++run.count;
                    continue;
                }
            }
            runs_.push_back({last[i], parents[i], i, 1});
            follows = true;
        }
    }

    // The computation writes less than one vector past the rank.
    Index stride() const { return padded_ + WIDTH<double>; }

    // The monomials of `count` tokens, with coordinates (count, d) `x`, into (count, stride). Entries from the rank to
    // the end of its vector become 0. Rows that are not needed may be written too, with arbitrary values.
    void fill(Index count, const double* x, double* into) const {
        for (Index t = 0; t < count; ++t) into[t * stride()] = 1.0;
        for (const Run& run : runs_)
            for (Index t = 0; t < count; ++t) {
                const Vector<double> factor = all(x[t * d_ + run.coordinate]);
                const double* from = into + t * stride() + run.parent;
                double* to = into + t * stride() + run.child;
                store(to, load(from) * factor);
                for (Index i = WIDTH<double> - run.child % WIDTH<double>; i < run.count; i += WIDTH<double>)
                    store(to + i, load(from + i) * factor);
            }
        for (Index t = 0; t < count; ++t)
            for (Index i = rank_; i < padded_; ++i) into[t * stride() + i] = 0.0;
    }

    // The gradient (count, d) of the coordinates, given the monomials and their gradient, which is overwritten; `sums`
    // is memory for (count, d) vectors.
    void backward(Index count, const double* x, const double* monomials, double* grad, double* sums,
                  double* grad_x) const {
        for (Index i = 0; i < count * d_ * WIDTH<double>; ++i) sums[i] = 0.0;
        for (Index number = static_cast<Index>(runs_.size()) - 1; number >= 0; --number) {
            const Run run = runs_[static_cast<std::size_t>(number)];
            for (Index t = 0; t < count; ++t) {
                const Vector<double> factor = all(x[t * d_ + run.coordinate]), zero{};
                const double *from = monomials + t * stride() + run.parent, *children = grad + t * stride() + run.child;
                double *parents = grad + t * stride() + run.parent;
                double* into = sums + (t * d_ + run.coordinate) * WIDTH<double>;
                Vector<double> sum = load(into);
                Index i = 0;
                for (; i + WIDTH<double> <= run.count; i += WIDTH<double>) {
                    const Vector<double> child = load(children + i);
                    sum = multiply_add(child, load(from + i), sum);
                    store(parents + i, multiply_add(child, factor, load(parents + i)));
                }
                if (i < run.count) {
                    const Bits<double> inside = lanes_between<double>(0, run.count - i);
                    const Vector<double> child = inside ? load(children + i) : zero;
                    sum = multiply_add(child, inside ? load(from + i) : zero, sum);
                    store(parents + i, multiply_add(child, factor, load(parents + i)));
                }
                store(into, sum);
            }
        }
        for (Index i = 0; i < count * d_; ++i) grad_x[i] = sum_of_lanes<double>(load(sums + i * WIDTH<double>));
    }

private:
    Index rank_, d_, padded_;
    std::vector<Run> runs_;
};

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
