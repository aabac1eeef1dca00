// All kernels for one architecture; compiled once for each, see CMakeLists.txt.
#include "kernels.hpp"

#include "exact_forward.hpp"
#include "scan_backward.hpp"
#include "scan_forward.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

namespace {

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
    {forward<float>, forward<double>},
    scan_forward,
    scan_backward,
    {powers<float>, powers<double>},
};

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
