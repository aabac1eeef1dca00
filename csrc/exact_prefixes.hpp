// The tuples of prefix keys that some query may attend, in order, with the queries that may attend them.
//
// The queries that may attend a key form a range, and so do the keys that a range of queries may attend. So the tuples
// are enumerated set by set, depth first: a key of the first set leaves a range of queries, these leave a range of keys
// of the second set, and so on. No tuple is visited that no query may attend, and the number of steps is proportional
// to the number of tuples.
#pragma once

#include "exact_sets.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

inline Range intersection(Range a, Range b) {
    const Index start = std::max(a.start, b.start);
    return {start, std::max(start, std::min(a.stop, b.stop))};
}

// The queries that attend at least one tuple: those that may attend a key of every set.
class Attending {
public:
    template <class T>
    Attending(const separatrix_call& call, const Sets<T>& sets)
        : length_(call.query_length), next_(length_ + 1), previous_(length_ + 1) {
        previous_[0] = -1;
        for (Index i = 0; i < length_; ++i) previous_[i + 1] = attends(call, sets, i) ? i : previous_[i];
        next_[length_] = length_;
        for (Index i = length_ - 1; i >= 0; --i) next_[i] = previous_[i + 1] == i ? i : next_[i + 1];
    }

    // The first query at or after index i that attends a tuple; the number of queries if there is none.
    Index next(Index i) const { return next_[i]; }

    // The smallest range that contains all queries of a range that attend a tuple.
    Range within(Range queries) const {
        const Index start = next_[queries.start];
        return start < queries.stop ? Range{start, previous_[queries.stop] + 1} : Range{queries.stop, queries.stop};
    }

    Range all() const { return within({0, length_}); }

private:
    template <class T> static bool attends(const separatrix_call& call, const Sets<T>& sets, Index i) {
        for (Index m = 0; m < call.sets; ++m)
            if (!sets[m].seen.packed(visible(call, m, i)).size()) return false;
        return true;
    }

    Index length_;
    Array<Index> next_;      // for each index, the first query at or after it
    Array<Index> previous_;  // for each index, the last query before it
};

// An iterator over the tuples of prefix keys that some query attends; the last set varies fastest.
template <class T> class Prefixes {
public:
    Prefixes(const separatrix_call& call, const Sets<T>& sets, const Attending& attend)
        : call_(call), sets_(sets), attending_(attend) {
        for (Index m = 0; m < call.sets; ++m)
            if (m != sets.inner) order_[levels_++] = m;
    }

    // Move to the first tuple; false if there is none.
    bool start() {
        queries_[0] = attending_.all();
        if (!levels_) return queries_[0].size() > 0;
        open(0);
        return descend(0);
    }

    // Move to the next tuple; false if this is the last.
    bool advance() {
        if (!levels_) return false;
        ++at_[order_[levels_ - 1]];
        return descend(levels_ - 1);
    }

    // Move to a tuple written by `save`.
    void load(const Index* from) {
        queries_[0] = attending_.all();
        for (Index level = 0; level < levels_; ++level) {
            open(level);
            at_[order_[level]] = from[order_[level]];
            find(level);
        }
    }

    void save(Index* to) const {
        for (Index level = 0; level < levels_; ++level) to[order_[level]] = at_[order_[level]];
    }

    // The index of the tuple's key of set m among the unmasked keys.
    Index operator[](Index m) const { return at_[m]; }

    // The queries that may attend the tuple; the first and the last of them attend an inner key.
    Range queries() const { return queries_[levels_]; }

    // The inner keys that some of these queries may attend.
    Range keys() const { return keys_of(sets_.inner, queries()); }

private:
    Range keys_of(Index m, Range queries) const {
        return sets_[m].seen.packed(
            {visible(call_, m, queries.start).start, visible(call_, m, queries.stop - 1).stop});
    }

    void open(Index level) {
        const Range keys = keys_of(order_[level], queries_[level]);
        at_[order_[level]] = keys.start, stop_[level] = keys.stop;
    }

    // Move the key of a level forward from its present index to the first that some query attends together with the
    // keys of the levels above.
    bool find(Index level) {
        const Index m = order_[level];
        while (at_[m] < stop_[level]) {
            const Range some = intersection(queries_[level], attending(call_, m, sets_[m].seen.place(at_[m])));
            queries_[level + 1] = attending_.within(some);
            if (queries_[level + 1].size()) return true;
            const Index next = attending_.next(some.start);
            if (next >= queries_[level].stop) return false;
            at_[m] = std::max(at_[m] + 1, sets_[m].seen.packed(visible(call_, m, next)).start);
        }
        return false;
    }

    // Move to the first tuple at or after the present keys of the levels up to this one.
    bool descend(Index level) {
        for (;;) {
            if (find(level)) {
                if (++level == levels_) return true;
                open(level);
            } else {
                if (level-- == 0) return false;
                ++at_[order_[level]];
            }
        }
    }

    const separatrix_call& call_;
    const Sets<T>& sets_;
    const Attending& attending_;
    Index levels_ = 0;
    Index order_[SEPARATRIX_MOST_SETS];        // the prefix sets
    Index at_[SEPARATRIX_MOST_SETS];           // the key of each set
    Index stop_[SEPARATRIX_MOST_SETS];         // the end of the keys of a level
    Range queries_[SEPARATRIX_MOST_SETS + 1];  // the queries that may attend the keys of the levels before
};

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
