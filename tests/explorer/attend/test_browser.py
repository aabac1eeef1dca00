"""The tab Attend in a real browser: the example, a file, a bad file, and a phone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from separatrix.explorer.attend import tab as attend_tab
from tests.explorer.visit import DESKTOP, PHONE, Visit, wait_for_state


@pytest.fixture(scope="module")
def address(browser: Any, serve: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    return serve(tmp_path_factory.mktemp("results"), pages={"attend": attend_tab})


def drawn(page: Any) -> None:
    page.locator("figure[data-name=attend] .heatmaplayer image").first.wait_for(state="attached")


def tensors() -> dict[str, torch.Tensor]:
    draws = torch.randn(3, 2, 20, 4, generator=torch.Generator().manual_seed(0))
    return {name: x.contiguous() for name, x in zip(("q", "k1", "k2"), draws, strict=True)}


def test_a_file_takes_the_place_of_the_example(browser: Any, address: str, tmp_path: Path) -> None:
    path, bad = tmp_path / "mine.safetensors", tmp_path / "bad.safetensors"
    path.write_bytes(save(tensors()))
    bad.write_bytes(b"these are words, and no tensors")
    with Visit(browser, address, **DESKTOP) as page:
        page.locator("#attend-top .comparison", has_text="of the example").wait_for()
        drawn(page)
        assert page.locator("#attend-example").is_visible()
        page.locator("#attend-file input[type=file]").set_input_files(path)
        page.locator("#attend-top .comparison", has_text="query 5 of mine.safetensors").wait_for()
        assert page.locator("#attend-example").is_hidden()
        page.get_by_label("query", exact=True).first.fill("19")
        page.get_by_label("head", exact=True).first.fill("1")
        page.locator("#attend-top .comparison", has_text="query 19 of mine.safetensors").wait_for()
        wait_for_state(page, query="19", head="1")
        page.locator("figure[data-name=attend] figcaption", has_text="Query 19 of mine.safetensors").wait_for()
        page.locator("#attend-file input[type=file]").set_input_files(bad)
        page.locator("#attend-alert", has_text="file: expected a safetensors file").wait_for()
        page.locator("figure[data-name=attend] figcaption", has_text="shows the earlier call").wait_for()
        page.locator("#attend-top .comparison").wait_for(state="detached")
        other = tmp_path / "model.pt"
        other.write_bytes(b"PK")
        page.locator("#attend-file input[type=file]").set_input_files(other)
        page.locator("#attend-file-refused", has_text="model.pt is not a .safetensors file").wait_for()


def test_it_fits_a_phone(browser: Any, address: str) -> None:
    with Visit(browser, address, "?tab=attend&query=7&causal=yes", **PHONE, color_scheme="dark") as page:
        page.locator("#attend-top .comparison", has_text="query 7 of the example").wait_for()
        drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
