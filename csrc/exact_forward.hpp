// Exact attention, forward.
//
// The rows of a *tile* are prefixes of one query, so that all of them attend the same range of inner keys; at order 2,
// which has no prefixes, and for the pairs of two short sets (exact_merged.hpp) the rows are queries. Scores of a tile
// against a chunk are written to the first-level cache, become weights there, and are multiplied by the values, whose
// sums stay in registers:
//
//     S = A K^T,    E = 2^(S - peak),    out_i += sum_r v_r * (E V)_r.
//
// If a bound on the scores of a query shows that sums of 2^S neither overflow nor underflow, no peak is subtracted.
// Otherwise the peak is the largest score so far, and earlier sums are scaled down when it rises.
//
// Tensors of bfloat16 are multiplied by bfloat16 instructions (bfloat16.hpp) on processors where these are fast. E is
// then rounded to bfloat16, and the rounded entries are summed. The rows of A, products of the query and prefix keys,
// are rounded only for queries of small typical scores, which rounding hardly changes. Sums are in float throughout.
// docs/derivations/exact-attention.md has the bound on the error.
#pragma once

#include <memory>

#include "bfloat16.hpp"
#include "exact_merged.hpp"
#include "tasks.hpp"
#include "weights.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// The sets of a head of queries in the layout that this pass reads.
template <class T> struct ForwardSets {
    Sets<T> sets;
    Array<T> panels, amplitudes;
    Array<BFloat16> narrow_panels, narrow_values;  // the inner set in pairs of bfloat16
    bool narrow = false;                           // whether it exists; then the rows of inner values are discarded

    ForwardSets(const separatrix_call& call, const Cut<T>& cut, Index head)
        : sets(call, cut, head), panels(rounded_up(call.lengths[cut.inner], PANEL<T>) * call.d), amplitudes(cut.depth) {
        prepare(call, cut);
    }

    // Take the sets of another head; not available if keys or values may be stored as pairs of bfloat16.
    void take(const separatrix_call& call, const Cut<T>& cut, Index head) {
        sets.take(call, cut, head);
        prepare(call, cut);
    }

private:
    void prepare(const separatrix_call& call, const Cut<T>& cut) {
        const Set<T>& set = sets[cut.inner];
        write_panels<T>(set.keys, set.count, call.d, cut.depth, panels);
        sets.write_amplitudes(cut.depth, amplitudes);
        if constexpr (std::is_same_v<T, float>)
            if (cut.narrow && values_are_near_one(cut.width)) {
                Set<T>& inner = sets.sets[static_cast<std::size_t>(sets.inner)];
                narrow_panels = panels_of_pairs(inner.keys, inner.count, call.d, cut.depth);
                narrow_values = pairs_of_rows(inner.values, inner.count, cut.width);
                inner.values = Array<T>();
                narrow = true;
            }
    }

    // Whether the results that bfloat16 dot products flush to zero are negligible: see NARROW_ROOM.
    bool values_are_near_one(Index width) const {
        Array<T> above(width), product(width);
        for (Index c = 0; c < width; ++c) above[c] = product[c] = 1;
        for (const Set<T>& set : sets.sets) {
            Array<T> column(width);
            for (Index c = 0; c < width; ++c) column[c] = 1;
            multiply_amplitudes<T>(set.values, set.count, width, column);
            for (Index c = 0; c < width; ++c) {
                product[c] *= column[c];
                above[c] *= larger(column[c], T(1));
            }
        }
        T largest = 0, largest_above = 0;
        for (Index c = 0; c < width; ++c) {
            largest = larger(largest, product[c]);
            largest_above = larger(largest_above, above[c]);
        }
        return largest >= T(0x1p-16) && largest_above <= T(0x1p16);
    }
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

// The sums of a query: `part` over the tiles of the current chunk, relative to 2^peak, and `out` over the chunks before
// it, relative to 2^out_peak. Each sum is scaled down at most once for each later term: see kernel_sum in summation.py.
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

    // Convert sums relative to 2^before to sums relative to 2^after; before the first score they are zero.
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
        : call_(call), cut_(cut), out_(out), lse_(lse), narrow_depth_(rounded_up(cut.depth, STEP)), query_(cut.depth),
          left_(MOST_ROWS * cut.depth), left_values_(MOST_ROWS * cut.width), scores_(MOST_ROWS * cut.longest_chunk()),
          sums_(2 * ROWS * cut.width) {
        if (cut.narrow) {
            narrow_left_ = zeros<BFloat16>(MOST_ROWS * narrow_depth_);
            narrow_weights_ = zeros<BFloat16>(MOST_ROWS * cut.longest_chunk());
            sizes_ = Array<T>(2 * cut.depth);
        }
        for (int r = 0; r < ROWS; ++r) {
            running_[r].out = sums_ + 2 * r * cut.width;
            running_[r].part = sums_ + (2 * r + 1) * cut.width;
        }
    }

    // The queries [first, last) of a head.
    void attend(const ForwardSets<T>& of, Index head, Index first, Index last) {
        head_ = head;
        amplitudes_ = of.amplitudes;
        sizes_are_known_ = false;
        if (call_.sets > 1) {
            const ConfiguredTiles tiles(of.narrow);
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

    // Multiply a query, a row of the left factor, by the scale in units of log 2. Returns a bound on its scores,
    // enlarged by 0.01, which is more than underflow can lose.
    double scale_query(T* to) const {
        const Vector<T> scale = all(static_cast<T>(call_.scale * LOG2_E));
        Vector<T> terms{};
        for (Index l = 0; l < cut_.depth; l += WIDTH<T>) {
            const Vector<T> x = load(to + l) * scale;
            store(to + l, x);
            terms += (x < 0 ? -x : x) * load(amplitudes_ + l);
        }
        return 1.01 * static_cast<double>(sum_of_lanes<T>(terms)) + 0.01;
    }

    // Whether scores up to `radius` require subtracting a peak because sums over all tuples may leave their range. True
    // if the bound on such a sum overflows.
    static bool is_shifted(double radius, double tuples, double room) { return !(radius + std::ilogb(tuples) + 1 <= room); }

    // Magnitudes of values are within a factor of 2^46 of 1 in float, of 2^480 in double (see exact/balance.py); the
    // sums of weights have the rest of the range.
    static constexpr double ROOM = sizeof(T) == 4 ? 113 - 46.5 : 919 - 480.5;

    // A bfloat16 dot product loses up to 2^-126 when it flushes a number to zero. Products of values are within a
    // factor of 2^16 of 1, as `values_are_near_one` defines it, and a sum of N weights is at least 2^-60 N: relative to
    // the largest value a loss in each of N products is at most 2^(-126 + 16 + 16 + 60), as much as exact/balance.py
    // allows.
    static constexpr double NARROW_ROOM = 60;
    // The rows of A are rounded for queries whose scores have a root mean square of at most 1, and are at most
    // NARROW_RADIUS in units of log 2: the errors of typical scores are then no larger than the rounding of the
    // weights.
    static constexpr double NARROW_RADIUS = 128;
    static constexpr double NARROW_SQUARE = LOG2_E * LOG2_E;

    // The size of the scores of the current query, over the keys that it may attend only: keys hidden by causality and
    // windows do not affect how the weights of a query are rounded.
    struct ScoreSize {
        double radius;       // an upper bound on the scores, in units of log 2
        double mean_square;  // sum_l x_l^2 prod_m mean_j k_m,jl^2: the scores' if signs of terms were random
    };
    ScoreSize score_size(const Sets<T>& sets) {
        const Index depth = cut_.depth;
        T *largest = sizes_, *squares = sizes_ + depth;
        bool same = sizes_are_known_;
        for (Index m = 0; m < call_.sets; ++m)
            same = same && sizes_of_[m].start == ranges_[m].start && sizes_of_[m].stop == ranges_[m].stop;
        for (Index m = 0; m < call_.sets && !same; ++m) {
            const Range range = sizes_of_[m] = ranges_[m];
            const T mean = T(1) / static_cast<T>(range.size());
            for (Index l = 0; l < depth; l += WIDTH<T>) {
                Vector<T> most{}, sum{};
                for (Index j = range.start; j < range.stop; ++j) {
                    const Vector<T> x = load(sets[m].keys + j * depth + l);
                    most = larger(most, x < 0 ? -x : x);
                    sum = multiply_add(x, x, sum);
                }
                store(largest + l, m ? load(largest + l) * most : most);
                store(squares + l, m ? load(squares + l) * (sum * mean) : sum * mean);
            }
        }
        sizes_are_known_ = true;
        Vector<T> radius{}, square{};
        for (Index l = 0; l < depth; l += WIDTH<T>) {
            const Vector<T> x = load(query_ + l);
            radius += (x < 0 ? -x : x) * load(largest + l);
            square = multiply_add(x * x, load(squares + l), square);
        }
        return {1.01 * static_cast<double>(sum_of_lanes<T>(radius)) + 0.01, static_cast<double>(sum_of_lanes<T>(square))};
    }

    void attend_tuples(const ForwardSets<T>& of, Index i) {
        const Sets<T>& sets = of.sets;
        Index prefixes = 1;
        for (Index m = 0; m < call_.sets; ++m) {
            ranges_[m] = sets[m].seen.packed(visible(call_, m, i));
            if (m != cut_.inner) prefixes *= ranges_[m].size();
        }
        const Range keys = ranges_[cut_.inner];
        if (!prefixes || !keys.size()) return nothing(i, running_[0]);
        read_rows<T>(call_.type, call_.query, head_, i, 1, call_.d, cut_.depth, query_);
        const double radius = scale_query(query_);
        const double tuples = static_cast<double>(prefixes) * static_cast<double>(keys.size());
        if constexpr (HAS_BFLOAT16 && std::is_same_v<T, float>)
            if (of.narrow) {
                const ScoreSize size = score_size(sets);
                const bool shifted = is_shifted(size.radius, tuples, NARROW_ROOM);
                if (size.radius <= NARROW_RADIUS && size.mean_square <= NARROW_SQUARE)
                    return add_tuples<BFloat16, BFloat16>(of, i, prefixes, shifted, cut_.narrow_chunk);
                return add_tuples<T, BFloat16>(of, i, prefixes, shifted, cut_.mixed_chunk);
            }
        add_tuples<T, T>(of, i, prefixes, is_shifted(radius, tuples, ROOM), cut_.chunk);
    }

    // Add all tuples of a query, in chunks of inner keys. A is the type of the rows of prefixes when multiplied by
    // keys, W that of weights when multiplied by values.
    template <class A, class W>
    void add_tuples(const ForwardSets<T>& of, Index i, Index prefixes, bool shifted, Index chunk_length) {
        const Sets<T>& sets = of.sets;
        const Range keys = ranges_[cut_.inner];
        Running<T>& sums = running_[0];
        sums.start(shifted, cut_.width);
        constexpr int MOST = std::is_same_v<A, BFloat16> ? NARROW_ROWS : ROWS;
        const Index tiles = (prefixes + MOST - 1) / MOST;
        for (Index first = keys.start / PANEL<T> * PANEL<T>; first < keys.stop; first += chunk_length) {
            const Range chunk{std::max<Index>(keys.start - first, 0), std::min(keys.stop - first, chunk_length)};
            Prefix prefix(ranges_, call_.sets, cut_.inner);
            for (Index tile = 0; tile < tiles; ++tile) {
                const Index rows = prefixes * (tile + 1) / tiles - prefixes * tile / tiles;
                for (Index r = 0; r < rows; ++r, prefix.advance()) {
                    multiply_prefix(sets, prefix, false, cut_.depth, static_cast<const T*>(query_), left_ + r * cut_.depth);
                    multiply_prefix<T>(sets, prefix, true, cut_.width, nullptr, left_values_ + r * cut_.width);
                    if constexpr (std::is_same_v<A, BFloat16>)
                        narrow(left_ + r * cut_.depth, cut_.depth, narrow_left_ + r * narrow_depth_);
                }
                with_rows<MOST>(rows, [&](auto count) {
                    add_tile<decltype(count)::value, A, W>(of, first, chunk, chunk_length, shifted, sums);
                });
                if (check_interrupt() && of.narrow) configure_tiles();
            }
            sums.end_chunk(cut_.width);
        }
        finish(i, sums);
    }

    // Add a tile of prefixes of one query, against a range of the chunk that begins at a key; rows of scores are
    // `stride` apart.
    template <int R, class A, class W>
    void add_tile(const ForwardSets<T>& of, Index first, Range chunk, Index stride, bool shifted, Running<T>& sums) {
        const Index width = cut_.width, panels = (chunk.stop + PANEL<T> - 1) / PANEL<T>;
        if constexpr (std::is_same_v<A, BFloat16>)
            scores<R>(call_.d, narrow_left_, narrow_depth_, of.narrow_panels, first, panels, scores_, stride);
        else
            scores<T, R>(call_.d, {left_, cut_.depth, 1}, Panels<T>(of.panels, call_.d), first, panels, scores_, stride);
        if (shifted) {
            T highest = largest(scores_ + 0, chunk.start, chunk.stop);
            for (int r = 1; r < R; ++r) {
                const T one = largest(scores_ + r * stride, chunk.start, chunk.stop);
                highest = one > highest ? one : highest;
            }
            sums.raise(highest, width);
            weigh_tile<R, W, Kept::NOT_TOO_SMALL>(chunk, stride, sums);
        } else {
            weigh_tile<R, W, Kept::AS_THEY_ARE>(chunk, stride, sums);
        }
        constexpr bool NARROW = std::is_same_v<W, BFloat16>;
        constexpr int WRITTEN = NARROW ? NARROW_ROWS : R;
        each_column_of<T, NARROW ? NARROW_COLUMNS : COLUMNS>(width, [&](auto vectors, Index column) {
            constexpr int N = decltype(vectors)::value;
            Vector<T> product[WRITTEN][N] = {};
            if constexpr (NARROW) {
                const Index start = chunk.start / STEP * STEP;  // weights before and after the range are zeros
                dot_products<R, N>((chunk.stop - start + STEP - 1) / STEP, narrow_weights_ + start, stride,
                                   of.narrow_values + (first + start) * width + 2 * column, width, product);
            } else {
                const T* values = of.sets[cut_.inner].values + (first + chunk.start) * width;
                add_product<T, R, N>(chunk.size(), {scores_ + chunk.start, stride, 1}, values + column, width, product);
            }
            for (int n = 0; n < N; ++n) {
                const Index c = column + n * WIDTH<T>;
                Vector<T> sum = product[0][n] * load(left_values_ + c);
                for (int r = 1; r < R; ++r) sum = multiply_add(product[r][n], load(left_values_ + r * width + c), sum);
                store(sums.part + c, load(sums.part + c) + sum);
            }
        });
    }

    // The weights of a tile from its scores, and their sum.
    template <int R, class W, Kept KEPT> void weigh_tile(Range chunk, Index stride, Running<T>& sums) {
        if constexpr (std::is_same_v<W, BFloat16>) {
            Vector<T> total[2] = {};
            for (int r = 0; r < R; ++r)
                weigh<KEPT>(scores_ + r * stride, chunk.start, chunk.stop, sums.peak, narrow_weights_ + r * stride, total);
            sums.part_total += total[0] + total[1];
        } else {
            Vector<T> total{};
            for (int r = 0; r < R; ++r)
                total += weigh<T, KEPT>(scores_ + r * stride, chunk.start, chunk.stop, sums.peak);
            sums.part_total += total;
        }
    }

    // R queries from index i on, each with its own range of keys.
    template <int R> void attend_keys(const AttendedKeys<T>& of, Index i) {
        const Index stride = cut_.chunk, width = cut_.width;
        Range keys{std::numeric_limits<Index>::max(), 0}, own[R];
        bool shifted[R];
        read_rows<T>(call_.type, call_.query, head_, i, R, call_.d, cut_.depth, left_);
        for (int r = 0; r < R; ++r) {
            own[r] = of.of(i + r);
            const double radius = scale_query(left_ + r * cut_.depth);
            shifted[r] = is_shifted(radius, static_cast<double>(std::max<Index>(own[r].size(), 1)), ROOM);
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

    static constexpr int MOST_ROWS = std::max(ROWS, NARROW_ROWS);

    const separatrix_call& call_;
    const Cut<T>& cut_;
    Index head_ = 0;
    const T* amplitudes_ = nullptr;
    void* const out_;
    T* const lse_;
    const Index narrow_depth_;  // columns of a row of A in bfloat16
    Array<T> query_, left_, left_values_, scores_, sums_;
    Array<BFloat16> narrow_left_, narrow_weights_;
    Array<T> sizes_;  // of the keys in the ranges sizes_of_, valid if sizes_are_known_: see score_size
    bool sizes_are_known_ = false;
    Ranges ranges_, sizes_of_;
    Running<T> running_[ROWS];
};

// Heads of two short sets; the heads of a task share memory.
template <class T> int merged_forward(const separatrix_call& call, const Cut<T>& cut, void* out, void* lse) {
    const Index same = with_same_sets(call);
    const TasksOfHeads tasks(cut.multiply_adds, call.heads / same);
    auto attend = [&](Index task) {
        const Range groups = tasks.of(task);
        MergedSets<T> sets(call, cut, false);
        Forward<T> pass(call, cut, out, static_cast<T*>(lse));
        for (Index group = groups.start; group < groups.stop; ++group) {
            sets.take(group * same);
            for (Index head = group * same; head < (group + 1) * same; ++head) pass.attend(sets, head);
            check_interrupt();
        }
    };
    return for_each_task(tasks.count(), attend, cut.multiply_adds);
}

// Heads of few tuples; the heads of a task share memory.
template <class T> int forward_of_heads(const separatrix_call& call, const Cut<T>& cut, void* out, void* lse) {
    const Index same = with_same_sets(call);
    const TasksOfHeads tasks(cut.multiply_adds, call.heads / same);
    auto attend = [&](Index task) {
        const Range groups = tasks.of(task);
        ForwardSets<T> sets(call, cut, groups.start * same);
        Forward<T> pass(call, cut, out, static_cast<T*>(lse));
        for (Index group = groups.start; group < groups.stop; ++group) {
            if (group > groups.start) sets.take(call, cut, group * same);
            for (Index head = group * same; head < (group + 1) * same; ++head) pass.attend(sets, head, 0, call.query_length);
            check_interrupt();
        }
    };
    return for_each_task(tasks.count(), attend, cut.multiply_adds);
}

template <class T> int forward(const separatrix_call& call, void* out, void* lse) {
    const Cut<T> cut(call);
    if (cut.merged) return merged_forward(call, cut, out, lse);
    if (!cut.narrow && call.query_length <= cut.queries) return forward_of_heads(call, cut, out, lse);
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
