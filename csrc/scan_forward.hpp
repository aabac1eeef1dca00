// The forward pass of the causal scan: every query against the product of the states up to its own position.
#pragma once

#include "scan.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// Go through a tile of `count` tokens with N columns from `column` on, for the vectors [from, to) of the part's rows:
// add the token's term to each set's state, and the query's term to the sums of the token, one vector each.
template <int M, int N>
inline void sweep(const Part& part, const double* coefficients, Index from, Index to, Index column, Index count,
                  double* states, double* sums) {
    const int sets = M ? M : static_cast<int>(part.scan.sets);
    const Index columns = part.columns, stride = part.stride;
    const double *query = part.features(0) + part.first, *keys = query + TILE * stride, *values = part.values + column;
    for (Index v = from; v < to; ++v) {
        Vector<double> state[MOST<M>][N];
        double* own = states + (v * sets * columns + column) * WIDTH<double>;
        for (int m = 0; m < sets; ++m)
            for (int n = 0; n < N; ++n) state[m][n] = load(own + (m * columns + n) * WIDTH<double>);
        const Vector<double> c = load(coefficients + v * WIDTH<double>);
        for (Index t = 0; t < count; ++t) {
            const Index row = t * stride + v * WIDTH<double>;
            const Vector<double> q = load(query + row) * c;
            Vector<double> key[MOST<M>];
            for (int m = 0; m < sets; ++m) key[m] = load(keys + m * TILE * stride + row);
            double* into = sums + (t * columns + column) * WIDTH<double>;
            for (int n = 0; n < N; ++n) {
                for (int m = 0; m < sets; ++m)
                    state[m][n] = multiply_add(key[m], all(values[(m * TILE + t) * columns + n]), state[m][n]);
                Vector<double> product = state[0][n];
                for (int m = 1; m < sets; ++m) product = product * state[m][n];
                store(into + n * WIDTH<double>, multiply_add(q, product, load(into + n * WIDTH<double>)));
            }
        }
        for (int m = 0; m < sets; ++m)
            for (int n = 0; n < N; ++n) store(own + (m * columns + n) * WIDTH<double>, state[m][n]);
    }
}

class ForwardScan {
public:
    ForwardScan(const separatrix_scan& scan, const Parts& parts, Index task)
        : part_(scan, parts, task, scan.moments),
          states_(part_.state_size()),
          sums_(TILE * part_.columns * WIDTH<double>),
          moments_(scan.moments ? part_.padded(scan.moments) : Array<double>()),
          terms_(std::min(part_.vectors, rounded_up(std::max<Index>(scan.terms - part_.first, 0), WIDTH<double>) / WIDTH<double>)),
          weighted_(0),
          weighted_stop_(0) {
        part_.unpack(scan.before, states_);
        if (!scan.moments) return;
        weighted_stop_ = part_.vectors;
        while (weighted_ < weighted_stop_ && !weighs(weighted_)) ++weighted_;
        while (weighted_ < weighted_stop_ && !weighs(weighted_stop_ - 1)) --weighted_stop_;
    }

    const Part& part() const { return part_; }

    // Write the sums (length, columns + 1 + weighted), unless they are null, and the states after the last token.
    void run(double* sums, double* const* after) {
        if (sums) attend(sums);
        else add_keys();
        part_.pack(states_, after, weighted_, weighted_stop_);
    }

private:
    void add_keys() {
        const separatrix_scan& scan = part_.scan;
        for (Index start = 0; start < scan.length; start += TILE) {
            const Index count = std::min(TILE, scan.length - start);
            part_.take(start, count, false);
            with_sets(scan.sets, [&](auto sets) {
                each_group_of<1>(part_.columns, [&](auto width, Index column) {
                    advance<decltype(sets)::value, decltype(width)::value>(part_, column, count, states_, states_);
                    check_interrupt();
                });
            });
        }
    }

    void attend(double* sums) {
        const separatrix_scan& scan = part_.scan;
        for (Index start = 0; start < scan.length; start += TILE) {
            const Index count = std::min(TILE, scan.length - start);
            part_.take(start, count, true);
            std::fill_n(static_cast<double*>(sums_), TILE * part_.columns * WIDTH<double>, 0.0);
            with_sets(scan.sets, [&](auto sets) {
                constexpr int M = decltype(sets)::value;
                each_group_of<M>(scan.columns, [&](auto width, Index column) {
                    sweep<M, decltype(width)::value>(part_, part_.coefficients, 0, terms_, column, count,
                                                     states_, sums_);
                    check_interrupt();
                });
                each_group_of<M>(1 + scan.weighted, [&](auto width, Index column) {
                    sweep<M, decltype(width)::value>(part_, moments_, weighted_, weighted_stop_, scan.columns + column,
                                                     count, states_, sums_);
                });
            });
            for (Index t = 0; t < count; ++t) {
                double* into = sums + (start + t) * (scan.columns + 1 + scan.weighted);
                into[scan.columns] = 0.0;
                for (Index c = 0; c < part_.columns; ++c)
                    into[c] = sum_of_lanes<double>(load(sums_ + (t * part_.columns + c) * WIDTH<double>));
            }
        }
    }

    bool weighs(Index vector) const {
        for (Index i = vector * WIDTH<double>; i < (vector + 1) * WIDTH<double>; ++i)
            if (moments_[i] != 0.0) return true;
        return false;
    }

    Part part_;
    Array<double> states_, sums_, moments_;
    Index terms_;                     // how many vectors of rows have coefficients
    Index weighted_, weighted_stop_;  // the vectors of rows that have moments
};

inline int scan_forward(const separatrix_scan& scan, const separatrix_scan_results& results) {
    const Parts parts(scan);
    const Index count = results.sums ? scan.length * (scan.columns + 1 + scan.weighted) : 0;
    const Summed sums(parts, scan.heads, count, results.sums);
    auto run = [&](Index task) {
        ForwardScan pass(scan, parts, task);
        pass.run(results.sums ? sums.of(pass.part()) : nullptr, results.after);
    };
    if (const int failed = for_each_task(scan.heads * parts.each, run)) return failed;
    return sums.finish();
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
