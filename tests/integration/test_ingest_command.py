"""`moirae ingest`: complete batches are in the landing folder when the command returns."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from moirae.cli import app
from moirae.config.settings import load_settings_from_environment
from moirae.errors import MoiraeError, UsageError
from moirae.inspect.health import is_live_available
from moirae.runtime.database import connect_database
from moirae.runtime.storage.landing_folder import LandingFolder
from tests.workspaces import workspace

WORKSPACE = """
home: .moirae
streams:
  cpu: {columns: {ts: timestamp}, time: ts, source: {files: x/*.jsonl}}
"""


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with workspace(WORKSPACE, "groups: []\n") as folder:
        yield folder


def _landed(root: Path) -> dict[str, bytes]:
    landing = LandingFolder(root / ".moirae", "cpu")
    content_by_name = {
        batch.path.name.partition(".")[2]: batch.path.read_bytes()
        for batch in landing.pending_batches()
    }
    for batch in landing.pending_batches():
        batch.path.unlink()
    return content_by_name


def _ingest(root: Path, *arguments: str, given: bytes | None = None) -> str:
    command = ["ingest", "cpu", *arguments, "--workspace", str(root / "moirae.yaml")]
    result = CliRunner().invoke(app, command, input=given)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_files_and_standard_input_are_written_unchanged(root: Path) -> None:
    (root / "a.csv").write_bytes(b"ts\n2026-01-01\n")
    packed = gzip.compress(b"{}\n")
    (root / "b ç.2026-01-01.jsonl.gz").write_bytes(packed)
    output = _ingest(root, str(root / "a.csv"), str(root / "b ç.2026-01-01.jsonl.gz"))
    assert output.startswith("queued for cpu: 2 files, ")
    names = [batch.name for batch in LandingFolder(root / ".moirae", "cpu").pending_batches()]
    assert sorted(name.rpartition("-")[0] for name in names) == [
        "ingest-a",
        "ingest-b_2026_01_01",
    ]  # dead letters name them
    assert _landed(root) == {"csv": b"ts\n2026-01-01\n", "jsonl.gz": packed}
    _ingest(root, "-", given=b"{}\n{}")
    assert _landed(root) == {"jsonl": b"{}\n{}"}
    _ingest(root, "-", "--format", "csv", given=b"ts\n")
    assert _landed(root) == {"csv": b"ts\n"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nothing.csv"], "nothing.csv: no such file"),
        (["moirae.txt"], "add --format"),
    ],
)
def test_invalid_input_is_reported_before_any_file_is_written(
    root: Path, arguments: list[str], reason: str
) -> None:
    (root / "a.csv").write_bytes(b"ts\n")
    (root / "moirae.txt").write_bytes(b"x")
    files = [str(root / name) if name == "moirae.txt" else name for name in arguments]
    with pytest.raises(UsageError, match=reason):
        _ingest(root, str(root / "a.csv"), *files)
    assert _landed(root) == {}


def test_unknown_stream_is_reported(root: Path) -> None:
    command = ["ingest", "cpuu", "-", "--workspace", str(root / "moirae.yaml")]
    assert "no stream 'cpuu': declared are cpu" in str(
        CliRunner().invoke(app, command, input=b"{}").exception
    )


def test_wait_fails_without_a_live_process(root: Path) -> None:
    """Also if the live process has exited, or crashed too long ago for a restart."""
    with pytest.raises(MoiraeError, match="no live process runs"):
        _ingest(root, "-", "--wait", given=b"{}\n")
    assert _landed(root) == {"jsonl": b"{}\n"}
    with connect_database(
        load_settings_from_environment(root / "moirae.yaml"), "test"
    ) as connection:
        connection.execute(
            "INSERT INTO processes (role, epoch, pid, state) VALUES ('live', 1, 1, 'running')"
        )
        assert is_live_available(connection)
        connection.execute(
            "UPDATE processes SET beat_at = clock_timestamp() - interval '30 seconds'"
        )
        assert is_live_available(connection)
        connection.execute(
            "UPDATE processes SET beat_at = clock_timestamp() - interval '3 minutes'"
        )
        assert not is_live_available(connection)
        connection.execute("UPDATE processes SET beat_at = clock_timestamp(), state = 'ended'")
        assert not is_live_available(connection)
