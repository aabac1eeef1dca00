"""The tab Compute in a real browser: the plan follows the controls, files are planned or refused."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from separatrix.explorer.compute import tab as compute_tab
from separatrix.explorer.context import UPLOAD_BYTES
from tests.explorer.visit import DESKTOP, PHONE, Visit, wait_for_state


@pytest.fixture(scope="module")
def address(browser: Any, serve: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    return serve(tmp_path_factory.mktemp("results"), pages={"compute": compute_tab})


def drawn(page: Any) -> None:
    page.locator("figure[data-name=phase] .heatmaplayer image").first.wait_for(state="attached")


def row(page: Any, name: str) -> list[str]:
    """The entries of a row of the plan's table."""
    return (
        page.locator("#compute-plan tr", has=page.get_by_role("rowheader", name=name)).locator("td").all_inner_texts()
    )


def tensors() -> dict[str, torch.Tensor]:
    draws = torch.rand(3, 64, 4, generator=torch.Generator().manual_seed(0))
    return dict(zip(("q", "k1", "k2"), draws, strict=True))


def spoilt() -> dict[str, torch.Tensor]:
    drawn_tensors = tensors()
    drawn_tensors["k1"][5, 2] = float("nan")
    return drawn_tensors


FILES = {
    "pickle": (pickle.dumps([1]), "pickle, which is never opened"),
    "words": (b"these are words, and no tensors", "expected a safetensors file"),
    "cut": (save(tensors())[:50], "ends inside its header"),
    "huge header": (struct.pack("<Q", 2**62) + b"{}", "a file that does not begin with the length of a header"),
    "names": (save({"query": torch.zeros(2, 2)}), "tensors q, k1, k2"),
    "too big": (bytes(UPLOAD_BYTES + 1), "at most 16 MiB, got 16.0 MiB"),
    "NaN": (save(spoilt()), "k1: expected finite numbers, got NaN or infinity."),
}


def test_a_first_visit_says_something(browser: Any, address: str) -> None:
    with Visit(browser, address, **DESKTOP) as page:
        page.locator("#compute-plan .comparison").wait_for()
        assert row(page, "method") == ["polynomial"]
        assert row(page, "rank") == ["495"]
        assert page.locator(".lead").inner_text().startswith("Exact attention of order")
        drawn(page)
        caption = page.locator("figure[data-name=phase] figcaption").inner_text()
        assert "".join(caption.split()).startswith("Yoursettinghas\N{MATHEMATICAL ITALIC CAPITAL B}=0.9;")
        page.locator("#sample-found .comparison").wait_for()
        assert page.locator("[role=alert]:not(:empty)").count() == 0
        # Change a control by keyboard: the plan and the address follow.
        box = page.get_by_label("B", exact=True).first
        box.fill("6")
        page.locator("#compute-plan td", has_text="exact").first.wait_for()
        wait_for_state(page, B="6")
        box.fill("1e99")
        page.locator(".wrong", has_text="B: expected a number from 0.01 to 10").wait_for()
        page.locator("#compute-plan", has_text="A value is not valid").wait_for()
        box.fill("6")
        page.get_by_label("k", exact=True).first.fill("2")
        page.locator("#compute-plan [role=alert]", has_text="it is not done here").wait_for()


def test_two_settings_are_shown_side_by_side_and_fit_a_phone(browser: Any, address: str) -> None:
    view = "?tab=compute&n=1e6&n.2=1e3&k.2=2"
    with Visit(browser, address, view, **PHONE, color_scheme="dark") as page:
        page.locator("#compute-plan .comparison").wait_for()
        assert row(page, "method") == ["polynomial", "exact"]
        drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        tries, below = (page.locator(name).first.bounding_box() for name in (".tries", ".split"))
        assert tries["y"] + tries["height"] + 10 < below["y"]
        page.locator("#sample-found .comparison").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_bad_values_of_the_address_are_reported(browser: Any, address: str) -> None:
    with Visit(browser, address, "?tab=compute&n=1e13&d=0&B=nan&k=x&tolerance=0&other=1", **DESKTOP) as page:
        said = page.locator("ul[role=alert]")
        said.wait_for()
        for name in ("n: expected", "d: expected", "B: expected", "k: expected", "tolerance: expected", "other: this"):
            assert name in said.inner_text()
        page.locator("#compute-plan .comparison").wait_for()
        assert row(page, "rank") == ["495"]


def test_a_file_is_planned(browser: Any, address: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    path.write_bytes(save(tensors()))
    with Visit(browser, address, **DESKTOP) as page:
        page.locator("#file input[type=file]").set_input_files(path)
        table = page.locator("#file-found .comparison")
        table.wait_for()
        caption = "The plan for mine.safetensors at a tolerance of 0.001."
        for word in (caption, "q 64 x 4, k1 64 x 4, k2 64 x 4", "values of 1 and -1 are used", "exact"):
            assert word in table.inner_text()


def test_a_bad_file_is_refused_in_a_sentence(browser: Any, address: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(save(tensors()))
    with Visit(browser, address, **DESKTOP) as page:
        chooser = page.locator("#file input[type=file]")
        chooser.set_input_files(path)
        page.locator("#file-found .comparison").wait_for()
        for data, sentence in FILES.values():
            path.write_bytes(data)
            chooser.set_input_files([])
            chooser.set_input_files(path)
            page.locator("#file-alert, #file-refused").filter(has_text=sentence).wait_for()
            assert not page.locator("#file-found .comparison").is_visible(), "the plan of an earlier file is shown"
        other = tmp_path / "model.pt"
        other.write_bytes(FILES["pickle"][0])
        chooser.set_input_files(other)
        page.locator("#file-refused", has_text="model.pt is not a .safetensors file").wait_for()
        assert not page.locator("#file-found .comparison").is_visible()
