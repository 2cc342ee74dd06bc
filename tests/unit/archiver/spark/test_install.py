"""Installing the engine: only the locked jars get in, and what is there is not made again."""

import hashlib
import re
from pathlib import Path

import pytest

from archiver.errors import ArchiverError
from archiver.spark import install

GOOD = b"the jar that was locked"
LOCK = {"a.jar": hashlib.sha256(GOOD).hexdigest()}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place to install into."""
    monkeypatch.setattr(install, "INSTALL_FOLDER", tmp_path)
    monkeypatch.setattr(install, "JARS", tmp_path / "jars")
    monkeypatch.setattr(install, "CLASS_ARCHIVE", tmp_path / "spark.jsa")
    monkeypatch.setattr(install, "_installation_stamp", lambda: "today's parts")
    return tmp_path


def fetching(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Let the network deliver this, as `a.jar`."""

    def run(command: list[str], what: str) -> None:
        fetched = Path(command[-1]) / "jars"
        fetched.mkdir(parents=True, exist_ok=True)
        (fetched / "a.jar").write_bytes(content)

    monkeypatch.setattr(install, "_run_command", run)


def steps(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the steps of an installation; the list returned tells which were taken."""
    taken: list[str] = []

    def share_classes() -> None:
        taken.append("share")
        (place / "spark.jsa").write_bytes(b"classes")

    monkeypatch.setattr(install, "_fetch_missing_jars", lambda _: taken.append("fetch"))
    monkeypatch.setattr(install, "_compile_java", lambda: taken.append("compile"))
    monkeypatch.setattr(install, "_create_class_archive", share_classes)
    monkeypatch.setattr(install, "_is_complete", lambda _: True)
    return taken


def test_the_lock_file_names_jars_by_their_sums() -> None:
    lock = install.read_lock(install._LOCK_FILE.read_text())
    assert "io.delta_delta-spark_4.2_2.13-4.4.0.jar" in lock
    assert "io.delta_delta-storage-4.4.0.jar" in lock
    assert all(
        name.endswith(".jar") and re.fullmatch("[0-9a-f]{64}", digest)
        for name, digest in lock.items()
    )


def test_comments_and_empty_lines_of_a_lock_file_are_passed_over() -> None:
    assert install.read_lock("# sums\n\nff a.jar\n") == {"a.jar": "ff"}


def test_jars_that_match_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(GOOD)
    install.verify_jars(tmp_path, LOCK)


def test_a_jar_that_differs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(GOOD + b"\0")
    with pytest.raises(ArchiverError, match=r"a\.jar is not the file"):
        install.verify_jars(tmp_path, LOCK)


def test_a_jar_that_is_absent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiverError, match=r"a\.jar was not fetched"):
        install.verify_jars(tmp_path, LOCK)


def test_fetched_jars_are_put_in_place_and_nothing_else_stays(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching(monkeypatch, GOOD)
    install._fetch_missing_jars(LOCK)
    assert [path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()] == [
        "jars/a.jar"
    ]


def test_a_fetched_jar_that_differs_never_reaches_its_place(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching(monkeypatch, b"something else")
    with pytest.raises(ArchiverError):
        install._fetch_missing_jars(LOCK)
    assert list(place.iterdir()) == []


def test_what_is_there_is_not_made_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = steps(place, monkeypatch)
    assert install.main() == 0
    assert taken == ["fetch", "compile", "share"]
    assert install.main() == 0
    assert len(taken) == 3


def test_other_parts_are_installed_anew(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = steps(place, monkeypatch)
    install.main()
    monkeypatch.setattr(install, "_installation_stamp", lambda: "tomorrow's parts")
    install.main()
    assert len(taken) == 6


def test_damaged_jars_are_fetched_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = steps(place, monkeypatch)
    install.main()
    monkeypatch.setattr(install, "_is_complete", lambda _: False)
    install.main()
    assert taken.count("fetch") == 2


def test_a_lost_class_archive_is_made_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = steps(place, monkeypatch)
    install.main()
    (place / "spark.jsa").unlink()
    install.main()
    assert len(taken) == 6


def test_a_failed_fetch_is_told_in_one_line_and_tried_again(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps(place, monkeypatch)

    def fail(_: object) -> None:
        raise ArchiverError("a.jar was not fetched")

    monkeypatch.setattr(install, "_fetch_missing_jars", fail)
    assert install.main() == 1
    assert capsys.readouterr().err == "set-up failed: a.jar was not fetched\n"
    assert not (place / "stamp").exists()


def test_the_stamp_follows_the_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = install._installation_stamp()
    assert install._installation_stamp() == before
    changed = tmp_path / "jars.lock"
    changed.write_text(install._LOCK_FILE.read_text() + "# changed\n")
    monkeypatch.setattr(install, "_LOCK_FILE", changed)
    assert install._installation_stamp() != before
