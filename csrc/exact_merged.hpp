// The products of all pairs of keys of two short sets, as one longer set.
//
// A panel of one short set would leave lanes of its vectors empty. The pairs (j_1, j_2) have keys k_1 * k_2 and values
// v_1 * v_2, and attention over them is ordinary attention. They are stored in *runs*: a run combines one fixed key
// with the first few keys of the other set. For causal attention they are sorted by the later of their two positions,
// so that the pairs that a query may attend come first.
#pragma once

#include "exact_sets.hpp"
#include "weights.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// Keys [0, count) of the set `moving` with the key `fixed` of the other set.
struct PairRun {
    Index moving, fixed, count;
};

// The runs of two sets, and the number of pairs that each query may attend.
class PairRuns {
public:
    explicit PairRuns(const separatrix_call& call)
        : call_(call), runs_(call.lengths[0] + call.lengths[1]), attended_(call.query_length) {}

    void order(const Seen& first, const Seen& second) {
        const Seen* seen[2] = {&first, &second};
        runs_count_ = pairs_ = 0;
        if (call_.is_causal) {
            order_by_position(seen);
        } else {
            const Index moving = second.count() >= first.count();
            for (Index j = 0; j < seen[1 - moving]->count(); ++j) add({moving, j, seen[moving]->count()});
            for (Index i = 0; i < call_.query_length; ++i) attended_[i] = pairs_;
        }
    }

    Index pairs() const { return pairs_; }
    Index count() const { return runs_count_; }
    Index attended(Index query) const { return attended_[query]; }
    const PairRun* begin() const { return runs_; }
    const PairRun* end() const { return runs_ + runs_count_; }

private:
    void order_by_position(const Seen* const (&seen)[2]) {
        Index before[2] = {0, 0};
        for (Index i = 0; i < call_.query_length; ++i) {
            Index now[2];
            for (int m = 0; m < 2; ++m) now[m] = seen[m]->packed(visible(call_, m, i)).stop;
            // The pairs that a query may attend and no earlier query may: the new keys of the first set with the
            // earlier keys of the second, and the new keys of the second set with all keys of the first.
            for (Index j = before[0]; j < now[0]; ++j) add({1, j, before[1]});
            for (Index j = before[1]; j < now[1]; ++j) add({0, j, now[0]});
            for (int m = 0; m < 2; ++m) before[m] = now[m];
            attended_[i] = pairs_;
        }
    }

    void add(PairRun run) {
        if (!run.count) return;
        runs_[runs_count_++] = run;
        pairs_ += run.count;
    }

    const separatrix_call& call_;
    Array<PairRun> runs_;
    Array<Index> attended_;
    Index runs_count_ = 0, pairs_ = 0;
};

// The pairs of the sets of one head, in memory reused by the next head. The forward pass reads keys in panels and values
// in rows; the backward pass reads both in panels, and the keys also in rows. Pairs that fit into one panel are
// transposed themselves; if there are more, the keys of the sets are transposed before the pairs are formed.
template <class T> class MergedSets {
public:
    MergedSets(const separatrix_call& call, const Cut<T>& cut, bool backward)
        : call_(call), cut_(cut), backward_(backward), few_(cut.merged <= PANEL<T>), runs_(call),
          length_(rounded_up(cut.merged, PANEL<T>) + PANEL<T>), key_panels_(zeros<T>(call.d * length_)),
          value_panels_(zeros<T>(backward ? call.d_v * length_ : 0)), key_rows_(backward || few_ ? cut.merged * cut.depth : 0),
          value_rows_(!backward || few_ ? cut.merged * cut.width : 0), amplitudes_(cut.depth) {
        for (int m = 0; m < 2; ++m) {
            places_[m] = zeros<Place>(length_);
            stride_[m] = rounded_up(call.lengths[m], WIDTH<T>);
            own_keys_[m] = Array<T>(call.lengths[m] * cut.depth);
            own_values_[m] = Array<T>(call.lengths[m] * cut.width);
            transposed_keys_[m] = Array<T>(few_ ? 0 : call.d * stride_[m]);
            transposed_values_[m] = Array<T>(backward && !few_ ? call.d_v * stride_[m] : 0);
        }
    }

    void take(Index head) {
        const Seen seen[2] = {Seen(call_, 0, head), Seen(call_, 1, head)};
        const bool masked = call_.masks[0].data || call_.masks[1].data;
        if (masked || !is_ordered_) {
            runs_.order(seen[0], seen[1]);
            number_places();
        }
        is_ordered_ = true;
        for (Index l = 0; l < cut_.depth; ++l) amplitudes_[l] = 1;
        for (int m = 0; m < 2; ++m) {
            read_rows<T>(call_.type, call_.keys[m], head / call_.shared, seen[m], call_.d, cut_.depth, own_keys_[m]);
            read_rows<T>(call_.type, call_.values[m], head / call_.shared, seen[m], call_.d_v, cut_.width, own_values_[m]);
            if (!backward_) multiply_amplitudes<T>(own_keys_[m], seen[m].count(), cut_.depth, amplitudes_);
        }
        if (backward_ || few_) merge_rows(own_keys_, cut_.depth, key_rows_);
        if (!backward_ || few_) merge_rows(own_values_, cut_.width, value_rows_);
        write_panels(seen, call_.d, cut_.depth, own_keys_, key_rows_, transposed_keys_, key_panels_);
        if (backward_) write_panels(seen, call_.d_v, cut_.width, own_values_, value_rows_, transposed_values_, value_panels_);
    }

    Index pairs() const { return runs_.pairs(); }
    Panels<T> panels() const { return Panels<T>::side_by_side(key_panels_, length_); }
    Panels<T> value_panels() const { return Panels<T>::side_by_side(value_panels_, length_); }
    const T* key_rows() const { return key_rows_; }
    const T* values() const { return value_rows_; }
    const T* amplitudes() const { return amplitudes_; }
    Range attended(Index query) const { return {0, runs_.attended(query)}; }

    // Add the gradients of the pairs to the keys (or the values) of both sets, each multiplied by the other member of
    // the pair.
    void fold(const T* grads, Index width, bool values, const Array<T> (&into)[2]) const {
        const Array<T>(&own)[2] = values ? own_values_ : own_keys_;
        for (int m = 0; m < 2; ++m) fill_zeros<T>(into[m], 0, call_.lengths[m] * width);
        for (const PairRun& run : runs_) {
            const T *moving = own[run.moving], *fixed = own[1 - run.moving] + run.fixed * width;
            T *to_moving = into[run.moving], *to_fixed = into[1 - run.moving] + run.fixed * width;
            for (Index c = 0; c < width; c += WIDTH<T>) {
                const Vector<T> by = load(fixed + c);
                Vector<T> sum{};
                for (Index j = 0; j < run.count; ++j) {
                    const Vector<T> grad = load(grads + j * width + c);
                    store(to_moving + j * width + c, multiply_add(grad, by, load(to_moving + j * width + c)));
                    sum = multiply_add(grad, load(moving + j * width + c), sum);
                }
                store(to_fixed + c, load(to_fixed + c) + sum);
            }
            grads += run.count * width;
        }
    }

private:
    void write_panels(const Seen (&seen)[2], Index width, Index padded, const Array<T> (&own)[2], const T* rows,
                      const Array<T> (&transposed)[2], T* panels) const {
        if (few_)
            return transpose<T>(rows, pairs(), width, padded, panels, rounded_up(pairs(), WIDTH<T>), length_);
        for (int m = 0; m < 2; ++m)
            transpose<T>(own[m], seen[m].count(), width, padded, transposed[m], stride_[m], stride_[m]);
        merge_panels(width, transposed, panels);
    }

    // For each pair, the places of its two keys, if the sets are so short that selecting the keys by lane is faster.
    void number_places() {
        const Index vectors = (pairs() + WIDTH<T> - 1) / WIDTH<T>;
        picks_ = stride_[0] == WIDTH<T> && stride_[1] == WIDTH<T> && 3 * vectors < 2 * runs_.count();
        if (!picks_) return;
        Index pair = 0;
        for (const PairRun& run : runs_)
            for (Index j = 0; j < run.count; ++j, ++pair) {
                places_[run.moving][pair] = static_cast<Place>(j);
                places_[1 - run.moving][pair] = static_cast<Place>(run.fixed);
            }
    }

    // A run is written in whole vectors; the entries after its end are overwritten by the next run, or are past the
    // last pair, where weights are 0.
    void merge_panels(Index width, const Array<T> (&of)[2], T* panels) const {
        if (picks_) {
            for (Index l = 0; l < width; ++l, panels += length_) {
                const Vector<T> keys[2] = {load(of[0] + l * stride_[0]), load(of[1] + l * stride_[1])};
                for (Index v = 0; v < pairs(); v += WIDTH<T>) {
                    Bits<T> places[2];
                    for (int m = 0; m < 2; ++m) std::memcpy(&places[m], places_[m] + v, sizeof places[m]);
                    store(panels + v, picked<T>(keys[0], places[0]) * picked<T>(keys[1], places[1]));
                }
            }
            return;
        }
        for (const PairRun& run : runs_) {
            const T *moving = of[run.moving], *fixed = of[1 - run.moving] + run.fixed;
            const Index moving_step = stride_[run.moving], fixed_step = stride_[1 - run.moving];
            T* to = panels;
            for (Index l = 0; l < width; ++l, moving += moving_step, fixed += fixed_step, to += length_) {
                const Vector<T> by = all(*fixed);
                for (Index j = 0; j < run.count; j += WIDTH<T>) store(to + j, load(moving + j) * by);
            }
            panels += run.count;
        }
    }

    void merge_rows(const Array<T> (&of)[2], Index width, T* to) const {
        for (const PairRun& run : runs_) {
            const T *moving = of[run.moving], *fixed = of[1 - run.moving] + run.fixed * width;
            for (Index j = 0; j < run.count; ++j, moving += width, to += width)
                for (Index c = 0; c < width; c += WIDTH<T>) store(to + c, load(moving + c) * load(fixed + c));
        }
    }

    using Place = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

    const separatrix_call& call_;
    const Cut<T>& cut_;
    const bool backward_, few_;
    PairRuns runs_;
    bool is_ordered_ = false, picks_ = false;
    Array<Place> places_[2];
    const Index length_;
    Array<T> key_panels_, value_panels_, key_rows_, value_rows_, amplitudes_;
    Index stride_[2];
    Array<T> own_keys_[2], own_values_[2], transposed_keys_[2], transposed_values_[2];
};

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
