// What the programs that compare kernels with literal loops share: threads, architectures, and failure messages.
#pragma once

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "cases.hpp"

namespace fuzz {

inline std::int32_t threads_of(std::uint32_t* number) {
    *number = 3;
    return 0;
}

inline std::int32_t in_threads(Index from, Index to, Index, void (*work)(Index, Index, void*), void* context) {
    std::vector<std::thread> threads;
    for (Index i = from; i < to; ++i) threads.emplace_back(work, i, i + 1, context);
    for (std::thread& one : threads) one.join();
    return 0;
}

// Let the kernels run on three threads, or on one.
inline void use_threads(bool several) {
    separatrix_set_threads(several ? reinterpret_cast<void*>(in_threads) : nullptr,
                           several ? reinterpret_cast<void*>(threads_of) : nullptr);
}

// The failure of a result, in words.
class Wrong {
public:
    explicit Wrong(std::string what) : what(std::move(what)) {}
    std::string what;
};

// The architectures of the library that this processor runs.
inline std::vector<std::string> architectures() {
    std::vector<std::string> names;
    for (int k = 0; const char* name = separatrix_architecture(k); ++k)
        if (separatrix_runs(name)) names.emplace_back(name);
        else std::printf("%-9s not run: this processor does not have it\n", name);
    return names;
}

}  // namespace fuzz
