"""Uploaded files: which are planned, and which are refused with an error message before they are parsed."""

from __future__ import annotations

import base64
import io
import json
import pickle
import signal
import struct
import subprocess
import sys
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from torch import Tensor

import separatrix as sx
from separatrix.errors import SeparatrixError
from separatrix.explorer.compute import plan_process, upload
from separatrix.explorer.context import UPLOAD_BYTES
from separatrix.tensor_files import HEADER_BYTES


def draw(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return (2 * torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) - 1).to(dtype)


def file(**tensors: Tensor) -> bytes:
    return save(tensors)


def raw(header: Any, data: bytes = b"") -> bytes:
    """A file with an arbitrary header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


GOOD = file(q=draw(64, 4), k1=draw(64, 4, seed=1), k2=draw(48, 4, seed=2))
ABSURD = {"dtype": "F32", "shape": [2**31, 2**31], "data_offsets": [0, 0]}

BAD = {
    "nothing": (b"", "got 0 bytes"),
    "noise": (b"no tensors in here, only words", "a file that does not begin with the length of a header"),
    "pickle": (pickle.dumps({"q": [1.0]}), "pickle, which is never opened"),
    "zip": (b"PK\x03\x04" + bytes(100), "pickle, which is never opened"),
    "huge header": (struct.pack("<Q", 2**63) + b"{", "a file that does not begin with the length of a header"),
    "long header": (struct.pack("<Q", HEADER_BYTES + 1) + b"{" + bytes(HEADER_BYTES), "a file whose header has 65,537"),
    "cut header": (GOOD[:40], "ends inside its header"),
    "cut data": (GOOD[:-40], "too short for its tensors"),
    "no JSON": (raw(b"{nothing}"), "not JSON"),
    "no UTF-8": (raw(b"{\xff\xfe"), "not JSON"),
    "deep": (raw(b'{"q":' + b"[" * 60_000), "not JSON"),
    "long number": (raw(b'{"q":' + b"1" * 60_000 + b"}"), "not JSON"),
    "a list": (raw(b"[1]"), "without its header"),
    "no tensors": (raw({"__metadata__": {"format": "pt"}}), "got nothing"),
    "wrong names": (file(query=draw(4, 2), key=draw(4, 2)), "tensors q, k1, k2, ... up to k5, got key, query"),
    "no keys": (file(q=draw(4, 2)), "got q"),
    "many keys": (file(q=draw(4, 2), **{f"k{m}": draw(4, 2) for m in range(1, 7)}), "tensors q, k1, k2, ... up to k5"),
    "some values": (file(q=draw(4, 2), k1=draw(4, 2), k2=draw(4, 2), v2=draw(4, 2)), "all of v1, v2 or none"),
    "integers": (file(q=draw(4, 2).long(), k1=draw(4, 2)), "q: expected one of float16"),
    "two dtypes": (file(q=draw(4, 2).double(), k1=draw(4, 2)), "one dtype, got q float64, k1 float32"),
    "one dimension": (file(q=draw(4), k1=draw(4, 2)), "q: expected a shape"),
    "empty": (file(q=draw(4, 2), k1=draw(4, 2)[:0]), "k1: expected a shape"),
    "another d": (file(q=draw(4, 2), k1=draw(4, 3)), "k1: expected a last dimension of 2"),
    "absurd shape": (raw({"q": ABSURD, "k1": ABSURD}), "too short for its tensors"),
    "no shape": (raw({"q": 1, "k1": 2}), "without dtype or shape"),
    "strange shape": (raw({"q": {"dtype": "F32", "shape": [True, -1]}, "k1": 2}), "q: expected a shape"),
    "strange dtype": (raw({"q": {"dtype": ["F32"] * 99, "shape": [1, 1]}, "k1": 2}), "q: expected one of float16"),
    "many heads": (file(q=draw(300, 1, 2), k1=draw(300, 1, 2)), "heads times d up to 512"),
    "many heads together": (file(q=draw(32, 1, 1, 2), k1=draw(1, 32, 1, 2)), "got 1024 times 2"),
    "wide values": (file(q=draw(2, 1, 2), k1=draw(2, 1, 2), v1=draw(2, 1, 300)), "got 2 times 300"),
    "other heads": (
        file(q=draw(2, 4, 2), k1=draw(3, 4, 2)),
        "heads that broadcast against each other, got q [2, 4, 2]",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_a_sentence_and_never_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it was read"))
    data, sentence = BAD[name]
    with pytest.raises(SeparatrixError) as refused:
        upload.planned_file(data, 1e-3)
    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 400


@given(st.binary(max_size=400) | st.binary(max_size=200).map(lambda data: raw(b"{" + data)))
@settings(max_examples=150)
def test_any_bytes_are_refused_in_a_sentence(data: bytes) -> None:
    with pytest.raises(SeparatrixError):
        upload.header(data)


shapes = st.lists(st.integers(-1, 3), max_size=4)
tensors = st.fixed_dictionaries({"dtype": st.sampled_from(["F32", "F16", "I8", 3]), "shape": shapes})


@given(st.dictionaries(st.sampled_from(["q", "k1", "k2", "v1", "x"]), tensors | st.none()), st.binary(max_size=64))
@settings(max_examples=150)
def test_any_header_is_taken_or_refused_in_a_sentence(named: dict[str, Any], data: bytes) -> None:
    try:
        found = upload.header(raw(named, data))
    except SeparatrixError:
        return
    assert {"q", "k1"} <= set(found.tensors) <= set(named)


def contents(data: bytes) -> str:
    return "data:application/octet-stream;base64," + base64.b64encode(data).decode()


def test_uploads_of_a_browser_are_decoded() -> None:
    assert upload.decoded(contents(GOOD)) == GOOD


@pytest.mark.parametrize(
    "sent", [None, 7, ["a"], "", "no comma", "data:text/plain,abc", "data:;base64,%%%%", "data:;base64,é"]
)
def test_uploads_that_no_browser_sends_are_refused(sent: object) -> None:
    with pytest.raises(SeparatrixError, match="file: expected"):
        upload.decoded(sent)


def test_a_big_file_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = contents(bytes(UPLOAD_BYTES))
    assert len(upload.decoded(exact)) == UPLOAD_BYTES
    with pytest.raises(SeparatrixError, match="at most 16 MiB"):
        upload.decoded(contents(bytes(UPLOAD_BYTES + 1)))
    monkeypatch.setattr(base64, "b64decode", lambda *_, **__: pytest.fail("it was decoded"))
    with pytest.raises(SeparatrixError, match=r"at most 16 MiB, got 16\.0 MiB|got 17"):
        upload.decoded(contents(bytes(UPLOAD_BYTES + 2**20)))


def test_the_plan_of_a_file_is_the_librarys() -> None:
    """The planning process gives the plan of the library for a file with values and extra tensors."""
    names = ("q", "k1", "k2", "v1", "v2")
    given_ = {name: draw(2, 256, 4, dtype=torch.float64, seed=at) for at, name in enumerate(names)}
    found = upload.planned_file(file(**given_, other=draw(3).to(torch.int8)), 1e-4)
    plan = sx.plan_attention(given_["q"], [given_["k1"], given_["k2"]], [given_["v1"], given_["v2"]], tolerance=1e-4)
    for name in ("method", "degree", "rank", "index_set", "predicted_error", "flops", "bytes", "why"):
        assert found[name] == getattr(plan, name)
    assert (found["order"], found["values"], found["shapes"]["q"]) == (3, True, [2, 256, 4])
    assert found["bound"] == max(float(given_[name].abs().max()) for name in ("q", "k1", "k2"))


def test_signs_replace_missing_values() -> None:
    query, key = draw(64, 4), draw(64, 4, seed=1)
    found = plan_process.answer(file(q=query, k1=key), 1e-3)
    signs = plan_process.stand_in(key)
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert (signs.amax(0) - signs.amin(0)).tolist() == [2.0] * 4
    assert found["predicted_error"] == sx.plan_attention(query, key, signs, tolerance=1e-3).predicted_error
    assert found["values"] is False


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_float_dtype_is_accepted(dtype: torch.dtype) -> None:
    found = plan_process.answer(file(q=draw(32, 4, dtype=dtype), k1=draw(32, 4, dtype=dtype)), 0.1)
    assert found["method"] == "exact"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["q", "k2"])
def test_nan_and_infinity_are_refused(name: str, value: float) -> None:
    given_ = {one: draw(8, 4) for one in ("q", "k1", "k2")}
    given_[name][3, 1] = value
    assert plan_process.answer(file(**given_), 1e-3) == {
        "refused": f"{name}: expected finite numbers, got NaN or infinity."
    }


def test_false_sizes_in_a_valid_header_are_refused() -> None:
    """Overlapping offsets pass our check of the header, but not the safetensors reader."""
    told = {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]}
    answer = plan_process.answer(raw({"q": told, "k1": told}, bytes(8)), 1e-3)
    assert "cannot be read" in answer["refused"]


def test_errors_of_the_planner_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise SeparatrixError("It is out of reach.")

    monkeypatch.setattr(plan_process, "plan_attention", refuse)
    assert plan_process.answer(GOOD, 1e-3) == {"refused": "It is out of reach."}


@pytest.mark.parametrize("length", [0x80, 0x280, 0x580, 0x4B50])
def test_a_header_as_long_as_a_pickle_begins_is_read(length: int) -> None:
    told = {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]}
    named = {"q": told, "k1": {**told, "data_offsets": [4, 8]}}
    text = json.dumps(named, separators=(",", ":")).encode().ljust(length)
    assert len(text) == length
    assert upload.header(raw(text, bytes(8))).order == 2


def test_planning_has_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: Any, timeout: float, **__: Any) -> Any:
        raise subprocess.TimeoutExpired("plan_process", timeout)

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(SeparatrixError, match="more than 20 seconds and was ended"):
        upload.planned_file(GOOD, 1e-3)
    assert upload._ONE.acquire(blocking=False), "the next file would have to wait for ever"
    with pytest.raises(SeparatrixError, match="Another file is being planned"):
        upload.planned_file(GOOD, 1e-3)
    upload._ONE.release()


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not enforce the limit")
def test_planning_has_a_limited_time_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result does not depend on the load of the machine, because the limit is on CPU time."""
    code = "from separatrix.explorer.compute import plan_process as p; p.SECONDS = 0; p.limit()\nwhile True: pass"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGXCPU
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    with pytest.raises(SeparatrixError, match="more than 20 seconds and was ended"):
        upload.planned_file(GOOD, 1e-3)


def test_a_bug_of_the_planner_is_not_shown_as_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = subprocess.CompletedProcess([], 1, b"", b"Traceback: it broke")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: broken)
    with pytest.raises(RuntimeError, match="it broke"):
        upload.planned_file(GOOD, 1e-3)


@pytest.mark.parametrize(
    ("q", "k1", "entries"),
    [((1, 3 * 2**20, 1), (64, 2, 1), 64 * (3 * 2**20 + 2)), ((512, 1, 1), (1, 2**20, 1), 512 * (2**20 + 1))],
)
def test_large_broadcasts_are_refused_before_they_are_made(q: Any, k1: Any, entries: int) -> None:
    """The heads of a file of 12 MB, broadcast against each other, once took 4 GB in the process that planned it."""
    data = file(q=torch.zeros(q, dtype=torch.float16), k1=torch.zeros(k1, dtype=torch.float16))
    with pytest.raises(SeparatrixError, match=f"once their heads are broadcast against each other, got {entries:,}"):
        upload.header(data)
    largest = torch.zeros(2**20 - 8, 4, dtype=torch.float16)
    assert upload.header(file(q=largest, k1=largest.clone())).order == 2


@pytest.mark.skipif(sys.platform != "linux", reason="no other system keeps to the limit")
def test_the_process_that_plans_has_limited_memory() -> None:
    """A process that allocates twice its limit, by Python or by torch, reports this in its error message."""
    script = (
        "import torch; from separatrix.explorer.compute import plan_process\nasks = {'python': lambda *_: "
        "bytearray(2**31), 'torch': lambda *_: torch.zeros(2**31, dtype=torch.uint8)}\nfor name, ask in "
        "asks.items():\n    plan_process.answer = ask\n    print(plan_process.main(1.0) == {'refused': "
        "plan_process.TOO_MUCH})\ntorch.zeros(2**28, dtype=torch.uint8)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], input="", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\nTrue\n"), done.stderr


def test_other_errors_of_torch_are_not_taken_for_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(plan_process, "answer", fails)
    monkeypatch.setattr(plan_process, "limit", lambda: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        plan_process.main(1e-3)
