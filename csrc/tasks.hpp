// A fixed list of tasks, distributed over PyTorch's own threads, each in the floating-point mode that the proofs
// assume.
#pragma once

#include <cstdint>

namespace separatrix {

using Task = void (*)(std::int64_t task, void* context);

// Whether signal handlers run between tasks and inside them. Handlers wait for the end of tasks that modify data of the
// caller, such as the state of a stream, because an exception would leave it half modified.
enum class Interrupts { HANDLED, DEFERRED };

// Run tasks 0 to count - 1, each once, on as many threads as PyTorch is set to; serially if PyTorch offers no threads,
// or if all tasks take so few multiply-adds that other threads would wake up too late. Any thread may run a task, so a
// task must depend on nothing but its number. Returns 0, SEPARATRIX_NO_MEMORY if memory ran out, or
// SEPARATRIX_INTERRUPTED if a signal handler raised an exception.
int run_tasks(std::int64_t count, Task task, void* context, double multiply_adds, Interrupts interrupts);

// Call this inside a task after every 10^5 multiply-adds or so: it runs the handlers of pending signals about every 50
// ms, and, once the call is interrupted or out of memory, ends the task by an exception that `run_tasks` catches.
// Returns whether handlers may have run, which may have used the thread's registers.
bool check_interrupt();

// The functions torch_parallel_for and torch_get_num_threads of libtorch, or null for both.
using ParallelFor = std::int32_t (*)(std::int64_t, std::int64_t, std::int64_t,
                                     void (*)(std::int64_t, std::int64_t, void*), void*);
using NumThreads = std::int32_t (*)(std::uint32_t*);
void set_threads(ParallelFor parallel_for, NumThreads num_threads);

constexpr double MANY = 1e300;

template <class F>
int for_each_task(std::int64_t count, F& f, double multiply_adds = MANY, Interrupts interrupts = Interrupts::HANDLED) {
    const Task task = [](std::int64_t number, void* context) { (*static_cast<F*>(context))(number); };
    return run_tasks(count, task, &f, multiply_adds, interrupts);
}

}  // namespace separatrix
