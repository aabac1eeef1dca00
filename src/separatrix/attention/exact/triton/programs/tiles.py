"""Functions shared by the kernels in Triton: which keys a block of queries may attend, rows of sets, and powers of two.

A kernel reads contiguous tensors, (heads, rows, columns); `d` columns are padded to `D`, a power of two, by zeros.
Positions and places within a head are 32-bit numbers. The rows of all prefix sets are concatenated, and a table (sets,
3) has for each set its first row, its length and its window, 0 for no window: the kernels loop over the sets, so that
one kernel serves every order.
"""

from __future__ import annotations

import triton
import triton.language as tl

NOWHERE = tl.constexpr(1 << 30)
"""An index that no key has."""
LENGTHS = ("queries", "prefixes", "inners", "offset", "inner_window")
"""Arguments for which kernels are not specialised, so that a growing key/value cache recompiles nothing."""
NOTHING = tl.constexpr(-(1 << 16))
"""The exponent that stands for zero; it is smaller than the exponents of all numbers and products of numbers."""
INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))
"""Whether the kernels run in Triton's interpreter, whose products do not support bfloat16."""


@triton.jit
def product(a, b, wide: tl.constexpr, PRECISION: tl.constexpr):
    """The matrix product a b, accumulated in the dtype `wide`; in float64 without tl.dot, which fails on NVIDIA's
    GPUs."""
    if wide == tl.float64:
        found = tl.sum(a[:, :, None] * b[None, :, :], 1)
    else:
        if INTERPRETED:
            a, b = a.to(wide), b.to(wide)
        found = tl.dot(a, b, input_precision=PRECISION, out_dtype=wide)
    return found


@triton.jit
def add_product(sums, a, b, PRECISION: tl.constexpr):
    """The matrix product a b added to `sums`."""
    if sums.dtype == tl.float64:
        sums += tl.sum(a[:, :, None] * b[None, :, :], 1)
    else:
        if INTERPRETED:
            a, b = a.to(sums.dtype), b.to(sums.dtype)
        sums = tl.dot(a, b, sums, input_precision=PRECISION, out_dtype=sums.dtype)
    return sums


@triton.jit
def visible(first, last, offset, window, length, ENDS: tl.constexpr, WINDOWED: tl.constexpr):
    """The keys, start and stop, that some query from `first` to `last` may attend by its position."""
    start, stop = 0, length
    if ENDS:
        stop = tl.minimum(length, last + offset + 1)
    if WINDOWED:
        start = tl.maximum(first + offset - window + 1, 0)
    return start, stop


@triton.jit
def parts(start, stop, low, high, BLOCK: tl.constexpr):
    """Split blocks that begin at `start` into those before, inside and after [low, high): four ends of three ranges.

    Every query may attend every key of a block inside by its position, so that its scores need no comparisons. Kernels
    that are not `PEELED` compare positions in all blocks, which then all belong to the first range.
    """
    begin = tl.minimum(start + tl.cdiv(tl.maximum(low - start, 0), BLOCK) * BLOCK, stop)
    end = tl.maximum(begin, start + tl.maximum(high - start, 0) // BLOCK * BLOCK)
    return start, begin, end, stop


@triton.jit
def parts_of_keys(
    first, last, offset, window, length,
    KEYS: tl.constexpr, ENDS: tl.constexpr, WINDOWED: tl.constexpr, PEELED: tl.constexpr,
):  # fmt: skip
    """The `parts` of the inner keys that some query from `first` to `last` may attend; every query may attend those
    inside."""
    start, stop = visible(first, last, offset, window, length, ENDS, WINDOWED)
    low, high = start, length
    if ENDS:
        high = tl.minimum(length, first + offset + 1)
    if WINDOWED:
        low = last + offset - window + 1
    if not PEELED:
        low = stop
    return parts(start, stop, low, high, KEYS)


@triton.jit
def looking(first, last, offset, window, queries, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr):
    """The queries, start and stop, that may attend some key from `first` to `last` by their position."""
    start, stop = 0, queries
    if CAUSAL:
        start = tl.maximum(first - offset, 0)
    if WINDOWED:
        start = tl.where((window > 0) | CAUSAL, tl.maximum(first - offset, 0), 0)
        stop = tl.where(window > 0, tl.minimum(queries, last - offset + window), queries)
    return start, stop


@triton.jit
def parts_of_queries(
    place, last, offset, window, queries,
    KEYS: tl.constexpr, QUERIES: tl.constexpr, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, PEELED: tl.constexpr,
):  # fmt: skip
    """The `parts` of the queries that may attend some inner key from `place` to `last`; those inside may attend all of
    these keys.

    Gradients of rows beyond the last key are computed but not written.
    """
    start, stop = looking(place, last, offset, window, queries, CAUSAL, WINDOWED)
    low, high = start, stop
    if CAUSAL or WINDOWED:
        low = place + KEYS - 1 - offset
    if WINDOWED:
        high = tl.minimum(stop, place - offset + window)
    if not PEELED:
        low = stop
    return parts(start, stop, low, high, QUERIES)


@triton.jit
def sees(here, keys, window, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr):
    """Whether a query whose position is `here` may attend each of some keys by its position."""
    distance = here - keys
    seen = distance == distance
    if CAUSAL:
        seen = distance >= 0
    if WINDOWED:
        seen = seen & ((window == 0) | ((distance >= 0) & (distance < window)))
    return seen


@triton.jit
def reach(here, may, ENDS: tl.constexpr):
    """For each query the last key that it may attend; -1 for a query that may attend none.

    Integers share the registers of a thread. Boolean masks would be kept in a kind of register of which AMD's
    processors have few.
    """
    return tl.where(may, here if ENDS else NOWHERE - 1, -1)


@triton.jit
def allowed(ends, here, keys, inside, window, WINDOWED: tl.constexpr, TURNED: tl.constexpr = False):
    """Which (queries, keys) pairs may be attended, for queries with these `ends` (see `reach`) and keys that are
    `inside`.

    The shape is (keys, queries) if `TURNED`.
    """
    queries: tl.constexpr = 0 if TURNED else 1
    place = tl.expand_dims(tl.where(inside, keys, NOWHERE), 1 - queries)
    found = place <= tl.expand_dims(ends, queries)
    if WINDOWED:
        found = found & (place > tl.expand_dims(here - window, queries))
    return found


@triton.jit
def shown(mask, head, rows, length, inside, MASKED: tl.constexpr):
    """Which of the rows of one head that are `inside` are not masked."""
    if MASKED:
        inside = inside & (tl.load(mask + head.to(tl.int64) * length + rows, mask=inside, other=0) != 0)
    return inside


@triton.jit
def rows_of(x, head, rows, length, inside, d: tl.constexpr, D: tl.constexpr):
    """Rows (rows, D) of one head of a set; zeros in place of those that are not `inside`."""
    columns = tl.arange(0, D)
    at = x + head.to(tl.int64) * length * d + (rows[:, None] * d + columns[None, :])
    return tl.load(at, mask=inside[:, None] & (columns < d)[None, :], other=0.0)


@triton.jit
def put_rows(x, head, rows, length, inside, found, d: tl.constexpr, D: tl.constexpr):
    """Write those rows (rows, D) of one head that are `inside`."""
    columns = tl.arange(0, D)
    at = x + head.to(tl.int64) * length * d + (rows[:, None] * d + columns[None, :])
    tl.store(at, found.to(x.dtype.element_ty), mask=inside[:, None] & (columns < d)[None, :])


@triton.jit
def put_output(out, lse, head, rows, length, inside, sums, total, peak, d: tl.constexpr, D: tl.constexpr):
    """Write the output and the log-sum-exp of rows of one head, from sums of weights over 2^`peak`."""
    empty = total == 0
    total = tl.where(empty, 1.0, total)
    if sums.dtype == tl.float64:
        quotient = sums / total[:, None]
    else:
        quotient = tl.div_rn(sums, tl.broadcast_to(total[:, None], sums.shape))
    put_rows(out, head, rows, length, inside, quotient, d, D)
    log = tl.where(empty, float("-inf"), (peak + tl.log2(total)) * 0.6931471805599453)
    tl.store(lse + head.to(tl.int64) * length + rows, log, mask=inside)


@triton.jit
def steps_in(first, last, offset, window, length, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr):
    """The start and the number of the steps over one prefix set, for queries from `first` to `last`.

    Without a window a step is a key that all queries share. With a window a step is a distance: each query goes back
    this number of positions to its own key, so that no step is spent on keys that only some of the queries may attend.
    """
    start, stop = visible(first, last, offset, window, length, CAUSAL, False)
    if WINDOWED:
        start = tl.where(window > 0, tl.maximum(first + offset - length + 1, 0), 0)
        stop = tl.where(window > 0, tl.minimum(window, last + offset + 1), stop)
    return start, tl.maximum(stop - start, 0)


@triton.jit
def steps_of(given, block, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, FROM: tl.constexpr):
    """The number of steps over the prefix sets from `FROM` on for a block of queries; `times` describes `given`."""
    table, sets = given[1], given[2]
    first, last, offset = block[2], block[3], block[4]
    total = 1
    for m in range(FROM, sets):
        length, window = tl.load(table + 3 * m + 1), tl.load(table + 3 * m + 2)
        total *= steps_in(first, last, offset, window, length, CAUSAL, WINDOWED)[1]
    return total


@triton.jit
def times(
    found, may, step, prefix, given, block,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, MASKED: tl.constexpr, d: tl.constexpr, D: tl.constexpr,
    FROM: tl.constexpr,
):  # fmt: skip
    """Rows multiplied by the rows of the keys of a step, one from each prefix set from `FROM` on, and which queries may
    attend all these keys.

    `prefix` has the keys or the values of the prefix sets, and `given` their mask, their table, their number and their
    total number of rows. `block` has the key head and the mask head of a block of queries, its first and its last
    query, their offset and their positions. The index of the first set changes fastest. Intermediate results of a step
    are recomputed for the values instead of stored: registers are scarcer.
    """
    mask, table, sets, prefixes = given
    own, masked_as, first, last, offset, here = block
    for m in range(FROM, sets):
        start, length, window = tl.load(table + 3 * m), tl.load(table + 3 * m + 1), tl.load(table + 3 * m + 2)
        begin, count = steps_in(first, last, offset, window, length, CAUSAL, WINDOWED)
        at = begin + step % count
        step = step // count
        place = tl.where(window > 0, here - at, at) if WINDOWED else at + tl.arange(0, 1)
        inside = shown(mask, masked_as, start + place, prefixes, (place >= 0) & (place < length), MASKED)
        found = found * rows_of(prefix, own, start + place, prefixes, inside, d, D).to(found.dtype)
        may = may & inside & sees(here, place, window, CAUSAL, WINDOWED)
    return found, may


@triton.jit
def within_prefixes(given, queries, offset, WINDOWED: tl.constexpr):
    """The queries, start and stop, that may attend the key of every step over the prefix sets.

    With a window, each of them has its own key. A set without a window is visible as a whole: kernels are not `PEELED`
    if there are such sets together with windowed sets and a causal mask.
    """
    table, sets = given[1], given[2]
    start, stop = 0, queries
    if WINDOWED:
        for m in range(0, sets):
            length, window = tl.load(table + 3 * m + 1), tl.load(table + 3 * m + 2)
            start = tl.where(window > 0, tl.maximum(start, window - 1 - offset), start)
            stop = tl.where(window > 0, tl.minimum(stop, length - offset), stop)
    return start, stop


@triton.jit
def times_within(found, step, prefix, given, block, WINDOWED: tl.constexpr, d: tl.constexpr, D: tl.constexpr):
    """The factor by which `times` multiplies, for queries that are all `within_prefixes`, without comparisons."""
    _, table, sets, prefixes = given
    own, here = block[0], block[5]
    for m in range(0, sets):
        start, length, window = tl.load(table + 3 * m), tl.load(table + 3 * m + 1), tl.load(table + 3 * m + 2)
        count = tl.where(window > 0, window, length) if WINDOWED else length
        at = step
        if sets != 1:
            at = step % count
            step = step // count
        place = tl.where(window > 0, here - at, at) if WINDOWED else at + tl.arange(0, 1)
        found = found * whole_rows(prefix, own, start + place, prefixes, d, D).to(found.dtype)
    return found


@triton.jit
def computed_once(x, ONCE: tl.constexpr):
    """x, computed by one warp and shared with the others, if `ONCE`.

    Triton would move the computation of a factor of a matrix product behind its distribution, so that every warp
    computes all of it. It does not move instructions whose effects it does not know.
    """
    if ONCE:
        x = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=x.dtype, is_pure=False, pack=2)
    return x


@triton.jit
def whole_rows(x, head, rows, length, d: tl.constexpr, D: tl.constexpr):
    """Rows (rows, D) of one head of a set, all of which exist."""
    columns = tl.arange(0, D)
    at = x + head.to(tl.int64) * length * d + (rows[:, None] * d + columns[None, :])
    if d == D:
        return tl.load(at)
    else:
        return tl.load(at, mask=(columns < d)[None, :], other=0.0)


@triton.jit
def power(exponent):
    """Two to the power of integers up to 0, assembled from bits and therefore exact; 0 if the result is not normal."""
    if exponent.dtype == tl.float64:
        return ((tl.maximum(exponent, -1023.0) + 1023.0).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    else:
        return ((tl.maximum(exponent, -127.0) + 127.0).to(tl.int32) << 23).to(tl.float32, bitcast=True)


@triton.jit
def two_to(exponent, wide: tl.constexpr):
    """Two to the power of integers within the normal range of the dtype `wide`, assembled from bits and therefore
    exact."""
    if wide == tl.float64:
        return ((exponent + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    else:
        return ((exponent + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def times_power(x, exponent):
    """x times two to the power of `exponent`, or x for `NOTHING`, in two steps, because the power may be out of range
    although the product is not."""
    exponent = tl.where(exponent == NOTHING, 0, exponent)
    half = exponent >> 1
    return x * two_to(half, x.dtype) * two_to(exponent - half, x.dtype)


@triton.jit
def exponent_of(x):
    """The integers e with 2^(e - 1) <= |x| < 2^e; `NOTHING` for 0, and from 129 on (1025 in float64) if x is not
    finite."""
    if x.dtype == tl.float64:
        bits = x.to(tl.int64, bitcast=True) & 0x7FFFFFFFFFFFFFFF
        of_subnormal = (bits.to(tl.float64).to(tl.int64, bitcast=True) >> 52) - 2096
        exponent = tl.where(bits < (1 << 52), of_subnormal, (bits >> 52) - 1022)
    else:
        bits = x.to(tl.int32, bitcast=True) & 0x7FFFFFFF
        of_subnormal = (bits.to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 275
        exponent = tl.where(bits < (1 << 23), of_subnormal, (bits >> 23) - 126)
    return tl.where(bits == 0, NOTHING, exponent.to(tl.int32))


@triton.jit
def exponent_of_head(top, head):
    """The exponent of a head's incoming gradient, `NOTHING` if it is 0; see `incoming_rows`."""
    return tl.load(top + head) + NOTHING


@triton.jit
def shares_of(own, rows, inside, of_head, wide: tl.constexpr):
    """The factor of the incoming gradients of queries: their own power of two divided by that of their head."""
    exponent = tl.load(own + rows, mask=inside, other=NOTHING)
    return power((exponent - of_head).to(wide))
