// All kernels for one architecture; compiled once for each, see CMakeLists.txt.
#include "kernels.hpp"

#include "arithmetic.hpp"
#include "entries.hpp"
#include "exact_backward.hpp"
#include "exact_forward.hpp"
#include "exact_range.hpp"
#include "near_linear.hpp"
#include "scan_backward.hpp"
#include "scan_forward.hpp"
#include "stream.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

namespace {

template <class T> void levels_of(const separatrix_call& call, separatrix_levels& levels) {
    const Cut<T> cut(call);
    const auto parts = [](Index n, Index size) { return (n + size - 1) / size; };
    // A count that overflows the index type is replaced by its largest value, from which no bound follows.
    const auto whole = [](double n) { return static_cast<Index>(std::min(std::ceil(n), 0x1p62)); };
    double prefixes = 1;
    for (Index m = 0; m < call.sets; ++m)
        if (m != cut.inner) prefixes *= static_cast<double>(Cut<T>::reach(call, m));
    const Index keys = cut.merged ? cut.merged : Cut<T>::reach(call, cut.inner);
    levels.chunk = std::min(keys, std::max(cut.longest_chunk(), cut.backward_chunk));
    levels.rows = call.sets > 1 && !cut.merged ? std::min<Index>(cut.narrow ? NARROW_ROWS : ROWS, whole(prefixes)) : 1;
    levels.tiles = cut.merged ? 1 : whole(prefixes / ROWS);
    // Chunks begin with a whole panel, and at order 2 with the first key of up to ROWS queries, so that the keys of a
    // window may begin this far after the start of a chunk.
    const Index behind = call.windows[cut.inner] < 0 ? 0 : PANEL<T> + (call.sets > 1 ? 0 : ROWS);
    levels.chunks = parts(keys + behind, cut.chunk);
    levels.is_narrow = cut.narrow;
    if (cut.few_queries) {
        // The rows of a block are prefixes. The gradients of a query, summed over its prefixes, and of a prefix key,
        // summed over the queries, are added up sequentially, chunk after chunk.
        const double rows = prefixes * static_cast<double>(call.query_length);
        levels.pairs = whole(rows + static_cast<double>(parts(keys + PANEL<T>, cut.backward_chunk)));
        levels.groups = 1;
        levels.query_block = std::min<Index>(Cut<T>::QUERY_BLOCK, whole(prefixes));
        levels.query_blocks = call.query_length * whole(prefixes / static_cast<double>(Cut<T>::QUERY_BLOCK));
        return;
    }
    const bool merged = cut.merges_backward(call);
    levels.pairs = merged ? parts(cut.merged, cut.backward_chunk) : whole(cut.pairs / static_cast<double>(cut.groups));
    levels.groups = merged ? 1 : cut.groups;
    levels.query_block = std::min(call.query_length, Cut<T>::QUERY_BLOCK);
    levels.query_blocks = parts(call.query_length, Cut<T>::QUERY_BLOCK);
}

template <class T> int powers(Index count, const void* from, void* to) {
    Index i = 0;
    for (; i + WIDTH<T> <= count; i += WIDTH<T>)
        store(static_cast<T*>(to) + i, exp2<T>(load(static_cast<const T*>(from) + i)));
    if (i < count) {
        T rest[WIDTH<T>] = {};
        std::memcpy(rest, static_cast<const T*>(from) + i, static_cast<std::size_t>(count - i) * sizeof(T));
        store(rest, exp2<T>(load(rest)));
        std::memcpy(static_cast<T*>(to) + i, rest, static_cast<std::size_t>(count - i) * sizeof(T));
    }
    return SEPARATRIX_DONE;
}

}  // namespace

extern const Kernels kernels;
const Kernels kernels = {
    tiles_work,
    {forward<float>, forward<double>},
    {backward<float>, backward<double>},
    {range<float>, range<double>},
    {levels_of<float>, levels_of<double>},
    {arithmetic<float>, arithmetic<double>},
    scan_forward,
    scan_backward,
    {products_add<float>, products_add<double>},
    {products_sums<float>, products_sums<double>},
    {products_gradient<float>, products_gradient<double>},
    {{pass_add<float, float>, pass_add<float, double>}, {pass_add<double, float>, pass_add<double, double>}},
    {{pass_attend<float, float>, pass_attend<float, double>},
     {pass_attend<double, float>, pass_attend<double, double>}},
    {extremes<float>, extremes<double>},
    {norms<float>, norms<double>},
    sound,
    {stream_append<float>, stream_append<double>},
    {stream_attend<float>, stream_attend<double>},
    {powers<float>, powers<double>},
};

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
