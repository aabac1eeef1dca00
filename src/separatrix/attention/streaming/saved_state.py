r"""Saves and loads a state. Loading checks everything that the certificate of the state depends on.

A state consists of its sums Z_m, three numbers for each set (the number of tokens, their largest value, their
roundings), and a configuration: all settings that decide which tokens were accepted and in which coordinates they were
summed. The configuration is saved as JSON, in a tensor of bytes, because safetensors files contain only tensors.

A checksum of all entries detects damage that leaves the numbers plausible.

The coefficients of the polynomial are not saved: the sums do not depend on them, and queries use the coefficients of
the state that the sums are loaded into. The degree may be higher than the plan's, as in earlier versions: sums are
sorted by degree, so that the first of them are those of the plan.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import numbers, truth
from separatrix.attention.near_linear.approximation.monomials import IndexSet
from separatrix.attention.near_linear.bounded_plan import balanced_exponents
from separatrix.attention.near_linear.cost import LARGEST_DEGREE, LARGEST_RANK
from separatrix.attention.streaming.ledger import StreamLedger
from separatrix.checks import is_whole
from separatrix.errors import ArgumentError
from separatrix.tensor_files import digest

if TYPE_CHECKING:
    from separatrix.attention.streaming.state import TensorAttentionState

Configuration = Mapping[str, object]


def saved_tensors(state: TensorAttentionState) -> dict[str, Tensor]:
    """The tensors of a state to save; this implements `state_dict`."""
    saved = _entries(state)
    return {**saved, "digest": _digest(saved)}


def _entries(state: TensorAttentionState) -> dict[str, Tensor]:
    """The entries of a saved state except its checksum."""
    saved = {f"states.{m}": z.detach().clone() for m, z in enumerate(state.held_states)}
    saved["tokens"] = torch.tensor(state.ledger.tokens)
    saved["largest"] = torch.tensor(state.ledger.largest, dtype=torch.float64)
    saved["roundings"] = torch.tensor(state.ledger.roundings)
    saved["configuration"] = as_bytes(configuration(state))
    return saved if state.ledger.hidden is None else {**saved, "hidden": state.ledger.hidden.clone()}


def _digest(entries: Mapping[str, Tensor]) -> Tensor:
    return torch.frombuffer(bytearray(digest(entries)), dtype=torch.uint8)


def load(state: TensorAttentionState, saved: Mapping[str, Tensor]) -> None:
    """Replace the tokens of a state by saved ones; this implements `load_state_dict`."""
    if not isinstance(saved, Mapping):
        raise ArgumentError("saved", expected="a mapping from names to tensors", got=type(saved).__name__)
    entries = {name: x for name, x in _entries(state).items() if name != "hidden"}
    if "configuration" in saved:  # compared first: a different configuration explains different shapes
        theirs = from_bytes(saved["configuration"])
        degree = _saved_degree(state, theirs)
        compare("saved", {**configuration(state), "degree": degree}, theirs)
        shape = (state.heads, math.comb(state.head_dim + degree, degree), state.value_dim + 1)
        entries |= {f"states.{m}": z.new_empty(shape, device="meta") for m, z in enumerate(state.held_states)}
    entries["digest"] = torch.empty(32, dtype=torch.uint8)
    check_entries(saved, {**entries, "hidden": state.hidden_counts()} if "hidden" in saved else entries)
    kept = [saved[f"states.{m}"][:, : state.plan.rank] for m in range(state.order - 1)]
    states = [z.detach().to(state.device, copy=True) for z in kept]
    tokens, roundings = ([int(x) for x in saved[name]] for name in ("tokens", "roundings"))
    largest = [float(x) for x in saved["largest"]]
    hidden = saved["hidden"].to(state.device, copy=True) if "hidden" in saved else None
    check_sums_of(state, "saved", states, StreamLedger(tokens, largest, roundings, hidden))
    if not torch.equal(saved["digest"].cpu(), _digest({name: x for name, x in saved.items() if name != "digest"})):
        raise ArgumentError("saved", expected="tensors that match their checksum", got="others")
    state.states, state.ledger = states, StreamLedger(tokens, largest, roundings, hidden)


def _saved_degree(state: TensorAttentionState, saved: Configuration) -> int:
    """The degree of the saved sums, if they can be loaded; otherwise the degree of the plan."""
    degree = saved.get("degree")
    if not (isinstance(degree, int) and is_whole(degree, low=state.plan.degree, high=LARGEST_DEGREE)):
        return state.plan.degree
    return degree if math.comb(state.head_dim + degree, degree) <= LARGEST_RANK else state.plan.degree


def configuration(state: TensorAttentionState) -> dict[str, object]:
    """The settings that decide which tokens are accepted, in which coordinates they are summed, and the error bound."""
    names = ("order", "head_dim", "value_dim", "bound", "tolerance", "scale", "norm")
    entries: dict[str, object] = {name: getattr(state, name) for name in names}
    entries["dtype"] = str(state.dtype).removeprefix("torch.")
    entries["batch_shape"] = list(state.batch_shape)
    entries["radius"], entries["degree"] = state.plan.radius, state.plan.degree
    entries["exponents"] = balanced_exponents(state.order, state.bound, state.scale)
    return entries


def check_sums_of(
    state: TensorAttentionState,
    argument: str,
    states: list[Tensor],
    ledger: StreamLedger,
) -> None:
    """Raise an `ArgumentError` if the sums cannot come from tokens that the state accepts."""
    exponents = balanced_exponents(state.order, state.bound, state.scale)
    sizes = [state.largest_token * 2.0**exponent for exponent in exponents[1:]]
    check_sums(argument, states, ledger, sizes, state.plan.index_set)


def as_bytes(configuration: Configuration) -> Tensor:
    """The configuration as the bytes (uint8) of its JSON.

    >>> bytes(as_bytes({"order": 3, "dtype": "float32"}).tolist())
    b'{"order": 3, "dtype": "float32"}'
    """
    return torch.tensor(list(json.dumps(configuration).encode()), dtype=torch.uint8)


def from_bytes(saved: object, name: str = "saved['configuration']") -> Configuration:
    """The configuration from its saved bytes; an `ArgumentError` about `name` if they are not a JSON object."""
    if not isinstance(saved, Tensor) or saved.dtype != torch.uint8 or saved.dim() != 1:
        raise ArgumentError(name, expected="a tensor of bytes", got=_kind(saved))
    try:
        configuration = json.loads(bytes(saved.tolist()))
    except (ValueError, RecursionError) as error:
        raise ArgumentError(name, expected="the bytes of a JSON text", got=f"invalid JSON: {error}") from error
    if not isinstance(configuration, dict):
        raise ArgumentError(name, expected="a JSON object", got=type(configuration).__name__)
    return configuration


def _kind(x: object) -> str:
    return f"shape {tuple(x.shape)} and {x.dtype}" if isinstance(x, Tensor) else type(x).__name__


def compare(argument: str, here: Configuration, there: Configuration) -> None:
    """Raise an `ArgumentError` that names the first entry in which two configurations differ."""
    for name in (*here, *there):
        mine, theirs = here.get(name), there.get(name)
        if mine != theirs:
            raise ArgumentError(argument, expected=f"a state with {name} = {mine}", got=f"{name} = {theirs}")


def check_entries(saved: Mapping[str, Tensor], here: Mapping[str, Tensor]) -> None:
    """Raise an `ArgumentError` unless the same names are saved, as tensors of the same dtype and shape.

    The configuration may have any length: its parsed entries are compared separately.
    """
    if set(saved) != set(here):
        raise ArgumentError("saved", expected=f"the entries {sorted(here)}", got=f"{sorted(saved)}")
    for name, mine in here.items():
        theirs = saved[name]
        kept = isinstance(theirs, Tensor) and theirs.dtype == mine.dtype
        if not kept or (theirs.shape != mine.shape and name != "configuration"):
            raise ArgumentError(f"saved['{name}']", expected=_kind(mine), got=_kind(theirs))


def check_sums(
    argument: str,
    states: Sequence[Tensor],
    ledger: StreamLedger,
    sizes: Sequence[float],
    index_set: IndexSet,
) -> None:
    """Raise an `ArgumentError` if the sums cannot come from this number of tokens with values of these magnitudes.

    The monomial of degree 0 is 1, so that its sum with the column of ones is the exact number of unmasked tokens. Any
    other sum is at most count * size^degree * |v|_max, with `sizes[m]` the largest coordinate of set m. Summing n
    numbers takes at least log2(n) roundings.
    """
    degrees, hidden = torch.from_numpy(index_set.degrees).to(torch.float64), ledger.hidden
    records = zip(states, ledger.tokens, ledger.largest, ledger.roundings, strict=True)
    for m, (Z, count, magnitude, steps) in enumerate(records):
        if count < 0:
            raise ArgumentError(f"{argument}['tokens'][{m}]", expected="a count >= 0", got=count)
        if not (0 <= magnitude < math.inf) or (count == 0 and magnitude):
            expected = "0, because there are no tokens" if count == 0 else "a finite magnitude >= 0"
            raise ArgumentError(f"{argument}['largest'][{m}]", expected=expected, got=magnitude)
        least = max(count - 1, 0).bit_length()
        if steps < least:
            expected = f"at least {least}, for {count} tokens"
            raise ArgumentError(f"{argument}['roundings'][{m}]", expected=expected, got=steps)
        name = f"{argument}['states.{m}']"
        if not truth(torch.isfinite(Z).all()):
            raise ArgumentError(name, expected="finite entries", got="NaN or infinity")
        if hidden is not None and truth(((hidden[m] < 0) | (hidden[m] > count)).any()):
            raise ArgumentError(
                f"{argument}['hidden'][{m}]", expected=f"counts from 0 to {count}", got=numbers(hidden[m])
            )
        wrong = Z[:, 0, -1] != (count if hidden is None else count - hidden[m])
        if truth(wrong.any()):
            seen = "as many as tokens" if hidden is None else "the number of unmasked tokens"
            expected = (
                f"{count if hidden is None else int((count - hidden[m])[wrong][0])} in the column of ones, {seen}"
            )
            raise ArgumentError(name, expected=expected, got=float(Z[:, 0, -1][wrong][0]))
        most = (count * (1 + 2.0**-20)) * (sizes[m] ** degrees).to(Z.device)
        beyond = truth((Z[..., -1].abs() > most).any() | (Z[..., :-1].abs().amax(-1) > most * magnitude).any())
        if beyond:
            expected = f"sums that {count} tokens with values up to {magnitude:.3g} can have"
            raise ArgumentError(name, expected=expected, got=f"entries up to {float(Z.abs().max()):.3g}")
