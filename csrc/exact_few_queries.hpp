// Backward pass of exact attention, for heads with few queries.
//
// The rows of a block are prefixes of one query, and the keys are the inner keys: with a_p = q_i * k_p as queries and
// g_p = dO_i * v_p as incoming gradients, the five products of a block (exact_block.hpp) give the gradients of the rows
// a_p and of the inner keys and values, and a sixth product, P V, gives those of the prefix values. Only the weight of
// a pair of prefix and inner keys is written, since few queries would reuse the products of the pair.
#pragma once

#include "exact_block.hpp"
#include "tasks.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// The gradients of the heads of queries that share keys, in memory reused by the next such heads.
template <class T> class FewQueriesBackward {
public:
    FewQueriesBackward(const separatrix_call& call, const Cut<T>& cut, const separatrix_gradients& given)
        : call_(call), cut_(cut), given_(given), same_(with_same_sets(call)), sets_(call, cut, 0), rows_(call, cut),
          block_(call, cut), key_panels_(rounded_up(call.lengths[cut.inner], PANEL<T>) * call.d),
          value_panels_(rounded_up(call.lengths[cut.inner], PANEL<T>) * call.d_v), peaks_(BLOCK), delta_(BLOCK),
          left_(BLOCK * cut.depth), near_(BLOCK * cut.width), incoming_(BLOCK * cut.width), weighted_(BLOCK * cut.depth),
          grad_left_(BLOCK * cut.depth), value_sums_(BLOCK * cut.width), grad_query_(call.query_length * cut.depth) {
        for (Index m = 0; m < call.sets; ++m) {
            grads_.emplace_back(Array<T>(call.lengths[m] * cut.depth), Array<T>(call.lengths[m] * cut.width));
            totals_.emplace_back(Array<T>(call.lengths[m] * cut.depth), Array<T>(call.lengths[m] * cut.width));
        }
    }

    // All heads of queries that attend the head of keys `shared_keys`.
    void run(Index shared_keys) {
        fill(totals_);  // masked keys have gradient zero
        for (Index head = shared_keys * call_.shared; head < (shared_keys + 1) * call_.shared; ++head) {
            if (head % same_ == 0) take_sets(head);
            rows_.take(call_, given_, head);
            fill(grads_);
            fill_zeros<T>(grad_query_, 0, call_.query_length * cut_.depth);
            for (Index i = 0; i < call_.query_length; ++i) add_query(i);
            write_queries(head);
            add_to_totals();
        }
        for (Index m = 0; m < call_.sets; ++m) {
            const auto& total = totals_[static_cast<std::size_t>(m)];
            const Index length = call_.lengths[m], row = shared_keys * length;
            write_rows<T>(call_.type, total.first, length, call_.d, cut_.depth, given_.grad_keys[m], row);
            write_rows<T>(call_.type, total.second, length, call_.d_v, cut_.width, given_.grad_values[m], row);
        }
    }

private:
    static constexpr Index BLOCK = Cut<T>::QUERY_BLOCK;
    using Pairs = std::vector<std::pair<Array<T>, Array<T>>>;  // of each set, for keys and for values

    void fill(Pairs& sets) const {
        for (Index m = 0; m < call_.sets; ++m) {
            fill_zeros<T>(sets[static_cast<std::size_t>(m)].first, 0, call_.lengths[m] * cut_.depth);
            fill_zeros<T>(sets[static_cast<std::size_t>(m)].second, 0, call_.lengths[m] * cut_.width);
        }
    }

    void take_sets(Index head) {
        sets_.take(call_, cut_, head);
        const Set<T>& inner = sets_[cut_.inner];
        write_panels<T>(inner.keys, inner.count, call_.d, cut_.depth, key_panels_);
        write_panels<T>(inner.values, inner.count, call_.d_v, cut_.width, value_panels_);
    }

    void add_query(Index i) {
        Ranges ranges{};
        Index prefixes = 1;
        for (Index m = 0; m < call_.sets; ++m) {
            ranges[m] = sets_[m].seen.packed(visible(call_, m, i));
            if (m != cut_.inner) prefixes *= ranges[m].size();
        }
        if (!ranges[cut_.inner].size()) return;
        Prefix prefix(ranges, call_.sets, cut_.inner);
        for (Index first = 0; first < prefixes; first += BLOCK) {
            const Index count = std::min(BLOCK, prefixes - first);
            const Prefix start = prefix;
            for (Index r = 0; r < count; ++r, prefix.advance()) write_prefix_row(i, prefix, r);
            fill_zeros<T>(grad_left_, 0, count * cut_.depth);
            fill_zeros<T>(value_sums_, 0, count * cut_.width);
            add_block(count, ranges[cut_.inner]);
            prefix = start;
            for (Index r = 0; r < count; ++r, prefix.advance()) fold(i, prefix, r);
            check_interrupt();
        }
    }

    // Row r of a block: the query at index i times a prefix.
    void write_prefix_row(Index i, const Prefix& prefix, Index r) {
        const Index keys = i * cut_.depth, values = i * cut_.width;
        multiply_prefix<T>(sets_, prefix, false, cut_.depth, rows_.query + keys, left_ + r * cut_.depth);
        multiply_prefix<T>(sets_, prefix, false, cut_.depth, rows_.weighted + keys, weighted_ + r * cut_.depth);
        multiply_prefix<T>(sets_, prefix, true, cut_.width, rows_.near + values, near_ + r * cut_.width);
        multiply_prefix<T>(sets_, prefix, true, cut_.width, rows_.incoming + values, incoming_ + r * cut_.width);
        peaks_[r] = rows_.peaks[i], delta_[r] = rows_.delta[i];
    }

    // The rows of a block against all keys of a range, in chunks that begin with a whole panel.
    void add_block(Index count, Range keys) {
        const Set<T>& inner = sets_[cut_.inner];
        const auto& grads = grads_[static_cast<std::size_t>(cut_.inner)];
        const BlockRows<T> rows{count, left_, peaks_, near_, delta_, incoming_, weighted_};
        for (Index first = keys.start / PANEL<T> * PANEL<T>; first < keys.stop; first += cut_.backward_chunk) {
            const Range chunk{std::max<Index>(keys.start - first, 0), std::min(keys.stop - first, cut_.backward_chunk)};
            block_.add(rows,
                       {Panels<T>(key_panels_, call_.d), Panels<T>(value_panels_, call_.d_v), first,
                        inner.keys + first * cut_.depth, inner.values + first * cut_.width, grads.first + first * cut_.depth,
                        grads.second + first * cut_.width},
                       [&](Index) { return chunk; }, grad_left_, value_sums_);
        }
    }

    // Add the gradient of row r of a block to those of the query and of its prefix's keys and values.
    void fold(Index i, const Prefix& prefix, Index r) {
        const T *grad = grad_left_ + r * cut_.depth, *sums = value_sums_ + r * cut_.width;
        multiply_prefix<T>(sets_, prefix, false, cut_.depth, nullptr, left_);
        T* to_query = grad_query_ + i * cut_.depth;
        for (Index l = 0; l < cut_.depth; l += WIDTH<T>)
            store(to_query + l, multiply_add(load(grad + l), load(left_ + l), load(to_query + l)));
        for (Index m = 0; m < call_.sets; ++m) {
            if (m == cut_.inner) continue;
            const auto& grads = grads_[static_cast<std::size_t>(m)];
            add_to_factor(m, prefix, false, cut_.depth, grad, rows_.weighted + i * cut_.depth, grads.first);
            add_to_factor(m, prefix, true, cut_.width, sums, rows_.incoming + i * cut_.width, grads.second);
        }
    }

    // into[prefix[m]] += grad * row * (the rows of the prefix in the other sets).
    void add_to_factor(Index m, const Prefix& prefix, bool values, Index padded, const T* grad, const T* row, T* into) const {
        for (Index c = 0; c < padded; c += WIDTH<T>) {
            Vector<T> product = load(grad + c) * load(row + c);
            for (Index other = 0; other < call_.sets; ++other)
                if (other != m && other != cut_.inner)
                    product *= load((values ? sets_[other].values : sets_[other].keys) + prefix[other] * padded + c);
            T* to = into + prefix[m] * padded + c;
            store(to, load(to) + product);
        }
    }

    void write_queries(Index head) {
        const T scale = static_cast<T>(call_.scale);
        for (Index i = 0; i < call_.query_length; ++i) {
            T* row = grad_query_ + i * cut_.depth;
            for (Index l = 0; l < call_.d; ++l) row[l] = rows_.own[i].times(row[l] * scale);
            write_row<T>(call_.type, row, call_.d, given_.grad_query, head * call_.query_length + i);
        }
    }

    void add_to_totals() {
        for (Index m = 0; m < call_.sets; ++m) {
            const auto& from = grads_[static_cast<std::size_t>(m)];
            const auto& to = totals_[static_cast<std::size_t>(m)];
            for (Index j = 0; j < sets_[m].count; ++j) {
                const Index place = sets_[m].seen.place(j);
                add_row(from.first + j * cut_.depth, cut_.depth, to.first + place * cut_.depth);
                add_row(from.second + j * cut_.width, cut_.width, to.second + place * cut_.width);
            }
        }
    }

    void add_row(const T* from, Index padded, T* to) const {
        const Power<T>& power = rows_.of_head;
        for (Index c = 0; c < padded; c += WIDTH<T>)
            store(to + c, load(to + c) + load(from + c) * power.first * power.second);
    }

    const separatrix_call& call_;
    const Cut<T>& cut_;
    const separatrix_gradients& given_;
    const Index same_;
    Sets<T> sets_;
    BackwardRows<T> rows_;
    QueryBlock<T> block_;
    Array<T> key_panels_, value_panels_;
    Array<T> peaks_, delta_, left_, near_, incoming_, weighted_;  // the rows of a block
    Array<T> grad_left_, value_sums_;                              // the gradients of these rows, and P V
    Array<T> grad_query_;
    Pairs grads_, totals_;  // of a head of queries, for unmasked keys; and of all heads, for all keys
};

template <class T>
int few_queries_backward(const separatrix_call& call, const Cut<T>& cut, const separatrix_gradients& given) {
    const TasksOfHeads tasks(3 * cut.multiply_adds, call.heads / call.shared);
    auto run = [&](Index task) {
        FewQueriesBackward<T> pass(call, cut, given);
        const Range heads = tasks.of(task);
        for (Index shared_keys = heads.start; shared_keys < heads.stop; ++shared_keys) pass.run(shared_keys);
    };
    return for_each_task(tasks.count(), run, 3 * cut.multiply_adds);
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
