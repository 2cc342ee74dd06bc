"""Files as source units."""

from pathlib import Path

from archiver.formats import JSONL, PARQUET
from moirae.live.sources.files import DiscoveredFile, make_units


def test_units_are_ordered_by_stream_time_and_path(tmp_path: Path) -> None:
    discovered = [
        DiscoveredFile("s", tmp_path / "b.jsonl", 2, 10),
        DiscoveredFile("s", tmp_path / "a.jsonl", 2, 20),
        DiscoveredFile("s", tmp_path / "c.jsonl", 1, 30),
        DiscoveredFile("r", tmp_path / "d.parquet", 9, 40),
    ]
    units = make_units(discovered, {"s": JSONL, "r": PARQUET}, tmp_path)
    assert [unit.name for unit in units] == ["d.parquet", "c.jsonl", "a.jsonl", "b.jsonl"]
    assert [unit.size for unit in units] == [40, 30, 20, 10]
    assert [unit.format for unit in units] == [PARQUET, JSONL, JSONL, JSONL]
