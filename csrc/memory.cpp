#include "memory.hpp"

#include <atomic>

#include "separatrix.h"

namespace separatrix {

namespace {

std::atomic<std::int64_t> held{0}, highest{0};

}  // namespace

void count_bytes(std::int64_t bytes) {
    const std::int64_t now = held += bytes;
    std::int64_t most = highest;
    while (now > most && !highest.compare_exchange_weak(most, now)) {
    }
}

}  // namespace separatrix

extern "C" int64_t separatrix_highest_bytes(void) { return separatrix::highest.exchange(separatrix::held); }
