#include "tasks.hpp"

#include <atomic>
#include <cfenv>
#include <new>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace separatrix {

namespace {

// Rounds to nearest and keeps subnormal numbers while it lives, and restores the modes of the thread at its end.
class PlainArithmetic {
public:
#if defined(__x86_64__)
    // All exceptions masked, rounding to nearest, nothing flushed: the state in which a process starts.
    PlainArithmetic() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
    ~PlainArithmetic() { _mm_setcsr(saved_); }

private:
    unsigned saved_;
#elif defined(__aarch64__)
    PlainArithmetic() {
        asm volatile("mrs %0, fpcr" : "=r"(saved_));
        asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));
    }
    ~PlainArithmetic() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }

private:
    std::uint64_t saved_;
#else
    PlainArithmetic() {
        std::fegetenv(&saved_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~PlainArithmetic() { std::fesetenv(&saved_); }

private:
    std::fenv_t saved_;
#endif
};

ParallelFor parallel_for = nullptr;
NumThreads num_threads = nullptr;

struct Work {
    std::atomic<std::int64_t> next{0};
    std::atomic<int> failed{0};
    std::int64_t count;
    Task task;
    void* context;
};

void work_on(std::int64_t, std::int64_t, void* given) {
    Work& work = *static_cast<Work*>(given);
    PlainArithmetic plain;
    try {
        for (std::int64_t task; !work.failed && (task = work.next++) < work.count;) work.task(task, work.context);
    } catch (const std::bad_alloc&) {
        work.failed = 1;
    }
}

}  // namespace

void set_threads(ParallelFor given, NumThreads number) {
    parallel_for = given;
    num_threads = number;
}

int run_tasks(std::int64_t count, Task task, void* context) {
    Work work;
    work.count = count;
    work.task = task;
    work.context = context;
    std::uint32_t threads = 1;
    if (count > 1 && parallel_for && num_threads && num_threads(&threads) == 0 && threads > 1) {
        const std::int64_t workers = count < threads ? count : threads;
        // Every worker takes the next task that is left; one that finds none has nothing to do.
        if (parallel_for(0, workers, 1, work_on, &work) == 0) return work.failed;
    }
    work_on(0, 1, &work);
    return work.failed;
}

}  // namespace separatrix
