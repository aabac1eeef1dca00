// Exact attention, forward.
//
// The rows of a *tile* are prefixes of one query, so that all of them attend the same range of inner keys; at order 2,
// where there is no prefix, and over the pairs of two short sets (exact_merged.hpp) they are queries. Scores of a tile against a chunk are written to the first cache, become
// weights there and meet the values, whose sums stay in registers:
//
//     S = A K^T,    E = 2^(S - peak),    out_i += sum_r v_r * (E V)_r.
//
// Where a bound on the scores of a query shows that no sum of 2^S leaves the range, no peak is subtracted. Elsewhere it
// is the largest score so far, and sums made before it rose are scaled down.
#pragma once

#include <memory>

#include "exact_merged.hpp"
#include "tasks.hpp"
#include "weights.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// The sets of a head of queries in the form that this pass takes.
template <class T> struct ForwardSets {
    Sets<T> sets;
    Array<T> panels, amplitudes;

    ForwardSets(const separatrix_call& call, const Cut<T>& cut, Index head)
        : sets(call, cut, head), panels(sets.panels(call.d, cut.depth)), amplitudes(sets.amplitudes(cut.depth)) {}
};

// The keys and values that rows of queries attend: those of the one set of order 2, or the pairs of two short sets.
template <class T> struct AttendedKeys {
    const separatrix_call& call;
    const Seen* seen;              // of the one set
    const MergedSets<T>* merged;   // or the pairs
    Panels<T> panels;
    const T* values;

    Range of(Index query) const { return merged ? merged->attended(query) : seen->packed(visible(call, 0, query)); }
};

// The sums of a query: `part` over the tiles of the chunk at hand, relative to 2^peak, and `out` over the chunks before
// it, relative to 2^out_peak. Each fades at most once for each of its terms that follow: see kernel_sum in summation.py.
template <class T> struct Running {
    T peak, out_peak;
    Vector<T> part_total, total;
    T *part, *out;

    void start(bool shifted, Index width) {
        peak = out_peak = shifted ? -std::numeric_limits<T>::infinity() : T(0);
        total = part_total = Vector<T>{};
        for (Index c = 0; c < width; c += WIDTH<T>) {
            store(out + c, Vector<T>{});
            store(part + c, Vector<T>{});
        }
    }

    void raise(T score, Index width) {
        if (score <= peak) return;
        fade(peak, score, width, part, part_total);
        peak = score;
    }

    void end_chunk(Index width) {
        if (out_peak < peak) fade(out_peak, peak, width, out, total);
        out_peak = peak;
        for (Index c = 0; c < width; c += WIDTH<T>) {
            store(out + c, load(out + c) + load(part + c));
            store(part + c, Vector<T>{});
        }
        total += part_total;
        part_total = Vector<T>{};
    }

    // Sums relative to 2^before become sums relative to 2^after; before the first score they are zero.
    static void fade(T before, T after, Index width, T* sums, Vector<T>& sum) {
        if (before == -std::numeric_limits<T>::infinity()) return;
        const T by = std::exp2(before - after);
        for (Index c = 0; c < width; c += WIDTH<T>) store(sums + c, load(sums + c) * by);
        sum *= by;
    }
};

template <class T> class Forward {
public:
    Forward(const separatrix_call& call, const Cut<T>& cut, void* out, T* lse)
        : call_(call), cut_(cut), out_(out), lse_(lse), query_(cut.depth), left_(ROWS * cut.depth),
          left_values_(ROWS * cut.width), scores_(ROWS * cut.chunk), sums_(2 * ROWS * cut.width) {
        for (int r = 0; r < ROWS; ++r) {
            running_[r].out = sums_ + 2 * r * cut.width;
            running_[r].part = sums_ + (2 * r + 1) * cut.width;
        }
    }

    // The queries [first, last) of a head.
    void attend(const ForwardSets<T>& of, Index head, Index first, Index last) {
        head_ = head;
        amplitudes_ = of.amplitudes;
        if (call_.sets > 1) {
            for (Index i = first; i < last; ++i) attend_tuples(of, i);
        } else {
            const Set<T>& set = of.sets[0];
            attend_rows({call_, &set.seen, nullptr, Panels<T>(of.panels, call_.d), set.values}, first, last);
        }
    }

    // All queries of a head.
    void attend(const MergedSets<T>& of, Index head) {
        head_ = head;
        amplitudes_ = of.amplitudes();
        attend_rows({call_, nullptr, &of, of.panels(), of.values()}, 0, call_.query_length);
    }

private:
    void attend_rows(const AttendedKeys<T>& keys, Index first, Index last) {
        const Index tiles = (last - first + ROWS - 1) / ROWS;
        for (Index tile = 0; tile < tiles; ++tile) {
            const Index i = first + (last - first) * tile / tiles, next = first + (last - first) * (tile + 1) / tiles;
            with_rows(next - i, [&](auto rows) { attend_keys<decltype(rows)::value>(keys, i); });
        }
    }

    // Row `to` of the left factor: the query at index i times the scale, in units of log 2. Gives whether its scores
    // need a peak subtracted: a bound on them, with the number of tuples, does not leave room for the values. A bound
    // that overflows does not; what underflows in it is less than the 0.01 by which it is enlarged.
    bool scaled_query(Index i, T* to, double tuples) const {
        const Vector<T> scale = all(static_cast<T>(call_.scale * LOG2_E));
        Vector<T> terms{};
        read_row(call_.type, call_.query, head_, i, call_.d, to);
        fill_zeros(to, call_.d, cut_.depth);
        for (Index l = 0; l < cut_.depth; l += WIDTH<T>) {
            const Vector<T> x = load(to + l) * scale;
            store(to + l, x);
            terms += (x < 0 ? -x : x) * load(amplitudes_ + l);
        }
        const double radius = static_cast<double>(sum_of_lanes<T>(terms)), doublings = std::ilogb(tuples) + 1;
        return !(1.01 * radius + 0.01 + doublings <= ROOM);
    }

    // Values are within 2^46 of 1 in float, 2^480 in double (see exact/balance.py): this much is left to the sums.
    static constexpr double ROOM = sizeof(T) == 4 ? 113 - 46.5 : 919 - 480.5;

    void attend_tuples(const ForwardSets<T>& of, Index i) {
        const Sets<T>& sets = of.sets;
        Index prefixes = 1;
        for (Index m = 0; m < call_.sets; ++m) {
            ranges_[m] = sets[m].seen.packed(visible(call_, m, i));
            if (m != cut_.inner) prefixes *= ranges_[m].size();
        }
        const Range keys = ranges_[cut_.inner];
        if (!prefixes || !keys.size()) return nothing(i, running_[0]);
        const bool shifted = scaled_query(i, query_, static_cast<double>(prefixes) * static_cast<double>(keys.size()));
        Running<T>& sums = running_[0];
        sums.start(shifted, cut_.width);
        const Index tiles = (prefixes + ROWS - 1) / ROWS;
        for (Index first = keys.start / PANEL<T> * PANEL<T>; first < keys.stop; first += cut_.chunk) {
            const Range chunk{std::max<Index>(keys.start - first, 0), std::min(keys.stop - first, cut_.chunk)};
            Prefix prefix(ranges_, call_.sets, cut_.inner);
            for (Index tile = 0; tile < tiles; ++tile) {
                const Index rows = prefixes * (tile + 1) / tiles - prefixes * tile / tiles;
                for (Index r = 0; r < rows; ++r, prefix.advance()) {
                    multiply_prefix(sets, prefix, false, cut_.depth, static_cast<const T*>(query_), left_ + r * cut_.depth);
                    multiply_prefix<T>(sets, prefix, true, cut_.width, nullptr, left_values_ + r * cut_.width);
                }
                with_rows(rows, [&](auto count) { add_tile<decltype(count)::value>(of, first, chunk, shifted, sums); });
                check_interrupt();
            }
            sums.end_chunk(cut_.width);
        }
        finish(i, sums);
    }

    // Add a tile of prefixes of one query, against a range of the chunk that begins at a key.
    template <int R>
    void add_tile(const ForwardSets<T>& of, Index first, Range chunk, bool shifted, Running<T>& sums) {
        const Index stride = cut_.chunk, width = cut_.width;
        const T* values = of.sets[cut_.inner].values + (first + chunk.start) * width;
        scores<T, R>(call_.d, {left_, cut_.depth, 1}, Panels<T>(of.panels, call_.d), first,
                     (chunk.stop + PANEL<T> - 1) / PANEL<T>, scores_, stride);
        Vector<T> total{};
        if (shifted) {
            T highest = largest(scores_ + 0, chunk.start, chunk.stop);
            for (int r = 1; r < R; ++r) {
                const T one = largest(scores_ + r * stride, chunk.start, chunk.stop);
                highest = one > highest ? one : highest;
            }
            sums.raise(highest, width);
            for (int r = 0; r < R; ++r)
                total += weigh<T, Kept::NOT_TOO_SMALL>(scores_ + r * stride, chunk.start, chunk.stop, sums.peak);
        } else {
            for (int r = 0; r < R; ++r)
                total += weigh<T, Kept::AS_THEY_ARE>(scores_ + r * stride, chunk.start, chunk.stop, T(0));
        }
        sums.part_total += total;
        each_column_of<T>(width, [&](auto vectors, Index column) {
            constexpr int N = decltype(vectors)::value;
            Vector<T> product[R][N] = {};
            add_product<T, R, N>(chunk.size(), {scores_ + chunk.start, stride, 1}, values + column, width, product);
            for (int n = 0; n < N; ++n) {
                const Index c = column + n * WIDTH<T>;
                Vector<T> sum = product[0][n] * load(left_values_ + c);
                for (int r = 1; r < R; ++r) sum = multiply_add(product[r][n], load(left_values_ + r * width + c), sum);
                store(sums.part + c, load(sums.part + c) + sum);
            }
        });
    }

    // R queries from index i on, each with a range of keys of its own.
    template <int R> void attend_keys(const AttendedKeys<T>& of, Index i) {
        const Index stride = cut_.chunk, width = cut_.width;
        Range keys{std::numeric_limits<Index>::max(), 0}, own[R];
        bool shifted[R];
        for (int r = 0; r < R; ++r) {
            own[r] = of.of(i + r);
            shifted[r] = scaled_query(i + r, left_ + r * cut_.depth, static_cast<double>(std::max<Index>(own[r].size(), 1)));
            running_[r].start(shifted[r], width);
            if (own[r].size()) keys = {std::min(keys.start, own[r].start), std::max(keys.stop, own[r].stop)};
        }
        for (Index first = keys.start / PANEL<T> * PANEL<T>; first < keys.stop; first += cut_.chunk) {
            const Range chunk{std::max<Index>(keys.start - first, 0), std::min(keys.stop - first, cut_.chunk)};
            scores<T, R>(call_.d, {left_, cut_.depth, 1}, of.panels, first, (chunk.stop + PANEL<T> - 1) / PANEL<T>,
                         scores_, stride);
            for (int r = 0; r < R; ++r) {
                T* row = scores_ + r * stride;
                const Index start = std::max(own[r].start - first, chunk.start);
                const Index stop = std::min(own[r].stop - first, chunk.stop);
                if (start >= stop) {
                    fill_zeros(row, chunk.start, chunk.stop);
                    continue;
                }
                Running<T>& sums = running_[r];
                if (shifted[r]) {
                    sums.raise(largest(row, start, stop), width);
                    sums.part_total += weigh<T, Kept::NOT_TOO_SMALL>(row, start, stop, sums.peak);
                } else {
                    sums.part_total += weigh<T, Kept::AS_THEY_ARE>(row, start, stop, T(0));
                }
                fill_zeros(row, chunk.start, start);
                fill_zeros(row, stop, chunk.stop);
            }
            each_column_of<T>(width, [&](auto vectors, Index column) {
                constexpr int N = decltype(vectors)::value;
                Vector<T> product[R][N] = {};
                add_product<T, R, N>(chunk.size(), {scores_ + chunk.start, stride, 1},
                                     of.values + (first + chunk.start) * width + column, width, product);
                for (int r = 0; r < R; ++r)
                    for (int n = 0; n < N; ++n) store(running_[r].part + column + n * WIDTH<T>, product[r][n]);
            });
            for (int r = 0; r < R; ++r) running_[r].end_chunk(width);
            check_interrupt();
        }
        for (int r = 0; r < R; ++r) own[r].size() ? finish(i + r, running_[r]) : nothing(i + r, running_[r]);
    }

    void nothing(Index i, Running<T>& sums) const {
        const Index row = head_ * call_.query_length + i;
        fill_zeros(sums.out, 0, call_.d_v);
        write_row<T>(call_.type, sums.out, call_.d_v, out_, row);
        lse_[row] = -std::numeric_limits<T>::infinity();
    }

    void finish(Index i, Running<T>& sums) const {
        const Index row = head_ * call_.query_length + i;
        const T total = sum_of_lanes<T>(sums.total);
        for (Index c = 0; c < cut_.width; c += WIDTH<T>) store(sums.out + c, load(sums.out + c) / total);
        write_row<T>(call_.type, sums.out, call_.d_v, out_, row);
        const double log = std::log2(static_cast<double>(total)) + static_cast<double>(sums.out_peak);
        lse_[row] = static_cast<T>(log * LN_2);
    }

    const separatrix_call& call_;
    const Cut<T>& cut_;
    Index head_ = 0;
    const T* amplitudes_ = nullptr;
    void* const out_;
    T* const lse_;
    Array<T> query_, left_, left_values_, scores_, sums_;
    Ranges ranges_;
    Running<T> running_[ROWS];
};

// Heads of two short sets, in memory that those of a task share.
template <class T> int merged_forward(const separatrix_call& call, const Cut<T>& cut, void* out, void* lse) {
    const Index same = with_same_sets(call), groups = call.heads / same, each = heads_of_a_task(cut, groups);
    auto attend = [&](Index task) {
        MergedSets<T> sets(call, cut, false);
        Forward<T> pass(call, cut, out, static_cast<T*>(lse));
        for (Index group = task * each; group < std::min((task + 1) * each, groups); ++group) {
            sets.take(group * same);
            for (Index head = group * same; head < (group + 1) * same; ++head) pass.attend(sets, head);
            check_interrupt();
        }
    };
    return for_each_task((groups + each - 1) / each, attend, cut.multiply_adds);
}

template <class T> int forward(const separatrix_call& call, void* out, void* lse) {
    const Cut<T> cut(call);
    if (cut.merged) return merged_forward(call, cut, out, lse);
    const Index same = with_same_sets(call);
    std::vector<std::unique_ptr<ForwardSets<T>>> sets(static_cast<std::size_t>(call.heads / same));
    auto pack = [&](Index one) { sets[static_cast<std::size_t>(one)].reset(new ForwardSets<T>(call, cut, one * same)); };
    if (const int failed = for_each_task(call.heads / same, pack, cut.multiply_adds)) return failed;
    const Index blocks = (call.query_length + cut.queries - 1) / cut.queries;
    auto attend = [&](Index task) {
        const Index head = task / blocks, first = task % blocks * cut.queries;
        Forward<T> pass(call, cut, out, static_cast<T*>(lse));
        const ForwardSets<T>& of = *sets[static_cast<std::size_t>(head / same)];
        pass.attend(of, head, first, std::min(first + cut.queries, call.query_length));
    };
    return for_each_task(call.heads * blocks, attend, cut.multiply_adds);
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
