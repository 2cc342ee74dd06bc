"""One row in many is selected, over all batches."""

from pathlib import Path

from moirae.evaluation.row_sampler import RowSampler
from tests.unit.moirae.evaluation.builders import make_rows, make_source
from tests.unit.moirae.evaluation.test_executor_rules import archive, file_rows


def _select(sampler: RowSampler, *values: float) -> list[float]:
    table = sampler.select("s", make_source(make_rows(*values))).table
    assert table is not None
    return [float(value) for value in table["v"].to_pylist()]


def test_interval_goes_on_over_batches() -> None:
    sampler = RowSampler(3)
    assert _select(sampler, 0.0, 1.0) == [0.0]
    assert _select(sampler, 2.0) == []
    assert _select(sampler, 3.0, 4.0, 5.0, 6.0) == [3.0, 6.0]


def test_rows_of_files_are_selected(tmp_path: Path) -> None:
    rows = file_rows(archive(tmp_path, make_rows(0.0, 1.0, 2.0, 3.0), files=2))
    table = RowSampler(3).select("s", make_source(rows)).table
    assert table is not None
    assert table["v"].to_pylist() == [0.0, 3.0]
