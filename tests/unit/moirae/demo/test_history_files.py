"""History of the simulated testbed as input files."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from moirae.demo.history_files import write_history, write_rows
from moirae.demo.testbed import STREAMS, Testbed

LIVE = datetime(2026, 11, 21, 9, 30, 17, 123456, tzinfo=UTC)


def test_history_is_written_as_complete_files_day_by_day(tmp_path: Path) -> None:
    testbed = Testbed(7, LIVE - timedelta(days=1), LIVE, LIVE + timedelta(seconds=30), nodes=20)
    order = []
    for file in write_history(testbed, tmp_path):
        assert file.path == tmp_path / file.stream / f"{file.day}.jsonl"
        assert len(file.path.read_text().splitlines()) == file.rows
        order.append((file.day, STREAMS.index(file.stream)))
    assert order == sorted(order)
    assert len(order) == 2 * len(STREAMS)
    assert not list(tmp_path.glob("*/.*"))
    for stream in STREAMS:
        rows = []
        for path in sorted(tmp_path.glob(f"{stream}/*")):
            rows += map(json.loads, path.read_text().splitlines())
        assert rows == [row for _, batch in testbed.history(stream) for row in batch]


def test_rows_are_written_as_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "node" / "live.jsonl"
    write_rows(path, [{"ts": "2026-05-01T00:00:00Z", "cpu": 1.5}, {"host": "cork-1"}])
    assert path.read_text() == '{"ts":"2026-05-01T00:00:00Z","cpu":1.5}\n{"host":"cork-1"}\n'
