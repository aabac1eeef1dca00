// Exact attention, backward.
//
// A prefix p and a chunk of inner keys are fixed, the products k_p * k_j and v_p * v_j are written once, and blocks of
// queries go over them as in ordinary attention. With P = 2^(S - lse) the weights,
//
//     S = Q K^T,    D = P * (dO V^T - delta),    dQ += D K,    G += P^T dO,    H += D^T Q,
//
// five products. G and H, the gradients of the rows of V and K, are folded onto prefix and inner keys when all queries
// are through. The pairs of a prefix and a chunk are dealt out in *groups*; each group has gradients of its own, which
// are added up in the end, group after group.
#pragma once

#include <memory>

#include "exact_sets.hpp"
#include "tasks.hpp"
#include "weights.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// What the backward pass reads of a head, beside its sets.
template <class T> struct BackwardSets {
    Sets<T> sets;
    Index prefixes = 1;  // tuples of prefix keys that are seen
    Array<T> query;      // (L_q, d): times the scale, in units of log 2
    Array<T> peaks;      // (L_q): log-sum-exps in these units
    Array<T> delta;      // (L_q): <near, out> - near_lse
    Array<T> incoming, weighted;  // padded to whole vectors

    BackwardSets(const separatrix_call& call, const Cut<T>& cut, const separatrix_gradients& given, Index head)
        : sets(call, cut, head), query(call.query_length * call.d), peaks(call.query_length), delta(call.query_length) {
        for (Index m = 0; m < call.sets; ++m)
            if (m != cut.inner) prefixes *= sets[m].count;
        const T scale = static_cast<T>(call.scale * LOG2_E);
        const T* lse = static_cast<const T*>(given.lse) + head * call.query_length;
        for (Index i = 0; i < call.query_length; ++i) {
            const T* from = row_of<T>(call.query, head, i);
            for (Index l = 0; l < call.d; ++l) query[i * call.d + l] = from[l] * scale;
            peaks[i] = static_cast<T>(static_cast<double>(lse[i]) * LOG2_E);
            const Index row = head * call.query_length + i;
            delta[i] = against(call.d_v, static_cast<const T*>(given.near) + row * call.d_v,
                               static_cast<const T*>(given.out) + row * call.d_v) -
                       static_cast<const T*>(given.near_lse)[row];
        }
        const auto same = [](Index i) { return i; };
        const auto whole = [&](void* data, Index width) {
            return separatrix_tensor{data, call.query_length * width, width};
        };
        incoming = rows_of<T>(whole(given.incoming, call.d_v), head, call.query_length, call.d_v, cut.width, same);
        weighted = rows_of<T>(whole(given.weighted, call.d), head, call.query_length, call.d, cut.depth, same);
    }

    // <a, b>, rounded as products of rows are: an output that is one of the values has that value's product, bit by bit.
    static T against(Index width, const T* a, const T* b) {
        Vector<T> sum{};
        for (Index c = 0; c < width; ++c) sum = multiply_add(all(a[c]), all(b[c]), sum);
        return sum[0];
    }
};

// Gradients of one group: of the queries, and of the keys and values that are seen, all padded to whole vectors.
template <class T> struct GroupGradients {
    Array<T> query;
    std::vector<std::pair<Array<T>, Array<T>>> sets;

    GroupGradients(const separatrix_call& call, const Cut<T>& cut, const Sets<T>& of)
        : query(zeros(call.query_length * cut.depth)) {
        for (const Set<T>& set : of.sets) sets.emplace_back(zeros(set.count * cut.depth), zeros(set.count * cut.width));
    }

    static Array<T> zeros(Index count) {
        Array<T> made(count);
        fill_zeros<T>(made, 0, count);
        return made;
    }
};

template <class T> class Backward {
public:
    Backward(const separatrix_call& call, const Cut<T>& cut, const separatrix_gradients& given,
             const BackwardSets<T>& head_sets, Index head, GroupGradients<T>& into)
        : call_(call), cut_(cut), all_(head_sets), sets_(head_sets.sets), inner_(sets_[cut.inner]), into_(into),
          near_(static_cast<const T*>(given.near) + head * call.query_length * call.d_v),
          prefix_keys_(cut.depth),
          prefix_values_(cut.width), key_panels_(cut.backward_chunk * call.d), value_panels_(cut.backward_chunk * call.d_v),
          key_rows_(cut.backward_chunk * cut.depth), key_grads_(cut.backward_chunk * cut.depth),
          value_grads_(cut.backward_chunk * cut.width), P_(Cut<T>::QUERY_BLOCK * cut.backward_chunk),
          D_(Cut<T>::QUERY_BLOCK * cut.backward_chunk), fold_(std::max(cut.depth, cut.width)) {
        for (Index m = 0; m < call.sets; ++m) ranges_[m] = {0, sets_[m].count};
    }

    // The pairs [first, last) of a prefix and a chunk; the chunks of a prefix follow each other.
    void add(Index first, Index last) {
        const Index chunks = (inner_.count + cut_.backward_chunk - 1) / cut_.backward_chunk;
        if (first >= last) return;
        Prefix prefix(ranges_, call_.sets, cut_.inner);
        prefix.move_to(first / chunks);
        for (Index pair = first; pair < last; ++pair) {
            const Index start = pair % chunks * cut_.backward_chunk;
            add_pair(prefix, {start, std::min(start + cut_.backward_chunk, inner_.count)});
            if (pair % chunks == chunks - 1) prefix.advance();
        }
    }

private:
    void add_pair(const Prefix& prefix, Range keys) {
        // The queries that may attend the prefix and some key of the chunk.
        Range queries{attending(call_, cut_.inner, inner_.seen.place(keys.start)).start,
                      attending(call_, cut_.inner, inner_.seen.place(keys.stop - 1)).stop};
        for (Index m = 0; m < call_.sets; ++m) {
            if (m == cut_.inner) continue;
            const Range some = attending(call_, m, sets_[m].seen.place(prefix[m]));
            queries = {std::max(queries.start, some.start), std::min(queries.stop, some.stop)};
        }
        if (!queries.size()) return;
        write_products(prefix, keys);
        for (Index first = queries.start; first < queries.stop; first += Cut<T>::QUERY_BLOCK)
            add_queries({first, std::min(first + Cut<T>::QUERY_BLOCK, queries.stop)}, keys);
        fold(prefix, keys, false);
        fold(prefix, keys, true);
    }

    void write_products(const Prefix& prefix, Range keys) {
        multiply_prefix<T>(sets_, prefix, false, cut_.depth, nullptr, prefix_keys_);
        multiply_prefix<T>(sets_, prefix, true, cut_.width, nullptr, prefix_values_);
        const Index count = keys.size(), full = rounded_up(count, PANEL<T>);
        for (Index j = 0; j < full; ++j) {
            T* row = key_rows_ + j * cut_.depth;
            const T *key = inner_.keys + (keys.start + j) * cut_.depth, *value = inner_.values + (keys.start + j) * cut_.width;
            for (Index l = 0; l < cut_.depth; ++l) row[l] = j < count ? key[l] * prefix_keys_[l] : T(0);
            for (Index l = 0; l < call_.d; ++l) key_panels_[in_panels<T>(j, l, call_.d)] = row[l];
            for (Index c = 0; c < call_.d_v; ++c)
                value_panels_[in_panels<T>(j, c, call_.d_v)] = j < count ? value[c] * prefix_values_[c] : T(0);
        }
        fill_zeros<T>(key_grads_, 0, full * cut_.depth);
        fill_zeros<T>(value_grads_, 0, full * cut_.width);
    }

    // The keys of the chunk that a query may attend, counted from the chunk's first.
    Range within(Index query, Range keys) const {
        const Range range = inner_.seen.packed(visible(call_, cut_.inner, query));
        const Index start = std::max(range.start, keys.start), stop = std::min(range.stop, keys.stop);
        return {start - keys.start, std::max(start, stop) - keys.start};
    }

    void add_queries(Range queries, Range keys) {
        // Later queries attend later keys: the first and the last tell which keys the block is about.
        Range about = within(queries.start, keys);
        for (Index i = queries.start + 1; i < queries.stop; ++i) {
            const Range one = within(i, keys);
            if (one.size()) about = about.size() ? Range{std::min(about.start, one.start), std::max(about.stop, one.stop)} : one;
        }
        if (!about.size()) return;
        const Index rows = queries.size(), stride = cut_.backward_chunk;
        const Index first_panel = about.start / PANEL<T>, panels = (about.stop + PANEL<T> - 1) / PANEL<T> - first_panel;
        const Index from = first_panel * PANEL<T>;
        each_tile(rows, [&](auto count, Index r) {
            constexpr int R = decltype(count)::value;
            const Index i = queries.start + r;
            scores<T, R>(call_.d, {all_.query + i * call_.d, call_.d, 1}, key_panels_ + from * call_.d, panels,
                         P_ + r * stride + from, stride);
            scores<T, R>(call_.d_v, {near_ + i * call_.d_v, call_.d_v, 1}, value_panels_ + from * call_.d_v, panels,
                         D_ + r * stride + from, stride);
        });
        for (Index r = 0; r < rows; ++r) {
            T *P = P_ + r * stride, *D = D_ + r * stride;
            const Range own = within(queries.start + r, keys);
            if (own.size()) weigh<T, Kept::NEAR_ONE>(P, own.start, own.stop, all_.peaks[queries.start + r]);
            fill_zeros(P, about.start, std::max(about.start, std::min(own.start, about.stop)));
            fill_zeros(P, own.size() ? own.stop : about.start, about.stop);
            for (Index v = about.start / WIDTH<T> * WIDTH<T>; v < about.stop; v += WIDTH<T>)
                store(D + v, (load(D + v) - all_.delta[queries.start + r]) * load(P + v));
            fill_zeros(D, about.start, std::max(about.start, std::min(own.start, about.stop)));
            fill_zeros(D, own.size() ? own.stop : about.start, about.stop);
        }
        each_tile(rows, [&](auto count, Index r) {
            add_to<decltype(count)::value>(about.size(), {D_ + r * stride + about.start, stride, 1},
                                           key_rows_ + about.start * cut_.depth, cut_.depth,
                                           into_.query + (queries.start + r) * cut_.depth);
        });
        each_tile(about.size(), [&](auto count, Index j) {
            constexpr int R = decltype(count)::value;
            const Index at = about.start + j;
            add_to<R>(rows, {P_ + at, 1, stride}, all_.incoming + queries.start * cut_.width, cut_.width,
                      value_grads_ + at * cut_.width);
            add_to<R>(rows, {D_ + at, 1, stride}, all_.weighted + queries.start * cut_.depth, cut_.depth,
                      key_grads_ + at * cut_.depth);
        });
    }

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

    // What the rows of the products of keys (or values) collected goes to inner and prefix keys.
    void fold(const Prefix& prefix, Range keys, bool values) {
        const Index width = values ? cut_.width : cut_.depth;
        const T* rows = (values ? inner_.values : inner_.keys) + keys.start * width;
        const T *grads = values ? value_grads_ : key_grads_, *factor = values ? prefix_values_ : prefix_keys_;
        T* onto = part(cut_.inner, values) + keys.start * width;
        for (Index c = 0; c < width; c += WIDTH<T>) {
            Vector<T> sum{};
            const Vector<T> by = load(factor + c);
            for (Index j = 0; j < keys.size(); ++j) {
                const Vector<T> grad = load(grads + j * width + c);
                store(onto + j * width + c, multiply_add(grad, by, load(onto + j * width + c)));
                sum = multiply_add(grad, load(rows + j * width + c), sum);
            }
            store(fold_ + c, sum);
        }
        for (Index m = 0; m < call_.sets; ++m) {
            if (m == cut_.inner) continue;
            T* to = part(m, values) + prefix[m] * width;
            for (Index c = 0; c < width; c += WIDTH<T>) {
                Vector<T> grad = load(fold_ + c);
                for (Index other = 0; other < call_.sets; ++other)
                    if (other != m && other != cut_.inner)
                        grad *= load((values ? sets_[other].values : sets_[other].keys) + prefix[other] * width + c);
                store(to + c, load(to + c) + grad);
            }
        }
    }

    T* part(Index m, bool values) {
        auto& set = into_.sets[static_cast<std::size_t>(m)];
        return values ? set.second : set.first;
    }

    const separatrix_call& call_;
    const Cut<T>& cut_;
    const BackwardSets<T>& all_;
    const Sets<T>& sets_;
    const Set<T>& inner_;
    GroupGradients<T>& into_;
    const T* near_;
    Array<T> prefix_keys_, prefix_values_, key_panels_, value_panels_, key_rows_, key_grads_, value_grads_, P_, D_, fold_;
    Ranges ranges_;
};

// Write the sum of the gradients of all groups to rows of a result; what a mask hides has none.
template <class T, class Part>
void write_sum(Index groups, Part part, Index count, Index width, Index padded, T factor, T* into, const Seen* seen,
               Index length) {
    fill_zeros(into, 0, length * width);
    for (Index j = 0; j < count; ++j) {
        T* to = into + (seen ? seen->place(j) : j) * width;
        for (Index g = 0; g < groups; ++g)
            for (Index l = 0; l < width; ++l) to[l] += part(g)[j * padded + l];
        for (Index l = 0; l < width; ++l) to[l] *= factor;
    }
}

template <class T> int backward(const separatrix_call& call, const separatrix_gradients& given) {
    const Cut<T> cut(call);
    std::vector<std::unique_ptr<BackwardSets<T>>> sets(static_cast<std::size_t>(call.heads));
    std::vector<std::unique_ptr<GroupGradients<T>>> grads(static_cast<std::size_t>(call.heads * cut.groups));
    auto pack = [&](Index head) { sets[static_cast<std::size_t>(head)].reset(new BackwardSets<T>(call, cut, given, head)); };
    if (const int failed = for_each_task(call.heads, pack)) return failed;
    auto add = [&](Index task) {
        const Index head = task / cut.groups, group = task % cut.groups;
        const BackwardSets<T>& of = *sets[static_cast<std::size_t>(head)];
        auto& into = grads[static_cast<std::size_t>(task)];
        into.reset(new GroupGradients<T>(call, cut, of.sets));
        const Index chunks = (of.sets[cut.inner].count + cut.backward_chunk - 1) / cut.backward_chunk;
        const Index pairs = of.prefixes * chunks;
        Backward<T>(call, cut, given, of, head, *into).add(pairs * group / cut.groups, pairs * (group + 1) / cut.groups);
    };
    if (const int failed = for_each_task(call.heads * cut.groups, add)) return failed;
    auto write = [&](Index head) {
        const auto of_group = [&](Index g) -> GroupGradients<T>& { return *grads[static_cast<std::size_t>(head * cut.groups + g)]; };
        write_sum<T>(cut.groups, [&](Index g) { return static_cast<const T*>(of_group(g).query); }, call.query_length,
                     call.d, cut.depth, static_cast<T>(call.scale),
                     static_cast<T*>(given.grad_query) + head * call.query_length * call.d, nullptr, call.query_length);
        for (Index m = 0; m < call.sets; ++m) {
            const Set<T>& set = sets[static_cast<std::size_t>(head)]->sets[m];
            const Index length = call.lengths[m];
            const auto of_set = [&](Index g) -> auto& { return of_group(g).sets[static_cast<std::size_t>(m)]; };
            write_sum<T>(cut.groups, [&](Index g) { return static_cast<const T*>(of_set(g).first); }, set.count, call.d,
                         cut.depth, T(1), static_cast<T*>(given.grad_keys[m]) + head * length * call.d, &set.seen, length);
            write_sum<T>(cut.groups, [&](Index g) { return static_cast<const T*>(of_set(g).second); }, set.count, call.d_v,
                         cut.width, T(1), static_cast<T*>(given.grad_values[m]) + head * length * call.d_v, &set.seen, length);
        }
    };
    return for_each_task(call.heads, write);
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
