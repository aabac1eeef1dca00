// Append a few tokens to the states of a stream, and attend with a few queries, for all heads in one call.
//
//     state_m += sum_t x_t^alpha [v_t, 1],    out = sum_alpha c_alpha q^alpha prod_m state_m,alpha,
//
// and the other columns of out are divided by its last column. All arithmetic is in double. Tokens are checked before
// any state is changed: a token that may exceed the bound, or has a non-finite value, is rejected.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "tile.hpp"
#include "product.hpp"
#include "tasks.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// The monomials of `count` tokens, one at a time: x^alpha of token t is rows[left][t] * coordinates[right][t].
class Few {
public:
    Few(const separatrix_monomials& set, Index count)
        : set_(set), count_(count), x_((set.d + 1) * count), rows_(set.stored * count) {
        for (Index t = 0; t < count; ++t) x_[set.d * count + t] = rows_[t] = 1;
    }

    template <class T> void fill(const T* tokens, double factor) {
        for (Index t = 0; t < count_; ++t)
            for (Index l = 0; l < set_.d; ++l) x_[l * count_ + t] = static_cast<double>(tokens[t * set_.d + l]) * factor;
        if (count_ == 1)
            for (Index r = 1; r < set_.stored; ++r) rows_[r] = rows_[set_.parents[r]] * x_[set_.coordinates[r]];
        for (Index r = 1; r < (count_ == 1 ? 0 : set_.stored); ++r)
            for (Index t = 0; t < count_; ++t)
                rows_[r * count_ + t] = rows_[set_.parents[r] * count_ + t] * x_[set_.coordinates[r] * count_ + t];
    }

    // The monomials of token t for `count` multi-indices, beginning with number `first`.
    void of_token(Index t, Index first, Index count, double* into) const {
        const std::int32_t *left = set_.left + first, *right = set_.right + first;
        const double *rows = rows_, *x = x_;
        if (count_ == 1) {
            for (Index a = 0; a < count; ++a) into[a] = rows[left[a]] * x[right[a]];
        } else {
            for (Index a = 0; a < count; ++a) into[a] = rows[left[a] * count_ + t] * x[right[a] * count_ + t];
        }
    }

private:
    const separatrix_monomials& set_;
    const Index count_;
    Array<double> x_, rows_;
};

// Whether all tokens are certain to be within the bound. For an l_k norm, the sum of the k-th powers of the entries
// divided by the bound must be below 1 by more than the rounding error: a term is rounded by k products and, k times
// over, by its quotient, and the sum by d additions.
template <class T> bool within(const separatrix_stream& call, const T* tokens) {
    const Index entries = call.heads * call.tokens * call.set->d;
    if (!call.norm) {
        bool all_within = true;
        for (Index i = 0; i < entries; ++i) all_within &= std::fabs(static_cast<double>(tokens[i])) <= call.most;
        return all_within;
    }
    const double slack = 1 + static_cast<double>(2 * call.norm + call.set->d + 8) * 0x1p-53;
    for (Index first = 0; first < entries; first += call.set->d) {
        double sum = 0;
        for (Index l = 0; l < call.set->d; ++l) {
            const double part = std::fabs(static_cast<double>(tokens[first + l])) / call.most;
            double power = part;
            for (Index k = 1; k < call.norm; ++k) power *= part;
            sum += power;
        }
        if (!(sum * slack <= 1)) return false;
    }
    return true;
}

// The largest magnitude of `count` numbers; not finite if one of them is not.
template <class T> double largest_magnitude(const T* x, Index count) {
    T largest = 0;
    for (Index i = 0; i < count; ++i) {
        const T size = x[i] < 0 ? -x[i] : x[i];
        if (!(size <= largest)) largest = size;
        if (!(size - size == 0)) return static_cast<double>(size);
    }
    return static_cast<double>(largest);
}

// Run f for every head: in this thread, unless the states are so large that waking other threads pays off.
template <class F> int each_head(const separatrix_stream& call, F& f, Interrupts interrupts = Interrupts::HANDLED) {
    if (call.heads * call.set->rank * (call.d_v + 1) * call.sets >= (1 << 18))
        return for_each_task(call.heads, f, MANY, interrupts);
    auto all_of_them = [&](Index) {
        for (Index head = 0; head < call.heads; ++head) f(head);
    };
    return for_each_task(1, all_of_them, MANY, interrupts);
}

// The number of monomials of a token that are computed before they are used.
constexpr Index BLOCK = 64;

// A block of rows of a state with N whole vectors of columns, to which one token's monomials times its values are
// added.
template <int N> inline void append_one(Index rows, Index columns, const double* weights, const double* W, double* state) {
    Doubles w[N];
    for (int n = 0; n < N; ++n) w[n] = load(W + n * WIDTH<double>);
    for (Index r = 0; r < rows; ++r, state += columns) {
        const Doubles weight = all(weights[r]);
        for (int n = 0; n < N; ++n) {
            double* at = state + n * WIDTH<double>;
            store(at, load(at) + weight * w[n]);
        }
        for (Index c = N * WIDTH<double>; c < columns; ++c) state[c] += weights[r] * W[c];
    }
}

// state (rank, columns) += sum_t x_t^alpha W_t. The sum over the tokens is computed first, so that the previous state
// is rounded once for any number of tokens. `weights` is memory for a block of monomials of each token.
inline void append_head(Index rank, Index columns, Index tokens, const Few& monomials, const double* W, double* weights,
                        double* state) {
    const Index whole = columns / WIDTH<double> * WIDTH<double>;
    for (Index first = 0; first < rank; first += BLOCK) {
        const Index rows = std::min(BLOCK, rank - first);
        for (Index t = 0; t < tokens; ++t) monomials.of_token(t, first, rows, weights + t * BLOCK);
        if (tokens == 1 && whole && whole <= 8 * WIDTH<double>) {
            with_rows<8>(whole / WIDTH<double>, [&](auto vectors) {
                append_one<decltype(vectors)::value>(rows, columns, weights, W, state);
            });
            state += rows * columns;
            continue;
        }
        for (Index r = 0; r < rows; ++r, state += columns) {
            const Doubles weight = all(weights[r]);
            for (Index c = 0; c < whole; c += WIDTH<double>) {
                Doubles sum = weight * load(W + c);
                for (Index t = 1; t < tokens; ++t)
                    sum = multiply_add(all(weights[t * BLOCK + r]), load(W + t * columns + c), sum);
                store(state + c, load(state + c) + sum);
            }
            for (Index c = whole; c < columns; ++c) {
                double sum = weights[r] * W[c];
                for (Index t = 1; t < tokens; ++t) sum += weights[t * BLOCK + r] * W[t * columns + c];
                state[c] += sum;
            }
        }
    }
}

template <class T> int stream_append(const separatrix_stream& call, double* largest) {
    const Index columns = call.d_v + 1, rank = call.set->rank;
    int refused = 0;
    auto look = [&](Index) {
        for (Index m = 0; m < call.sets; ++m) {
            if (!call.checked && !within(call, static_cast<const T*>(call.keys[m]))) refused = 1;
            largest[m] = largest_magnitude(static_cast<const T*>(call.values[m]), call.heads * call.tokens * call.d_v);
            if (!std::isfinite(largest[m])) refused = 1;
        }
    };
    if (const int failed = for_each_task(1, look)) return failed;
    if (refused) return SEPARATRIX_REFUSED;
    // All memory is allocated before a state is changed.
    std::vector<std::unique_ptr<Few>> monomials(static_cast<std::size_t>(call.heads));
    Array<double> W(call.heads * call.tokens * columns), weights(call.heads * call.tokens * BLOCK);
    for (auto& one : monomials) one.reset(new Few(*call.set, call.tokens));
    auto append = [&](Index head) {
        Few& few = *monomials[static_cast<std::size_t>(head)];
        double* own = W + head * call.tokens * columns;
        for (Index m = 0; m < call.sets; ++m) {
            few.fill(static_cast<const T*>(call.keys[m]) + head * call.tokens * call.set->d, call.factors[m + 1]);
            const T* values = static_cast<const T*>(call.values[m]) + head * call.tokens * call.d_v;
            for (Index t = 0; t < call.tokens; ++t) {
                for (Index c = 0; c < call.d_v; ++c) own[t * columns + c] = static_cast<double>(values[t * call.d_v + c]);
                own[t * columns + call.d_v] = 1;
            }
            append_head(rank, columns, call.tokens, few, own, weights + head * call.tokens * BLOCK,
                        call.states[m] + head * rank * columns);
        }
    };
    return each_head(call, append, Interrupts::DEFERRED);
}

// sums[c] += sum over the rows of weights[row] * met[row][c], in four interleaved sums.
inline void add_weighted(Index rows, Index columns, const double* weights, const double* met, double* sums) {
    const Index whole = columns / WIDTH<double> * WIDTH<double>, fours = rows / 4 * 4;
    for (Index c = 0; c < whole; c += WIDTH<double>) {
        Doubles part[4] = {};
        for (Index row = 0; row < fours; row += 4)
            for (Index r = 0; r < 4; ++r)
                part[r] = multiply_add(all(weights[row + r]), load(met + (row + r) * columns + c), part[r]);
        for (Index row = fours; row < rows; ++row)
            part[0] = multiply_add(all(weights[row]), load(met + row * columns + c), part[0]);
        store(sums + c, load(sums + c) + ((part[0] + part[1]) + (part[2] + part[3])));
    }
    for (Index c = whole; c < columns; ++c) {
        double part[4] = {};
        for (Index row = 0; row < fours; row += 4)
            for (Index r = 0; r < 4; ++r) part[r] += weights[row + r] * met[(row + r) * columns + c];
        for (Index row = fours; row < rows; ++row) part[0] += weights[row] * met[row * columns + c];
        sums[c] += (part[0] + part[1]) + (part[2] + part[3]);
    }
}

// The memory that attending with a head needs.
template <class T> class Asking {
public:
    explicit Asking(const separatrix_stream& call)
        : call_(call), columns_(call.d_v + 1), rows_(std::max<Index>(8, std::min<Index>(BLOCK, 2048 / columns_ / 4 * 4))),
          monomials_(*call.set, call.tokens), met_(rows_ * columns_), weights_(BLOCK), sums_(call.tokens * columns_) {}

    // Returns the largest magnitude of an output, or NaN if there is one.
    double ask(Index head, T* out) {
        const Index rank = call_.set->rank;
        monomials_.fill(static_cast<const T*>(call_.query) + head * call_.tokens * call_.set->d, call_.factors[0]);
        for (Index i = 0; i < call_.tokens * columns_; ++i) sums_[i] = 0;
        for (Index first = 0; first < rank; first += rows_) {
            const Index rows = std::min(rows_, rank - first);
            multiply_states((head * rank + first) * columns_, rows * columns_);
            for (Index t = 0; t < call_.tokens; ++t) {
                monomials_.of_token(t, first, rows, weights_);
                for (Index r = 0; r < rows; ++r) weights_[r] *= call_.coefficients[first + r];
                add_weighted(rows, columns_, weights_, met_, sums_ + t * columns_);
            }
            check_interrupt();
        }
        double reached = 0;
        for (Index t = 0; t < call_.tokens; ++t) {
            const double* sums = sums_ + t * columns_;
            for (Index c = 0; c < call_.d_v; ++c) {
                const double found = sums[c] / sums[call_.d_v], size = std::fabs(found);
                if (!(size <= reached) && reached == reached) reached = size;
                out[(head * call_.tokens + t) * call_.d_v + c] = static_cast<T>(found);
            }
        }
        return reached;
    }

private:
    // met = the product of the states, over `count` entries, beginning with number `first`.
    void multiply_states(Index first, Index count) const {
        const Index whole = count / WIDTH<double> * WIDTH<double>;
        for (Index i = 0; i < whole; i += WIDTH<double>) {
            Doubles product = load(call_.states[0] + first + i);
            for (Index m = 1; m < call_.sets; ++m) product *= load(call_.states[m] + first + i);
            store(met_ + i, product);
        }
        for (Index i = whole; i < count; ++i) {
            double product = call_.states[0][first + i];
            for (Index m = 1; m < call_.sets; ++m) product *= call_.states[m][first + i];
            met_[i] = product;
        }
    }

    const separatrix_stream& call_;
    const Index columns_, rows_;
    Few monomials_;
    Array<double> met_, weights_, sums_;
};

template <class T> int stream_attend(const separatrix_stream& call, void* out, double* reached) {
    int refused = 0;
    auto look = [&](Index) { refused = !call.checked && !within(call, static_cast<const T*>(call.query)); };
    if (const int failed = for_each_task(1, look)) return failed;
    if (refused) return SEPARATRIX_REFUSED;
    Array<double> sizes(call.heads);
    auto ask = [&](Index head) { sizes[head] = Asking<T>(call).ask(head, static_cast<T*>(out)); };
    if (const int failed = each_head(call, ask)) return failed;
    *reached = largest_magnitude(static_cast<const double*>(sizes), call.heads);
    return SEPARATRIX_DONE;
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
