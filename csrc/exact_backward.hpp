// Exact attention, backward.
//
// For a fixed prefix p and a chunk of inner keys, the products k_p * k_j and v_p * v_j are written once, and blocks of
// queries attend them as in ordinary attention. With P = 2^(S - lse) the weights,
//
//     S = Q K^T,    D = P * (dO V^T - delta),    dQ += D K,    G += P^T dO,    H += D^T Q,
//
// five products. G and H, the gradients of the rows of V and K, are multiplied by the other factors and added to the
// gradients of the prefix and inner keys after all queries. Only prefixes that some query attends are visited, with
// only the inner keys that these queries attend (exact_prefixes.hpp). The pairs of a prefix and a chunk are distributed
// over *groups*; each group has its own gradients, which are added up at the end in the order of the groups.
#pragma once

#include <memory>

#include "exact_block.hpp"
#include "exact_few_queries.hpp"
#include "exact_merged.hpp"
#include "exact_prefixes.hpp"
#include "tasks.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// The sets of a head of queries, and the first pair of a prefix and a chunk of each group.
template <class T> struct BackwardSets {
    Sets<T> sets;
    Attending attending;
    Index stride;         // a start is a key index for each set, then the chunk
    Array<Index> starts;  // (groups, stride)
    Array<Index> counts;  // (groups): the pairs of each group; not counted if there is one group

    BackwardSets(const separatrix_call& call, const Cut<T>& cut, Index head)
        : sets(call, cut, head), attending(call, sets), stride(call.sets + 1), starts(cut.groups * stride),
          counts(cut.groups) {
        Prefixes<T> prefixes(call, sets, attending);
        for (Index group = 0; group < cut.groups; ++group) counts[group] = 0;
        if (!prefixes.start()) return;
        if (cut.groups == 1) {
            counts[0] = std::numeric_limits<Index>::max();
            prefixes.save(starts);
            starts[call.sets] = 0;
            return;
        }
        Index pairs = 0;
        do {
            pairs += chunks_of(cut, prefixes);
            check_interrupt();
        } while (prefixes.advance());
        // The first pair of a group is pairs * group / groups, computed without overflow.
        const auto border = [&](Index group) {
            return pairs / cut.groups * group + pairs % cut.groups * group / cut.groups;
        };
        prefixes.start();
        Index before = 0, chunks = chunks_of(cut, prefixes);
        for (Index group = 0; group < cut.groups; ++group) {
            counts[group] = border(group + 1) - border(group);
            if (!counts[group]) continue;
            for (; before + chunks <= border(group); chunks = chunks_of(cut, prefixes)) {
                before += chunks;
                prefixes.advance();
                check_interrupt();
            }
            prefixes.save(starts + group * stride);
            starts[group * stride + call.sets] = border(group) - before;
        }
    }

    static Index chunks_of(const Cut<T>& cut, const Prefixes<T>& prefixes) {
        return (prefixes.keys().size() + cut.backward_chunk - 1) / cut.backward_chunk;
    }
};

// The gradients of one group: of the queries, and of the unmasked keys and values, all padded to whole vectors.
template <class T> struct GroupGradients {
    Array<T> query;
    std::vector<std::pair<Array<T>, Array<T>>> sets;

    GroupGradients(const separatrix_call& call, const Cut<T>& cut, const Sets<T>& of)
        : query(zeros<T>(call.query_length * cut.depth)) {
        for (const Set<T>& set : of.sets)
            sets.emplace_back(zeros<T>(set.count * cut.depth), zeros<T>(set.count * cut.width));
    }
};

template <class T> class Backward {
public:
    Backward(const separatrix_call& call, const Cut<T>& cut, const Sets<T>& sets, const BackwardRows<T>& rows,
             GroupGradients<T>& into)
        : call_(call), cut_(cut), all_(rows), sets_(sets), inner_(sets_[cut.inner]), into_(into), prefix_keys_(cut.depth),
          prefix_values_(cut.width), key_panels_(cut.backward_chunk * call.d), value_panels_(cut.backward_chunk * call.d_v),
          key_rows_(cut.backward_chunk * cut.depth), value_rows_(cut.backward_chunk * cut.width), key_grads_(cut.backward_chunk * cut.depth),
          value_grads_(cut.backward_chunk * cut.width), fold_(std::max(cut.depth, cut.width)), block_(call, cut) {}

    // The pairs of a group; the chunks of a prefix are consecutive.
    void add(const BackwardSets<T>& of, Index group) {
        Index left = of.counts[group];
        if (!left) return;
        const Index* start = of.starts + group * of.stride;
        Prefixes<T> prefix(call_, sets_, of.attending);
        prefix.load(start);
        Index skipped = start[call_.sets] * cut_.backward_chunk;
        do {
            const Range keys = prefix.keys();
            for (Index first = keys.start + skipped; first < keys.stop && left; first += cut_.backward_chunk, --left)
                add_pair(prefix, {first, std::min(first + cut_.backward_chunk, keys.stop)});
            skipped = 0;
        } while (left && prefix.advance());
    }

private:
    void add_pair(const Prefixes<T>& prefix, Range keys) {
        // The queries that may attend the prefix and some key of the chunk.
        const Range queries = intersection(
            prefix.queries(), {attending(call_, cut_.inner, inner_.seen.place(keys.start)).start,
                               attending(call_, cut_.inner, inner_.seen.place(keys.stop - 1)).stop});
        if (!queries.size()) return;
        write_products(prefix, keys);
        const BackwardChunk<T> chunk{Panels<T>(key_panels_, call_.d), Panels<T>(value_panels_, call_.d_v), 0, key_rows_,
                                     nullptr, key_grads_, value_grads_};
        for (Index first = queries.start; first < queries.stop; first += Cut<T>::QUERY_BLOCK) {
            const Range block{first, std::min(first + Cut<T>::QUERY_BLOCK, queries.stop)};
            block_.add(all_.block(block), chunk, [&](Index r) { return within(first + r, keys); },
                       into_.query + first * cut_.depth);
            check_interrupt();
        }
        fold(prefix, keys, false);
        fold(prefix, keys, true);
    }

    void write_products(const Prefixes<T>& prefix, Range keys) {
        multiply_prefix<T>(sets_, prefix, false, cut_.depth, nullptr, prefix_keys_);
        multiply_prefix<T>(sets_, prefix, true, cut_.width, nullptr, prefix_values_);
        const Index count = keys.size();
        multiply_rows(inner_.keys + keys.start * cut_.depth, count, cut_.depth, prefix_keys_, key_rows_);
        multiply_rows(inner_.values + keys.start * cut_.width, count, cut_.width, prefix_values_, value_rows_);
        write_panels<T>(key_rows_, count, call_.d, cut_.depth, key_panels_);
        write_panels<T>(value_rows_, count, call_.d_v, cut_.width, value_panels_);
        fill_zeros<T>(key_grads_, 0, count * cut_.depth);
        fill_zeros<T>(value_grads_, 0, count * cut_.width);
    }

    static void multiply_rows(const T* rows, Index count, Index padded, const T* by, T* to) {
        for (Index j = 0; j < count; ++j, rows += padded, to += padded)
            for (Index c = 0; c < padded; c += WIDTH<T>) store(to + c, load(rows + c) * load(by + c));
    }

    // The keys of the chunk that a query may attend, relative to the chunk's first key.
    Range within(Index query, Range keys) const {
        const Range range = inner_.seen.packed(visible(call_, cut_.inner, query));
        const Index start = std::max(range.start, keys.start), stop = std::min(range.stop, keys.stop);
        return {start - keys.start, std::max(start, stop) - keys.start};
    }

    // Add the gradients of the rows of key products (or value products) to those of the inner and prefix keys.
    void fold(const Prefixes<T>& prefix, Range keys, bool values) {
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
    const BackwardRows<T>& all_;
    const Sets<T>& sets_;
    const Set<T>& inner_;
    GroupGradients<T>& into_;
    Array<T> prefix_keys_, prefix_values_, key_panels_, value_panels_, key_rows_, value_rows_, key_grads_, value_grads_, fold_;
    QueryBlock<T> block_;
};

// Two passes over the results of all groups: one adds up the gradients of each head of queries; the other those of the
// heads that share keys and values.
template <class T> class Written {
public:
    Written(const separatrix_call& call, const Cut<T>& cut, const separatrix_gradients& given,
            const std::vector<std::unique_ptr<BackwardSets<T>>>& sets,
            const std::vector<std::unique_ptr<BackwardRows<T>>>& rows,
            const std::vector<std::unique_ptr<GroupGradients<T>>>& grads)
        : call_(call), cut_(cut), given_(given), same_(with_same_sets(call)), sets_(sets), rows_(rows), grads_(grads) {}

    void queries(Index head) const {
        const T scale = static_cast<T>(call_.scale);
        Array<T> sum(call_.d);
        for (Index i = 0; i < call_.query_length; ++i) {
            add_groups(head, i, call_.d, cut_.depth, sum, [](const GroupGradients<T>& of) -> const Array<T>& { return of.query; });
            const Power<T>& power = rows_[static_cast<std::size_t>(head)]->own[i];
            for (Index l = 0; l < call_.d; ++l) sum[l] = power.times(sum[l] * scale);
            write_row<T>(call_.type, sum, call_.d, given_.grad_query, head * call_.query_length + i);
        }
    }

    // The gradients of the keys and values of a head, in the order of the heads of queries; masked keys have gradient
    // zero.
    void keys(Index one) const {
        Array<T> sum(std::max(call_.d, call_.d_v)), part(std::max(call_.d, call_.d_v));
        for (Index m = 0; m < call_.sets; ++m)
            for (Index j = 0; j < call_.lengths[m]; ++j)
                for (const bool values : {false, true}) {
                    const Index width = values ? call_.d_v : call_.d, padded = values ? cut_.width : cut_.depth;
                    fill_zeros<T>(sum, 0, width);
                    for (Index head = one * call_.shared; head < (one + 1) * call_.shared; ++head) {
                        const Seen& seen = sets_[static_cast<std::size_t>(head / same_)]->sets[m].seen;
                        const Range place = seen.packed({j, j + 1});
                        if (!place.size()) continue;
                        add_groups(head, place.start, width, padded, part, [&](const GroupGradients<T>& of) -> const Array<T>& {
                            const auto& set = of.sets[static_cast<std::size_t>(m)];
                            return values ? set.second : set.first;
                        });
                        const Power<T>& power = rows_[static_cast<std::size_t>(head)]->of_head;
                        for (Index l = 0; l < width; ++l) sum[l] += power.times(part[l]);
                    }
                    write_row<T>(call_.type, sum, width, (values ? given_.grad_values : given_.grad_keys)[m],
                                 one * call_.lengths[m] + j);
                }
    }

private:
    // Row j of the gradients of a head of queries: the sum over its groups, in order.
    template <class Of> void add_groups(Index head, Index j, Index width, Index padded, T* sum, Of of) const {
        fill_zeros(sum, 0, width);
        for (Index g = 0; g < cut_.groups; ++g) {
            const T* from = of(*grads_[static_cast<std::size_t>(head * cut_.groups + g)]) + j * padded;
            for (Index l = 0; l < width; ++l) sum[l] += from[l];
        }
    }

    const separatrix_call& call_;
    const Cut<T>& cut_;
    const separatrix_gradients& given_;
    const Index same_;
    const std::vector<std::unique_ptr<BackwardSets<T>>>& sets_;
    const std::vector<std::unique_ptr<BackwardRows<T>>>& rows_;
    const std::vector<std::unique_ptr<GroupGradients<T>>>& grads_;
};

// The gradients of one head of two short sets, over all pairs of their keys (exact_merged.hpp), in memory reused by the
// next head.
template <class T> class MergedBackward {
public:
    MergedBackward(const separatrix_call& call, const Cut<T>& cut, const separatrix_gradients& given)
        : call_(call), cut_(cut), given_(given), sets_(call, cut, true), block_(call, cut),
          query_(call.query_length * cut.depth), key_grads_(cut.merged * cut.depth), value_grads_(cut.merged * cut.width),
          sum_(std::max(call.lengths[0], call.lengths[1]) * std::max(cut.depth, cut.width)), rows_(call, cut) {
        for (int m = 0; m < 2; ++m) {
            keys_[m] = Array<T>(call.lengths[m] * cut.depth);
            values_[m] = Array<T>(call.lengths[m] * cut.width);
        }
    }

    void run(Index head) {
        sets_.take(head);
        rows_.take(call_, given_, head);
        const Index pairs = sets_.pairs();
        fill_zeros<T>(query_, 0, call_.query_length * cut_.depth);
        fill_zeros<T>(key_grads_, 0, pairs * cut_.depth);
        fill_zeros<T>(value_grads_, 0, pairs * cut_.width);
        for (Index first = 0; first < pairs; first += cut_.backward_chunk) {
            const Index size = std::min(cut_.backward_chunk, pairs - first);
            const BackwardChunk<T> chunk{sets_.panels(), sets_.value_panels(), first, sets_.key_rows() + first * cut_.depth,
                                         nullptr, key_grads_ + first * cut_.depth, value_grads_ + first * cut_.width};
            for (Index i = 0; i < call_.query_length; i += Cut<T>::QUERY_BLOCK) {
                const auto within = [&](Index r) {
                    return Range{0, std::min(std::max<Index>(sets_.attended(i + r).stop - first, 0), size)};
                };
                block_.add(rows_.block({i, std::min(i + Cut<T>::QUERY_BLOCK, call_.query_length)}), chunk, within,
                           query_ + i * cut_.depth);
            }
            check_interrupt();
        }
        sets_.fold(key_grads_, cut_.depth, false, keys_);
        sets_.fold(value_grads_, cut_.width, true, values_);
        write(head);
    }

private:
    // Masked keys have gradient zero.
    void write(Index head) {
        const T scale = static_cast<T>(call_.scale);
        for (Index i = 0; i < call_.query_length; ++i) {
            T* row = query_ + i * cut_.depth;
            for (Index l = 0; l < call_.d; ++l) row[l] = rows_.own[i].times(row[l] * scale);
            write_row<T>(call_.type, row, call_.d, given_.grad_query, head * call_.query_length + i);
        }
        for (int m = 0; m < 2; ++m) {
            write_set(head, m, keys_[m], call_.d, cut_.depth, given_.grad_keys[m]);
            write_set(head, m, values_[m], call_.d_v, cut_.width, given_.grad_values[m]);
        }
    }

    void write_set(Index head, int m, const T* grads, Index width, Index padded, void* into) {
        const Seen seen(call_, m, head);
        for (Index j = 0; j < call_.lengths[m]; ++j) {
            const Range place = seen.packed({j, j + 1});
            T* row = sum_ + j * padded;
            for (Index l = 0; l < padded; ++l)
                row[l] = place.size() ? rows_.of_head.times(grads[place.start * padded + l]) : T(0);
        }
        write_rows<T>(call_.type, sum_, call_.lengths[m], width, padded, into, head * call_.lengths[m]);
    }

    const separatrix_call& call_;
    const Cut<T>& cut_;
    const separatrix_gradients& given_;
    MergedSets<T> sets_;
    QueryBlock<T> block_;
    Array<T> query_, key_grads_, value_grads_, sum_;
    Array<T> keys_[2], values_[2];
    BackwardRows<T> rows_;
};

template <class T> int merged_backward(const separatrix_call& call, const Cut<T>& cut, const separatrix_gradients& given) {
    const TasksOfHeads tasks(3 * cut.multiply_adds, call.heads);
    auto run = [&](Index task) {
        MergedBackward<T> pass(call, cut, given);
        const Range heads = tasks.of(task);
        for (Index head = heads.start; head < heads.stop; ++head) pass.run(head);
    };
    return for_each_task(tasks.count(), run, 3 * cut.multiply_adds);
}

template <class T> int backward(const separatrix_call& call, const separatrix_gradients& given) {
    const Cut<T> cut(call);
    if (cut.few_queries) return few_queries_backward(call, cut, given);
    if (cut.merges_backward(call)) return merged_backward(call, cut, given);
    const Index same = with_same_sets(call), with_sets = call.heads / same, with_keys = call.heads / call.shared;
    std::vector<std::unique_ptr<BackwardSets<T>>> sets(static_cast<std::size_t>(with_sets));
    std::vector<std::unique_ptr<BackwardRows<T>>> rows(static_cast<std::size_t>(call.heads));
    std::vector<std::unique_ptr<GroupGradients<T>>> grads(static_cast<std::size_t>(call.heads * cut.groups));
    auto pack = [&](Index task) {
        if (task < with_sets) sets[static_cast<std::size_t>(task)].reset(new BackwardSets<T>(call, cut, task * same));
        const Index head = task - with_sets;
        if (head < 0) return;
        rows[static_cast<std::size_t>(head)].reset(new BackwardRows<T>(call, cut));
        rows[static_cast<std::size_t>(head)]->take(call, given, head);
    };
    if (const int failed = for_each_task(with_sets + call.heads, pack, cut.multiply_adds)) return failed;
    auto add = [&](Index task) {
        const Index head = task / cut.groups, group = task % cut.groups;
        const BackwardSets<T>& of = *sets[static_cast<std::size_t>(head / same)];
        auto& into = grads[static_cast<std::size_t>(task)];
        into.reset(new GroupGradients<T>(call, cut, of.sets));
        Backward<T>(call, cut, of.sets, *rows[static_cast<std::size_t>(head)], *into).add(of, group);
    };
    if (const int failed = for_each_task(call.heads * cut.groups, add, cut.multiply_adds)) return failed;
    const Written<T> written(call, cut, given, sets, rows, grads);
    auto write = [&](Index task) { task < call.heads ? written.queries(task) : written.keys(task - call.heads); };
    return for_each_task(call.heads + with_keys, write, cut.multiply_adds);
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
