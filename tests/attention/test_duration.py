"""The warning before a call that will take more than a minute, from constants that ship with the source."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest
import torch

from separatrix.attention import duration
from separatrix.attention.call import Call, Positions
from separatrix.attention.exact import plain_tuples
from separatrix.attention.forms import factorised, pairwise_attention
from separatrix.attention.operator import certified_attention, tensor_attention
from separatrix.errors import LongCallWarning


def call_of(length: int, *, d: int = 64, is_causal: bool = False, window: int | None = None) -> Call:
    x = torch.empty(1, 1, d).expand(1, length, d)
    return Call(x, (x, x), (x, x), (), Positions(is_causal, 0, (window, window)), 1 / d)


def test_a_long_call_warns_once_with_the_estimate_and_alternatives() -> None:
    with pytest.warns(LongCallWarning) as caught:
        duration.warn_if_long(call_of(20_000))
    (warning,) = caught
    message = str(warning.message)
    assert "order 3 over 20000 queries and [20000, 20000] keys" in message
    assert f"about {duration.estimated_seconds(call_of(20_000)) / 3600:.1f} hours" in message
    assert all(word in message for word in ("windows", "is_causal", "tolerance", "Ctrl-C"))


def test_it_does_not_suggest_options_of_the_call() -> None:
    with pytest.warns(LongCallWarning) as caught:
        duration.warn_if_long(call_of(20_000, is_causal=True, window=10_000))
    message = str(caught[0].message)
    assert "is_causal" not in message
    assert "windows" not in message
    assert "tolerance" in message


@pytest.mark.parametrize("call", [call_of(500), call_of(20_000, window=50)], ids=["short", "windows"])
def test_a_call_of_less_than_a_minute_does_not_warn(call: Call) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        duration.warn_if_long(call)


def test_causality_visits_a_third_of_the_tuples() -> None:
    whole, causal = (duration.estimated_seconds(call_of(5000, is_causal=causal)) for causal in (False, True))
    assert causal == pytest.approx(whole / 3)


def test_all_public_calls_warn_at_the_line_of_their_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duration, "MINUTE", 0.0)
    monkeypatch.setattr(plain_tuples, "FEW_PRODUCTS", 0)
    x = torch.randn(5, 6, 4)
    for attend in (
        lambda: tensor_attention(x[0], [x[1], x[2]], [x[3], x[4]]),
        lambda: certified_attention(x[0], [x[1], x[2]], [x[3], x[4]], tolerance=1.0, method="exact"),
        lambda: pairwise_attention(x[0], [x[1], x[2]], [x[3], x[4]]),
    ):
        with pytest.warns(LongCallWarning) as caught:
            attend()
        assert [warning.filename for warning in caught] == [__file__]


def test_the_factorised_pairwise_form_warns_by_its_own_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(5, 128, 2)
    call = call_of(20_000)
    assert 0.1 < factorised._estimated_seconds(call) / duration.estimated_seconds(call) < 0.5
    monkeypatch.setattr(duration, "MINUTE", 0.0)
    monkeypatch.setattr(factorised, "exact_attention", None)  # the product form does not run
    with pytest.warns(LongCallWarning) as caught:
        pairwise_attention(x[0], [x[1], x[2]], [x[3], x[4]])
    assert [warning.filename for warning in caught] == [__file__]


def test_no_long_call_takes_the_path_without_checks() -> None:
    wide = torch.empty(1, 1, 8192).expand(1, 1900, 8192)
    call = Call(wide, (wide, wide), (wide, wide), (), Positions(False, 0, (None, None)), 1 / 8192)
    assert duration.estimated_seconds(call) > duration.MINUTE
    assert not plain_tuples._sharing_heads((wide,) * 5, 2, False)
    few = wide[..., :4]
    assert plain_tuples._sharing_heads((few,) * 5, 2, False)


def test_tracing_a_graph_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    call = call_of(20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setattr(duration, "needs_numbers_alone", lambda tensors: False)
        duration.warn_if_long(call)
        monkeypatch.undo()
        on_gpu = SimpleNamespace(tensors=call.tensors, query=torch.empty(1, device="meta"))
        duration.warn_if_long(on_gpu)  # type: ignore[arg-type]  # what is estimated is a CPU
