// The step that all backward passes share: a block of rows (queries, or prefixes of one query) against a chunk of keys
// and values.
//
// With P = 2^(S - lse) the weights,
//
//     S = Q K^T,    D = P * (dO V^T - delta),    dQ += D K,    G += P^T dO,    H += D^T Q,
//
// where G and H are the gradients of the rows of V and K.
#pragma once

#include "exact_sets.hpp"
#include "weights.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// A power of two as a product of two factors, each within the range of the type: `Power` of arithmetic/incoming.py.
template <class T> struct Power {
    T first, second;

    // 2^exponent for a sign of 1, and 2^-exponent for a sign of -1.
    explicit Power(int exponent = 0, int sign = 1) {
        const int half = (exponent - (exponent & 1)) / 2;
        first = two_to(sign * half), second = two_to(sign * (exponent - half));
    }

    T times(T x) const { return x * first * second; }

private:
    // Normal numbers are built from their exponent: a library call takes as long as the product of two short rows.
    static T two_to(int exponent) {
        if constexpr (sizeof(T) == 4)
            if (exponent > -126 && exponent < 127) return of_bits((exponent + 127) << 23);
        return std::ldexp(T(1), exponent);
    }
};

// Rows that attend chunks of keys and values together, padded to whole vectors by zeros.
template <class T> struct BlockRows {
    Index count;
    const T* query;     // (count, d): times the scale, in units of log 2
    const T* peaks;     // (count): log-sum-exps in these units; 0 for a query that attends nothing
    const T* near;      // (count, d_v): the incoming gradients divided by the query's power of two
    const T* delta;     // (count): <near, out> - the gradient of the log-sum-exp, divided likewise
    const T* incoming;  // (count, d_v): the incoming gradients divided by the head's power of two
    const T* weighted;  // (count, d): the queries times the scale and the head's share of their power
};

// The inputs of the backward pass for a head of queries, apart from its sets: the rows of a block, for all of its
// queries, in memory reused by the next head. Incoming gradients are scaled to about 1 by a power of two for each query
// and one for the head: incoming_rows.py gives the reason.
template <class T> struct BackwardRows {
    Array<T> query, peaks, near, delta, incoming, weighted;
    Array<Power<T>> own;  // (L_q)
    Power<T> of_head;

    BackwardRows(const separatrix_call& call, const Cut<T>& cut)
        : query(call.query_length * cut.depth), peaks(call.query_length), near(call.query_length * cut.width),
          delta(call.query_length), incoming(call.query_length * cut.width), weighted(call.query_length * cut.depth),
          own(call.query_length), depth_(cut.depth), width_(cut.width), exponents_(call.query_length), out_(cut.width) {}

    void take(const separatrix_call& call, const separatrix_gradients& given, Index head) {
        int largest = NONE;
        for (Index i = 0; i < call.query_length; ++i) {
            exponents_[i] = read_incoming(call, given, head, i);
            largest = std::max(largest, exponents_[i]);
        }
        of_head = Power<T>(largest);
        const T in_log2 = static_cast<T>(call.scale * LOG2_E), scale = static_cast<T>(call.scale);
        for (Index i = 0; i < call.query_length; ++i) {
            const int exponent = exponents_[i] == NONE ? 0 : exponents_[i];
            const Power<T> away(exponent, -1), share(std::max(exponents_[i] - largest, NONE));
            own[i] = Power<T>(exponent);
            T *from = near + i * width_, *to = incoming + i * width_, *rows = weighted + i * depth_;
            for (Index c = 0; c < width_; ++c) {
                from[c] = away.times(from[c]);
                to[c] = share.times(from[c]);
            }
            read_row<T>(call.type, given.out, head, i, call.d_v, out_);
            delta[i] = against(call.d_v, from, out_) - away.times(delta[i]);
            read_row(call.type, call.query, head, i, call.d, rows);
            fill_zeros(rows, call.d, depth_);
            for (Index l = 0; l < depth_; ++l) {
                query[i * depth_ + l] = rows[l] * in_log2;
                rows[l] = share.times(rows[l] * scale);
            }
        }
    }

    BlockRows<T> block(Range queries) const {
        const Index i = queries.start;
        return {queries.size(), query + i * depth_,    peaks + i,             near + i * width_,
                delta + i,      incoming + i * width_, weighted + i * depth_};
    }

private:

    // The incoming gradients of the query at index i, with that of its log-sum-exp in `delta`; zeros if it attends
    // nothing. Returns the exponent of the power of two nearest to the largest, or NONE if all are zero.
    int read_incoming(const separatrix_call& call, const separatrix_gradients& given, Index head, Index i) {
        const T lse = *row_of<T>(given.lse, head, i);
        T* row = near + i * width_;
        peaks[i] = delta[i] = 0;
        fill_zeros(row, 0, width_);
        if (lse == -std::numeric_limits<T>::infinity()) return NONE;
        peaks[i] = static_cast<T>(static_cast<double>(lse) * LOG2_E);
        delta[i] = *row_of<T>(given.grad_lse, head, i);
        read_row(call.type, given.grad_out, head, i, call.d_v, row);
        T most = std::fabs(delta[i]);
        for (Index c = 0; c < call.d_v; ++c) most = larger(most, std::fabs(row[c]));
        if (most == 0) return NONE;
        int exponent = 0;
        if (std::isfinite(most)) std::frexp(most, &exponent);
        return exponent;
    }

    // <a, b>, rounded like products of rows: an output equal to one of the values has exactly that value's product.
    static T against(Index width, const T* a, const T* b) {
        Vector<T> sum{};
        for (Index c = 0; c < width; ++c) sum = multiply_add(all(a[c]), all(b[c]), sum);
        return sum[0];
    }

    static constexpr int NONE = -1100;  // below the exponent of every number

    const Index depth_, width_;
    Array<int> exponents_;
    Array<T> out_;
};

// A chunk of keys and values that blocks of queries attend, with the accumulators of their gradients.
template <class T> struct BackwardChunk {
    Panels<T> key_panels, value_panels;
    Index first;                     // the first key of the chunk in the panels, a whole number of panels
    const T *key_rows, *value_rows;  // padded; the values are read for `value_sums` only
    T *key_grads, *value_grads;      // padded
};

// Process a block of rows: five products of weights P and their gradients D, which stay in the first-level caches.
template <class T> class QueryBlock {
public:
    QueryBlock(const separatrix_call& call, const Cut<T>& cut)
        : call_(call), cut_(cut), P_(Cut<T>::QUERY_BLOCK * cut.backward_chunk),
          D_(Cut<T>::QUERY_BLOCK * cut.backward_chunk) {}

    // `within` gives the keys of the chunk that a row may attend, relative to the chunk's first key. The sums of the
    // weighted values, P V, are a sixth product, which is left out if `value_sums` is null.
    template <class Within>
    void add(const BlockRows<T>& rows, const BackwardChunk<T>& chunk, Within within, T* grad_rows, T* value_sums = nullptr) {
        // Later queries attend later keys, so the first and the last query give the range of keys of the block.
        Range about = within(0);
        for (Index r = 1; r < rows.count; ++r) {
            const Range own = within(r);
            if (own.size()) about = about.size() ? Range{std::min(about.start, own.start), std::max(about.stop, own.stop)} : own;
        }
        if (!about.size()) return;
        const Index stride = cut_.backward_chunk;
        const Index first_panel = about.start / PANEL<T>, panels = (about.stop + PANEL<T> - 1) / PANEL<T> - first_panel;
        const Index from = first_panel * PANEL<T>;
        each_tile(rows.count, [&](auto count, Index r) {
            constexpr int R = decltype(count)::value;
            scores<T, R>(call_.d, {rows.query + r * cut_.depth, cut_.depth, 1}, chunk.key_panels, chunk.first + from, panels,
                         P_ + r * stride + from, stride);
            scores<T, R>(call_.d_v, {rows.near + r * cut_.width, cut_.width, 1}, chunk.value_panels, chunk.first + from,
                         panels, D_ + r * stride + from, stride);
        });
        for (Index r = 0; r < rows.count; ++r) {
            T *P = P_ + r * stride, *D = D_ + r * stride;
            const Range own = within(r);
            if (own.size()) weigh<T, Kept::NEAR_ONE>(P, own.start, own.stop, rows.peaks[r]);
            fill_zeros(P, about.start, std::max(about.start, std::min(own.start, about.stop)));
            fill_zeros(P, own.size() ? own.stop : about.start, about.stop);
            for (Index v = about.start / WIDTH<T> * WIDTH<T>; v < about.stop; v += WIDTH<T>)
                store(D + v, (load(D + v) - rows.delta[r]) * load(P + v));
            fill_zeros(D, about.start, std::max(about.start, std::min(own.start, about.stop)));
            fill_zeros(D, own.size() ? own.stop : about.start, about.stop);
        }
        each_tile(rows.count, [&](auto count, Index r) {
            constexpr int R = decltype(count)::value;
            add_to<R>(about.size(), {D_ + r * stride + about.start, stride, 1}, chunk.key_rows + about.start * cut_.depth,
                      cut_.depth, grad_rows + r * cut_.depth);
            if (value_sums)
                add_to<R>(about.size(), {P_ + r * stride + about.start, stride, 1},
                          chunk.value_rows + about.start * cut_.width, cut_.width, value_sums + r * cut_.width);
        });
        each_tile(about.size(), [&](auto count, Index j) {
            constexpr int R = decltype(count)::value;
            const Index at = about.start + j;
            add_to<R>(rows.count, {P_ + at, 1, stride}, rows.incoming, cut_.width, chunk.value_grads + at * cut_.width);
            add_to<R>(rows.count, {D_ + at, 1, stride}, rows.weighted, cut_.depth, chunk.key_grads + at * cut_.depth);
        });
    }

private:
    // into[r] += sum over k of A[r][k] B[k], for rows of `width` columns.
    template <int R> static void add_to(Index depth, Left<T> A, const T* B, Index width, T* into) {
        each_column_of<T>(width, [&](auto vectors, Index column) {
            constexpr int N = decltype(vectors)::value;
            Vector<T> product[R][N] = {};
            add_product<T, R, N>(depth, A, B + column, width, product);
            for (int r = 0; r < R; ++r)
                for (int n = 0; n < N; ++n) {
                    T* to = into + r * width + column + n * WIDTH<T>;
                    store(to, load(to) + product[r][n]);
                }
        });
    }

    // Call f for the rows [0, count), in tiles of nearly equal size.
    template <class F> static void each_tile(Index count, F&& f) {
        const Index tiles = (count + ROWS - 1) / ROWS;
        for (Index tile = 0; tile < tiles; ++tile) {
            const Index first = count * tile / tiles, last = count * (tile + 1) / tiles;
            with_rows(last - first, [&](auto rows) { f(rows, first); });
        }
    }

    const separatrix_call& call_;
    const Cut<T>& cut_;
    Array<T> P_, D_;
};

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
