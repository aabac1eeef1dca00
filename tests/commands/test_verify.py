"""`separatrix verify`: its output for a saved call, and its exit code."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import separatrix as sx
from separatrix.attention.checker import saved as saved_calls
from tests.commands.invoked import invoke
from tests.contracts.attention_contract import inputs


def saved(path: Path, *, broken: bool = False) -> Path:
    query, keys, values = inputs(3, 6, [6, 6])
    result = sx.certified_attention(query, keys, values, tolerance=0.1)
    result = replace(result, output=result.output + 1.0) if broken else result
    result.save(path, query, keys, values)
    return path


def test_a_certificate_that_held(tmp_path: Path) -> None:
    done = invoke("verify", saved(tmp_path / "good.safetensors"), "--queries", 5)
    assert done.exit_code == 0
    assert done.output.startswith("held, with margin ")
    assert "5 queries" in done.output


def test_a_broken_certificate(tmp_path: Path) -> None:
    done = invoke("verify", saved(tmp_path / "bad.safetensors", broken=True))
    assert done.exit_code == 1
    assert done.output.startswith("broken, the ")
    assert "from decimal import Decimal" in done.output


def test_a_file_that_is_not_a_saved_call(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no tensors")
    done = invoke("verify", tmp_path / "file")
    assert done.exit_code == 2
    assert "expected a file that Certified.save wrote" in " ".join(done.output.split())


def refused(path: Path) -> str:
    """The one-line error message of the command for a file that it refuses with exit code 2."""
    done = invoke("verify", path)
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 2
    [line] = done.stderr.splitlines()
    return line


def test_damaged_files_are_unreadable_and_not_broken(tmp_path: Path) -> None:
    """A truncated file, or one with changed bytes, does not give a verdict on a certificate."""
    data, path, draw = saved(tmp_path / "good").read_bytes(), tmp_path / "damaged", random.Random(0)
    for end in [*range(0, 16), *(draw.randrange(len(data)) for _ in range(40))]:
        path.write_bytes(data[:end])
        refused(path)
    unchanged = 0
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(draw.choice((1, 1, 4))):
            changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        done = invoke("verify", path)
        assert isinstance(done.exception, SystemExit), done.exception
        unchanged += done.exit_code == 0  # where the header has the same content in another form
        assert done.exit_code in (0, 2)
    assert unchanged < 20


def mutations(said: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Metadata with each entry replaced by an invalid value, or omitted."""
    odd: list[Any] = [None, True, -1, 0, 1e400, float("nan"), 2**70, "x", [], [None] * 3, ["x"], [0], {}, {"a": 1}]
    places = [(name,) for name in said] + [(part, name) for part in ("options", "certificate") for name in said[part]]
    for place in places:
        for value in [*odd, "left out"]:
            changed = json.loads(json.dumps(said))
            inner = changed
            for name in place[:-1]:
                inner = inner[name]
            if value == "left out":
                del inner[place[-1]]
            else:
                inner[place[-1]] = value
            yield f"{'.'.join(place)} = {value!r}", changed


def forged(path: Path, tensors: dict[str, torch.Tensor], said: dict[str, Any]) -> Path:
    """A maliciously constructed file with a matching digest."""
    tensors = {name: x.contiguous().clone() for name, x in tensors.items()}
    try:
        said = {**said, "digest": saved_calls._digest({k: v for k, v in said.items() if k != "digest"}, tensors)}
    finally:
        save_file(tensors, path, metadata={"separatrix": json.dumps(said)})
    return path


def test_forged_files_end_in_a_verdict_or_a_sentence(tmp_path: Path, subtests: pytest.Subtests) -> None:
    saved(tmp_path / "good")
    good = load_file(tmp_path / "good")
    entries, _ = saved_calls.header_entries((tmp_path / "good").read_bytes(), 10**6)
    said = json.loads(entries["__metadata__"]["separatrix"])
    cases = [(name, good, changed) for name, changed in mutations(said)]
    shapes = [(0,), (), (6,), (0, 3), (6, 0), (0, 0), (1, 6, 3), (6, 3, 1), (2**20, 0)]
    for name, tensor in good.items():
        other = {rest: x for rest, x in good.items() if rest != name}
        cases.append((f"without {name}", other, said))
        for shape in shapes:
            cases.append((f"{name} as {shape}", {**other, name: torch.zeros(shape, dtype=tensor.dtype)}, said))
        for dtype in (torch.bool, torch.int64, torch.uint8, torch.complex64, torch.float8_e4m3fn, torch.bfloat16):
            cases.append((f"{name} as {dtype}", {**other, name: tensor.to(dtype)}, said))
        for entry in (float("nan"), float("inf"), -1e308, 5e-324):
            cases.append((f"{name} full of {entry}", {**other, name: torch.full_like(tensor, entry)}, said))
    cases += [(f"a mask as {dtype}", {**good, "key_masks.1": torch.ones(6, dtype=dtype)}, said)
              for dtype in (torch.bool, torch.float32, torch.uint8)]  # fmt: skip
    without_d = {name: x[..., :0] if name in ("query", "keys.0", "keys.1") else x for name, x in good.items()}
    cases.append(("d = 0", without_d, said))
    codes: dict[int, int] = {}
    for name, tensors, changed in cases:
        with subtests.test(name):
            done = invoke("verify", forged(tmp_path / "forged", tensors, changed), "--queries", 2)
            assert isinstance(done.exception, SystemExit) or done.exit_code == 0, done.exception
            codes[done.exit_code] = codes.get(done.exit_code, 0) + 1
            if done.exit_code == 2:
                assert len(done.stderr.splitlines()) == 1
    assert set(codes) == {0, 1, 2}
    assert codes[2] > 200


def test_a_call_without_queries_is_not_held(tmp_path: Path) -> None:
    query, keys, values = inputs(3, 0, [6, 6])
    sx.certified_attention(query, keys, values, tolerance=0.1).save(tmp_path / "none", query, keys, values)
    assert "expected one query or more, got none" in refused(tmp_path / "none")


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "a pipe, a folder or a device, not a file" in refused(tmp_path / "pipe")
    assert "a pipe, a folder or a device, not a file" in refused(tmp_path)


def sparse(path: Path, good: Path, name: str, entries: int) -> Path:
    """A saved call whose tensor of this name has this number of float64 zeros, which take no space on disk."""
    data = good.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
    header[name] = {"dtype": "F64", "shape": [entries], "data_offsets": [len(rest), len(rest) + 8 * entries]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + rest)
        file.truncate(8 + len(text) + len(rest) + 8 * entries)
    return path


def test_a_file_that_is_larger_than_memory(tmp_path: Path) -> None:
    """Forty gigabytes of tensors are refused before any is loaded, and not loaded if the call does not need them."""
    good = saved(tmp_path / "good")
    assert "bytes of tensors; sx.verify takes tensors of any size" in refused(
        sparse(tmp_path / "large", good, "per_query", 5 * 10**9)
    )
    assert invoke("verify", sparse(tmp_path / "other", good, "unknown", 5 * 10**9)).exit_code == 0
