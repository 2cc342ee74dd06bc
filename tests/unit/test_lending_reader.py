"""A reader that lends from others is a whole reader."""

from datetime import timedelta
from pathlib import Path

from archiver.delta.schema import StreamSchema
from archiver.read.reader import Reader, SnapshotReader


def _schema(name: str) -> StreamSchema:
    return StreamSchema(name, {"ts": "timestamp"}, "ts", None, (), timedelta(0), timedelta(0))


def test_a_lending_reader_names_its_streams_and_those_that_are_lent(tmp_path: Path) -> None:
    reader = SnapshotReader(Reader(tmp_path, [_schema("cpu"), _schema("ping")]))
    assert set(reader.streams) == {"cpu", "ping"}
    reader.readers_by_stream["load"] = Reader(tmp_path, [_schema("load")])
    assert set(reader.streams) == {"cpu", "ping", "load"}
    assert reader.schema("load").name == "load"


def test_a_lending_reader_has_all_that_its_base_sets_up(tmp_path: Path) -> None:
    reader = Reader(tmp_path, [_schema("cpu")])
    assert vars(SnapshotReader(reader)).keys() >= vars(reader).keys()
