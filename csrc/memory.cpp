#include "memory.hpp"

#include <atomic>

#include "separatrix.h"

namespace separatrix {

namespace {

std::atomic<std::int64_t> held{0}, highest{0};

}  // namespace

// Relaxed: the counts do not synchronize threads, and a stronger order would hide data races of callers from the thread
// sanitiser.
void count_bytes(std::int64_t bytes) {
    const std::int64_t now = held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t most = highest.load(std::memory_order_relaxed);
    while (now > most && !highest.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
}

}  // namespace separatrix

extern "C" int64_t separatrix_highest_bytes(void) { return separatrix::highest.exchange(separatrix::held); }
