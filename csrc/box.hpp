// Which keys a query may attend: a range of every key set, counted among the keys that no mask hides.
//
// Causality, windows and offsets leave a range of positions of each set to a query. Masks are handled when sets are
// packed: masked keys are left out, and a range of positions becomes a range of packed keys. So the tuples of a query
// form a box, and the kernels visit no other tuples.
#pragma once

#include <algorithm>

#include "memory.hpp"
#include "separatrix.h"
#include "vectors.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

struct Range {
    Index start, stop;
    Index size() const { return stop > start ? stop - start : 0; }
};

// The positions of set m that the query at index i may attend.
inline Range visible(const separatrix_call& call, Index m, Index i) {
    const Index length = call.lengths[m], window = call.windows[m], here = i + call.offset;
    Range range{0, length};
    if (call.is_causal || window >= 0) range.stop = std::min(length, here + 1);
    if (window >= 0 && here >= window) range.start = std::min(length, here - window + 1);
    range.stop = std::max(range.start, range.stop);
    return range;
}

// The indices of the queries that may attend position j of set m, ignoring masks.
inline Range attending(const separatrix_call& call, Index m, Index j) {
    const Index length = call.query_length, window = call.windows[m];
    Range range{0, length};
    if (call.is_causal || window >= 0) range.start = std::min(length, std::max<Index>(0, j - call.offset));
    // A window may be as large as the index type allows.
    if (window >= 0 && j - call.offset < length - window) range.stop = std::max<Index>(0, j - call.offset + window);
    range.stop = std::max(range.start, range.stop);
    return range;
}

// For one head of queries and one set: the number of unmasked keys before each position, and the positions of the
// unmasked keys.
class Seen {
public:
    Seen(const separatrix_call& call, Index m, Index head) : count_(call.lengths[m]), everything_(!call.masks[m].data) {
        if (everything_) return;
        const separatrix_tensor& mask = call.masks[m];
        const auto* seen = static_cast<const unsigned char*>(mask.data) + head / call.mask_shared * mask.head;
        before_ = Array<Index>(call.lengths[m] + 1);
        places_ = Array<Index>(call.lengths[m]);
        count_ = 0;
        for (Index j = 0; j < call.lengths[m]; ++j) {
            before_[j] = count_;
            if (seen[j * mask.row]) places_[count_++] = j;
        }
        before_[call.lengths[m]] = count_;
    }

    Index count() const { return count_; }
    bool everything() const { return everything_; }
    Index place(Index packed) const { return everything_ ? packed : places_[packed]; }
    Range packed(Range range) const {
        return everything_ ? range : Range{before_[range.start], before_[range.stop]};
    }

private:
    Index count_;
    bool everything_;
    Array<Index> before_, places_;
};

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
