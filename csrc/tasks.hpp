// A fixed list of tasks, shared out among PyTorch's own threads, each in the arithmetic that the proofs assume.
#pragma once

#include <cstdint>

namespace separatrix {

using Task = void (*)(std::int64_t task, void* context);

// Run tasks 0 to count - 1, each once, on as many threads as PyTorch is set to; serially where it offers none. Which
// thread runs a task is left open, so a task must depend on nothing but its number. Gives 0, or 1 where memory ran out.
int run_tasks(std::int64_t count, Task task, void* context);

// The functions torch_parallel_for and torch_get_num_threads of libtorch, or null for both.
using ParallelFor = std::int32_t (*)(std::int64_t, std::int64_t, std::int64_t,
                                     void (*)(std::int64_t, std::int64_t, void*), void*);
using NumThreads = std::int32_t (*)(std::uint32_t*);
void set_threads(ParallelFor parallel_for, NumThreads num_threads);

template <class F> int for_each_task(std::int64_t count, F& f) {
    return run_tasks(count, [](std::int64_t task, void* context) { (*static_cast<F*>(context))(task); }, &f);
}

}  // namespace separatrix
