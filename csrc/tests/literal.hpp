// Exact attention and its gradients by nested loops over all tuples, in the widest floating-point type, with a bound on
// the rounding error of kernels for every result.
//
// The bound counts roundings of unit u = 2^-24 or 2^-53 (Higham, Lemma 3.1): a term that is rounded n times on its way
// into a sum has an error of at most gamma(n) = n u / (1 - n u) of its magnitude. The kernels report how many terms
// they add up at a time (separatrix_levels). An exponential counts for 4, as the certificates assume.
//
//   scores    |s' - s| <= gamma(d + sets + 4) A, with A the sum of the magnitudes of the d products: the scale in units
//             of log 2 (3), its product with the query (1), the prefix keys (sets - 1), d products and sums (d + 1)
//   weights   e^s': the exponential (4), of a difference with the peak or the log-sum-exp, which is rounded once, as is
//             the sum of the differences by which earlier sums are scaled down; at most 4 u A in all
//   fades     factors that scale earlier sums down, at most one for each tile: an exponential and a product (5)
//
// Powers of two below 2^-113 (2^-919 in double) are raised to this value.
//
// If products and weights may be rounded to bfloat16 (levels.is_narrow), the relative error of the terms of a score
// grows by 2^-8 if they are rounded, which they are only in scores up to 90; and that of a weight by 2^-8, identically
// in both of its sums. Numbers flushed to zero contribute less than 2^-60 of the largest value. Rounding the output
// adds one rounding.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "cases.hpp"

namespace fuzz {

using Wide = long double;

// The expected result, and the largest error that a kernel may have.
struct Expected {
    std::vector<Wide> truth, bound;

    explicit Expected(Index n = 0) : truth(std::size_t(n)), bound(std::size_t(n)) {}
    void add(Index at, Wide term, Wide error) { truth[std::size_t(at)] += term, bound[std::size_t(at)] += error; }
    void set(Index at, Wide value, Wide error) { truth[std::size_t(at)] = value, bound[std::size_t(at)] = error; }
};

template <class T> class Literal {
public:
    static constexpr Wide U = sizeof(T) == 4 ? 0x1p-24L : 0x1p-53L;
    static constexpr Wide RAISED = sizeof(T) == 4 ? 0x1p-113L : 0x1p-919L;
    static constexpr Wide NARROW = 0x1p-8L;  // the unit of bfloat16
    // The loss of a result by underflow: the smallest subnormal number for each of some thousand operations.
    static constexpr Wide LOST = sizeof(T) == 4 ? 0x1p-121L : 0x1p-1017L;
    // In a backward pass the loss is relative to incoming gradients, which are at most 2^12.
    static constexpr Wide LOST_GRADIENT = 0x1p14L * LOST;

    Expected out, lse, grad_query, narrow_out, narrow_lse;
    std::vector<Expected> grad_keys, grad_values;
    Buffer<T> given_out, given_lse;  // as passed to the backward pass

    Literal(const Case<T>& drawn, const separatrix_levels& levels)
        : out(rows(drawn) * drawn.call.d_v), lse(rows(drawn)), grad_query(rows(drawn) * drawn.call.d),
          narrow_out(rows(drawn) * drawn.call.d_v), narrow_lse(rows(drawn)),
          given_out(rows(drawn) * drawn.call.d_v, T(0)), given_lse(rows(drawn), T(-INFINITY)), case_(drawn), call_(drawn.call),
          levels_(levels) {
        for (Index m = 0; m < call_.sets; ++m) {
            grad_keys.emplace_back(call_.heads / call_.shared * call_.lengths[m] * call_.d);
            grad_values.emplace_back(call_.heads / call_.shared * call_.lengths[m] * call_.d_v);
        }
        for (Index h = 0; h < call_.heads; ++h)
            for (Index i = 0; i < call_.query_length; ++i) {
                find_tuples(h, i);
                forward(h, i);
                backward(h, i);
            }
    }

    // The inputs of a backward pass; the pointers to its results are not set.
    separatrix_gradients gradients() const {
        separatrix_gradients given{};
        given.out = {given_out.data.get(), call_.query_length * call_.d_v, call_.d_v};
        given.lse = {given_lse.data.get(), call_.query_length, 1};
        given.grad_out = case_.grad_out.address(), given.grad_lse = case_.grad_lse.address();
        return given;
    }

    // The tuples of a query are computed once; each is a row of `sets` keys.
    void find_tuples(Index h, Index i) {
        tuples_.clear();
        std::vector<Index> at(std::size_t(call_.sets), 0);
        for (Index m = 0; m < call_.sets; ++m)
            if (!call_.lengths[m]) return;
        for (;;) {
            bool all = true;
            for (Index m = 0; m < call_.sets && all; ++m) all = case_.may(m, h, i, at[std::size_t(m)]);
            if (all) tuples_.insert(tuples_.end(), at.begin(), at.end());
            Index m = call_.sets - 1;
            while (m >= 0 && ++at[std::size_t(m)] == call_.lengths[m]) at[std::size_t(m--)] = 0;
            if (m < 0) return;
        }
    }

    Index count() const { return Index(tuples_.size()) / call_.sets; }
    Index key(Index t, Index m) const { return tuples_[std::size_t(t * call_.sets + m)]; }

private:
    static Index rows(const Case<T>& drawn) { return drawn.call.heads * drawn.call.query_length; }
    static Wide gamma(Wide n) { return n * U / (1 - n * U); }

    // The product of entries c of the rows of a tuple, without set `without`.
    Wide product(bool values, Index h, Index t, Index c, Index without = -1) const {
        Wide p = 1;
        for (Index m = 0; m < call_.sets; ++m)
            if (m != without) p *= Wide(values ? case_.value(m, h, key(t, m), c) : case_.key(m, h, key(t, m), c));
        return p;
    }

    void forward(Index h, Index i) {
        const Index row = h * call_.query_length + i;
        scores_.assign(std::size_t(count()), 0), sizes_ = scores_, weights_ = scores_;
        Wide peak = -INFINITY, size = 0, total = 0;
        for (Index t = 0; t < count(); ++t) {
            Wide &s = scores_[std::size_t(t)], &A = sizes_[std::size_t(t)];
            for (Index l = 0; l < call_.d; ++l) {
                const Wide term = Wide(call_.scale) * Wide(case_.query.at(h, i, l)) * product(false, h, t, l);
                s += term, A += std::fabs(term);
            }
            peak = std::max(peak, s), size = std::max(size, A);
        }
        if (!count()) {
            for (Index c = 0; c < call_.d_v; ++c) out.set(row * call_.d_v + c, 0, 0);
            lse.set(row, -INFINITY, 0), narrow_lse.set(row, -INFINITY, 0);
            return;
        }
        for (Index t = 0; t < count(); ++t)
            total += weights_[std::size_t(t)] = std::exp(scores_[std::size_t(t)] - peak);
        const Wide fades = Wide(5 * levels_.tiles * levels_.chunks);
        const Wide sums = Wide(levels_.chunk + levels_.rows + levels_.tiles + levels_.chunks + 16 + call_.sets + 6);
        const auto of_weight = [&](Wide narrow) {
            const Wide rounded = narrow * (std::min(size, Wide(90)) + 1.01L);
            const Wide in_score = std::expm1(gamma(Wide(call_.d + call_.sets + 4)) * size + 4 * U * size + rounded);
            return in_score + (1 + in_score) * gamma(4 + fades + sums);
        };
        const Wide each = of_weight(0), narrow = of_weight(NARROW);
        const Wide raised = 2 * Wide(count()) * RAISED;
        for (Index c = 0; c < call_.d_v; ++c) {
            Wide sum = 0, magnitude = 0, most = 0;
            for (Index t = 0; t < count(); ++t) {
                const Wide v = product(true, h, t, c), weight = weights_[std::size_t(t)];
                sum += weight * v, magnitude += weight * std::fabs(v), most = std::max(most, std::fabs(v));
            }
            const auto bound = [&](Wide of) {
                return 1.01L * (magnitude / total * ((1 + of) * (1 + U) / (1 - of) - 1) + 2 * raised * most) + LOST;
            };
            out.set(row * call_.d_v + c, sum / total, bound(each));
            const Wide before = bound(narrow) + 0x1p-60L * most;
            narrow_out.set(row * call_.d_v + c, sum / total, before + NARROW * (std::fabs(sum / total) + before));
            given_out[row * call_.d_v + c] = case_.rounded(static_cast<T>(sum / total));
        }
        const Wide log = peak + std::log(total);
        // A logarithm in double, a sum and a product, and the conversion to the type.
        const Wide in_log = 5 * 0x1p-53L * (2 * size + std::log(Wide(count())) + 1) + 1.01L * U * std::fabs(log);
        lse.set(row, log, 1.01L * (-std::log1p(-(each + raised)) + in_log));
        narrow_lse.set(row, log, 1.01L * (-std::log1p(-(narrow + raised)) + in_log));
        given_lse[row] = static_cast<T>(log);
    }

    void backward(Index h, Index i) {
        const Index row = h * call_.query_length + i;
        const Wide shift = Wide(given_lse[row]);
        // A weight passes through the products and sums of its tile, of queries, of pairs, of groups and of the heads
        // that share a key; the gradient of a score adds d_v, and each set and each factor adds a product.
        const Wide n = Wide(levels_.chunk + levels_.query_block + levels_.query_blocks + levels_.pairs +
                            levels_.groups + call_.shared + call_.d_v + call_.sets + 13);
        for (Index t = 0; t < count(); ++t) {
            const Wide P = std::exp(scores_[std::size_t(t)] - shift), A = sizes_[std::size_t(t)];
            // The log-sum-exp in units of log 2 (3), and the difference (1).
            const Wide in_score = std::expm1(gamma(Wide(call_.d + call_.sets + 5)) * A + gamma(4) * std::fabs(shift));
            const Wide in_P = in_score + (1 + in_score) * gamma(4 + n);
            Wide slope = Wide(case_.grad_lse.at(h, i)), slope_size = std::fabs(slope);
            for (Index c = 0; c < call_.d_v; ++c) {
                const Wide grad = Wide(case_.grad_out.at(h, i, c)), mean = Wide(given_out[row * call_.d_v + c]);
                const Wide v = product(true, h, t, c);
                slope += grad * (v - mean), slope_size += std::fabs(grad) * (std::fabs(v) + std::fabs(mean));
            }
            const Wide error = 1.01L * (P * in_P + 2 * RAISED);
            for (Index l = 0; l < call_.d; ++l) {
                const Wide k = product(false, h, t, l) * Wide(call_.scale);
                grad_query.add(row * call_.d + l, P * slope * k, error * slope_size * std::fabs(k) + LOST_GRADIENT);
            }
            for (Index m = 0; m < call_.sets; ++m) {
                const Index to = h / call_.shared * call_.lengths[m] + key(t, m);
                for (Index l = 0; l < call_.d; ++l) {
                    const Wide by = Wide(call_.scale) * Wide(case_.query.at(h, i, l)) * product(false, h, t, l, m);
                    grad_keys[std::size_t(m)].add(to * call_.d + l, P * slope * by,
                                                  error * slope_size * std::fabs(by) + LOST_GRADIENT);
                }
                for (Index c = 0; c < call_.d_v; ++c) {
                    const Wide by = Wide(case_.grad_out.at(h, i, c)) * product(true, h, t, c, m);
                    grad_values[std::size_t(m)].add(to * call_.d_v + c, P * by, error * std::fabs(by) + LOST_GRADIENT);
                }
            }
        }
    }

    const Case<T>& case_;
    const separatrix_call& call_;
    const separatrix_levels& levels_;
    std::vector<Index> tuples_;
    std::vector<Wide> scores_, sizes_, weights_;
};

}  // namespace fuzz
