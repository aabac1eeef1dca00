// The backward pass of the causal scan: keeps the states at the start of every tile, and within a tile the states of
// all tokens.
//
// A token's term is part of the states of every later token. So the gradient of a state is accumulated from the last
// token to the first, and its value at a token is the gradient of that token's term. Nothing is ever subtracted.
#pragma once

#include "scan.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

class BackwardScan {
public:
    BackwardScan(const separatrix_scan& scan, const Parts& parts, Index task)
        : part_(scan, parts, task, false),
          tiles_((scan.length + TILE - 1) / TILE),
          starts_(std::max<Index>(tiles_, 1) * part_.state_size()),
          grad_states_(part_.state_size()),
          grad_features_((scan.sets + 1) * TILE * part_.stride),
          grad_values_(scan.sets * TILE * part_.columns * WIDTH<double>),
          grad_sums_(TILE * part_.columns),
          lanes_(TILE * scan.d * WIDTH<double>),
          grad_x_(TILE * scan.d) {
        part_.unpack(scan.before, starts_);
    }

    const Part& part() const { return part_; }

    // Write the gradients (d, length) of the query and the keys, (columns, length) of the values, and of the states.
    void run(const separatrix_scan_gradients& given, double* grad_query, double* const* grad_keys,
             double* const* grad_values) {
        const separatrix_scan& scan = part_.scan;
        for (Index tile = 0; tile + 1 < tiles_; ++tile) {
            part_.take(tile * TILE, TILE, false);
            const double* from = starts_ + tile * part_.state_size();
            with_sets(scan.sets, [&](auto sets) {
                constexpr int M = decltype(sets)::value;
                each_group_of<1>(scan.columns, [&](auto width, Index column) {
                    advance<M, decltype(width)::value>(part_, column, TILE, from, starts_ + (tile + 1) * part_.state_size());
                    check_interrupt();
                });
            });
        }
        part_.unpack(given.after, grad_states_);
        for (Index tile = tiles_ - 1; tile >= 0; --tile) {
            const Index start = tile * TILE, count = std::min(TILE, scan.length - start);
            part_.take(start, count, true);
            take_gradients(given.sums, start, count);
            with_sets(scan.sets, [&](auto sets) {
                constexpr int M = decltype(sets)::value;
                each_group_of<M == 2 ? 3 : M>(scan.columns, [&](auto width, Index column) {
                    sweep_back<M, decltype(width)::value>(column, count, starts_ + tile * part_.state_size());
                    check_interrupt();
                });
            });
            for (Index factor = 0; factor <= scan.sets; ++factor)
                give_coordinates(factor, start, count, factor ? grad_keys[factor - 1] : grad_query);
            for (Index set = 0; set < scan.sets; ++set)
                for (Index t = 0; t < count; ++t)
                    for (Index c = 0; c < scan.columns; ++c)
                        grad_values[set][c * scan.length + start + t] = sum_of_lanes<double>(
                            load(grad_values_ + ((set * TILE + t) * scan.columns + c) * WIDTH<double>));
        }
        part_.pack(grad_states_, given.before);
    }

private:
    void take_gradients(const double* sums, Index start, Index count) {
        const separatrix_scan& scan = part_.scan;
        const Index all_columns = scan.columns;
        std::memcpy(grad_sums_, sums + (part_.head * scan.length + start) * all_columns,
                    static_cast<std::size_t>(count * all_columns) * sizeof(double));
        for (Index row = 0; row < (scan.sets + 1) * TILE; ++row)  // of the ancestors; those of the part are written first
            std::fill_n(grad_features_ + row * part_.stride, part_.first, 0.0);
        std::fill_n(static_cast<double*>(grad_values_), scan.sets * TILE * all_columns * WIDTH<double>, 0.0);
    }

    void give_coordinates(Index factor, Index start, Index count, double* into) {
        const separatrix_scan& scan = part_.scan;
        part_.monomials.backward(count, part_.x(factor), part_.features(factor),
                                 grad_features_ + factor * TILE * part_.stride, lanes_, grad_x_);
        for (Index t = 0; t < count; ++t)
            for (Index l = 0; l < scan.d; ++l) into[l * scan.length + start + t] = grad_x_[t * scan.d + l];
    }

    // Go through a tile forward, keeping the states of each token, and backward, with N columns from `column` on.
    template <int M, int N> void sweep_back(Index column, Index count, const double* starts) {
        const int sets = M ? M : static_cast<int>(part_.scan.sets);
        const Index columns = part_.columns, stride = part_.stride;
        const double *query = part_.features(0) + part_.first, *keys = query + TILE * stride, *values = part_.values + column;
        double *grad_query = grad_features_ + part_.first, *grad_keys = grad_query + TILE * stride;
        for (Index v = 0; v < part_.vectors; ++v) {
            const Index at = (v * sets * columns + column) * WIDTH<double>;
            const Vector<double> c = load(part_.coefficients + v * WIDTH<double>);
            Vector<double> states[TILE][MOST<M>][N];
            {
                Vector<double> state[MOST<M>][N] = {};
                for (int m = 0; m < sets; ++m)
                    for (int n = 0; n < N; ++n) state[m][n] = load(starts + at + (m * columns + n) * WIDTH<double>);
                for (Index t = 0; t < count; ++t) {
                    const Index row = t * stride + v * WIDTH<double>;
                    Vector<double> key[MOST<M>], grad{};
                    for (int m = 0; m < sets; ++m) key[m] = load(keys + m * TILE * stride + row);
                    for (int n = 0; n < N; ++n) {
                        for (int m = 0; m < sets; ++m) {
                            const Vector<double> value = all(values[(m * TILE + t) * columns + n]);
                            states[t][m][n] = state[m][n] = multiply_add(key[m], value, state[m][n]);
                        }
                        Vector<double> product = state[0][n];
                        for (int m = 1; m < sets; ++m) product = product * state[m][n];
                        grad = multiply_add(all(grad_sums_[t * columns + column + n]), product, grad);
                    }
                    store(grad_query + row, column ? multiply_add(grad, c, load(grad_query + row)) : grad * c);
                }
            }
            Vector<double> grad_state[MOST<M>][N];
            double* own = grad_states_ + at;
            for (int m = 0; m < sets; ++m)
                for (int n = 0; n < N; ++n) grad_state[m][n] = load(own + (m * columns + n) * WIDTH<double>);
            for (Index t = count - 1; t >= 0; --t) {
                const Index row = t * stride + v * WIDTH<double>;
                const Vector<double> q = load(query + row) * c;
                Vector<double> key[MOST<M>], grad[MOST<M>];
                for (int m = 0; m < sets; ++m) {
                    key[m] = load(keys + m * TILE * stride + row);
                    grad[m] = column ? load(grad_keys + m * TILE * stride + row) : Vector<double>{};
                }
                for (int n = 0; n < N; ++n) {
                    const Vector<double> g = q * all(grad_sums_[t * columns + column + n]);
                    for (int m = 0; m < sets; ++m) {
                        Vector<double> product = g;
                        for (int other = 0; other < sets; ++other)
                            if (other != m) {
                                if (sets == 2) grad_state[m][n] = multiply_add(g, states[t][other][n], grad_state[m][n]);
                                else product = product * states[t][other][n];
                            }
                        if (sets != 2) grad_state[m][n] = grad_state[m][n] + product;
                        grad[m] = multiply_add(grad_state[m][n], all(values[(m * TILE + t) * columns + n]), grad[m]);
                        double* into = grad_values_ + ((m * TILE + t) * columns + column + n) * WIDTH<double>;
                        store(into, multiply_add(grad_state[m][n], key[m], load(into)));
                    }
                }
                for (int m = 0; m < sets; ++m) store(grad_keys + m * TILE * stride + row, grad[m]);
            }
            for (int m = 0; m < sets; ++m)
                for (int n = 0; n < N; ++n) store(own + (m * columns + n) * WIDTH<double>, grad_state[m][n]);
        }
    }

    Part part_;
    Index tiles_;
    Array<double> starts_, grad_states_, grad_features_, grad_values_, grad_sums_, lanes_, grad_x_;
};

inline int scan_backward(const separatrix_scan& scan, const separatrix_scan_gradients& gradients) {
    const Parts parts(scan);
    const Index coordinates = scan.d * scan.length, values = scan.columns * scan.length;
    const Summed query(parts, scan.heads, coordinates, gradients.query);
    std::vector<Summed> sets;
    for (Index m = 0; m < scan.sets; ++m) {
        sets.emplace_back(parts, scan.heads, coordinates, gradients.keys[m]);
        sets.emplace_back(parts, scan.heads, values, gradients.values[m]);
    }
    auto run = [&](Index task) {
        BackwardScan pass(scan, parts, task);
        double *of_keys[SEPARATRIX_MOST_SETS], *of_values[SEPARATRIX_MOST_SETS];
        for (Index m = 0; m < scan.sets; ++m) {
            of_keys[m] = sets[static_cast<std::size_t>(2 * m)].of(pass.part());
            of_values[m] = sets[static_cast<std::size_t>(2 * m + 1)].of(pass.part());
        }
        pass.run(gradients, query.of(pass.part()), of_keys, of_values);
    };
    if (const int failed = for_each_task(scan.heads * parts.each, run)) return failed;
    int failed = query.finish();
    for (const Summed& one : sets) failed = failed ? failed : one.finish();
    return failed;
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
