"""Attention to a sharded sequence, on 2 and 4 ranks, against the same attention in one process.

Starting ranks takes seconds, so a group is started once: every rank runs all cases and saves its results, and the
parent process compares them.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import separatrix as sx
from separatrix.attention.call import check_call
from separatrix.attention.near_linear import cost
from separatrix.attention.near_linear.bounded_attention import bounded_attention
from separatrix.attention.near_linear.bounded_plan import expansion, plan_bounded
from separatrix.attention.near_linear.sums import states
from separatrix.attention.sharded import counted_communication, sharded_attention, sharded_exact_attention
from separatrix.attention.sharded.exact import merge
from separatrix.attention.streaming.operations import attend_after
from tests.ranks import start_ranks

D, D_V, BATCH = 3, 2, (2,)


@pytest.fixture(scope="module", autouse=True)
def _near_linear():
    """Use near-linear attention in one process too, even for a few tokens, for which exact attention is cheaper."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("separatrix.attention.near_linear.bounded_attention.exact_dtype", lambda *given: None)
        yield


@dataclass(frozen=True)
class Case:
    """The lengths of the shards of the query and of each key set; a causal call has one row for all."""

    name: str
    exact: bool
    order: int
    is_causal: bool
    lengths: tuple[tuple[int, ...], ...]
    dtype: torch.dtype = torch.float64
    scale: float | None = None
    norm: str = "entries"
    spread: float = 1.0
    chunk_bytes: int | None = None
    wanting: tuple[int, ...] | None = None

    def row(self, m):
        return self.lengths[m % len(self.lengths)]

    def tensors(self):
        """Query, keys and values of the whole sequence, and the factors of the output in the loss."""
        generator = torch.Generator().manual_seed(self.order)

        def uniform(m, width):
            return 2 * torch.rand(*BATCH, sum(self.row(m)), width, generator=generator, dtype=torch.float64) - 1

        sets = range(1, self.order)
        made = [self.spread * uniform(0, D), *(self.spread * uniform(m, D) for m in sets)]
        if self.norm == "order":
            made = [x / torch.linalg.vector_norm(x, self.order, dim=-1, keepdim=True) for x in made]
        made += [*(uniform(m, D_V) for m in sets), uniform(0, D_V)]
        return [x.to(self.dtype) for x in made]

    def shard(self, rank):
        sets = range(1, self.order)
        rows = [self.row(m) for m in (0, *sets, *sets, 0)]
        return [
            x[..., sum(row[:rank]) : sum(row[: rank + 1]), :].clone()
            for x, row in zip(self.tensors(), rows, strict=True)
        ]

    def run(self, tensors, group=None):
        query, keys, values = tensors[0], tensors[1 : self.order], tensors[self.order : -1]
        if self.exact:
            return sharded_exact_attention(query, keys, values, scale=self.scale, is_causal=self.is_causal, group=group)
        return sharded_attention(
            query,
            keys,
            values,
            bound=1.0,
            tolerance=1e-4,
            norm=self.norm,
            scale=self.scale,
            is_causal=self.is_causal,
            group=group,
        )

    def in_one_process(self, tensors):
        query, keys, values = tensors[0], tensors[1 : self.order], tensors[self.order : -1]
        if self.exact:
            return sx.tensor_attention(
                query, keys, values, scale=self.scale, is_causal=self.is_causal, return_lse=True
            )[0]
        state = sx.TensorAttentionState(
            self.order,
            D,
            D_V,
            bound=1.0,
            tolerance=1e-4,
            scale=self.scale,
            norm=self.norm,
            batch_shape=BATCH,
            dtype=self.dtype,
        )
        if self.is_causal:
            call = check_call(query, keys, values, scale=state.scale, is_causal=True)
            return bounded_attention(state.plan, call)
        state.append(keys, values)
        return state.attend(query)


def cases(count):
    uneven = {2: (7, 4), 4: (5, 0, 3, 9)}[count]
    rolled = tuple(uneven[m % count :] + uneven[: m % count] for m in range(4))
    none = (0,) * count
    seen = []
    for order in (2, 3, 4):
        seen += [
            Case(f"polynomial-{order}", False, order, False, rolled[:order]),
            Case(f"polynomial-{order}-causal", False, order, True, (uneven,)),
            Case(f"exact-{order}", True, order, False, rolled[:order]),
            Case(f"exact-{order}-causal", True, order, True, ((5,) * count,)),
        ]
    return [
        *seen,
        Case("polynomial-in-chunks", False, 3, True, ((33, 40, 0, 9)[:count],), chunk_bytes=1),
        Case("polynomial-order-norm", False, 3, False, rolled[:3], scale=1.0, norm="order"),
        Case("polynomial-float32", False, 3, False, rolled[:3], dtype=torch.float32),
        Case("polynomial-nothing-to-attend", False, 3, False, (uneven, uneven, none)),
        Case("polynomial-one-rank-wants-gradients", False, 3, False, rolled[:3], wanting=(1,)),
        Case("polynomial-one-rank-wants-gradients-causal", False, 2, True, ((4,) * count,), wanting=(1,)),
        Case("exact-one-rank-wants-gradients", True, 3, False, rolled[:3], wanting=(1,)),
        Case("exact-nothing-to-attend", True, 3, False, (uneven, uneven, none)),
        Case("exact-sharp", True, 3, True, ((4,) * count,), scale=40.0, spread=4.0),
        Case("exact-float32", True, 3, False, rolled[:3], dtype=torch.float32),
        Case("exact-bfloat16", True, 3, True, ((4,) * count,), dtype=torch.bfloat16),
    ]


def gradients_of(tensors, run, wants=True):
    """The output and the gradients of query, keys and values."""
    *leaves, weights = tensors
    leaves = [x.requires_grad_(wants) for x in leaves]
    out = run([*leaves, weights])
    if out.requires_grad:
        (out * weights).sum().backward()
    grads = [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]
    return [out.detach(), *grads]


REFUSED = ("far", "nan", "bound", "dtype", "lengths", "reach", "function")


def refused_call(name, rank, count):
    """A call for which every rank raises an error because of one rank's arguments."""
    query, key, value = (x[..., :3, :] for x in Case("", False, 2, False, ((9,) * count,)).shard(rank)[:3])
    bound = 1.0
    if name == "far" and rank == 1:
        key = key.clone()
        key[1, 2, 0] = 1.25
    if name == "nan" and rank == count - 1:
        query = query * math.nan
    if name == "bound" and rank == 1:
        bound = 0.99999
    if name == "dtype" and rank == 0:
        value = value.float()
    if name == "reach":
        bound = 1e3
    if name == "lengths":
        part = [x[..., : 3 - (rank == 1), :] for x in (query, key, value)]
        return sharded_exact_attention(*part, is_causal=True)
    if name == "function" and rank == 1:
        return sharded_exact_attention(query, key, value)
    return sharded_attention(query.clamp(-bound, bound), key, value, bound=bound, tolerance=1e-4)


def counted(case, rank):
    *leaves, weights = case.shard(rank)
    leaves = [x.requires_grad_() for x in leaves]
    with counted_communication() as sent:
        (case.run([*leaves, weights]) * weights).sum().backward()
    return {"bytes": sent.bytes, "calls": sent.calls}


COUNTED = {
    f"{'exact' if exact else 'polynomial'}-{order}-{is_causal}": (exact, order, is_causal)
    for exact in (False, True)
    for order in (2, 3)
    for is_causal in (False, True)
}


def work(rank, count, folder):
    """The function that every rank runs."""
    torch.set_num_threads(1)
    rendezvous, patience = f"file://{folder}/rendezvous", timedelta(hours=1)
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=count, timeout=patience)
    said = {"refused": {}, "counted": {}}
    for name in REFUSED:
        try:
            refused_call(name, rank, count)
        except sx.SeparatrixError as error:
            said["refused"][name] = f"{type(error).__name__}: {error}"
    seen = {}
    chunk_bytes = cost.CAUSAL_BYTES
    for case in cases(count):
        cost.CAUSAL_BYTES = case.chunk_bytes or chunk_bytes
        wants = case.wanting is None or rank in case.wanting
        for index, x in enumerate(gradients_of(case.shard(rank), case.run, wants)):
            seen[f"{case.name}.{index}"] = x.contiguous()
    cost.CAUSAL_BYTES = chunk_bytes
    for name, (exact, order, is_causal) in COUNTED.items():
        said["counted"][name] = [counted(Case("", exact, order, is_causal, ((n,) * count,)), rank) for n in (6, 24)]
    if count == 4:
        group = dist.new_group([1, 3])
        part = Case("", True, 3, True, ((5, 5),))
        try:
            out = part.run(part.shard(max(0, dist.get_rank(group))), group)
            seen["part"] = out.contiguous()
        except sx.ArgumentError as error:
            said["outside"] = str(error)
    save_file(seen, f"{folder}/{rank}.safetensors")
    with open(f"{folder}/{rank}.json", "w") as file:
        json.dump(said, file)
    dist.destroy_process_group()


def check_numbers(case, count, found):
    tensors = case.tensors()
    expected = gradients_of(tensors, case.in_one_process)
    sets = range(1, case.order)
    tolerance = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2e-2}[case.dtype]
    for index, (x, m) in enumerate(zip(expected, [0, 0, *sets, *sets], strict=True)):
        ranks = range(count) if case.wanting is None or index == 0 else case.wanting
        for rank in ranks:
            mine = slice(sum(case.row(m)[:rank]), sum(case.row(m)[: rank + 1]))
            assert found[rank][f"{case.name}.{index}"].dtype == case.dtype
            torch.testing.assert_close(
                found[rank][f"{case.name}.{index}"].double(), x[..., mine, :].double(), atol=tolerance, rtol=tolerance
            )


def check_refusals(count, said):
    last = count - 1
    expected = {
        "far": r"keys\[0\] on rank 1: expected entries of at most 1, .* got 1.25 at token 2",
        "nan": rf"query on rank {last}: expected entries of at most 1, .* got nan at token 0",
        "bound": r"bound: expected the same on every rank, 1.0 as on rank 0, got 0.99999 on rank 1",
        "dtype": r"values\[0\] on rank 0: expected the query's dtype torch.float64, got torch.float32",
        "lengths": r"query: expected the same length on every rank \(is_causal\), got lengths \[3, 2",
        "reach": r"SeparatrixError: On rank 0: bound: scores up to .* lower the bound",
        "function": r"function: expected the same on every rank, sharded_attention .* sharded_exact_attention on",
    }
    for name in REFUSED:
        sentences = {each["refused"].get(name) for each in said}
        assert len(sentences) == 1, sentences
        assert re.search(expected[name], sentences.pop()), said[0]["refused"][name]


def check_counts(name, count, said):
    exact, order, is_causal = COUNTED[name]
    for rank, each in enumerate(said):
        few, many = each["counted"][name]
        assert few["calls"] == many["calls"]
        if not exact:
            kind = "all_gather" if is_causal else "all_reduce"
            assert few == many
            # The report's numbers and text, then one barrier before and after each exchange; the causal exchange has a
            # sum between.
            assert few["calls"] == {"agreement": 8 if is_causal else 6, kind: 2}
            rank_of_plan = plan_bounded(order, D, (1 + 2.0**-52) ** order, 1e-4).rank
            heads = math.prod(BATCH)
            assert few["bytes"][kind] == 2 * (order - 1) * heads * rank_of_plan * (D_V + 1) * 8
            continue
        assert few["calls"]["send"] == 2 * (count - 1) + count, rank
        for kind in set(few["bytes"]) - {"agreement"}:
            assert many["bytes"][kind] == 4 * few["bytes"][kind]
        assert ("all_gather" in few["calls"]) == ("reduce_scatter" in few["calls"]) == (order > 2)
        assert few["bytes"]["agreement"] == many["bytes"]["agreement"]


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("count", [2, 4])
def test_ranks(count, tmp_path, subtests):
    start_ranks(work, count, str(tmp_path), count=count)
    found = [load_file(tmp_path / f"{rank}.safetensors") for rank in range(count)]
    said = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(count)]
    for case in cases(count):
        with subtests.test(case.name):
            check_numbers(case, count, found)
    with subtests.test("refusals"):
        check_refusals(count, said)
    for name in COUNTED:
        with subtests.test(f"counted {name}"):
            check_counts(name, count, said)
    if count == 4:
        with subtests.test("a part of the ranks"):
            case = Case("", True, 3, True, ((5, 5),))
            whole = case.in_one_process(case.tensors())
            parts = torch.cat([found[1]["part"], found[3]["part"]], -2)
            torch.testing.assert_close(parts, whole, atol=1e-12, rtol=0)
            assert "a group that contains this process" in said[0]["outside"] == said[2]["outside"]


@pytest.mark.parametrize("order", [2, 3])
def test_the_gradient_of_the_states_before(order, monkeypatch):
    """The derivatives of a shard of three chunks, by all tensors and by the states before it."""
    monkeypatch.setattr(cost, "CAUSAL_BYTES", 1)
    case = Case("", False, order, True, ((5, 17),))
    first, second = (case.shard(rank)[:-1] for rank in (0, 1))
    plan = plan_bounded(order, D, 1.0, 1e-1)
    expanded = expansion(plan, BATCH[0], 1 / D, torch.device("cpu"))
    before = states(check_call(first[0], first[1:order], first[order:], scale=1 / D), expanded)
    whole = [torch.cat(pair, 1) for pair in zip(first, second, strict=True)]
    call = check_call(whole[0], whole[1:order], whole[order:], scale=1 / D, is_causal=True)
    expected = bounded_attention(plan, call)

    def attend(*tensors):
        return attend_after(expanded, 1 / D, (), *tensors)

    leaves = [x.requires_grad_() for x in (*second, *before)]
    torch.testing.assert_close(attend(*leaves), expected[:, 5:], atol=1e-13, rtol=0)
    assert torch.autograd.gradcheck(attend, leaves, fast_mode=True)


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 4), min_size=2, max_size=4),
    largest=st.sampled_from([1.0, 700.0, 1e4]),
    seed=st.integers(0, 1000),
)
def test_merged_parts_are_the_whole(sizes, largest, seed):
    """Softmax over a list of scores, from its pieces: some are empty, and some have scores whose exp overflows."""
    generator = torch.Generator().manual_seed(seed)
    scores = largest * (2 * torch.rand(1, 3, sum(sizes), generator=generator, dtype=torch.float64) - 1)
    values = torch.rand(1, sum(sizes), 2, generator=generator, dtype=torch.float64)
    out, lse = torch.zeros(1, 3, 2, dtype=torch.float64), torch.full((1, 3), -math.inf, dtype=torch.float64)
    for s, v in zip(scores.split(sizes, 2), values.split(sizes, 1), strict=True):
        part = torch.softmax(s, -1) @ v
        out, lse = merge(out, lse, part, torch.logsumexp(s, -1))
    # A log-sum-exp up to `largest` is rounded in each of up to four parts and merges, and weights err by as much.
    rounding = 8 * largest * 2.0**-53
    torch.testing.assert_close(out, torch.softmax(scores, -1) @ values, atol=1e-14 + rounding, rtol=0)
    torch.testing.assert_close(lse, torch.logsumexp(scores, -1), atol=0, rtol=1e-14)


@pytest.mark.parametrize("function", [sharded_exact_attention, lambda *x: sharded_attention(*x, bound=1, tolerance=1)])
def test_without_a_process_group(function):
    x = torch.zeros(3, 2)
    with pytest.raises(sx.ArgumentError, match=r"group: expected an initialised process group"):
        function(x, x, x)
