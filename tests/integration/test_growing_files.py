"""Files that grow and rotate: every complete line once, in order."""

import gzip
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from archiver.ingest import SourceUnit
from moirae.config.settings import load_settings_from_environment
from moirae.live.sources.growing import growing_stream, listing
from moirae.runtime import connect_database
from tests.growing_files import STREAM, TEXT, GrowingFileReader
from tests.workspaces import workspace, write_workspace

TIME = "2026-01-01T00:00:00Z"
Reader = Callable[..., GrowingFileReader]


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with workspace("home: .moirae\nstreams: {}\n", "groups: []\n") as folder:
        yield folder


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(growing_stream, "_FLUSH_AFTER", 0.5)
    monkeypatch.setattr(growing_stream, "_COPY_TIMEOUT", 1.0)
    monkeypatch.setattr(listing, "_STABLE_AFTER", 0.0)
    return tmp_path / "logs"


@pytest.fixture
def start(root: Path, tmp_path: Path, logs: Path) -> Iterator[Reader]:
    """Starts a process with the pattern of files and options of the source."""
    settings = load_settings_from_environment(root / "moirae.yaml")
    logs.mkdir()
    with connect_database(settings, "tests") as connection:
        connection.execute(
            "TRUNCATE units, streams, topics, partitions, growing_files, lost_records CASCADE"
        )

        def begin(
            files: str = "app.log*",
            options: str = "",
            drain: bool = False,
            record_format: str = TEXT,
        ) -> GrowingFileReader:
            text = STREAM.format(files=logs / files, format=record_format, options=options)
            write_workspace(root, f"home: .moirae\narchive: {tmp_path}/archive\n{text}")
            return GrowingFileReader(root, connection, drain=drain)

        yield begin


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def lines(*names: str) -> str:
    return "".join(f"{TIME} {name}\n" for name in names)


def test_lines_are_read_once_they_are_complete_and_equal_ones_are_rows(
    start: Reader, logs: Path
) -> None:
    reader = start()
    log = logs / "app.log"
    append(log, lines("same", "same") + f"{TIME} unfin")
    assert reader.update() == ["same", "same"]
    append(log, "ished\n")
    assert reader.update() == ["same", "same", "unfinished"]
    assert start().update() == ["same", "same", "unfinished"]
    append(log, lines("same"))
    assert start().update() == ["same", "same", "unfinished", "same"]


@pytest.mark.parametrize("files", ["app.log*", "app.log"])
def test_a_renamed_file_is_read_to_its_end(start: Reader, logs: Path, files: str) -> None:
    reader = start(files)
    log = logs / "app.log"
    append(log, lines("a"))
    reader.update()
    with log.open("a") as writer:
        log.rename(logs / "app.log.1")
        append(log, lines("new"))
        reader.update()
        writer.write(lines("b", "c"))
    assert reader.update(wait=0.3) == ["a", "b", "c", "new"]
    if files == "app.log*":
        assert start(files).update() == ["a", "b", "c", "new"]


def test_a_file_with_several_names_is_read_once(start: Reader, logs: Path) -> None:
    log = logs / "app.log"
    append(log, lines("a"))
    (logs / "app.log.link").symlink_to(log)
    os.link(log, logs / "app.log.hard")
    reader = start()
    assert reader.update() == ["a"]
    append(log, lines("b"))
    assert reader.update(wait=0.3) == ["a", "b"]
    log.unlink()
    append(logs / "app.log.hard", lines("c"))
    assert reader.update(wait=0.3) == ["a", "b", "c"]


def test_links_may_lead_to_another_file(start: Reader, logs: Path, tmp_path: Path) -> None:
    link = logs / "app.log"
    append(tmp_path / "1", lines("a"))
    link.symlink_to(tmp_path / "1")
    reader = start()
    assert reader.update() == ["a"]
    append(tmp_path / "2", lines("b"))
    (logs / ".link").symlink_to(tmp_path / "2")
    (logs / ".link").rename(link)
    append(tmp_path / "1", lines("late"))
    assert sorted(reader.update(wait=0.3)) == ["a", "b", "late"]


def test_a_quiet_file_that_is_renamed_is_read_while_its_writer_has_it_open(
    start: Reader, logs: Path
) -> None:
    reader = start("app.log")
    log = logs / "app.log"
    append(log, lines("a"))
    reader.update()
    with log.open("a") as writer:
        an_hour_ago = time.time() - 3600
        os.utime(log, (an_hour_ago, an_hour_ago))
        log.rename(logs / "app.log.1")
        append(log, lines("new"))
        reader.update()
        writer.write(lines("b", "c"))
    assert reader.update(wait=0.3) == ["a", "b", "c", "new"]


def test_a_file_that_is_copied_and_truncated_continues_in_the_copy(
    start: Reader, logs: Path
) -> None:
    reader = start()
    log = logs / "app.log"
    append(log, lines("a", "b"))
    reader.update()
    append(log, lines("c"))
    shutil.copy(log, logs / "app.log.1")
    os.truncate(log, 0)
    append(log, lines("d"))
    assert sorted(reader.update(wait=0.3)) == ["a", "b", "c", "d"]
    assert sorted(start().update()) == ["a", "b", "c", "d"]


def test_a_file_that_is_truncated_while_its_range_is_archived_continues_in_the_copy(
    start: Reader, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = start()
    log = logs / "app.log"
    append(log, lines("a", "b"))
    reader.update()
    append(log, lines("c"))
    ingest_units = reader.ingest_units

    def truncate_then_ingest(units: Sequence[SourceUnit]) -> Sequence[SourceUnit]:
        if units:
            shutil.copy(log, logs / "app.log.1")
            log.write_text(lines("d"))
        return ingest_units(units)

    with monkeypatch.context() as patches:
        patches.setattr(reader, "ingest_units", truncate_then_ingest)
        time.sleep(0.11)
        reader.input.update()
    assert sorted(reader.update(wait=0.3)) == ["a", "b", "c", "d"]
    assert sorted(start().update()) == ["a", "b", "c", "d"]


def test_a_file_that_is_truncated_after_it_was_listed_is_read_from_its_beginning(
    start: Reader, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although it is as long again when it is read."""
    reader = start()
    log = logs / "app.log"
    append(log, lines("a", "b"))
    assert reader.update() == ["a", "b"]
    append(log, lines("lost"))
    read_unit = growing_stream.GrowingStream._read_unit
    was_truncated = False

    def truncate_then_read(*arguments: Any) -> SourceUnit | None:
        nonlocal was_truncated
        if not was_truncated:
            was_truncated = True
            os.truncate(log, 0)
            append(log, lines("1", "2", "3", "4"))
        return read_unit(*arguments)

    monkeypatch.setattr(growing_stream.GrowingStream, "_read_unit", truncate_then_read)
    assert reader.update(wait=0.3) == ["a", "b", "1", "2", "3", "4"]


def test_what_truncation_loses_is_reported_with_its_size(start: Reader, logs: Path) -> None:
    reader = start("app.log")
    log = logs / "app.log"
    append(log, lines("a") + f"{TIME} unfinished")
    reader.update()
    os.truncate(log, 0)
    append(log, lines("b"))
    query = "SELECT reason, last_offset - first_offset + 1 FROM lost_records"
    deadline = time.monotonic() + 20
    while True:
        messages = reader.update(wait=0.3)
        lost = reader.connection.execute(query).fetchall()
        if lost or time.monotonic() > deadline:
            break
    assert messages == ["a", "b"]
    assert lost == [("removed", len(f"{TIME} unfinished"))]


def test_a_file_that_is_there_under_its_new_name_a_moment_later_is_not_lost(
    start: Reader, logs: Path
) -> None:
    """As when a folder is listed while a file is copied and truncated."""
    reader = start()
    log = logs / "app.log"
    append(log, lines("a") + f"{TIME} unfinished")
    reader.update()
    shutil.copy(log, logs / "copy")
    os.truncate(log, 0)
    append(log, lines("b"))
    time.sleep(0.11)
    with capture_logs() as events:
        reader.input.update()
        append(logs / "copy", " line\n")
        (logs / "copy").rename(logs / "app.log.1")
        assert sorted(reader.update(wait=0.3)) == ["a", "b", "unfinished line"]
    assert events == []
    assert reader.connection.execute("SELECT count(*) FROM lost_records").fetchone() == (0,)


def test_a_drain_reads_what_was_compressed_just_before(
    start: Reader, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_STABLE_AFTER", 0.5)
    append(logs / "app.log", lines("a"))
    assert start().update() == ["a"]
    append(logs / "app.log", lines("b"))
    (logs / "app.log.1.gz").write_bytes(gzip.compress((logs / "app.log").read_bytes()))
    (logs / "app.log").unlink()
    append(logs / "app.log", lines("c"))
    assert sorted(start(drain=True).update()) == ["a", "b", "c"]


def test_a_compressed_rotation_doubles_nothing(start: Reader, logs: Path) -> None:
    reader = start()
    log = logs / "app.log"
    append(log, lines("a"))
    reader.update()
    append(log, lines("b"))
    content = log.read_bytes()
    (logs / "app.log.1.gz").write_bytes(gzip.compress(content))
    log.unlink()
    append(log, lines("c"))
    assert reader.update(wait=0.3) == ["a", "b", "c"]
    assert start().update() == ["a", "b", "c"]


def test_files_are_found_again_on_another_machine(start: Reader, logs: Path) -> None:
    reader = start()
    for name in ("1", "2"):
        append(logs / f"app.log.{name}", lines("start", name))
    assert sorted(reader.update(wait=1.2)) == ["1", "2", "start", "start"]
    for name in ("1", "2"):
        path = logs / f"app.log.{name}"
        content = path.read_bytes()
        path.rename(logs / f"old{name}")  # keeps its inode in use
        path.write_bytes(content)
    append(logs / "app.log.1", lines("more"))
    assert sorted(start().update(wait=1.2)) == ["1", "2", "more", "start", "start"]


def test_an_inode_that_another_file_has_got_while_down_is_another_file(
    start: Reader, logs: Path
) -> None:
    log = logs / "app.log"
    append(log, lines("short"))
    start().update()
    log.write_text(lines("other one", "of the same inode"))
    assert start().update() == ["short", "other one", "of the same inode"]


def test_an_interrupted_range_is_cut_and_counted_alike(start: Reader, logs: Path) -> None:
    class Killed(Exception):
        pass

    reader = start()
    log = logs / "app.log"
    append(log, lines("a", "a"))
    finish = reader.archive._finish_units

    def die(batch: object) -> None:
        raise Killed

    reader.archive._finish_units = die  # type: ignore[method-assign, assignment]
    with pytest.raises(Killed):
        reader.update()
    assert finish is not None
    append(log, lines("b"))
    reader = start()
    assert reader.update() == ["a", "a", "b"]
    query = "SELECT sum(read)::int, sum(archived)::int, sum(duplicates)::int FROM units"
    assert reader.connection.execute(query).fetchall() == [(3, 3, 0)]


def test_records_of_several_lines_wait_for_their_end(start: Reader, logs: Path) -> None:
    reader = start(options=", starts_with: '2026'")
    log = logs / "app.log"
    append(log, lines("a") + "  trace\n")
    reader.input.update()
    append(log, "  more\n" + lines("b"))
    assert reader.update(wait=0.8) == ["a\n  trace\n  more", "b"]


def test_a_drain_reads_to_the_end_that_exists(start: Reader, logs: Path) -> None:
    append(logs / "app.log", lines("a", "b"))
    reader = start(drain=True)
    assert reader.update() == ["a", "b"]
    assert not reader.input.has_unread("app")


def test_a_copy_that_is_not_complete_yet_is_no_file_of_its_own(
    logs: Path, start: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_stream, "_COPY_TIMEOUT", 60.0)
    log, copied = logs / "app.log", logs / "app.log.1"
    texts = [f"line {number} {'x' * 100}" for number in range(40)]
    log.write_text(lines(*texts))
    reader = start()
    assert reader.update() == texts
    content = log.read_bytes()
    for size in (500, 2_000, 3_000):
        copied.write_bytes(content[:size])
        time.sleep(0.11)
        reader.input.update()
        assert reader.messages() == texts
    copied.write_bytes(content)
    os.truncate(log, 0)
    append(log, f"{TIME} new\n")
    assert reader.update() == [*texts, "new"]


def test_nul_bytes_that_truncation_leaves_before_the_first_line_are_skipped(
    start: Reader, logs: Path
) -> None:
    """A writer that does not append goes on at its offset: the file gets a hole."""
    reader = start()
    log = logs / "app.log"
    with log.open("w") as writer:
        writer.write(lines("a") + ("-" * 1_000_000 + "\n") * 9 + lines("b"))
        writer.flush()
        assert reader.update() == ["a", "b"]
        shutil.copy(log, logs / "app.log.1")
        os.truncate(log, 0)
        writer.write(lines("c", "d"))
    hole = (logs / "app.log.1").stat().st_size
    assert log.read_bytes().startswith(bytes(hole))
    with capture_logs() as entries:
        assert reader.update(wait=0.3) == ["a", "b", "c", "d"]
    skipped = [entry["bytes"] for entry in entries if entry["action"] == "nul_bytes_skipped"]
    assert skipped == [hole]
    assert start().update() == ["a", "b", "c", "d"]
    refused = reader.connection.execute("SELECT sum(malformed) FROM units").fetchone()
    assert refused == (9,), "only the lines that are no records"


HEADERS = [  # with the rest of each line
    ("\ufeffts,message", "", ""),
    ("sep=;\nts;message;c", ";", ", csv: {delimiter: ';'}"),
    ("\n# export\nts,message", "", ", csv: {comment: '#'}"),
    ('"ts","message","a\nb"', ",", ""),
    (f"ts,message,{'x' * 2000}", ",", ""),
    ("ts,message,ü", ",", ", encoding: latin-1"),
]


@pytest.mark.parametrize(("header", "rest", "options"), HEADERS)
def test_the_header_of_csv_counts_for_all_that_is_added(
    start: Reader, logs: Path, header: str, rest: str, options: str
) -> None:
    reader = start("app.log", options, record_format="csv")
    log = logs / "app.log"
    delimiter = rest or ","
    encoding = "latin-1" if "latin" in options else "utf-8"
    log.write_bytes(f"{header}\n{TIME}{delimiter}a{rest}\n".encode(encoding))
    assert reader.update() == ["a"]
    append(log, f"{TIME}{delimiter}b{rest}\n")
    assert reader.update() == ["a", "b"]


def test_nul_bytes_that_a_crash_leaves_between_lines_are_skipped(start: Reader, logs: Path) -> None:
    log = logs / "app.log"
    append(log, lines("a") + "\0" * 5000 + lines("b") + lines("c"))
    append(log, "\0" * 100)  # as of a file that is allocated before it is written
    reader = start()
    assert reader.update() == ["a", "b", "c"]
    size = log.stat().st_size
    with log.open("r+") as writer:
        writer.seek(size - 100)
        writer.write(lines("d"))
    assert reader.update() == ["a", "b", "c", "d"]
    refused = reader.connection.execute("SELECT sum(malformed) FROM units").fetchone()
    assert refused == (0,)
