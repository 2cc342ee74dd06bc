"""Which values of the workspace file all machines must share."""

from pathlib import Path

from moirae.config.settings import Settings, load_settings
from moirae.config.shared_values import digest_shared_values, list_differences

STREAM = "{columns: {ts: timestamp, n: int}, time: ts, id: [n], source: {http: true}}"
TEXT = f"streams: {{a: {STREAM}}}\n"


def _load(folder: Path, text: str) -> Settings:
    file = folder / "moirae.yaml"
    file.write_text(text)
    return load_settings(file, {})


def _differ(folder: Path, text: str) -> list[str]:
    """The keys by which a workspace file differs from `TEXT`."""
    reference = digest_shared_values(_load(folder, TEXT))
    return list(list_differences(reference, digest_shared_values(_load(folder, text))))


def test_equal_files_have_equal_values(tmp_path: Path) -> None:
    assert _differ(tmp_path, TEXT) == []
    assert _differ(tmp_path, f"chunks: {{rows: 1000000}}\n{TEXT}") == []  # the default


def test_values_of_a_machine_alone_may_differ(tmp_path: Path) -> None:
    own = "home: elsewhere\narchive_cache: 7\nspark: {master: 'local[1]'}\nrecall: {processes: 2}\n"
    assert _differ(tmp_path, own + TEXT) == []


def test_shared_values_are_named_by_their_keys(tmp_path: Path) -> None:
    other = "landing: s3://bucket/landing\nchunks: {age: 2h}\n"
    streams = f"streams: {{a: {STREAM.replace('int', 'bigint')}, b: {STREAM}}}\n"
    assert _differ(tmp_path, other + TEXT) == ["chunks", "landing"]
    assert _differ(tmp_path, streams) == ["streams.a", "streams.b"]
