"""What the kernels in Triton share: which keys a block of queries may attend, rows of sets, and powers of two.

A kernel reads tensors whose entries lie side by side, (heads, rows, columns); `d` columns are padded to `D`, a power of
two, by zeros. Positions and places within a head are 32-bit numbers. What there is one of for each prefix set is in a
tuple, made longer by +, the one way that Triton's compiler knows.
"""

from __future__ import annotations

import triton
import triton.language as tl

NOWHERE = tl.constexpr(1 << 30)
"""An index that no key has."""
INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))
"""Whether the kernels were imported for Triton's interpreter, whose products do not know bfloat16."""


@triton.jit
def product(a, b, wide: tl.constexpr, PRECISION: tl.constexpr):
    """The matrix product a b, added up in the type `wide`; in float64 without tl.dot, which fails on NVIDIA's GPUs."""
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
def looking(first, last, offset, window, queries, ENDS: tl.constexpr, WINDOWED: tl.constexpr):
    """The queries, start and stop, that may attend some key from `first` to `last` by their position."""
    start, stop = 0, queries
    if ENDS:
        start = tl.maximum(first - offset, 0)
    if WINDOWED:
        stop = tl.minimum(queries, last - offset + window)
    return start, stop


@triton.jit
def sees(here, keys, window, ENDS: tl.constexpr, WINDOWED: tl.constexpr):
    """Whether a query whose position is `here` may attend each of some keys by its position."""
    distance = here - keys
    seen = distance == distance
    if ENDS:
        seen = distance >= 0
    if WINDOWED:
        seen = seen & (distance < window)
    return seen


@triton.jit
def reach(here, may, ENDS: tl.constexpr):
    """For each query the last key that it may attend; -1 for a query that may attend none.

    Whole numbers take their place among the registers of a thread. As truth values, what is allowed would be kept in
    registers that AMD's processors have few of.
    """
    return tl.where(may, here if ENDS else NOWHERE - 1, -1)


@triton.jit
def allowed(ends, here, keys, inside, window, WINDOWED: tl.constexpr, TURNED: tl.constexpr = False):
    """Which (queries, keys) may be attended, of queries with these `ends` (see `reach`) and keys that are `inside`.

    It is (keys, queries) if `TURNED`.
    """
    queries: tl.constexpr = 0 if TURNED else 1
    place = tl.expand_dims(tl.where(inside, keys, NOWHERE), 1 - queries)
    found = place <= tl.expand_dims(ends, queries)
    if WINDOWED:
        found = found & (place > tl.expand_dims(here - window, queries))
    return found


@triton.jit
def shown(mask, head, keys, length, MASKED: tl.constexpr):
    """Which of some indices are keys of a set that no mask hides."""
    inside = (keys >= 0) & (keys < length)
    if MASKED:
        inside = inside & (tl.load(mask + head.to(tl.int64) * length + keys, mask=inside, other=0) != 0)
    return inside


@triton.jit
def rows_of(x, head, rows, length, inside, d: tl.constexpr, D: tl.constexpr):
    """Rows (rows, D) of one head of a set; zeros in place of those that are not `inside`."""
    columns = tl.arange(0, D)
    at = x + head.to(tl.int64) * length * d + (rows[:, None] * d + columns[None, :])
    return tl.load(at, mask=inside[:, None] & (columns < d)[None, :], other=0.0)


@triton.jit
def put_rows(x, head, rows, length, inside, found, d: tl.constexpr, D: tl.constexpr):
    """Write rows (rows, D) of one head, those that are `inside`."""
    columns = tl.arange(0, D)
    at = x + head.to(tl.int64) * length * d + (rows[:, None] * d + columns[None, :])
    tl.store(at, found.to(x.dtype.element_ty), mask=inside[:, None] & (columns < d)[None, :])


@triton.jit
def prefixes_of(first, last, offset, window, length, ENDS: tl.constexpr, WINDOWED: tl.constexpr):
    """The steps, start and stop, over the prefix keys of queries from `first` to `last`.

    Without a window a step is a key that all queries share. With one it is a distance: each query goes back that many
    positions to a key of its own, so that no step is spent on keys that only some of them may attend.
    """
    start, stop = visible(first, last, offset, window, length, ENDS, False)
    if WINDOWED:
        start = tl.maximum(first + offset - length + 1, 0)
        stop = tl.minimum(window, last + offset + 1)
    return start, stop


@triton.jit
def prefix_at(step, here, WINDOWED: tl.constexpr):
    """The prefix keys of a step: one for all queries, (1,), or one for each of them, (queries,)."""
    if WINDOWED:
        return here - step
    else:
        return step + tl.arange(0, 1)


@triton.jit
def steps_of(
    first,
    last,
    offset,
    windows,
    lengths,
    CAUSAL: tl.constexpr,
    WINDOWED: tl.constexpr,
    FROM: tl.constexpr,
    SETS: tl.constexpr,
):
    """Where the steps over each prefix set from `FROM` on begin, how many it has, and how many all of them make."""
    begins = ()
    counts = ()
    total = 1
    for m in tl.static_range(FROM, SETS):
        begin, end = prefixes_of(first, last, offset, windows[m], lengths[m], CAUSAL, WINDOWED[m])
        count = tl.maximum(end - begin, 0)
        begins = begins + (begin,)  # noqa: RUF005
        counts = counts + (count,)  # noqa: RUF005
        total = total * count
    return begins, counts, total


@triton.jit
def places_at(step, begins, counts, here, WINDOWED: tl.constexpr, FROM: tl.constexpr, SETS: tl.constexpr):
    """The prefix keys of a step, for each prefix set from `FROM` on: the last set goes slowest."""
    places = ()
    for m in tl.static_range(FROM, SETS):
        if m == SETS - 1:
            own = step
        else:
            own = step % counts[m - FROM]
            step = step // counts[m - FROM]
        places = places + (prefix_at(begins[m - FROM] + own, here, WINDOWED[m]),)  # noqa: RUF005
    return places


@triton.jit
def shown_at(masks, head, places, lengths, MASKED: tl.constexpr, SETS: tl.constexpr):
    """Which of the prefix keys of a step are keys that no mask hides, for each prefix set."""
    found = ()
    for m in tl.static_range(SETS):
        found = found + (shown(masks[m], head, places[m], lengths[m], MASKED),)  # noqa: RUF005
    return found


@triton.jit
def may_see(live, here, places, inside, windows, CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, SETS: tl.constexpr):
    """Which queries that are `live` may attend all prefix keys of a step."""
    for m in tl.static_range(SETS):
        seen = sees(here, places[m], windows[m], CAUSAL or WINDOWED[m], WINDOWED[m])
        live = live & inside[m] & seen
    return live


@triton.jit
def times(
    found, sets, head, places, lengths, inside, d: tl.constexpr, D: tl.constexpr, FROM: tl.constexpr, SETS: tl.constexpr
):
    """Rows multiplied by those of the prefix keys of a step, of each prefix set from `FROM` on."""
    for m in tl.static_range(FROM, SETS):
        found = found * rows_of(sets[m], head, places[m], lengths[m], inside[m], d, D).to(found.dtype)
    return found


@triton.jit
def power(exponent):
    """Two to whole numbers that are not above 0, put together from its bits and so exact; 0 where it is not normal."""
    if exponent.dtype == tl.float64:
        return ((tl.maximum(exponent, -1023.0) + 1023.0).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    else:
        return ((tl.maximum(exponent, -127.0) + 127.0).to(tl.int32) << 23).to(tl.float32, bitcast=True)
