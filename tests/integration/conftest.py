"""A history without recalls; modules that need another one have their own fixture `past`."""

from collections.abc import Iterator

import pytest

from tests.integration.history import CHUNKS, History, history, without_tasks


@pytest.fixture(scope="module")
def _history() -> Iterator[History]:
    with history(chunks=CHUNKS, rows=50) as new_history:
        yield new_history


@pytest.fixture
def past(_history: History) -> History:
    return without_tasks(_history)
