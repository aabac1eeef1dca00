"""Saved calls."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import separatrix as sx
from separatrix.attention.checker.saved import load_call
from tests.contracts.attention_contract import inputs


def saved(path, *, dtype=torch.float32, **options):
    query, keys, values = inputs(3, 6, [6, 6])
    query, keys, values = query.to(dtype), [keys[0].to(dtype)] * 2, [x.to(dtype) for x in values]
    result = sx.certified_attention(query, keys, values, tolerance=0.1, **options)
    result.save(path, query, keys, values, **options)
    return result


OPTIONS = [
    {},
    {"is_causal": True, "scale": 0.3},
    {"windows": [3, None], "is_causal": True, "query_offset": 1},
    {"key_masks": [torch.arange(6) % 3 > 0, None], "method": "polynomial"},
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", OPTIONS)
def test_a_saved_call_is_loaded(tmp_path, options, dtype):
    options = {name: value for name, value in options.items() if name != "method"}
    result = saved(tmp_path / "call.safetensors", dtype=dtype, **options)
    loaded = load_call(tmp_path / "call.safetensors")
    assert torch.equal(loaded.output, result.output)
    assert torch.equal(loaded.lse, result.lse)
    assert torch.equal(loaded.certificate.per_query, result.certificate.per_query)
    assert (loaded.certificate.total, loaded.certificate.lse) == (result.certificate.total, result.certificate.lse)
    verification = loaded.verify()
    assert verification.held, verification
    assert verification == sx.verify(result, *loaded.arguments, **options)


def test_grouped_heads_are_saved(tmp_path):
    query, keys, values = torch.rand(4, 3, 2), torch.rand(2, 5, 2), torch.rand(2, 5, 2)
    result = sx.certified_attention(query, keys, values, tolerance=0.1, enable_gqa=True)
    result.save(tmp_path / "call.safetensors", query, keys, values, enable_gqa=True)
    assert load_call(tmp_path / "call.safetensors").verify(100).queries == 12


def test_files_that_are_not_saved_calls(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(sx.ArgumentError, match=r"file: expected a file that Certified.save wrote"):
        load_call(path)
    path.write_bytes(b"no tensors")
    with pytest.raises(sx.ArgumentError, match=r"file: expected a file that Certified.save wrote"):
        load_call(path)
    save_file({"query": torch.ones(2)}, path)
    with pytest.raises(sx.ArgumentError, match=r"one without 'separatrix' in its metadata"):
        load_call(path)
    save_file({"query": torch.ones(2)}, path, metadata={"separatrix": json.dumps({"format": 7})})
    with pytest.raises(sx.ArgumentError, match=r"expected format 2, got format 7"):
        load_call(path)
    said = {"format": 2, "sets": 2, "certificate": {}, "options": {}}
    save_file({"query": torch.ones(2)}, path, metadata={"separatrix": json.dumps(said)})
    with pytest.raises(sx.ArgumentError, match=r"one whose metadata are incomplete"):
        load_call(path)
    saved(path)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    del tensors["values.1"]
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(sx.ArgumentError, match=r"one without 'values.1'"):
        load_call(path)


def test_a_tensor_that_was_changed_does_not_fit_the_digest(tmp_path):
    path = tmp_path / "file"
    saved(path)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    save_file(tensors, path, metadata=metadata)
    load_call(path)
    tensors["values.1"].view(torch.int32)[0, 0] ^= 1
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(sx.ArgumentError, match=r"expected content that matches its checksum, got another in "):
        load_call(path)
