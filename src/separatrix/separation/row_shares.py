r"""A row of the attention matrix on the paper's data: the exact share of each kind of key.

A query of Definitions D.1 and F.1 sees four kinds of keys: the special one (j3), the others of its class, those of the
query's class, and the rest. Within a kind all keys have the same weight, so n may be 10^100.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Literal

from separatrix.separation.cross_attention import CrossAttention
from separatrix.separation.forms import DIGITS, Exponential, Form, evaluate, ratio
from separatrix.separation.mechanisms import Mechanism
from separatrix.separation.rows import Network, Weight, cross_attention_networks, self_attention_networks
from separatrix.separation.tokens import AttentionSetting, class_sizes, tokens

KINDS = ("the special key", "others of its class", "the query's class", "all other keys")

Query = Literal["special", "other"]


def paper_row(setting: AttentionSetting, which: Literal[0, 1], query: Query, *, softmax: bool) -> list[float]:
    """The share of each of the `KINDS` in a row of softmax or of linear attention, at any width.

    The query is the special one (j3, or j2 in cross-attention), or one of another class than j3's.
    """
    network = _networks(setting, which)[0 if softmax else 1]
    row = network.rows[0 if query == "special" else -1]
    sizes = class_sizes(setting)
    own = sizes[0]
    # Only self-attention with the identity has queries with a class; in the other settings all classes are equivalent.
    theirs = sizes[-1] if row.queries == "other class" and len(sizes) > 1 else 0
    counts = [1, own - 1, theirs, setting.n - own - theirs]
    weights = [_form(network, weight) for weight in (row.special, row.own, row.query, (row.rest, 0))]
    return _shares(setting.n, weights, counts)


def any_row(setting: AttentionSetting, which: Literal[0, 1], query: Query, mechanism: Mechanism) -> list[float]:
    """The shares of a row under any mechanism, from the tokens themselves; a pair of keys counts for its first key."""
    row_tokens = tokens(setting, which, 0)
    weighted = mechanism.weigh(row_tokens.queries[0 if query == "special" else -1], row_tokens)
    pairs = len(weighted) // len(row_tokens.keys)
    # The key j3 comes first, then one key of each class with further keys: first the class of j3 (0), then the others.
    first_has_others = class_sizes(setting)[0] > 1
    classed = not isinstance(setting, CrossAttention) and setting.weights == "identity" and len(row_tokens.queries) > 1
    kinds = [0, *([1] * first_has_others), *([3] * (len(row_tokens.keys) - 1 - first_has_others))]
    if query == "other" and classed and kinds[-1] == 3:
        kinds[-1] = 2
    shares = _shares(setting.n, [token.weight for token in weighted], [token.count for token in weighted])
    answer = [0.0] * len(KINDS)
    for i, share in enumerate(shares):
        answer[kinds[i // pairs]] += share
    return answer


def _networks(setting: AttentionSetting, which: Literal[0, 1]) -> tuple[Network, Network]:
    values = setting.values()
    a, tau = values[f"a{which}"], values.get("tau", Fraction(1))
    if isinstance(setting, CrossAttention):
        return cross_attention_networks(setting.n, a, tau)
    weights: Literal["identity", "ones"] = "ones" if setting.weights == "ones" else "identity"
    return self_attention_networks(setting.n, a, values["b"], values["c"], tau, 0, weights)


def _form(network: Network, weight: Weight) -> Form:
    q, i = weight
    return {(0, Exponential(network.exponents[i])): Fraction(q)}


def _shares(n: int, weights: Sequence[Form], counts: Sequence[int]) -> list[float]:
    """The share of each kind of key: its count times its weight, divided by the sum of these products."""
    present = [i for i, count in enumerate(counts) if count]
    values = evaluate(n, [weights[i] for i in present])
    with localcontext(Context(prec=DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)):  # as wide as the weights
        parts = {i: value * counts[i] for i, (value, _) in zip(present, values, strict=True)}
        total = sum(parts.values(), Decimal(0))
    return [float(ratio(parts[i], total)) if i in parts else 0.0 for i in range(len(counts))]
