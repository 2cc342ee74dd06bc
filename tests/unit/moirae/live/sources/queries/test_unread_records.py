"""Offsets in the checkpoint of a topic's query, and in the text of a Java map."""

from pathlib import Path

from moirae.live.sources.queries.unread_records import parse_offsets, read_handled_offsets


def _write_batch(checkpoint: Path, number: int, content: str, is_finished: bool) -> None:
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(number)).write_text(content)
    if is_finished:
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")


def test_offsets_are_read_from_the_last_finished_batch(tmp_path: Path) -> None:
    assert read_handled_offsets(tmp_path, "cpu") is None
    _write_batch(tmp_path, 9, 'v1\n{"batch": 1}\n{"cpu":{"0":5,"1":7}}', is_finished=True)
    assert read_handled_offsets(tmp_path, "cpu") == {"0": 5, "1": 7}
    _write_batch(tmp_path, 10, 'v1\n{"batch": 1}\n{"cpu":{"0":6,"1":7}}', is_finished=False)
    assert read_handled_offsets(tmp_path, "cpu") is None
    _write_batch(tmp_path, 10, 'v1\n{"batch": 1}\n{"cpu":{"0":6,"1":7}}', is_finished=True)
    assert read_handled_offsets(tmp_path, "cpu") == {"0": 6, "1": 7}


def test_unreadable_offsets_count_as_unknown(tmp_path: Path) -> None:
    for content in ("", "v1", "v1\n{}\n-", 'v1\n{}\n{"other":{"0":5}}', 'v1\n{}\n{"cpu":[]}'):
        _write_batch(tmp_path, 1, content, is_finished=True)
        assert read_handled_offsets(tmp_path, "cpu") is None


def test_offsets_are_parsed_by_partition() -> None:
    assert parse_offsets("{a-1-0=5, a-1-12=70}") == {"0": 5, "12": 70}
    assert parse_offsets("{}") == {}
