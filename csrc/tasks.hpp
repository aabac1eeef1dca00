// A fixed list of tasks, shared out among PyTorch's own threads, each in the arithmetic that the proofs assume.
#pragma once

#include <cstdint>

namespace separatrix {

using Task = void (*)(std::int64_t task, void* context);

// Whether signal handlers run between tasks and inside them. They wait for the end of tasks that change what the caller
// keeps, such as the state of a stream, because an exception would leave it half changed.
enum class Interrupts { HANDLED, DEFERRED };

// Run tasks 0 to count - 1, each once, on as many threads as PyTorch is set to; serially where it offers none, and where
// all of them take so few multiply-adds that other threads would wake up too late. Which
// thread runs a task is left open, so a task must depend on nothing but its number. Gives 0, SEPARATRIX_NO_MEMORY where
// memory ran out, or SEPARATRIX_INTERRUPTED where a signal handler raised an exception.
int run_tasks(std::int64_t count, Task task, void* context, double multiply_adds, Interrupts interrupts);

// Called inside a task wherever some 10^5 multiply-adds have been done: runs the handlers of pending signals about every
// 50 ms, and ends the task by an exception, which `run_tasks` catches, once the call is interrupted or out of memory. Gives
// whether handlers may have run, which may have used the thread's registers.
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
