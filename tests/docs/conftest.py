"""A browser for the style sheet of the documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.report.visits import launched


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from launched()
