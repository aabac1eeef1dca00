/* The C interface of the kernels: structures of sizes and addresses, and functions that return 0 or an error code.
 *
 * separatrix/native.py loads the library; its structures mirror these. SEPARATRIX_INTERFACE is the version of the
 * interface, and native.py rejects a library of another version. Addresses are of host memory. Strides count entries.
 */
#ifndef SEPARATRIX_H
#define SEPARATRIX_H

#include <stdint.h>

#define SEPARATRIX_INTERFACE 11
#define SEPARATRIX_MOST_SETS 15

#define SEPARATRIX_PUBLIC __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SEPARATRIX_DONE = 0,
    SEPARATRIX_NO_MEMORY = 1,
    SEPARATRIX_NOT_KNOWN = 2,
    SEPARATRIX_REFUSED = 3,
    SEPARATRIX_INTERRUPTED = 4 /* a signal handler raised an exception, which the interpreter has kept */
};
/* Half types are for exact attention only, which computes with them in float32; but see `is_narrow`. */
enum { SEPARATRIX_FLOAT32 = 0, SEPARATRIX_FLOAT64 = 1, SEPARATRIX_FLOAT16 = 2, SEPARATRIX_BFLOAT16 = 3 };

/* A tensor (heads, rows, columns) with contiguous columns. */
typedef struct {
    void* data;
    int64_t head, row;
} separatrix_tensor;

/* A call of exact attention. A mask without data is null; a window of -1 means no window. There are `heads` heads of
 * queries. `shared` consecutive heads of queries share a head of keys and values, and `mask_shared` consecutive heads,
 * which is `shared` or 1, share a mask. */
typedef struct {
    int64_t type, heads, shared, mask_shared, sets, query_length, d, d_v;
    int64_t lengths[SEPARATRIX_MOST_SETS];
    int64_t windows[SEPARATRIX_MOST_SETS];
    int64_t is_causal, offset;
    double scale;
    separatrix_tensor query;
    separatrix_tensor keys[SEPARATRIX_MOST_SETS];
    separatrix_tensor values[SEPARATRIX_MOST_SETS];
    separatrix_tensor masks[SEPARATRIX_MOST_SETS]; /* bytes, nonzero for a key that may be attended; no columns */
} separatrix_call;

/* The largest number of terms that the two passes add up at each level, from which a bound on their rounding error
 * follows. */
typedef struct {
    int64_t chunk;        /* inner keys, in one loop */
    int64_t rows;         /* rows of a tile, in one loop; forward */
    int64_t tiles;        /* tiles of a chunk, one after the other; forward */
    int64_t chunks;       /* chunks of the inner set, one after the other; forward */
    int64_t query_block;  /* queries, in one loop; backward */
    int64_t query_blocks; /* blocks of queries, one after the other; backward */
    int64_t pairs;        /* pairs of a prefix and a chunk in a group, one after the other; backward */
    int64_t groups;       /* groups, one after the other; backward */
    int64_t is_narrow;    /* 1 if products of query and prefix keys, and weights, may be rounded to bfloat16; forward */
} separatrix_levels;

/* Whether the factors of a call can be multiplied without balancing: exact/balance.py gives the conditions. */
typedef struct {
    double room, near;         /* inputs: base-2 logarithms of the available range */
    int64_t moderate, near_one; /* for a forward pass, for a backward pass */
    double log_output;         /* the base-2 logarithm of the largest product of values, rounded */
} separatrix_range;
SEPARATRIX_PUBLIC int separatrix_exact_range(const separatrix_call* call, separatrix_range* range);

/* Bounds on the entries and scores of a call in float or double whose heads share no keys: what the bound on the rounding
 * of exact attention needs. See exact_bounds.hpp. */
typedef struct {
    int64_t is_finite;           /* 0 where an entry that may be attended is not; nothing else is then said */
    double log_scores;           /* the sum over query and keys of the logarithm to base 2 of the largest entry above 1 */
    double log_least, log_most;  /* the sums over values of those of the least and largest maximum of a head, beyond 1 */
    double *width, *largest;     /* (heads): the largest range and magnitude of a column of the products of values */
    double* radii;               /* (heads, query_length): bounds on the sum of magnitudes of a score's terms */
    /* The bound on the error of a query's output with the radius R, if `errors` (heads, query_length) is not null:
     * average tanh((score R + weight) / 2) width + relative largest + least. Infinite if beyond double. */
    double score, weight, average, relative, least;
    double* errors;
    double most_radius, most_error, most_value; /* outputs: the largest of `radii`, `errors` and `largest` */
} separatrix_bounds;
SEPARATRIX_PUBLIC int separatrix_exact_bounds(const separatrix_call* call, separatrix_bounds* bounds);

/* Both passes count tuples in 64 bits: query_length times the keys of each set that a query may attend is below 2^62.
 *
 * Output (heads, query_length, d_v) in the type of the call, and log-sum-exp (heads, query_length) in that of the
 * arithmetic, both contiguous. */
SEPARATRIX_PUBLIC int separatrix_exact_forward(const separatrix_call* call, void* out, void* lse);

/* Inputs and results of the backward pass: the output and log-sum-exp of the forward pass, and their gradients. `lse`
 * and `grad_lse` have no columns and the type of the arithmetic; all other tensors have the type of the call.
 * Gradients of the query, the keys and the values are written as contiguous tensors of their shapes. */
typedef struct {
    separatrix_tensor out, lse, grad_out, grad_lse;
    void* grad_query;
    void* grad_keys[SEPARATRIX_MOST_SETS];
    void* grad_values[SEPARATRIX_MOST_SETS];
} separatrix_gradients;
SEPARATRIX_PUBLIC int separatrix_exact_backward(const separatrix_call* call, const separatrix_gradients* gradients);

SEPARATRIX_PUBLIC void separatrix_exact_levels(const separatrix_call* call, separatrix_levels* levels);

/* Causal near-linear attention over some tokens, in double: for each token, the monomials of each key set's token
 * times its `values` are added to the state of the set, and the query's monomials times their coefficients are
 * multiplied by the product of the states. Row i > 0 of the index set is row parents[i] < i times coordinate last[i];
 * row 0 is 1. Separate coefficients, the `moments`, apply to the last column and to the weighted columns after it. */
typedef struct {
    int64_t heads, sets, length, d, columns, rank;
    int64_t weighted;                             /* additional columns, for moments only: 0 without moments */
    int64_t terms;                                /* rows from here on have the coefficient 0 */
    const int64_t *last, *parents;                /* (rank) */
    const double* coefficients;                   /* (rank) */
    const double* moments;                        /* (rank), or null */
    const double* query;                          /* (heads, d, length) */
    const double* keys[SEPARATRIX_MOST_SETS];     /* (heads, d, length) */
    const double* values[SEPARATRIX_MOST_SETS];   /* (heads, columns + weighted, length) */
    const double* before[SEPARATRIX_MOST_SETS];   /* (heads, rank, columns + weighted): before the first token */
} separatrix_scan;

/* `sums` (heads, length, columns + 1 + weighted): the columns, then the moments (0 if there are none). If `sums` is
 * null, only the states after the last token are computed, and no query is read. With sums, entries of states that do
 * not contribute to any sum may keep their previous values. */
typedef struct {
    double* sums;
    double* after[SEPARATRIX_MOST_SETS];
} separatrix_scan_results;
SEPARATRIX_PUBLIC int separatrix_scan_forward(const separatrix_scan* scan, const separatrix_scan_results* results);

/* The gradients of all inputs from those of the sums (heads, length, columns) and of the states after the last token. */
typedef struct {
    const double* sums;
    const double* after[SEPARATRIX_MOST_SETS];
    double* query;
    double* keys[SEPARATRIX_MOST_SETS];
    double* values[SEPARATRIX_MOST_SETS];
    double* before[SEPARATRIX_MOST_SETS];
} separatrix_scan_gradients;
SEPARATRIX_PUBLIC int separatrix_scan_backward(const separatrix_scan* scan, const separatrix_scan_gradients* gradients);

/* The monomials of an index set, alpha = 0 first, as products of a stored row and a coordinate: see tile.hpp.
 * Row 0 is that of alpha = 0; a parent's row is before its children's. The coordinate of number d is the number one. */
typedef struct {
    int64_t rank, d, stored;
    const int32_t *left, *right;         /* the row and the coordinate of each monomial */
    const int32_t *parents, *coordinates; /* the same for each stored row */
} separatrix_monomials;

/* Products with the monomials of tokens x (heads, d, tokens): see near_linear.hpp. W is (heads, columns, tokens). */
typedef struct {
    int64_t type, heads, tokens, columns;
    const separatrix_monomials* set;
    separatrix_tensor x, W;
} separatrix_products;

/* Add to a state (heads, rank, columns) in double, contiguous. */
SEPARATRIX_PUBLIC int separatrix_products_add(const separatrix_products* call, double* state);
/* From M (heads, rank, columns) to out (heads, columns, tokens), contiguous; W is not read. */
SEPARATRIX_PUBLIC int separatrix_products_sums(const separatrix_products* call, const void* M, void* out);
/* The gradients of x (heads, d, tokens) and W (heads, columns, tokens), contiguous. */
SEPARATRIX_PUBLIC int separatrix_products_gradient(const separatrix_products* call, const void* M, void* grad_x,
                                                   void* grad_W);

/* A pass over tokens in the layout of keys and values: x (heads, tokens, d) and values (heads, tokens, d_v), both of
 * `type`, and `mask` (heads, tokens) in bytes, nonzero for a token that may be attended; null if all may. Coordinates
 * are entries times `factors`, and monomials have the type `arithmetic`. See near_linear.hpp. */
typedef struct {
    int64_t type, arithmetic, heads, tokens, d_v;
    int64_t weighted;                /* columns of `weights`, the values for the moments, or 0 */
    int64_t terms;                   /* monomials [0, terms) have a coefficient, */
    int64_t level_first, level_last; /* and these a part in the moments: all are below `terms`, or they begin there */
    const separatrix_monomials* set;
    separatrix_tensor x, values, mask, weights; /* `weights` (heads, tokens, weighted), of `type` */
    const double* factors; /* (heads, d) */
} separatrix_pass;

/* Add to a state (heads, rank, d_v + 1 + weighted) in double, contiguous: values, ones and weights. Values and ones
 * are added for the monomials that have a coefficient, ones and weights for those of the moments; all other entries
 * keep their values. */
SEPARATRIX_PUBLIC int separatrix_pass_add(const separatrix_pass* call, double* state);
/* Queries against M (heads, rank, d_v + 2 + weighted) of the type `arithmetic`: writes out (heads, tokens, d_v) of the
 * type of x, and in double, (heads, tokens) each, the denominators, the moments, and the largest weighted moments,
 * which may be null without weights. The columns of M are in this order; the columns of the moments are read for the
 * monomials of the moments only, the others for the monomials that have a coefficient. A query of denominator 0 has
 * the output 0. Values and weights are not read. */
SEPARATRIX_PUBLIC int separatrix_pass_attend(const separatrix_pass* call, const void* M, void* out, double* denominator,
                                             double* moment, double* largest);

/* Tokens x (heads, length, d) of a set, and `mask` (heads, length) in bytes, nonzero for a token that may be attended;
 * null if all may. See entries.hpp. */
typedef struct {
    int64_t type, heads, length, d;
    separatrix_tensor x, mask;
} separatrix_tokens;

/* The least and the largest entry of each column, (heads, d): +inf and -inf without tokens, NaN if an entry is NaN. */
SEPARATRIX_PUBLIC int separatrix_extremes(const separatrix_tokens* tokens, double* least, double* most);

/* Two norms of each token, 0 for masked tokens: sum_l y_l^power and sum_l weights_l y_l for y = |factors x|. */
typedef struct {
    int64_t power;                   /* at least 1 */
    const double *factors, *weights; /* (heads, d); `weights` may be null if `weighted` is */
    double *powers, *weighted;       /* (heads, length) each, or null if not requested */
    double* largest;                 /* (heads): the largest of `powers` */
} separatrix_norm;
SEPARATRIX_PUBLIC int separatrix_norms(const separatrix_tokens* tokens, const separatrix_norm* norm);

/* Returns 1 if x (rows, columns), contiguous and of any type, is finite and has no zero in its first column; else, or
 * if memory runs out, 0. There is at least one column. */
SEPARATRIX_PUBLIC int separatrix_sound(int64_t type, int64_t rows, int64_t columns, const void* x);

/* A few tokens of a stream: see stream.hpp. All tensors are contiguous: tokens (heads, tokens, d), values (heads,
 * tokens, d_v), states (heads, rank, d_v + 1) and coefficients (rank,), the last two in double. `norm` is 0 if `most`
 * bounds entries, and k if it bounds l_k norms; `checked` is nonzero if the tokens are known to be within the bound. */
typedef struct {
    int64_t type, heads, sets, tokens, d_v, norm, checked;
    double most;
    const separatrix_monomials* set;
    const double* coefficients;
    double factors[SEPARATRIX_MOST_SETS + 1]; /* of the query, then of the keys */
    const void* query;
    const void* keys[SEPARATRIX_MOST_SETS];
    const void* values[SEPARATRIX_MOST_SETS];
    double* states[SEPARATRIX_MOST_SETS];
} separatrix_stream;

/* Append to the states, and write the largest magnitude of the values of each set. Returns SEPARATRIX_REFUSED and
 * changes no state if a key may be beyond the bound or a value is not finite. */
SEPARATRIX_PUBLIC int separatrix_stream_append(const separatrix_stream* call, double* largest);
/* Write the outputs (heads, tokens, d_v) of the queries, and the largest magnitude of an output, NaN if one is NaN.
 * Returns SEPARATRIX_REFUSED if a query may be beyond the bound. */
SEPARATRIX_PUBLIC int separatrix_stream_attend(const separatrix_stream* call, void* out, double* reached);

/* Two to the power of each of `count` numbers, as the kernels compute it. */
SEPARATRIX_PUBLIC int separatrix_exp2(int64_t type, int64_t count, const void* powers, void* results);

/* The most bytes that the kernels held at once since the last call of this function. */
SEPARATRIX_PUBLIC int64_t separatrix_highest_bytes(void);

/* Arithmetic in registers only, on all threads: each of `tasks` tasks computes this many vectors of fused
 * multiply-adds and of powers of two. Any other computation with as many operations takes at least as long. Returns
 * the number of lanes of a vector. */
SEPARATRIX_PUBLIC int separatrix_arithmetic(int64_t type, int64_t tasks, int64_t multiply_adds, int64_t powers);

/* The name of architecture `number` of this library; null past the last. */
SEPARATRIX_PUBLIC const char* separatrix_architecture(int number);
/* Whether this processor supports an architecture. */
SEPARATRIX_PUBLIC int separatrix_runs(const char* architecture);
/* Choose an architecture: SEPARATRIX_NOT_KNOWN if it does not exist or this processor does not support it. */
SEPARATRIX_PUBLIC int separatrix_choose(const char* architecture);
/* The chosen architecture; by default the best that this processor supports. */
SEPARATRIX_PUBLIC const char* separatrix_chosen(void);

SEPARATRIX_PUBLIC int separatrix_interface(void);
/* Set torch_parallel_for and torch_get_num_threads of libtorch, by address; null for one thread. */
SEPARATRIX_PUBLIC void separatrix_set_threads(void* parallel_for, void* num_threads);
/* Set PyEval_SaveThread, PyEval_RestoreThread and PyErr_CheckSignals of the interpreter, by address, and the pthread_t
 * of its main thread. Every later call is made with the interpreter's lock held: see interpreter.hpp. */
SEPARATRIX_PUBLIC void separatrix_set_interpreter(void* save_thread, void* restore_thread, void* check_signals,
                                                  uintptr_t main_thread);

#ifdef __cplusplus
}
#endif

#endif
