"""Score forms: the pairwise form factorised against the product form, and all forms against public packages.

`strassen-attention` and `simplicial-attention` are optional, and compared only if they are installed. Their outputs
must agree with ours to the rounding of float32. In strassen-attention the scale divides only queries, not the products
of two keys, so our call has scale 1 and queries that are already scaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import torch
from torch import Tensor

import separatrix as sx
from benchmarks import Row
from benchmarks.timing import alternate

Call = Callable[..., Tensor]


def draw(heads: int, n: int, d: int) -> list[Tensor]:
    return list(torch.randn(5, 1, heads, n, d, generator=torch.Generator().manual_seed(0)))


def factorised(tensors: list[Tensor], scale: float, is_causal: bool) -> Tensor:
    q, k1, k2, v1, v2 = tensors
    return sx.forms.pairwise_attention(q, [k1, k2], [v1, v2], scale=scale, is_causal=is_causal)


def mapped(tensors: list[Tensor], scale: float, is_causal: bool, form: str = "pairwise") -> Tensor:
    q, k1, k2, v1, v2 = tensors
    factors = getattr(sx.forms, form)(q, [k1, k2])
    return sx.tensor_attention(*factors, [v1, v2], scale=scale, is_causal=is_causal)


def gradients(attend: Call, tensors: list[Tensor], scale: float, is_causal: bool) -> tuple[Tensor, ...]:
    leaves = [x.clone().requires_grad_() for x in tensors]
    return torch.autograd.grad(attend(leaves, scale, is_causal).square().sum(), leaves)


def of_product_form(n: int, d: int, *, seconds: float = 5.0) -> Iterator[Row]:
    """The factorised algorithm against a product form of dimension 3 d with the same scores."""
    tensors, scale = draw(1, n, d), d**-0.5
    for causality, is_causal in (("", False), (", causal", True)):
        name, peer, call = f"pairwise, n = {n}, d = {d}{causality}", "product form", (tensors, scale, is_causal)
        best = alternate({"ours": partial(factorised, *call), "theirs": partial(mapped, *call)}, seconds=seconds)
        yield Row(name, best["ours"], peer, best["theirs"], None if is_causal else 0.5)
        functions = {"ours": partial(gradients, factorised, *call), "theirs": partial(gradients, mapped, *call)}
        best = alternate(functions, seconds=seconds)
        yield Row(f"{name}, with gradients", best["ours"], peer, best["theirs"])


def of_packages(n: int, d: int, *, seconds: float = 5.0) -> Iterator[Row]:
    """Every form against the package that has it, if it is installed."""
    tensors, scale = draw(2, n, d), d**-0.5
    q, k1, k2, v1, v2 = tensors
    if find_spec("strassen_attention"):
        strassen = import_module("strassen_attention.strassen_attention").strassen_attend
        calls = partial(factorised, [q * scale, *tensors[1:]], 1.0, True), partial(strassen, *tensors, causal=True)
        yield _compared("pairwise", "strassen-attention", *calls, n, d, seconds)
    if find_spec("simplicial_attention"):
        simplicial = import_module("simplicial_attention.simplicial_attention").naive_two_simplicial_attend
        for name, signed in (("product", False), ("determinant", True)):
            options = {"causal": True, "use_signed_determinant": signed}
            calls = partial(mapped, tensors, scale, True, name), partial(simplicial, q, (k1, k2), (v1, v2), **options)
            yield _compared(name, "simplicial-attention", *calls, n, d, seconds)


def _compared(name: str, peer: str, ours: Call, theirs: Call, n: int, d: int, seconds: float) -> Row:
    difference = (ours() - theirs()).abs().max().item()
    if not difference <= 1e-4:
        raise AssertionError(f"{name}: {peer} differs by {difference}")
    best = alternate({"ours": ours, "theirs": theirs}, seconds=seconds)
    note = f"outputs differ by 2^{math.log2(max(difference, 2**-126)):.0f}"
    return Row(f"{name}, n = {n}, d = {d}, causal, two heads", best["ours"], peer, best["theirs"], note=note)


def rows() -> Iterator[Row]:
    yield from of_product_form(512, 64)
    yield from of_packages(128, 48)
