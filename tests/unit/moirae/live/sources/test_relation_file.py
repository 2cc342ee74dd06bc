"""Relations read from files: when a file is taken, and which files are refused."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moirae.config.streams import Relation
from moirae.errors import MoiraeError, ProblemsError
from moirae.live.sources.file_state import FileState, read_file_state
from moirae.live.sources.relation_file import FileRelationReader

HEADER = "host,site\n"


class ManualClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class FakeMoves:
    """Knows of the moves that a test makes."""

    def __init__(self) -> None:
        self.state: FileState | None = None

    def watch(self, path: Path) -> None:
        pass

    def state_after_move(self, path: Path) -> FileState | None:
        return self.state

    def move(self, source: Path, path: Path) -> None:
        source.rename(path)
        self.state = read_file_state(path)


class WatchedFile:
    """A reader of a file, two seconds after each look at it."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.clock = ManualClock()
        self.moves = FakeMoves()
        self.was_looked_at = False
        declared = {
            "columns": {"host": "string", "site": "string"},
            "key": ["host"],
            "source": {"file": path.name},
        }
        relation = Relation.model_validate(declared)
        self.reader = FileRelationReader(
            "hosts",
            relation,
            relation.source.model_copy(update={"file": str(path)}),  # type: ignore[arg-type]
            moves=self.moves,  # type: ignore[arg-type]
            clock=self.clock,
            **options,
        )

    def wait(self, seconds: float = 2.0) -> bool:
        """Whether there is a new version after some seconds."""
        if self.was_looked_at:  # the first look waits by itself
            self.reader.has_changed()
        self.was_looked_at = True
        self.clock.now += seconds
        return self.reader.has_changed()

    def sites(self) -> dict[str, str]:
        return {row["host"]: row["site"] for row in self.reader.read().rows}


def _open(path: Path, content: str | bytes = HEADER + "a,athens\nb,berlin\n") -> WatchedFile:
    """A file whose first version was read."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    file = WatchedFile(path)
    assert file.wait()
    file.reader.read()
    return file


def test_unchanged_file_is_read_once(tmp_path: Path) -> None:
    file = _open(tmp_path / "hosts.csv")
    assert not file.wait(60)


def test_changed_file_is_read_when_it_was_unchanged_for_two_seconds(tmp_path: Path) -> None:
    file = _open(tmp_path / "hosts.csv")
    file.path.write_text(HEADER + "a,athens\n")
    assert not file.reader.has_changed()
    file.clock.now += 1.9
    assert not file.reader.has_changed()
    file.path.write_text(HEADER + "a,athens\nb,bergen\n")
    assert not file.wait(1.9)
    assert file.wait(0.1)
    assert file.sites() == {"a": "athens", "b": "bergen"}


def test_clock_of_files_has_no_effect(tmp_path: Path) -> None:
    file = _open(tmp_path / "hosts.csv")
    file.path.write_text(HEADER + "a,oslo\n")
    os.utime(file.path, (1, 1))  # as if it had been written long ago
    assert not file.reader.has_changed()
    assert file.wait()
    assert file.sites() == {"a": "oslo"}
    os.utime(file.path, (2**33, 2**33))
    assert file.wait()


def test_file_without_an_end_of_its_last_line_is_not_taken(tmp_path: Path) -> None:
    file = _open(tmp_path / "hosts.csv")
    file.path.write_text(HEADER + "a,athens\nb,ber")
    assert file.wait(4)
    with pytest.raises(MoiraeError, match=r"hosts.csv: .* no line break at the end of line 3"):
        file.reader.read()
    assert not file.wait(60), "it is reported once"
    file.path.write_text(HEADER + "a,athens\nb,bergen\n")
    assert file.wait()
    assert file.sites()["b"] == "bergen"


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.with_name("new").rename(path),
        lambda path: os.utime(path, ns=(5, 5)),
        lambda path: os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns)),
        lambda path: path.write_text(HEADER),
    ],
    ids=["inode", "mtime", "ctime", "size"],
)
def test_any_difference_is_a_change(tmp_path: Path, change: Callable[[Path], object]) -> None:
    path = tmp_path / "hosts.csv"
    file = _open(path)
    status = path.stat()
    path.with_name("new").write_bytes(path.read_bytes())
    os.utime(path.with_name("new"), ns=(status.st_atime_ns, status.st_mtime_ns))
    change(path)
    assert not file.reader.has_changed(), "no reason to take it at once"
    assert file.wait()


def test_moved_file_is_taken_at_once_and_needs_no_end(tmp_path: Path) -> None:
    file = _open(tmp_path / "hosts.csv")
    new = tmp_path / "hosts.new"
    new.write_text(HEADER + "a,oslo")
    file.moves.move(new, file.path)
    assert file.reader.has_changed()
    assert file.sites() == {"a": "oslo"}


def test_moved_file_that_was_written_afterwards_is_not_taken_at_once(tmp_path: Path) -> None:
    file = _open(tmp_path / "hosts.csv")
    new = tmp_path / "hosts.new"
    new.write_text(HEADER + "a,oslo\n")
    file.moves.move(new, file.path)
    file.path.write_text(HEADER + "a,os")
    assert not file.reader.has_changed()


def test_first_version_is_awaited(tmp_path: Path) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text(HEADER)
    declared = {
        "columns": {"host": "string", "site": "string"},
        "key": ["host"],
        "source": {"file": str(path)},
    }
    relation = Relation.model_validate(declared)
    reader = FileRelationReader("hosts", relation, relation.source, stable_after=0.2)  # type: ignore[arg-type]
    assert reader.has_changed()
    assert reader.read().rows == []


def test_known_version_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text(HEADER + "a,oslo")
    state = read_file_state(path)
    assert state is not None
    file = WatchedFile(path, complete={state.fingerprint})
    assert file.reader.has_changed()
    assert file.reader.read().fingerprint == state.fingerprint


def test_deleted_file_is_an_error_until_it_is_back(tmp_path: Path) -> None:
    file = _open(tmp_path / "hosts.csv")
    file.path.unlink()
    assert not file.reader.has_changed(), "it may be replaced by a moment later"
    assert file.wait()
    with pytest.raises(MoiraeError, match="the file of relation hosts does not exist"):
        file.reader.read()
    assert not file.wait(60)
    file.path.write_text(HEADER + "a,oslo\n")
    assert file.wait()
    assert file.sites() == {"a": "oslo"}


def test_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    file = _open(tmp_path / "hosts.csv")
    file.path.unlink()
    file.path.mkdir()
    assert file.wait()
    with pytest.raises(MoiraeError, match="is not a file"):
        file.reader.read()


def test_link_to_another_file_is_a_change(tmp_path: Path) -> None:
    for name, site in (("v1.csv", "oslo"), ("v2.csv", "rome")):
        (tmp_path / name).write_text(f"{HEADER}a,{site}\n")
    path = tmp_path / "hosts.csv"
    path.symlink_to("v1.csv")
    file = WatchedFile(path)
    assert file.wait()
    assert file.sites() == {"a": "oslo"}
    path.unlink()
    path.symlink_to("v2.csv")
    assert file.wait()
    assert file.sites() == {"a": "rome"}


def test_error_of_the_disk_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _open(tmp_path / "hosts.csv")
    file.path.write_text(HEADER + "a,oslo\n")

    def fail(path: Path) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("moirae.live.sources.relation_file.read_content", fail)
        assert file.wait()
        with pytest.raises(MoiraeError, match="Input/output error"):
            file.reader.read()
        assert not file.wait(60), "the same error is reported once"
    assert file.wait(60)
    assert file.sites() == {"a": "oslo"}


def test_path_of_any_bytes_is_read_and_shown_escaped(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    file = _open(folder / "hosts.csv")
    file.path.write_text("host\n")
    assert file.wait()
    with pytest.raises(ProblemsError) as raised:
        file.reader.read()
    assert "caf\\xe9/hosts.csv:1: missing columns" in str(raised.value)
    str(raised.value).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfhost,site\na,oslo\n",
        b"host,site\r\na,oslo\r\n",
        b"\xef\xbb\xbfhost,site\r\n\r\na,oslo\r\n\r\n",
        b'"host","site"\n"a","oslo"\n',
    ],
    ids=["byte order mark", "CRLF", "both", "quotes"],
)
def test_spreadsheet_files_are_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "hosts.csv"
    path.write_bytes(content)
    file = WatchedFile(path)
    assert file.wait()
    assert file.sites() == {"a": "oslo"}


def test_compressed_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hosts.csv.gz"
    path.write_bytes(gzip.compress(b"host,site\na,oslo\n"))
    file = WatchedFile(path)
    assert file.wait()
    assert file.sites() == {"a": "oslo"}
    path.write_bytes(path.read_bytes()[:-4])
    assert file.wait()
    with pytest.raises(MoiraeError, match="damaged gzip file"):
        file.reader.read()


def test_empty_file_of_lines_may_be_incomplete_unless_it_was_moved(tmp_path: Path) -> None:
    path = tmp_path / "hosts.jsonl"
    file = _open(path, '{"host": "a", "site": "oslo"}\n')
    path.write_text("")
    assert file.wait()
    with pytest.raises(MoiraeError, match="no line break at the end of line 1"):
        file.reader.read()
    path.with_name("new").touch()
    file.moves.move(path.with_name("new"), path)
    assert file.reader.has_changed()
    assert file.sites() == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: the file is empty"),
        ("\n \n", "1: the file is empty"),
        ("h1,north\n", "1: missing columns in the header: host, site"),
        ("\nhst,site\nh1,north\n", "2: missing columns in the header: host"),
        ("host,site\nh1\n", "2: "),
        ("host,site\nh1,north\n\nh2,north\nh1,south\n", "5: duplicate host, first in line 2"),
    ],
)
def test_invalid_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text(text)
    file = WatchedFile(path)
    assert file.wait()
    with pytest.raises(ProblemsError, match=f"hosts.csv:{message}"):
        file.reader.read()
    assert not file.wait(60), "it is reported once"
