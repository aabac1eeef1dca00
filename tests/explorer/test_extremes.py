"""Extreme but valid values: the page computes them with bounded time and memory."""

from __future__ import annotations

import random
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from separatrix.explorer.app import make_app
from separatrix.explorer.compute import fields as compute_fields
from separatrix.explorer.compute import sample_certificate
from separatrix.explorer.compute.plan_table import PlanSettings
from separatrix.explorer.fields import Field
from separatrix.explorer.separate import figures as separate_figures
from separatrix.explorer.separate import probabilities
from separatrix.explorer.tabs import NAMES, tabs
from separatrix.separation import extended, radicals, self_attention
from separatrix.written_numbers import spell
from tests.explorer.reader import Reader

SECONDS, MEGABYTES = 2.0, 256


def ends(field: Field) -> list[str]:
    """The texts at the ends of a field's range, and its default."""
    if field.choices:
        return [value for value, _ in field.choices]
    if field.scale is None:
        return [field.default]
    low, high = (Decimal(end) for end in (field.scale.low, field.scale.high))
    texts = [spell(int(end)) if end == int(end) else f"{end:.12f}".rstrip("0") for end in (low, high)]
    return [field.default, *(text if len(text) < 50 else "10^100" for text in texts)]


def test_a_sample_is_small_at_every_end() -> None:
    values = {field.name: [field.read(text) for text in ends(field)] for field in compute_fields.FIELDS}
    for n in values["n"]:
        for d in values["d"]:
            for k in values["k"]:
                tokens = sample_certificate.tokens(PlanSettings(n, d, 1.0, k, 1e-3))
                assert 1 <= tokens <= min(n, 1024)
                assert tokens**k * d <= 1e8


@pytest.mark.parametrize("weights", ["ones", "identity"])
def test_a_curve_at_the_largest_n_computes_no_long_powers(weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the largest n, n^e has 30,000 bits, and no setting needs all of them."""
    for cached in (self_attention._mixture, radicals.power):
        cached.cache_clear()
    bits: list[int] = []
    exp = extended.libmp.mpf_exp
    monkeypatch.setattr(extended.libmp, "mpf_exp", lambda x, prec, *rest: bits.append(prec) or exp(x, prec, *rest))
    values: dict[str, Any] = {"weights": weights, "mechanism": "softmax", "n": 10**100, "d": 102, "m": 15}
    values |= {"a0": Decimal("4.9"), "a1": Decimal("3.268"), "b": Decimal("4.7"), "c": Decimal("4.99")}
    probabilities.look(values)
    separate_figures.along([values], "c")
    assert bits
    assert max(bits) < 2048


def inside(field: Field, chance: random.Random) -> str:
    """A random text in a field's range, or at an end of it."""
    if field.choices or field.scale is None or chance.random() < 0.4:
        return chance.choice(ends(field))
    low, high = field.scale.low, field.scale.high
    value = low * (high / low) ** chance.random() if field.scale.log else chance.uniform(low, high)
    return str(int(value)) if field.scale.step == "1" else f"{Decimal(f'{value:.3g}'):f}"


def memory(kind: str) -> int:
    """VmRSS or VmHWM of this process, in kilobytes."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith(kind)))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.skipif(sys.platform != "linux", reason="the most memory a request took is read from /proc")
@pytest.mark.parametrize("name", NAMES)
def test_every_request_has_bounded_time_and_memory(name: str, tmp_path: Path) -> None:
    """400 views of each tab, with one setting and two, at random values and at the ends; CPU time, not wall time."""
    page = tabs()[name]
    client = make_app(tmp_path, pages={name: page}).server.test_client()
    state: dict[str, str] = {}

    def post(sent: dict[str, Any]) -> dict[str, Any]:
        Path("/proc/self/clear_refs").write_text("5")  # the recorded peak is reset
        before, begun = memory("VmRSS"), time.process_time()
        answer = client.post("/_dash-update-component", json=sent)
        assert answer.status_code in (200, 204)
        said = f"{sent['output'][:60]} at {state}"
        assert time.process_time() - begun < SECONDS, said
        assert memory("VmHWM") - before < MEGABYTES * 1024, said
        return answer.get_json() if answer.status_code == 200 else {}

    dependencies, frame = client.get("/_dash-dependencies").get_json(), client.get("/_dash-layout").get_json()

    def unwatched(sent: dict[str, Any]) -> dict[str, Any]:
        return client.post("/_dash-update-component", json=sent).get_json() or {}

    Reader(dependencies, frame, unwatched).open(f"?tab={name}")  # imports, timings and caches that happen once
    view = Reader(dependencies, frame, post)
    chance = random.Random(0)
    for turn in range(400):
        state = {field.name: inside(field, chance) for field in page.FIELDS}
        if page.COMPARES and turn % 2:
            state |= {f"{field.name}.2": inside(field, chance) for field in page.FIELDS if not field.shared}
        view.open(f"?{urlencode({'tab': name, **state})}")
