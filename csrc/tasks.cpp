#include "tasks.hpp"

#include <atomic>
#include <cfenv>
#include <chrono>
#include <new>

#include "interpreter.hpp"
#include "separatrix.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace separatrix {

namespace {

// Sets rounding to nearest and keeps subnormal numbers in its scope, and restores the thread's modes at its end.
class PlainArithmetic {
public:
#if defined(__x86_64__)
    // All exceptions masked, rounding to nearest, no flushing: the default state of a process.
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
    std::atomic<int> failed{SEPARATRIX_DONE};
    std::int64_t count;
    Task task;
    void* context;
    Interrupts interrupts;
};

// Thrown by check_interrupt to leave a task.
struct Stopped {};

// The loop of a thread over a list of tasks, and the time of its next check for signals if it is the thread that
// checks.
class Worker {
public:
    explicit Worker(Work& work)
        : work_(work), outer_(current),
          handles_signals_(work.interrupts == Interrupts::HANDLED && ReleasedInterpreter::runs_signal_handlers()) {
        if (handles_signals_) next_look_ = Clock::now() + INTERVAL;
        current = this;
    }
    ~Worker() { current = outer_; }

    void run() {
        for (std::int64_t task; !work_.failed && (task = work_.next++) < work_.count; look_for_signals())
            work_.task(task, work_.context);
    }

    // Reading the clock takes as long as a few hundred multiply-adds, so it is read at every 8th call.
    bool check() {
        if (++calls_ % 8) return false;
        const bool looked = look_for_signals();
        if (work_.failed) throw Stopped{};
        return looked;
    }

    static thread_local Worker* current;

private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds INTERVAL{50};

    bool look_for_signals() {
        if (!handles_signals_ || Clock::now() < next_look_) return false;
        if (ReleasedInterpreter::handle_signals()) work_.failed = SEPARATRIX_INTERRUPTED;
        next_look_ = Clock::now() + INTERVAL;
        return true;
    }

    Work& work_;
    Worker* const outer_;  // of the outer call, if a signal handler made this call
    const bool handles_signals_;
    unsigned calls_ = 0;
    Clock::time_point next_look_;
};

thread_local Worker* Worker::current = nullptr;

void work_on(std::int64_t, std::int64_t, void* given) {
    Work& work = *static_cast<Work*>(given);
    PlainArithmetic plain;
    try {
        Worker(work).run();
    } catch (const std::bad_alloc&) {
        work.failed = SEPARATRIX_NO_MEMORY;
    } catch (const Stopped&) {
    }
}

}  // namespace

bool check_interrupt() { return Worker::current && Worker::current->check(); }

void set_threads(ParallelFor given, NumThreads number) {
    parallel_for = given;
    num_threads = number;
}

// Some 10 us, about as long as waking a thread.
constexpr double FEW = 3e5;

int run_tasks(std::int64_t count, Task task, void* context, double multiply_adds, Interrupts interrupts) {
    Work work;
    work.count = count;
    work.task = task;
    work.context = context;
    work.interrupts = interrupts;
    std::uint32_t threads = 1;
    if (count > 1 && multiply_adds > FEW && parallel_for && num_threads && num_threads(&threads) == 0 && threads > 1) {
        const std::int64_t workers = count < threads ? count : threads;
        // Every worker takes the next remaining task; a worker that finds none returns.
        if (parallel_for(0, workers, 1, work_on, &work) == 0) return work.failed;
    }
    work_on(0, 1, &work);
    return work.failed;
}

}  // namespace separatrix
