"""`sx.verify` finds every error, and raises no false alarm, for every kind of call that the operators take."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.checker import check, deciding
from separatrix.attention.checker.problem import exact_floats
from tests.contracts.attention_contract import inputs

TYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def promised(output, bound):
    return torch.full(output.shape[:-1], bound, dtype=torch.float64)


def check_reference(query, keys, values, *, bound=1e-13, off=0.0, queries=1000, **options):
    """Check the reference output, with `off` added to one entry, against the bound."""
    output, lse = reference.tensor_attention(query, keys, values, **options)
    output.view(-1)[-1] += off
    return check(
        output, promised(output, bound), query, keys, values, lse=lse, lse_bound=bound, queries=queries, **options
    )


CALLS = {
    "order 2": ((2, 4, [5]), {}),
    "order 3": ((3, 4, [5, 3]), {"scale": -0.7}),
    "order 5": ((5, 2, [2, 3, 1, 2]), {}),
    "causal": ((3, 6, [6, 6]), {"is_causal": True}),
    "offset": ((3, 3, [7, 5]), {"is_causal": True, "query_offset": 2}),
    "negative offset": ((2, 5, [5]), {"is_causal": True, "query_offset": -3}),
    "windows": ((3, 6, [6, 4]), {"windows": [2, None]}),
    "windows and offset": ((3, 6, [8, 9]), {"windows": [3, 1], "is_causal": True, "query_offset": 1}),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_reference_is_confirmed_and_its_neighbour_is_not(name):
    shape, options = CALLS[name]
    call = inputs(*shape)
    verification = check_reference(*call, **options)
    assert verification.held, verification
    assert 0 < verification.margin < 1
    assert verification.queries == math.prod(call[0].shape[:-1])
    wrong = check_reference(*call, off=2e-13, **options)
    assert not wrong.held
    assert wrong.what == "output"
    assert wrong.worst == tuple(size - 1 for size in call[0].shape[:-1])


def test_masks_broadcast_and_hide_keys():
    query, keys, values = inputs(3, 4, [5, 6], batch=(2, 3))
    masks = [torch.rand(3, 5, generator=torch.Generator().manual_seed(0)) < 0.6, None]
    hidden = keys[0].clone()
    hidden[(~masks[0]).expand(2, 3, 5)] = math.nan
    output, lse = reference.tensor_attention(query, keys, values, key_masks=masks)
    verification = check(
        output, promised(output, 1e-13), query, [hidden, keys[1]], values, lse=lse, lse_bound=1e-13, key_masks=masks
    )
    assert verification.held, verification
    masks[0] = ~masks[0]
    wrong = check(output, promised(output, 1e-13), query, keys, values, key_masks=masks)
    assert not wrong.held


def test_leading_dimensions_that_broadcast():
    query, _, _ = inputs(3, 4, [5, 6], batch=(2, 1))
    _, keys, values = inputs(3, 4, [5, 6], batch=(3,))
    assert check_reference(query, keys, values).held
    assert not check_reference(query, [keys[0].flip(0), keys[1]], values, off=1e-12).held


def test_grouped_heads():
    query, _, _ = inputs(3, 4, [5, 6], batch=(2, 6))
    _, keys, values = inputs(3, 4, [5, 6], batch=(2, 3))
    verification = check_reference(query, keys, values, enable_gqa=True)
    assert verification.held, verification
    output, _ = reference.tensor_attention(query, keys, values, enable_gqa=True)
    turned = [key.roll(1, -3) for key in keys]
    assert not check(output, promised(output, 1e-3), query, turned, values, enable_gqa=True).held


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_is_read_exactly(dtype):
    x = torch.tensor([[1.1, -(2.0**-14), 6e-8], [3.0, 2.0**-24, -0.0]]).to(dtype)
    assert exact_floats(x).tolist() == [[float(y) for y in row] for row in x]


def test_subnormal_numbers_are_read_in_a_mode_that_makes_them_zeros():
    """The key 2^-130, subnormal in float32, decides between two values."""
    query, key, value = (
        torch.tensor([[2.0**100]]),
        torch.tensor([[2.0**-130], [2.0**-127]]),
        torch.tensor([[1.0], [-1.0]]),
    )
    score = 2.0**-3 - 1.0  # the weight of one tuple over the other
    output = torch.tensor([[math.tanh(score / 2)]], dtype=torch.float64)
    options = {"scale": 2.0**27, "queries": 1}
    assert torch.set_flush_denormal(True)
    try:
        verification = check(output, promised(output, 1e-12), query, key, value, **options)
        zeros = check(0 * output, promised(output, 1e-2), query, key, value, **options)
        assert math.ulp(0.0) * 2 == 0.0  # the mode is unchanged
    finally:
        torch.set_flush_denormal(False)
    assert verification.held
    assert not zeros.held


def test_subnormal_outputs_and_certificates_are_read_in_that_mode_too():
    x = torch.tensor([[2.0**-130]])
    bound = torch.tensor([2.0**-1060], dtype=torch.float64)
    certificate = SimpleNamespace(per_query=bound, total=1.0, lse=1e-6)
    result = SimpleNamespace(output=x, lse=torch.zeros(1), certificate=certificate)
    wrong = SimpleNamespace(output=2 * x, lse=torch.zeros(1), certificate=certificate)
    assert torch.set_flush_denormal(True)
    try:
        found = [sx.verify(one, x, x, x) for one in (result, wrong)]
    finally:
        torch.set_flush_denormal(False)
    assert [one.held for one in found] == [True, False]
    assert found[1].certificate == 2.0**-1060


def certified(dtype=torch.float64, method="polynomial", **options):
    query, keys, values = inputs(3, 6, [7, 7])
    query, keys, values = query.to(dtype), [x.to(dtype) for x in keys], [x.to(dtype) for x in values]
    result = sx.certified_attention(query, keys, values, tolerance=0.1, method=method, **options)
    return result, (query, keys, values)


@pytest.mark.parametrize("method", ["polynomial", "exact"])
@pytest.mark.parametrize("dtype", TYPES)
def test_certified_calls_hold(method, dtype):
    result, call = certified(dtype, method)
    verification = sx.verify(result, *call)
    assert verification.held, verification
    assert 0 < verification.margin <= 1
    assert str(verification).startswith(f"held, with margin {verification.margin:.3g} (the ")
    assert str(verification).endswith(": 12 queries were recomputed")


def with_certificate(result, **changed):
    return replace(result, certificate=replace(result.certificate, **changed))


BREAKS = {
    "output": lambda r: replace(r, output=r.output + 1.0),
    "lse": lambda r: replace(r, lse=r.lse + 1.0),
    "per_query": lambda r: with_certificate(r, per_query=r.certificate.per_query * 0),
    "total": lambda r: with_certificate(r, total=0.0),
    "lse bound": lambda r: with_certificate(r, lse=0.0),
    "NaN output": lambda r: replace(r, output=r.output * math.nan),
    "infinite output": lambda r: with_certificate(replace(r, output=r.output / 0), total=math.inf),
    "NaN lse": lambda r: replace(r, lse=r.lse * math.nan),
    "infinite lse": lambda r: replace(r, lse=r.lse - math.inf),
    "NaN certificate": lambda r: with_certificate(r, per_query=r.certificate.per_query * math.nan),
}


@pytest.mark.parametrize("name", BREAKS)
def test_broken_results_are_found(name):
    result, call = certified()
    verification = sx.verify(BREAKS[name](result), *call)
    assert not verification.held
    assert verification.margin > 1
    assert str(verification).startswith("broken, the ")


def test_a_nan_output_is_among_the_checked_queries():
    result, call = certified()
    output = result.output.clone()
    output[1, 3, 1] = math.nan
    verification = sx.verify(replace(result, output=output), *call, queries=1)
    assert (verification.held, verification.worst, verification.fault) == (False, (1, 3), "the output is not finite")


@pytest.mark.parametrize("queries", [1, 2, 16])
@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (math.nan, "the log-sum-exp is NaN"),
        (math.inf, "the log-sum-exp is inf"),
        (-math.inf, "the log-sum-exp is -inf"),
    ],
)
def test_a_log_sum_exp_that_cannot_be_right_is_found_wherever_it_is(wrong, fault, queries):
    query, keys, values = inputs(3, 300, [4, 5])
    result = sx.certified_attention(query, keys, values, tolerance=1e-6)
    assert sx.verify(result, query, keys, values, queries=queries).held
    lse = result.lse.clone()
    lse[..., 37] = wrong
    verification = sx.verify(replace(result, lse=lse), query, keys, values, queries=queries)
    assert not verification.held
    assert verification.worst[-1] == 37
    assert verification.fault == fault


def test_a_nonzero_output_with_lse_minus_infinity_is_found_at_any_query():
    """All queries but the last attend nothing; one of them has a nonzero output, and only that query is checked."""
    query, keys, values = inputs(2, 300, [300])
    options = {"is_causal": True, "query_offset": -299}
    result = sx.certified_attention(query, keys, values, tolerance=1e-6, **options)
    output = result.output.clone()
    output[..., 37, :] = 1e-3
    verification = sx.verify(replace(result, output=output), query, keys, values, queries=3, **options)
    assert (verification.held, verification.worst[-1]) == (False, 37)
    assert verification.fault == "the query attends no tuple, but its output is not zero"


def test_nothing_to_attend():
    query, keys, values = inputs(2, 3, [4])
    mask = torch.zeros(4, dtype=torch.bool)
    result = sx.certified_attention(query, keys, values, tolerance=1e-3, key_masks=[mask])
    assert sx.verify(result, query, keys, values, key_masks=mask).held
    for wrong in (replace(result, output=result.output + 1e-300), replace(result, lse=torch.zeros_like(result.lse))):
        verification = sx.verify(wrong, query, keys, values, key_masks=mask)
        assert not verification.held
        assert "the query attends no tuple" in str(verification)


def test_no_queries_at_all():
    query, keys, values = inputs(2, 0, [4])
    result = sx.certified_attention(query, keys, values, tolerance=1e-3)
    assert str(sx.verify(result, query, keys, values)) == "nothing was recomputed: there are no queries"


@pytest.mark.parametrize("what", ["output", "lse"])
def test_the_reproducer_runs_and_shows_it(what, capsys):
    result, call = certified(torch.float32)
    result = replace(result, **{what: getattr(result, what) + 1.0})
    verification = sx.verify(result, *call)
    assert verification.what == what
    exec(compile(verification.reproducer, "reproducer", "exec"), {})
    printed = capsys.readouterr().out
    assert printed == f"the error is {verification.error:.6g}, and the certificate {verification.certificate:.6g}\n"
    assert str(verification).endswith(verification.reproducer.rstrip())


def test_a_long_call_has_no_reproducer_but_instructions():
    query, keys, values = inputs(2, 1, [3000])
    output, _ = reference.tensor_attention(query, keys, values)
    verification = check(output + 1, promised(output, 1e-3), query, keys, values)
    assert "Certified.save" in verification.reproducer


def test_which_queries_are_recomputed():
    query, keys, values = inputs(2, 100, [4], batch=())
    output, _ = reference.tensor_attention(query, keys, values)
    bounds = promised(output, 1.0)
    bounds[37], bounds[71] = 2.0, 0.5

    def moved(output, at):
        return output + 3.0 * (torch.arange(100) == at).unsqueeze(-1)

    for at in (0, 37, 71, 99):
        verification = check(moved(output, at), bounds, query, keys, values, queries=8)
        assert (verification.held, verification.worst, verification.queries) == (False, (at,), 8)
    chosen = [i for i in range(100) if not check(moved(output, i), bounds, query, keys, values, queries=8).held]
    assert len(chosen) == 8
    assert max(b - a for a, b in itertools.pairwise(chosen)) < 40


def test_precision_increases_until_the_ball_is_narrow(monkeypatch):
    """Scores near 2^100 take 159 bits before scaling: with 128 bits only 28 are after the binary point."""
    large, scale = 2.0**50 / 3, 1.1
    query, key = torch.tensor([[large, 1.0]]).double(), torch.tensor([[large, 1.0], [large, 0.0]]).double()
    query[0, 0] = key[:, 0] = large
    value = torch.tensor([[1.0], [0.0]]).double()
    output = torch.tensor([[1 / (1 + math.exp(-scale))]], dtype=torch.float64)
    assert check(output, promised(output, 1e-15), query, key, value, scale=scale).held
    bound = 2.0**-20  # decided in the first round, by a ball of about 2^-8 of the bound
    margin = check(output + bound / 2, promised(output, bound), query, key, value, scale=scale).margin
    assert abs(margin - 0.5) < 2.0**-18
    monkeypatch.setattr(deciding, "_BITS", (64, 72))
    with pytest.raises(sx.SeparatrixError, match=r"query \(0,\) cannot be decided with 72 bits"):
        check(output, promised(output, 1e-15), query, key, value, scale=scale)


def many_tuples(monkeypatch, limit=500):
    """Check every query with more than this number of tuples by an expansion."""
    monkeypatch.setattr(deciding, "TUPLES", limit)
    used = []
    right = deciding.attend_expansion
    monkeypatch.setattr(deciding, "attend_expansion", lambda *given: used.append(given) or right(*given))
    return used


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"windows": [60, 25]}, {"scale": -0.4}])
def test_beyond_all_tuples(options, monkeypatch):
    used = many_tuples(monkeypatch)
    query, keys, values = inputs(3, 60, [60, 60], batch=())
    query = query * 0.3
    method = "polynomial"
    if "windows" in options:  # the certificate of float32 is large enough for an expansion
        method, query, keys, values = "exact", query.float(), [x.float() for x in keys], [x.float() for x in values]
    result = sx.certified_attention(query, keys, values, tolerance=1e-5, method=method, **options)
    exact, _ = reference.tensor_attention(
        query.double(), [x.double() for x in keys], [x.double() for x in values], **options
    )
    verification = sx.verify(result, query, keys, values, queries=60, **options)
    assert verification.held, verification
    assert used
    ratios = (result.output - exact).abs().amax(-1) / result.certificate.per_query
    outputs = check(result.output, result.certificate.per_query, query, keys, values, queries=60, **options)
    assert float(ratios.max()) - 1e-6 <= outputs.margin <= float(ratios.max()) + 2.0**-5
    broken = replace(result, output=result.output + 1.02 * result.certificate.per_query.unsqueeze(-1))
    assert not sx.verify(broken, query, keys, values, queries=60, **options).held


def test_an_expansion_out_of_reach_is_an_error(monkeypatch):
    many_tuples(monkeypatch)
    query, keys, values = inputs(3, 3, [40, 40], batch=())
    output, _ = reference.tensor_attention(query, keys, values, scale=200.0)
    with pytest.raises(sx.SeparatrixError, match=r"tuples, and an expansion of degree 23 does not decide it"):
        check(output, promised(output, 1e-12), query, keys, values, scale=200.0)
    monkeypatch.setattr(deciding, "FLOPS", 1.0)
    with pytest.raises(sx.SeparatrixError, match=r"more than 500 tuples, and an expansion would take too long"):
        check(output, promised(output, 1e-12), query, keys, values)


def test_heads_of_one_key_set_are_summed_once(monkeypatch):
    used = many_tuples(monkeypatch)
    query, _, _ = inputs(3, 2, [40, 40], batch=(4,))
    _, keys, values = inputs(3, 2, [40, 40], batch=(2,))
    query = query * 0.1
    assert check_reference(query, keys, values, enable_gqa=True, bound=1e-9).held
    assert len(used) == 2


BAD = {
    "queries": {"queries": 0},
    "keys": {"keys": ()},
    "values": {"values": [torch.zeros(7, 2)]},
    "keys[1]": {"keys": [torch.zeros(7, 4), torch.zeros(7, 3)]},
    "values[1]": {"values": [torch.zeros(7, 2), torch.zeros(6, 2)]},
    "query": {"query": torch.zeros(6, 4, dtype=torch.int64)},
    "key_masks[0]": {"key_masks": [torch.ones(7), None]},
    "key_masks[1]": {"key_masks": [None, torch.ones(2, 7, dtype=torch.bool)]},
    "windows[1]": {"windows": [None, 0]},
    "windows": {"windows": [1]},
    "scale": {"scale": math.inf},
    "result": {"query": torch.zeros(5, 4)},
    "query, keys, values": {"query": torch.zeros(2, 6, 4), "keys": [torch.zeros(3, 7, 4)] * 2},
    "keys[0]": {"keys": [torch.full((7, 4), math.nan)] * 2},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named(name):
    call = {"query": torch.zeros(6, 4), "keys": [torch.zeros(7, 4)] * 2, "values": [torch.zeros(7, 2)] * 2}
    output = torch.zeros(6, 2)
    with pytest.raises(sx.ArgumentError) as refused:
        check(output, promised(output, 1.0), **(call | BAD[name]))
    assert refused.value.argument == name


def test_results_of_another_shape_are_refused():
    query, keys, values = inputs(2, 3, [4], batch=())
    output, lse = reference.tensor_attention(query, keys, values)
    for given in (
        {"bounds": torch.ones(4)},
        {"lse": lse[:2]},
    ):
        with pytest.raises(sx.ArgumentError, match="result"):
            check(output, query=query, keys=keys, values=values, **({"bounds": torch.ones(3)} | given))


def test_without_the_extra_a_sentence_says_so(forked):
    code = (
        "import sys; sys.modules['flint'] = None; import torch, separatrix as sx; x = torch.ones(2, 1); "
        "r = sx.certified_attention(x, x, x, tolerance=0.1); r.save(sys.argv[1], x, x, x)\n"
        "try: sx.verify(r, x, x, x)\nexcept sx.SeparatrixError as error: print(error)"
    )
    done = forked(code, "saved.safetensors")
    assert done.stdout == "verify needs python-flint, which is not installed: pip install 'separatrix[verify]'\n"


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("d", [4, 8])
def test_a_million_tokens(d):
    """Order 3: sixteen correct queries of 10^12 pairs each pass, and one with an error of 1.5 certificates fails."""
    x = 2 * torch.rand(5, 1_000_000, d, generator=torch.Generator().manual_seed(0)) - 1
    call = x[0], [x[1], x[2]], [x[3], x[4]]
    result = sx.certified_attention(*call, tolerance=1e-5)
    verification = sx.verify(result, *call)
    assert verification.held, verification
    assert verification.queries == 16
    output = result.output.clone()
    output[-1] += 1.5 * result.certificate.per_query[-1]
    wrong = sx.verify(replace(result, output=output), *call)
    assert (wrong.held, wrong.worst) == (False, (999_999,))
    assert 1.4 < wrong.margin < 1.6


@pytest.mark.parametrize("result", [torch.zeros(2, 3), None, (torch.zeros(2, 3), torch.zeros(2))])
def test_a_result_without_a_certificate_is_refused(result):
    x = torch.zeros(2, 3)
    with pytest.raises(sx.errors.ArgumentError, match="result: expected what certified_attention returned"):
        sx.verify(result, x, x, x)
