"""The choice of the engine of a batch."""

from pathlib import Path

import pytest

from archiver.formats import JSONL
from archiver.ingest.engines.engine_choice import (
    COLD_START_ROWS,
    EngineMode,
    EnginePolicy,
    RecordSizes,
)
from archiver.ingest.source_units import SourceUnit


def unit(size: int | None, name: str = "a.jsonl") -> SourceUnit:
    """A unit of a stream s."""
    return SourceUnit("s", name, JSONL, lambda: iter(()), path=Path(name), size=size)


@pytest.mark.parametrize(
    ("mode", "rows", "engine"),
    [
        ("local", 10**9, "local"),
        ("spark", 0, "spark"),
        ("auto", 19_999, "local"),
        ("auto", 20_000, "spark"),
    ],
)
def test_auto_uses_executors_from_large_batches_on(
    mode: EngineMode, rows: float, engine: str
) -> None:
    assert EnginePolicy(mode, 20_000).choose(rows) == engine


def test_batch_must_be_larger_while_executors_have_no_workers() -> None:
    policy = EnginePolicy("auto", 20_000)
    assert policy.is_large(20_000)
    assert not policy.is_large(19_999)
    assert policy.choose(20_000, is_warm=False) == "local"
    assert policy.choose(20_000 + COLD_START_ROWS, is_warm=False) == "spark"
    assert EnginePolicy("spark").choose(1, is_warm=False) == "spark"


def test_rows_are_estimated_from_bytes_before_a_stream_was_read() -> None:
    sizes = RecordSizes()
    assert sizes.estimate_rows([unit(1_000), unit(500)]) == 15
    assert sizes.estimate_rows([unit(1_200, "a.jsonl.gz")]) == 100
    assert sizes.estimate_rows([unit(None)]) == 0


def test_rows_are_estimated_from_the_records_read_so_far() -> None:
    sizes = RecordSizes()
    sizes.observe("s", 1_000, 50)
    sizes.observe("s", 0, 50)
    assert sizes.estimate_rows([unit(1_000)]) == 50
