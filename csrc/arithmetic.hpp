// Arithmetic in registers without loads or stores: an upper limit on the speed of the kernels.
#pragma once

#include "exponential.hpp"
#include "product.hpp"
#include "tasks.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// Tell the compiler that the vector may have changed, and keep it in a register if registers are as wide.
template <class V> inline void forget(V& x) {
#if defined(__AVX512F__) || (defined(__x86_64__) && SEPARATRIX_BYTES <= 32)
    asm volatile("" : "+v"(x));
#elif defined(__aarch64__)
    asm volatile("" : "+w"(x));
#else
    asm volatile("" : "+m"(x));
#endif
}

template <class T> int arithmetic(Index tasks, Index multiply_adds, Index powers) {
    auto work = [&](Index) {
        Vector<T> sums[ROWS][COLUMNS] = {}, a = all(T(0.5)), b = all(T(0.25)), total{};
        forget(a);
        for (auto& row : sums)
            for (auto& sum : row) forget(sum);
        for (Index i = 0; i < multiply_adds; i += ROWS * COLUMNS)
            for (auto& row : sums)
                for (auto& sum : row) sum = multiply_add(a, b, sum);
        for (auto& row : sums)
            for (auto& sum : row) total += sum;
        for (Index i = 0; i < powers; i += 4) {
            Vector<T> x[4] = {a, a, a, a};
            for (auto& one : x) forget(one);
            for (auto& one : x) one = exp2<T>(one);
            total += (x[0] + x[1]) + (x[2] + x[3]);
        }
        forget(total);
    };
    const int failed = for_each_task(tasks, work);
    return failed ? 0 : static_cast<int>(WIDTH<T>);
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
