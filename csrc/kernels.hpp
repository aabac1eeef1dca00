// The table of kernels that each architecture fills, for float and double.
#pragma once

#include <cstdint>

#include "separatrix.h"

namespace separatrix {

// The functions of the C interface for one architecture; where there are two, for float and for double.
struct Kernels {
    bool (*work)();  // whether instructions that were not tested on hardware match their description
    int (*exact_forward[2])(const separatrix_call& call, void* out, void* lse);
    int (*exact_backward[2])(const separatrix_call& call, const separatrix_gradients& gradients);
    int (*exact_range[2])(const separatrix_call& call, separatrix_range& range);
    void (*exact_levels[2])(const separatrix_call& call, separatrix_levels& levels);
    int (*arithmetic[2])(std::int64_t tasks, std::int64_t multiply_adds, std::int64_t powers);
    int (*scan_forward)(const separatrix_scan& scan, const separatrix_scan_results& results);
    int (*scan_backward)(const separatrix_scan& scan, const separatrix_scan_gradients& gradients);
    int (*products_add[2])(const separatrix_products& call, double* state);
    int (*products_sums[2])(const separatrix_products& call, const void* M, void* out);
    int (*products_gradient[2])(const separatrix_products& call, const void* M, void* grad_x, void* grad_W);
    // Indexed by the type of the tokens, then by that of the monomials.
    int (*pass_add[2][2])(const separatrix_pass& call, double* state);
    int (*pass_attend[2][2])(const separatrix_pass& call, const void* M, void* out, double* denominator, double* moment,
                             double* largest);
    int (*extremes[2])(const separatrix_tokens& tokens, double* least, double* most);
    int (*norms[2])(const separatrix_tokens& tokens, const separatrix_norm& norm);
    int (*sound)(int type, std::int64_t rows, std::int64_t columns, const void* x);
    int (*stream_append[2])(const separatrix_stream& call, double* largest);
    int (*stream_attend[2])(const separatrix_stream& call, void* out, double* reached);
    int (*exp2[2])(std::int64_t count, const void* powers, void* results);
};

}  // namespace separatrix
