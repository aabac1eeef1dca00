// The C interface: which architectures there are, which of them runs, and its kernels.
#include "architectures.hpp"  // made by CMakeLists.txt: those that the kernels are compiled for, the best first
#include "exact_bounds.hpp"
#include "interpreter.hpp"
#include "kernels.hpp"
#include "separatrix.h"
#include "tasks.hpp"

#include <cstring>
#include <new>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace separatrix {

#define ARCHITECTURE(name) \
    namespace name { \
    extern const Kernels kernels; \
    }
SEPARATRIX_ARCHITECTURES(ARCHITECTURE)
#undef ARCHITECTURE

namespace {

#if defined(__x86_64__)
// Whether the processor has AMX for bfloat16, describes tiles of the shape that the kernels configure (some hypervisors
// hide the description), and Linux lets this process use them, which it does when it is asked.
bool has_tiles() {
    constexpr unsigned AMX_BF16 = 1u << 22, AMX_TILE = 1u << 24;
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & AMX_BF16) || !(d & AMX_TILE)) return false;
    // Of palette 1: the number of tiles and the bytes of a row in b, the rows in c.
    if (!__get_cpuid_count(0x1d, 1, &a, &b, &c, &d) || b != (8u << 16 | 64u) || (c & 0xffff) != 16) return false;
#if defined(__linux__)
    constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}
#endif

bool processor_runs(const char* name) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (!std::strcmp(name, "avx2") || !std::strncmp(name, "lowered", 7)) return avx2;
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (!std::strcmp(name, "avx512")) return avx512;
    const bool bfloat16 = avx512 && __builtin_cpu_supports("avx512bf16");
    if (!std::strcmp(name, "avx512_bf16")) return bfloat16;
    if (!std::strcmp(name, "avx512_amx")) return bfloat16 && has_tiles();
#endif
    return !std::strcmp(name, "baseline") || !std::strcmp(name, "neon");
}

// Whether the kernels of an architecture are ever the best choice on a processor that runs them. `lowered` and those whose
// names begin so are for tests.
// An instruction of 512 bits that adds up pairs of products of bfloat16 takes as long as a fused multiply-add of floats
// on AMD's processors (Zen 4: both 0.27 ns), and four times as long on Intel's Sapphire Rapids (0.72 and 0.18 ns).
bool is_fast(const char* name) {
#if defined(__x86_64__)
    if (!std::strcmp(name, "avx512_bf16")) return __builtin_cpu_is("amd");
#endif
    return std::strncmp(name, "lowered", 7) != 0;
}

struct Architecture {
    const char* name;
    const Kernels* kernels;
};

// The best first.
const Architecture architectures[] = {
#define ARCHITECTURE(name) {#name, &name::kernels},
    SEPARATRIX_ARCHITECTURES(ARCHITECTURE)
#undef ARCHITECTURE
        {nullptr, nullptr}};

bool runs(const Architecture& architecture) { return processor_runs(architecture.name) && architecture.kernels->work(); }

// The architecture of a name that this processor runs; null if there is none.
const Architecture* named(const char* name) {
    for (const Architecture* architecture = architectures; architecture->name; ++architecture)
        if (!std::strcmp(architecture->name, name)) return runs(*architecture) ? architecture : nullptr;
    return nullptr;
}

const Architecture* best() {
    const Architecture* architecture = architectures;
    while (!is_fast(architecture->name) || !runs(*architecture)) ++architecture;
    return architecture;
}

const Architecture* chosen = best();

// Call a kernel with the interpreter released, and with nothing thrown across the C interface.
template <class F> int guarded(F&& f) {
    const ReleasedInterpreter released;
    try {
        return f();
    } catch (const std::bad_alloc&) {
        return SEPARATRIX_NO_MEMORY;
    }
}

// The type that a call of exact attention is computed in, as a place in the table of kernels.
int arithmetic_of(const separatrix_call& call) { return call.type == SEPARATRIX_FLOAT64; }

}  // namespace

}  // namespace separatrix

using separatrix::arithmetic_of;
using separatrix::chosen;

extern "C" {

int separatrix_interface(void) { return SEPARATRIX_INTERFACE; }

const char* separatrix_architecture(int number) { return separatrix::architectures[number].name; }

int separatrix_runs(const char* name) { return separatrix::named(name) != nullptr; }

int separatrix_choose(const char* name) {
    const separatrix::Architecture* architecture = separatrix::named(name);
    if (!architecture) return SEPARATRIX_NOT_KNOWN;
    chosen = architecture;
    return SEPARATRIX_DONE;
}

const char* separatrix_chosen(void) { return chosen->name; }

void separatrix_set_threads(void* parallel_for, void* num_threads) {
    separatrix::set_threads(reinterpret_cast<separatrix::ParallelFor>(parallel_for),
                            reinterpret_cast<separatrix::NumThreads>(num_threads));
}

void separatrix_set_interpreter(void* save_thread, void* restore_thread, void* check_signals, uintptr_t main_thread) {
    separatrix::set_interpreter(reinterpret_cast<separatrix::SaveThread>(save_thread),
                                reinterpret_cast<separatrix::RestoreThread>(restore_thread),
                                reinterpret_cast<separatrix::CheckSignals>(check_signals), main_thread);
}

int separatrix_exact_forward(const separatrix_call* call, void* out, void* lse) {
    return separatrix::guarded([&] { return chosen->kernels->exact_forward[arithmetic_of(*call)](*call, out, lse); });
}

int separatrix_scan_forward(const separatrix_scan* scan, const separatrix_scan_results* results) {
    return separatrix::guarded([&] { return chosen->kernels->scan_forward(*scan, *results); });
}

int separatrix_scan_backward(const separatrix_scan* scan, const separatrix_scan_gradients* gradients) {
    return separatrix::guarded([&] { return chosen->kernels->scan_backward(*scan, *gradients); });
}

int separatrix_exact_backward(const separatrix_call* call, const separatrix_gradients* gradients) {
    return separatrix::guarded([&] { return chosen->kernels->exact_backward[arithmetic_of(*call)](*call, *gradients); });
}

int separatrix_exact_range(const separatrix_call* call, separatrix_range* range) {
    return separatrix::guarded([&] { return chosen->kernels->exact_range[arithmetic_of(*call)](*call, *range); });
}

int separatrix_exact_bounds(const separatrix_call* call, separatrix_bounds* bounds) {
    return separatrix::guarded([&] { return separatrix::ExactBounds(*chosen->kernels, *call, *bounds).find(); });
}

void separatrix_exact_levels(const separatrix_call* call, separatrix_levels* levels) {
    chosen->kernels->exact_levels[arithmetic_of(*call)](*call, *levels);
}

int separatrix_arithmetic(int64_t type, int64_t tasks, int64_t multiply_adds, int64_t powers) {
    return separatrix::guarded([&] { return chosen->kernels->arithmetic[type](tasks, multiply_adds, powers); });
}

int separatrix_products_add(const separatrix_products* call, double* state) {
    return separatrix::guarded([&] { return chosen->kernels->products_add[call->type](*call, state); });
}

int separatrix_products_sums(const separatrix_products* call, const void* M, void* out) {
    return separatrix::guarded([&] { return chosen->kernels->products_sums[call->type](*call, M, out); });
}

int separatrix_products_gradient(const separatrix_products* call, const void* M, void* grad_x, void* grad_W) {
    return separatrix::guarded([&] { return chosen->kernels->products_gradient[call->type](*call, M, grad_x, grad_W); });
}

int separatrix_pass_add(const separatrix_pass* call, double* state) {
    return separatrix::guarded([&] { return chosen->kernels->pass_add[call->type][call->arithmetic](*call, state); });
}

int separatrix_pass_attend(const separatrix_pass* call, const void* M, void* out, double* denominator, double* moment,
                           double* largest) {
    return separatrix::guarded([&] {
        return chosen->kernels->pass_attend[call->type][call->arithmetic](*call, M, out, denominator, moment, largest);
    });
}

int separatrix_extremes(const separatrix_tokens* tokens, double* least, double* most) {
    return separatrix::guarded([&] { return chosen->kernels->extremes[tokens->type](*tokens, least, most); });
}

int separatrix_norms(const separatrix_tokens* tokens, const separatrix_norm* norm) {
    return separatrix::guarded([&] { return chosen->kernels->norms[tokens->type](*tokens, *norm); });
}

int separatrix_sound(int64_t type, int64_t rows, int64_t columns, const void* x) {
    // To release the interpreter takes longer than to look at a few numbers, which are one task and need no memory.
    if (rows * columns <= 1 << 15) return chosen->kernels->sound(static_cast<int>(type), rows, columns, x);
    int found = 0;
    separatrix::guarded([&] {
        found = chosen->kernels->sound(static_cast<int>(type), rows, columns, x);
        return SEPARATRIX_DONE;
    });
    return found;
}

int separatrix_stream_append(const separatrix_stream* call, double* largest) {
    return separatrix::guarded([&] { return chosen->kernels->stream_append[call->type](*call, largest); });
}

int separatrix_stream_attend(const separatrix_stream* call, void* out, double* reached) {
    return separatrix::guarded([&] { return chosen->kernels->stream_attend[call->type](*call, out, reached); });
}

int separatrix_exp2(int64_t type, int64_t count, const void* powers, void* results) {
    return separatrix::guarded([&] { return chosen->kernels->exp2[type](count, powers, results); });
}

}  // extern "C"
