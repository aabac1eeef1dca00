"""The arithmetic of the benchmarks, and a run of each benchmark at a tiny size; no test depends on a time."""

from __future__ import annotations

import doctest
import json
import os
import re
import types
from functools import partial
from xml.etree import ElementTree

import pytest
import torch
import typer
from typer.testing import CliRunner

import benchmarks
from benchmarks import (
    Row,
    __main__,
    as_row,
    compiled,
    exact,
    figure,
    lengths,
    order_two,
    overhead,
    ranks,
    roofline,
    short,
    timing,
)
from separatrix import doctor
from separatrix.attention import reference
from separatrix.native import Native


@pytest.mark.parametrize("module", [benchmarks, __main__, figure])
def test_docstrings(module):
    done = doctest.testmod(module)
    assert done.attempted
    assert not done.failed


def test_ratio_and_target():
    assert Row("a", 3.0, "b", 2.0).ratio == 1.5
    assert Row("a", 3.0, "b", 2.0).reached is None
    assert Row("a", 3.0, "b", None, 1.0).ratio is None
    assert Row("a", 3.0, "b", None, 1.0).reached is None
    assert Row("a", 3.0, "b", 2.0, 1.5).reached is True
    assert Row("a", 3.0, "b", 2.0, 1.49).reached is False


def test_rows_of_a_name_and_two_times():
    row = Row("a", 3.0, "its peer", 2.0)
    assert as_row(row) is row
    assert as_row(types.SimpleNamespace(name="a", seconds=3.0, peer_seconds=2.0, ratio="whichever way")) == row


@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, 3), (100.0, 3), (25.0, 1)])
def test_alternating(monkeypatch, seconds, rounds):
    """The result is the best time of each function without the warm-up round; every other round is reversed."""
    now, calls = 0.0, []
    times = {"a": [1.0, 9.0, 7.0, 8.0], "b": [1.0, 6.0, 6.5, 5.0]}

    def function(name):
        nonlocal now
        now += times[name][min(calls.count(name), 3)]
        calls.append(name)

    monkeypatch.setattr(timing, "perf_counter", lambda: now)
    best = timing.alternate({name: partial(function, name) for name in times}, seconds=seconds, rounds=rounds)
    done = {(0.0, 3): 3, (100.0, 3): 8, (25.0, 1): 2}[seconds, rounds]  # 15 + 13.5 + 13 + 13 + ...
    assert calls == (["a", "b"] + ["a", "b", "b", "a"] * done)[: 2 * done + 2]
    assert best == {"a": 7.0, "b": 6.0 if done == 2 else 5.0}


def test_peak_bytes():
    unit = 1 << 20
    kept = []

    def work():
        first = torch.zeros(3 * unit, dtype=torch.uint8)
        second = torch.zeros(2 * unit, dtype=torch.uint8)
        del first, second
        kept.append(torch.zeros(4 * unit, dtype=torch.uint8))

    assert timing.peak_bytes(work) == 5 * unit


def test_the_kernels_measure_the_roofline(monkeypatch):
    """Half a second for the multiply-adds of 10^9 lanes, and a quarter for as many exponentials."""

    class Library:
        def separatrix_arithmetic(self, type, tasks, multiply_adds, powers):
            return 16

    one = 16 * 8 * torch.get_num_threads() * (1 << 20)
    times = {"multiply-adds": one / 2e9, "exponentials": one / 4e9}
    monkeypatch.setattr(roofline, "native", lambda: Native(Library(), "avx512", ""))
    monkeypatch.setattr(roofline, "alternate", lambda functions, seconds: times)
    monkeypatch.setattr(roofline, "_arithmetic", lambda library: library.separatrix_arithmetic)
    assert roofline.attention_seconds(10**9, 16) == pytest.approx(32 * 0.5 + 0.25)
    assert roofline.multiply_add_seconds(10**9, torch.float64) == pytest.approx(0.5)


def test_rooflines(monkeypatch):
    monkeypatch.setattr(roofline, "native", lambda: Native(None, "none", ""))
    monkeypatch.setattr(doctor, "roofline", lambda width, seconds: doctor.Roofline(width, 1, 1, gflops=8.0))
    assert roofline.attention_seconds(10**9, 16) == pytest.approx(4 * 16 / 8)
    assert roofline.multiply_add_seconds(10**9, torch.float64) is None
    called = []
    mm = torch.mm
    monkeypatch.setattr(torch, "mm", lambda x, y, out: called.append((x.shape, y.shape, x.dtype)) or mm(x, y, out=out))
    assert 0 < roofline.product_seconds(3, 4, 5, torch.float64, seconds=0.0) < float("inf")
    assert set(called) == {((3, 4), (4, 5), torch.float64)}


@pytest.mark.parametrize(("order", "n", "heads"), [(3, 1, 1), (3, 7, 2), (4, 3, 1), (4, 5, 2)])
def test_peers_compute_the_same(order, n, heads):
    query, keys, values = exact.draw(order, n, 3, heads)
    inputs = query.double(), [x.double() for x in keys], [x.double() for x in values]
    expected = reference.tensor_attention(*inputs)[0]
    peers = [exact.materialised, *(exact.in_blocks(block) for block in (1, 2 * n ** (order - 2), 10**6))]
    for peer in [*peers, *([exact.naive] if order == 3 else [])]:
        assert torch.allclose(peer(*inputs), expected, atol=1e-12)
    for ours, theirs in zip(
        exact.gradients(exact.sx.tensor_attention, inputs)(),
        exact.gradients(exact.materialised, inputs)(),
        strict=True,
    ):
        assert torch.allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize(
    ("order", "n", "blocks"), [(3, 256, {4096, 16384, 65536}), (3, 8, {64}), (4, 128, {16384, 65536})]
)
def test_each_blocked_peer_is_another(order, n, blocks):
    assert exact._blocked_peers(order, n).keys() == {f"{block} tuples a block" for block in blocks}


def test_the_memory_of_the_einsum():
    inputs = exact.draw(3, 64, 8)
    assert timing.peak_bytes(lambda: exact.naive(*inputs)) == pytest.approx(exact.naive_bytes(64, 8), rel=0.05)


@pytest.fixture
def small(monkeypatch):
    """The rows have the names of the sizes in the table; they are run for one round on tensors of a few numbers."""
    draw, alternate = exact.draw, timing.alternate
    monkeypatch.setattr(exact, "draw", lambda order, n, d, heads=1: draw(order, 4, 2, heads))
    monkeypatch.setattr(exact, "alternate", lambda functions, **_: alternate(functions, seconds=0.0, rounds=1))
    # The compiler of FlexAttention takes a minute.
    monkeypatch.setattr(exact, "flex", lambda n, is_causal: exact.masked_einsum if is_causal else exact.naive)
    monkeypatch.setattr(roofline, "native", lambda: Native(None, "none", ""))
    monkeypatch.setattr(doctor, "roofline", lambda width, seconds: doctor.Roofline(width, 1, 1, gflops=100.0))


@pytest.mark.usefixtures("small")
def test_the_table_of_exact_attention():
    rows = exact.rows()
    assert all(row.measured > 0 for row in rows)
    assert len({(row.name, row.peer) for row in rows}) == len(rows)
    assert all(row.peer_measured > 0 for row in rows if "n = 1024" not in row.name or row.peer != "einsum")
    for n in (256, 512, 1024):
        for d in (16, 32, 64):
            peers = {row.peer: row for row in rows if row.name == f"order 3, n = {n}, d = {d}"}
            assert peers.keys() == {"einsum", exact.MATERIALISED, exact.IN_BLOCKS, "roofline"}
            assert len({row.measured for row in peers.values()}) == 1
            assert (peers["einsum"].peer_measured is None) == (n == 1024)
            assert ("not run: it needs 12." in peers["einsum"].note) == (n == 1024)
            line = peers.pop("roofline")
            assert {row.at_most for row in peers.values()} == {1.0, 0.95 if n == 256 else exact._of_peers()}
            assert line.peer_measured == pytest.approx(4 * n**3 * d / 100e9)
            assert line.at_most == (None if n == 256 else pytest.approx(1 / 0.75))
    others = {(row.name, row.at_most, row.unit) for row in rows if not row.name.startswith("order 3, ")}
    assert others >= {
        ("order 3 causal, n = 512, d = 16", 0.4, "s"),
        ("order 3 causal, n = 512, d = 64", 0.4, "s"),
        ("order 3 forward + backward, n = 256, d = 64, 4 heads", 0.5, "s"),
        ("extra memory, order 3, n = 1024, d = 64", 1.0, "B"),
        ("order 3 causal, n = 8, d = 8, 256 heads", 0.95, "s"),
        ("order 3 forward + backward, n = 8, d = 8, 256 heads", 0.95, "s"),
        ("order 2 causal, n = 64, d = 64, 4 heads", 1.1, "s"),
        ("order 4, n = 128, d = 16", 0.95, "s"),
        ("order 3 causal forward + backward, n = 256, d = 64, 4 heads", 0.4, "s"),
        ("order 2, n = 1024, d = 64, 4 heads", 1.05, "s"),
    }


@pytest.fixture
def one_round(monkeypatch):
    alternate = timing.alternate
    for module in (overhead, short, order_two):
        monkeypatch.setattr(module, "alternate", lambda functions, **_: alternate(functions, seconds=0.0, rounds=1))


@pytest.mark.usefixtures("one_round")
def test_the_overhead_of_a_call(monkeypatch):
    monkeypatch.setattr(overhead, "REPEATED", 1)
    rows = list(overhead.rows())
    assert len(rows) == 2 + 2 * len(overhead.OPTIONS)
    assert [row.peer_measured for row in rows[::2]] == [60e-6, 40e-6, *[60e-6] * 5]
    assert [row.name for row in rows[:2]] == [f"order {k}, n = 8, d = 16, certified: a call" for k in (2, 3)]
    assert all(row.measured > 0 for row in rows)


@pytest.mark.usefixtures("one_round")
def test_the_worst_short_sequences_are_in_the_table(monkeypatch):
    def times(n, d, heads, is_causal, backward, seconds=0.0):
        return {exact.OURS: 1.0, exact.EINSUM: 4.0, exact.MATERIALISED: 2.0 if (d, heads) == (16, 32) else 3.0}

    monkeypatch.setattr(short, "LENGTHS", (3,))
    monkeypatch.setattr(short, "WIDTHS", (2, 3))
    monkeypatch.setattr(short, "HEADS", (1, 2))
    for row in short.rows():
        assert "the worst of 4: d = " in row.note
    monkeypatch.setattr(short, "WIDTHS", (8, 16))
    monkeypatch.setattr(short, "HEADS", (1, 32))
    monkeypatch.setattr(short, "times", times)
    rows = list(short.rows())
    assert [row.ratio for row in rows] == [0.5] * 4
    assert all("d = 16, 32 heads, fused attention, materialised; the median is 0.33" in row.note for row in rows)
    monkeypatch.setattr(short, "MOST_ENTRIES", 9 * 16)
    assert short.sizes(3) == [(8, 1), (16, 1)]


@pytest.mark.usefixtures("one_round")
def test_certified_attention_of_order_two(monkeypatch):
    methods = {"exact", "polynomial"}
    rows = order_two.rows_of(64, 4, True, methods)
    assert [row.peer for row in rows] == ["exact attention, no certificate", "the better method, certified"]
    assert [row.at_most for row in rows] == [1.05, 1.1]
    assert rows[0].measured == rows[1].measured > 0
    took = {"": 1.0, "auto": 3.0, "exact": 4.0, "polynomial": 1.5}
    monkeypatch.setattr(order_two, "alternate", lambda functions, **_: {name: took[name] for name in functions})
    methods = {"exact", "polynomial"}
    assert [row.ratio for row in order_two.rows_of(64, 4, False, methods)] == [3.0, 2.0]
    assert methods == {"polynomial"}


ROWS = [
    Row("quick", 0.002, "a | b", 0.004, 0.7),
    Row("slow", 2.0, "[red]", 1.0, 1.0, note="so"),
    Row("big", 3 << 20, "none", None, unit="B"),
]


@pytest.fixture
def invoke(monkeypatch, tmp_path):
    """Run the command on one benchmark, `fake`, in a separate folder and on a machine with the given load."""
    monkeypatch.setattr(
        __main__, "found", lambda: {"fake": types.SimpleNamespace(__doc__="Title.", rows=lambda: iter(ROWS))}
    )
    monkeypatch.setattr(__main__, "HERE", tmp_path)
    monkeypatch.setattr(__main__, "FIGURE", tmp_path / "figure.svg")
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    app = typer.Typer()
    app.command()(__main__.main)

    def call(*arguments, load=0.1):
        monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0))
        return CliRunner().invoke(app, [*arguments, "--output", str(tmp_path / "results")])

    return call


def only_result(folder):
    (file,) = folder.glob("results/*/fake.json")
    return file


def test_command_prints_and_saves(invoke, tmp_path):
    done = invoke("fake")
    assert done.exit_code == 0, done.output
    assert all(word in done.output for word in ("Title.", "quick", "2 ms", "0.5", "[red]", "NO", "3 MiB"))
    assert "not worth keeping" not in done.output
    saved = json.loads(only_result(tmp_path).read_text())
    assert saved["load"] == 0.1
    assert saved["machine"]["processor"] == dict(doctor.machine())["processor"]
    assert saved["machine"]["torch"] == torch.__version__
    assert [(row["ratio"], row["reached"]) for row in saved["rows"]] == [(0.5, True), (2.0, False), (None, None)]
    assert __main__.rows_of(saved) == ROWS


def test_a_busy_machine_is_reported(invoke, tmp_path):
    assert "The load average was 0.51 before the run" in invoke(load=0.51).output
    assert json.loads(only_result(tmp_path).read_text())["load"] == 0.51
    assert "not worth keeping" not in invoke(load=0.5).output


def test_unknown_name(invoke, tmp_path):
    done = invoke("fake", "fast")
    assert done.exit_code == 2
    assert "no benchmark is named ['fast']" in done.output
    assert not (tmp_path / "results").exists()


def test_tables_go_between_the_markers(invoke, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n\n{__main__.BEGIN}\nold\n{__main__.END}\n\nafter\n")
    assert invoke("--write-readme").exit_code == 0
    assert "No results are saved yet." in readme.read_text()
    invoke(load=3.0)
    assert invoke("--write-readme").exit_code == 0
    text = readme.read_text()
    assert text.startswith("before\n\n")
    assert text.endswith("\n\nafter\n")
    assert "old" not in text
    assert "No results" not in text
    assert f"## fake\n\nTitle.\n\n### {dict(doctor.machine())['processor']}\n\ncores: " in text
    assert "The load average was 3.00" in text
    assert (
        "\n| quick | 2 ms | a \\| b | 4 ms | 0.5 | 0.7 | yes |  |\n| slow | 2 s | [red] | 1 s | 2 | 1 | NO | so |\n"
        in text
    )
    assert __main__.with_tables(text, tmp_path / "results") == text
    assert invoke("fake", "--write-readme").exit_code == 2
    readme.write_text("no markers")
    assert invoke("--write-readme").exit_code == 2


@pytest.fixture
def short_curves(monkeypatch):
    alternate = timing.alternate
    monkeypatch.setattr(lengths, "LENGTHS", (4, 16))
    monkeypatch.setattr(lengths, "alternate", lambda functions, **_: alternate(functions, seconds=0.0, rounds=1))


@pytest.mark.usefixtures("short_curves")
def test_time_against_length_is_measured_and_drawn():
    rows = lengths.rows()
    drawn = figure.curves(rows, "not causal")
    assert drawn.keys() == figure.COLOURS.keys() - {"einsum with a mask"}
    assert [n for n, _ in drawn["exact"]] == [4, 16]
    assert "einsum with a mask" in figure.curves(rows, "causal")
    limits = {row.at_most for row in rows if row.name.startswith("auto")}
    assert limits == {1.1}
    root = ElementTree.fromstring(figure.svg(rows, "A <machine>".replace("<", "&lt;").replace(">", "&gt;")))
    assert len(root.findall(".//{*}polyline")) == len(drawn) + len(figure.curves(rows, "causal"))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_the_causal_peers_compute_the_same(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    query, keys, values = exact.draw(3, 7, 3)
    inputs = query.double(), [x.double() for x in keys], [x.double() for x in values]
    expected = reference.tensor_attention(*inputs, is_causal=True)[0]
    for peer in (exact.masked_einsum, exact.masked_materialised, exact.flex(7, True)):
        assert torch.allclose(peer(*inputs), expected, atol=1e-12)
    assert torch.allclose(exact.flex(7, False)(*inputs), exact.naive(*inputs), atol=1e-12)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # dynamo's own
def test_a_compiled_step_is_compared_with_an_eager_one():
    """The smallest case, without the code generator: one graph is counted."""
    row = compiled.row(compiled.Case("exact", 1, 4), seconds=0.0, backend="aot_eager")
    assert (row.name, row.peer, row.note) == ("step of training, exact, batch 1 x 4 tokens", "eager", "graphs: 1")
    assert row.ratio > 0


def test_ranks_and_their_times_are_saved_as_json(monkeypatch):
    """The settings include one with a plan now and earlier, with a plan at one time only, and with no plan."""
    monkeypatch.setattr(ranks, "LENGTH", 64)
    monkeypatch.setattr(ranks, "DIMENSIONS", (2, 4))
    monkeypatch.setattr(ranks, "times", partial(ranks.times, seconds=0.0))
    table = {(2, False, "uniform", 0.5, 0.01): (6, None), (3, True, "uniform", 40.0, 0.01): (15, None)}
    monkeypatch.setattr(ranks, "BY_RANGE", table | {(2, True, "normal", 0.5, 0.01): (10, 15)})
    rows = {row.name: row for row in ranks.rows()}
    json.dumps([row.measured for row in rows.values()], allow_nan=False)
    name = "order 2, uniform 0.5, d = 2, 0.01"
    assert rows[f"rank, {name}"].ratio == rows[f"rank, {name}"].measured / 6
    assert rows[f"time, {name}"].ratio > 0
    assert rows["rank, order 2, uniform 0.5, d = 4, 0.01"].ratio is None
    assert not any("40" in name for name in rows)
    assert (rows["settings with a plan"].measured, rows["settings with a plan"].peer_measured) == (4, 4)


def ranks_of_guide() -> dict[tuple[int, bool, str, float, float], list[int | None]]:
    """The ranks in the guide for each setting and for all of `ranks.DIMENSIONS`; None for "none"."""
    guide = (__main__.HERE.parent / "docs" / "guide" / "near-linear.md").read_text()
    line = r"^\| (0\.\d+) \| (\d)(, causal)? \| (uniform|normal)[ ,≤]+([\d.]+) \| (.+) \|$"
    table: dict[tuple[int, bool, str, float, float], list[int | None]] = {}
    for tolerance, order, causal, distribution, size, cells in re.findall(line, guide, re.MULTILINE):
        setting = int(order), bool(causal), distribution, float(size), float(tolerance)
        table[setting] = [None if cell == "none" else int(cell.replace(",", "")) for cell in cells.split(" | ")]
    return table


def test_the_guide_lists_the_recorded_ranks():
    """The guide has the recorded ranks; those at d = 4 are also planned again."""
    table = ranks_of_guide()
    assert table.keys() == ranks.BY_RANGE.keys()
    recorded = [json.loads(file.read_text())["rows"] for file in __main__.HERE.glob("results/*/ranks.json")]
    assert recorded
    for setting, ranks_of_setting in table.items():
        assert ranks.certified_rank(*setting, ranks.DIMENSIONS[0]) == ranks_of_setting[0], setting
        for rows in recorded:
            measured = {row["name"]: row["measured"] for row in rows}
            for d, rank in zip(ranks.DIMENSIONS, ranks_of_setting, strict=True):
                assert measured.get(f"rank, {ranks.name_of(setting, d)}") == rank, (setting, d)


def test_benchmarks_are_found():
    found = __main__.found()
    assert "exact" in found
    assert not {"timing", "roofline", "__main__"} & found.keys()


def test_the_readme_shows_the_saved_table():
    readme = __main__.HERE / "README.md"
    assert __main__.with_tables(readme.read_text(), __main__.HERE / "results") == readme.read_text()
