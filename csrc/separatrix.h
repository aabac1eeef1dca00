/* The C interface of the kernels: structures of sizes and addresses, functions that give 0 or the number of an error.
 *
 * The library is loaded by separatrix/native.py, whose structures mirror these; SEPARATRIX_INTERFACE counts their
 * changes, and a library of another number is refused. Addresses are of host memory. A stride counts entries.
 */
#ifndef SEPARATRIX_H
#define SEPARATRIX_H

#include <stdint.h>

#define SEPARATRIX_INTERFACE 10
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
/* Half types are for exact attention alone, which computes with them in float32; but see `is_narrow`. */
enum { SEPARATRIX_FLOAT32 = 0, SEPARATRIX_FLOAT64 = 1, SEPARATRIX_FLOAT16 = 2, SEPARATRIX_BFLOAT16 = 3 };

/* A tensor (heads, rows, columns) whose columns lie side by side. */
typedef struct {
    void* data;
    int64_t head, row;
} separatrix_tensor;

/* A call of exact attention. `masks` are null where there are none; a window of -1 is none. There are `heads` heads of
 * queries. Keys and values have a head for each `shared` of them, which follow each other, and masks one for each
 * `mask_shared`, which is `shared` or 1. */
typedef struct {
    int64_t type, heads, shared, mask_shared, sets, query_length, d, d_v;
    int64_t lengths[SEPARATRIX_MOST_SETS];
    int64_t windows[SEPARATRIX_MOST_SETS];
    int64_t is_causal, offset;
    double scale;
    separatrix_tensor query;
    separatrix_tensor keys[SEPARATRIX_MOST_SETS];
    separatrix_tensor values[SEPARATRIX_MOST_SETS];
    separatrix_tensor masks[SEPARATRIX_MOST_SETS]; /* bytes, not 0 for a key that may be attended; no columns */
} separatrix_call;

/* How many terms the two passes add up at each of their levels, at the most: what a bound on their rounding needs. */
typedef struct {
    int64_t chunk;        /* inner keys, in one go */
    int64_t rows;         /* rows of a tile, in one go; forward */
    int64_t tiles;        /* tiles of a chunk, one after the other; forward */
    int64_t chunks;       /* chunks of the inner set, one after the other; forward */
    int64_t query_block;  /* queries, in one go; backward */
    int64_t query_blocks; /* blocks of queries, one after the other; backward */
    int64_t pairs;        /* pairs of a prefix and a chunk that a group adds up, one after the other; backward */
    int64_t groups;       /* groups, one after the other; backward */
    int64_t is_narrow;    /* 1 if products of query and prefix keys, and weights, may be rounded to bfloat16; forward */
} separatrix_levels;

/* Whether the factors of a call need no balancing before they are multiplied: exact/balance.py says what is asked. */
typedef struct {
    double room, near;         /* logarithms to base 2 of what may be used up, given */
    int64_t moderate, near_one; /* for a forward pass, for a backward pass */
    double log_output;         /* the logarithm to base 2 of the largest product of values, rounded */
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
} separatrix_bounds;
SEPARATRIX_PUBLIC int separatrix_exact_bounds(const separatrix_call* call, separatrix_bounds* bounds);

/* Both passes count tuples in 64 bits: query_length times the keys of each set that a query may attend is below 2^62.
 *
 * Output (heads, query_length, d_v) in the type of the call, and log-sum-exp (heads, query_length) in that of the
 * arithmetic, both contiguous. */
SEPARATRIX_PUBLIC int separatrix_exact_forward(const separatrix_call* call, void* out, void* lse);

/* What the backward pass reads and writes: output and log-sum-exp as the forward pass gave them, and their gradients.
 * `lse` and `grad_lse` have no columns and are of the type of the arithmetic; all else is of the type of the call.
 * Gradients of the query, the keys and the values are written as contiguous tensors of their shapes. */
typedef struct {
    separatrix_tensor out, lse, grad_out, grad_lse;
    void* grad_query;
    void* grad_keys[SEPARATRIX_MOST_SETS];
    void* grad_values[SEPARATRIX_MOST_SETS];
} separatrix_gradients;
SEPARATRIX_PUBLIC int separatrix_exact_backward(const separatrix_call* call, const separatrix_gradients* gradients);

SEPARATRIX_PUBLIC void separatrix_exact_levels(const separatrix_call* call, separatrix_levels* levels);

/* A stretch of causal near-linear attention, in double throughout: token by token, the monomials of each key set's
 * token times its `values` are added to the state of the set, and the query's monomials times their coefficients meet
 * the product of the states. Row i > 0 of the index set is row parents[i] < i times coordinate last[i]; row 0 is 1.
 * Other coefficients, the `moments`, belong to the last of the columns and to the weighted ones, which follow. */
typedef struct {
    int64_t heads, sets, length, d, columns, rank;
    int64_t weighted;                             /* further columns, for moments alone: 0 without moments */
    int64_t terms;                                /* rows from here on have the coefficient 0 */
    const int64_t *last, *parents;                /* (rank) */
    const double* coefficients;                   /* (rank) */
    const double* moments;                        /* (rank), or null */
    const double* query;                          /* (heads, d, length) */
    const double* keys[SEPARATRIX_MOST_SETS];     /* (heads, d, length) */
    const double* values[SEPARATRIX_MOST_SETS];   /* (heads, columns + weighted, length) */
    const double* before[SEPARATRIX_MOST_SETS];   /* (heads, rank, columns + weighted): before the first token */
} separatrix_scan;

/* `sums` (heads, length, columns + 1 + weighted): behind the columns come the moments, 0 without them; null where the
 * states after the last token alone are wanted, and no query is read. With sums, states of rows and columns of which
 * nothing is added to a sum may stay as they were. */
typedef struct {
    double* sums;
    double* after[SEPARATRIX_MOST_SETS];
} separatrix_scan_results;
SEPARATRIX_PUBLIC int separatrix_scan_forward(const separatrix_scan* scan, const separatrix_scan_results* results);

/* From the gradients of the sums (heads, length, columns) and of the states after the last token, those of all else. */
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
    const int32_t *left, *right;         /* of each monomial, its row and its coordinate */
    const int32_t *parents, *coordinates; /* of each stored row, the same */
} separatrix_monomials;

/* Products with the monomials of tokens x (heads, d, tokens): see near_linear.hpp. W is (heads, columns, tokens). */
typedef struct {
    int64_t type, heads, tokens, columns;
    const separatrix_monomials* set;
    separatrix_tensor x, W;
} separatrix_products;

/* Add to a state (heads, rank, columns) in double, contiguous. */
SEPARATRIX_PUBLIC int separatrix_products_add(const separatrix_products* call, double* state);
/* From M (heads, rank, columns) to out (heads, columns, tokens), contiguous; W is not looked at. */
SEPARATRIX_PUBLIC int separatrix_products_sums(const separatrix_products* call, const void* M, void* out);
/* The gradients of x (heads, d, tokens) and W (heads, columns, tokens), contiguous. */
SEPARATRIX_PUBLIC int separatrix_products_gradient(const separatrix_products* call, const void* M, void* grad_x,
                                                   void* grad_W);

/* A pass over tokens as they lie: x (heads, tokens, d) and values (heads, tokens, d_v), both of `type`, and `mask`
 * (heads, tokens) in bytes, not 0 for a token that may be attended, null where all may. Coordinates are entries times
 * `factors`, and monomials are of the type `arithmetic`. See near_linear.hpp. */
typedef struct {
    int64_t type, arithmetic, heads, tokens, d_v;
    int64_t weighted;                /* columns of `weights`: values of their own for the moments, or 0 */
    int64_t terms;                   /* monomials [0, terms) have a coefficient, */
    int64_t level_first, level_last; /* and these a part in the moments: all are below `terms`, or they begin there */
    const separatrix_monomials* set;
    separatrix_tensor x, values, mask, weights; /* `weights` (heads, tokens, weighted), of `type` */
    const double* factors; /* (heads, d) */
} separatrix_pass;

/* Add to a state (heads, rank, d_v + 1 + weighted) in double, contiguous: values, ones and weights. Values and ones are
 * added for the monomials that have a coefficient, ones and weights for those of the moments; all else stays. */
SEPARATRIX_PUBLIC int separatrix_pass_add(const separatrix_pass* call, double* state);
/* Queries against M (heads, rank, d_v + 2 + weighted) of the type `arithmetic`: out (heads, tokens, d_v) of the type of
 * x, and in double, (heads, tokens) each, the denominators, the moments, and the largest weighted moments, which may be
 * null where there are none. The columns of M are in this order; those of moments are looked at for the monomials of the
 * moments alone, the others for those that have a coefficient. A query of denominator 0 has the output 0. Values and
 * weights are not looked at. */
SEPARATRIX_PUBLIC int separatrix_pass_attend(const separatrix_pass* call, const void* M, void* out, double* denominator,
                                             double* moment, double* largest);

/* Tokens x (heads, length, d) of a set, and `mask` (heads, length) in bytes, not 0 for a token that may be attended;
 * null where all may. See entries.hpp. */
typedef struct {
    int64_t type, heads, length, d;
    separatrix_tensor x, mask;
} separatrix_tokens;

/* The least and the largest entry of each column, (heads, d): +inf and -inf where there is no token, NaN where one is. */
SEPARATRIX_PUBLIC int separatrix_extremes(const separatrix_tokens* tokens, double* least, double* most);

/* Two norms of each token, 0 for hidden ones: sum_l y_l^power and sum_l weights_l y_l for y = |factors x|. */
typedef struct {
    int64_t power;                   /* at least 1 */
    const double *factors, *weights; /* (heads, d); `weights` may be null where `weighted` is */
    double *powers, *weighted;       /* (heads, length) each, or null where they are not wanted */
    double* largest;                 /* (heads): the largest of `powers` */
} separatrix_norm;
SEPARATRIX_PUBLIC int separatrix_norms(const separatrix_tokens* tokens, const separatrix_norm* norm);

/* 1 if x (rows, columns), contiguous and of any type, is finite and has no zero in its first column; else 0, and also
 * where there was no memory to find out. There is at least one column. */
SEPARATRIX_PUBLIC int separatrix_sound(int64_t type, int64_t rows, int64_t columns, const void* x);

/* A few tokens of a stream: see stream.hpp. All is contiguous: tokens (heads, tokens, d), values (heads, tokens, d_v),
 * states (heads, rank, d_v + 1) and coefficients (rank,), the last two in double. `norm` is 0 where `most` bounds
 * entries, and k where it bounds l_k norms; `checked` is not 0 where tokens are known to be within the bound. */
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

/* Append to the states, and give the largest magnitude of the values of each set; or SEPARATRIX_REFUSED, with the
 * states as they were, if a key may be beyond the bound or a value is not finite. */
SEPARATRIX_PUBLIC int separatrix_stream_append(const separatrix_stream* call, double* largest);
/* Outputs (heads, tokens, d_v) of the queries, and the largest magnitude of one, not a number if one is not; or
 * SEPARATRIX_REFUSED if a query may be beyond the bound. */
SEPARATRIX_PUBLIC int separatrix_stream_attend(const separatrix_stream* call, void* out, double* reached);

/* Two to each of `count` powers, as the kernels compute it. */
SEPARATRIX_PUBLIC int separatrix_exp2(int64_t type, int64_t count, const void* powers, void* results);

/* The most bytes that the kernels held at once since this was asked last. */
SEPARATRIX_PUBLIC int64_t separatrix_highest_bytes(void);

/* Nothing but arithmetic in registers, on all threads: in each of `tasks` tasks so many vectors of fused multiply-adds
 * and of powers of two. What takes less time than this does less. Gives how many lanes a vector has. */
SEPARATRIX_PUBLIC int separatrix_arithmetic(int64_t type, int64_t tasks, int64_t multiply_adds, int64_t powers);

/* The architectures that this library has kernels for, by number; null past the last. */
SEPARATRIX_PUBLIC const char* separatrix_architecture(int number);
/* Whether this processor runs the kernels of an architecture. */
SEPARATRIX_PUBLIC int separatrix_runs(const char* architecture);
/* Choose an architecture: SEPARATRIX_NOT_KNOWN for one that there is not, or that this processor does not run. */
SEPARATRIX_PUBLIC int separatrix_choose(const char* architecture);
/* The architecture that was chosen; at first the best that this processor runs. */
SEPARATRIX_PUBLIC const char* separatrix_chosen(void);

SEPARATRIX_PUBLIC int separatrix_interface(void);
/* Take torch_parallel_for and torch_get_num_threads of libtorch, as addresses; null for one thread. */
SEPARATRIX_PUBLIC void separatrix_set_threads(void* parallel_for, void* num_threads);
/* Take PyEval_SaveThread, PyEval_RestoreThread and PyErr_CheckSignals of the interpreter, as addresses, and the pthread_t
 * of its main thread. From then on every call is made with the interpreter's lock held: see interpreter.hpp. */
SEPARATRIX_PUBLIC void separatrix_set_interpreter(void* save_thread, void* restore_thread, void* check_signals,
                                                  uintptr_t main_thread);

#ifdef __cplusplus
}
#endif

#endif
