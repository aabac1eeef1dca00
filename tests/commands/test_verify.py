"""`separatrix verify`: what it says of a saved call, and its exit code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import separatrix as sx
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


def test_a_file_that_is_no_saved_call(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no tensors")
    done = invoke("verify", tmp_path / "file")
    assert done.exit_code == 2
    assert "expected a file that Certified.save wrote" in " ".join(done.output.split())
