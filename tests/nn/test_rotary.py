"""Positions: the effect of rotations on scores of pairs and of tuples, and the relative embedding."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

import separatrix as sx
from separatrix import tensor_attention
from separatrix.nn import TensorAttention, rotary
from tests.draws import draw


def turned(x: Tensor, start: int) -> Tensor:
    """The usual rotary embedding of every vector, as complex numbers x_p + i x_{p + d/2}."""
    planes = x.shape[-1] // 2
    frequencies = 10000.0 ** (-torch.arange(planes, dtype=torch.float64) / planes)
    angles = torch.arange(start, start + x.shape[-2], dtype=torch.float64).unsqueeze(-1) * frequencies
    found = torch.complex(x[..., :planes], x[..., planes:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([found.real, found.imag], -1)


def scores(q: Tensor, keys: list[Tensor]) -> Tensor:
    """The sums sum_l q_il k_1,jl ... for all tuples."""
    letters = "abcd"[: len(keys)]
    return torch.einsum(f"il,{','.join(x + 'l' for x in letters)}->i{letters}", q, *keys)


def test_rotating_all_vectors_makes_scores_of_pairs_relative_and_of_triples_not():
    q, k1, k2 = draw(3, 5, 8)
    pairs = [scores(turned(q, s), [turned(k1, s)]) for s in (0, 1)]
    torch.testing.assert_close(*pairs, rtol=0, atol=1e-12)
    triples = [scores(turned(q, s), [turned(k1, s), turned(k2, s)]) for s in (0, 1)]
    assert (triples[0] - triples[1]).abs().max() > 1


@pytest.mark.parametrize(("speeds", "invariant"), [((1, 1), 2), ((1, 1, 1), 0), ((1, 1, 0), 4), ((1, 1, 1, 1), 6)])
def test_the_number_of_rotation_invariant_products_of_plane_vectors(speeds, invariant):
    """The average over all rotations projects on invariant forms; 16 angles average these frequencies exactly."""
    average = 0
    for step in range(16):
        form = torch.ones(1, 1, dtype=torch.float64)
        for speed in speeds:
            angle = torch.tensor(2 * math.pi * step * speed / 16, dtype=torch.float64)
            turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
            form = torch.kron(form, turn)
        average = average + form / 16
    assert int(torch.linalg.matrix_rank(average, atol=1e-9)) == invariant


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("d", [2, 6, 8])
def test_scores_are_the_formula_and_depend_on_distances_alone(order, d):
    vectors = draw(order, 4, d)
    sets, planes = order - 1, d // 2
    found = [
        scores(*_split([rotary(x, role, order, start=start) for role, x in enumerate(vectors)])) for start in (0, 321)
    ]
    torch.testing.assert_close(*found, rtol=0, atol=1e-11)
    q, *keys = ([[complex(v[p], v[p + planes]) for p in range(planes)] for v in x.tolist()] for x in vectors)
    for i, *js in itertools.product(range(4), repeat=order):
        total = 0.0
        for p in range(planes):
            owner, frequency = p % sets, 10000.0 ** (-(p // sets) / math.ceil(planes / sets))
            angle = frequency * (js[owner] - i)
            turn = complex(math.cos(angle), math.sin(angle))
            product = (q[i][p].conjugate() * keys[owner][js[owner]][p] * turn).real
            for m in range(sets):
                if m != owner:
                    product *= (keys[m][js[m]][p].real + keys[m][js[m]][p].imag) / math.sqrt(2)
            total += product
        assert found[0][(i, *js)].item() == pytest.approx(total, abs=1e-11)


def _split(vectors: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    return vectors[0], vectors[1:]


def test_every_distance_counts():
    """Shifting the positions of one key set changes the scores, for every set."""
    q, k1, k2 = draw(3, 5, 8)
    still = scores(rotary(q, 0, 3), [rotary(k1, 1, 3), rotary(k2, 2, 3)])
    for moved in ((1, 0), (0, 1)):
        keys = [rotary(k, m, 3, start=s) for m, (k, s) in enumerate(zip((k1, k2), moved, strict=True), 1)]
        assert (scores(rotary(q, 0, 3), keys) - still).abs().max() > 0.1


def test_at_order_2_it_is_the_usual_embedding():
    x = draw(3, 7, 8)
    for role in (0, 1):
        torch.testing.assert_close(rotary(x, role, 2, start=5), turned(x, 5), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_far_positions_keep_the_digits_of_the_type(dtype):
    x = draw(3, 4, 8).to(dtype)
    for role in (0, 1, 2):
        found, exact = (rotary(y, role, 3, start=10**6) for y in (x, x.double()))
        assert found.dtype == dtype
        assert (found.double() - exact).abs().max() <= 4 * torch.finfo(dtype).eps * x.abs().max()


@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_layer_is_attention_with_positions(order):
    layer = TensorAttention(12, 3, order, rotary=100.0, dtype=torch.float64)
    x = draw(2, 6, 12)
    q, keys, values = layer.project(x, x, x)
    placed = [rotary(key, m, order, base=100.0) for m, key in enumerate(keys, 1)]
    heads = tensor_attention(rotary(q, 0, order, base=100.0), placed, values, is_causal=True)
    expected = layer.out_proj(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x, is_causal=True), expected, rtol=0, atol=1e-12)
    later = layer(x[:, 4:], x, is_causal=True, query_offset=4)
    torch.testing.assert_close(later, expected[:, 4:], rtol=0, atol=1e-11)
    plain = TensorAttention(12, 3, order, dtype=torch.float64)
    plain.load_state_dict({**layer.state_dict(), "_extra_state": plain.get_extra_state()})
    assert (plain(x, is_causal=True) - expected).abs().max() > 1e-3


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("windows", [None, 3])
def test_the_layer_decodes_with_positions(order, windows):
    layer = TensorAttention(12, 6, order, rotary=10000.0, num_kv_heads=2, windows=windows, dtype=torch.float64)
    x = draw(2, 13, 12)
    cache = layer.cache(2)
    with torch.no_grad():
        parts = [layer.decode(x[:, a:b], cache) for a, b in ((0, 5), (5, 6), (6, 7), (7, 11), (11, 13))]
        whole = layer(x, is_causal=True)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-11)


def test_refused_arguments():
    for options, said in (
        ({"rotary": 0.0}, "rotary: expected a positive finite number"),
        ({"rotary": 100.0, "bound": 1.0}, "rotating a vector changes the norm that keeps the bound"),
        ({"rotary": 100.0, "num_heads": 4}, "None for an odd head_dim, 3"),
    ):
        with pytest.raises(sx.ArgumentError, match=said):
            TensorAttention(**{"embed_dim": 12, "num_heads": 3, **options})
    with pytest.raises(sx.ArgumentError, match=r"rotary = None, as in this layer, got weights with rotary = 100\.0"):
        TensorAttention(12, 3).load_state_dict(TensorAttention(12, 3, rotary=100.0).state_dict())
    with pytest.raises(sx.ArgumentError, match="role"):
        rotary(draw(3, 8), 3, 3)
    with pytest.raises(sx.ArgumentError, match="an even last dimension"):
        rotary(draw(3, 7), 0, 3)


def products_at_two_distances(batch: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Tokens have a number but no position; the target is the previous number times the third previous one."""
    number = torch.randn(batch, length, generator=generator)
    x = torch.cat([number.unsqueeze(-1), torch.ones(batch, length, 8), torch.zeros(batch, length, 23)], -1)
    return x, number[:, 2:-1] * number[:, :-3]


class TurnedAlike(TensorAttention):
    """All key sets rotated by the usual embedding, as for pairs."""

    def _exact(self, q, keys, values, **options):
        assert options["query_offset"] == 0
        q, *keys = (turned(x, 0).to(q.dtype) for x in (q, *keys))
        return super()._exact(q, keys, values, **options)


def test_it_learns_distances_and_keeps_them_at_other_lengths():
    def losses(made: type[TensorAttention], **options: object) -> list[float]:
        generator = torch.Generator().manual_seed(0)
        layer = made(32, 4, order=3, scale=1.0, windows=6, generator=generator, **options)
        adam = torch.optim.Adam(layer.parameters(), lr=1e-2)

        def loss(batch: int, length: int) -> Tensor:
            x, wanted = products_at_two_distances(batch, length, generator)
            return (layer(x, is_causal=True)[:, 3:, 0] - wanted).square().mean()

        for _ in range(200):
            adam.zero_grad()
            loss(16, 12).backward()
            adam.step()
        with torch.no_grad():
            return [loss(256, 12).item(), loss(128, 48).item()]

    # The variance of the target is 1. Absolute positions are learned in part, at the training lengths.
    assert max(losses(TensorAttention, rotary=10000.0)) < 0.02
    alike, further = losses(TurnedAlike)
    assert alike > 0.2
    assert further > 0.7
    assert min(losses(TensorAttention)) > 0.6
