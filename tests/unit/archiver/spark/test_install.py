"""Installation of Spark's jars: only locked jars are accepted, and complete steps are skipped."""

import hashlib
import re
import subprocess
from pathlib import Path

import pytest

from archiver.errors import ArchiverError
from archiver.spark import install

GOOD = b"the jar that was locked"
LOCK = {"a.jar": hashlib.sha256(GOOD).hexdigest()}


@pytest.fixture
def install_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to install into."""
    monkeypatch.setattr(install, "INSTALL_FOLDER", tmp_path)
    monkeypatch.setattr(install, "JARS", tmp_path / "jars")
    monkeypatch.setattr(install, "CLASS_ARCHIVE", tmp_path / "spark.jsa")
    monkeypatch.setattr(install, "_installation_stamp", lambda classes: f"first stamp {classes}")
    return tmp_path


def stub_download(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Let downloads deliver `a.jar` with this content."""

    def run(command: list[str], description: str) -> None:
        downloads = Path(command[-1]) / "jars"
        downloads.mkdir(parents=True, exist_ok=True)
        (downloads / "a.jar").write_bytes(content)

    monkeypatch.setattr(install, "_run_command", run)


def record_steps(install_folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the steps of an installation. The list names those that have run."""
    steps: list[str] = []

    def archive_classes(classes: str) -> None:
        steps.append(f"archive {classes}")
        (install_folder / "spark.jsa").write_bytes(b"classes")

    monkeypatch.setattr(install, "_provide_jars", lambda lock, source: steps.append("fetch"))
    monkeypatch.setattr(install, "_compile_java", lambda: steps.append("compile"))
    monkeypatch.setattr(install, "_create_class_archive", archive_classes)
    monkeypatch.setattr(install, "_is_complete", lambda _: True)
    return steps


def test_lock_file_has_the_checksums_of_the_jars() -> None:
    lock = install.read_lock(install._LOCK_FILE.read_text())
    assert "io.delta_delta-spark_4.2_2.13-4.4.0.jar" in lock
    assert "io.delta_delta-storage-4.4.0.jar" in lock
    assert all(
        name.endswith(".jar") and re.fullmatch("[0-9a-f]{64}", digest)
        for name, digest in lock.items()
    )


def test_comments_and_empty_lines_of_a_lock_file_are_ignored() -> None:
    assert install.read_lock("# sums\n\nff a.jar\n") == {"a.jar": "ff"}


def test_jar_with_the_locked_checksum_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(GOOD)
    install.verify_jars(tmp_path, LOCK)


def test_jar_with_another_checksum_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(GOOD + b"\0")
    with pytest.raises(ArchiverError, match=r"a\.jar: checksum differs"):
        install.verify_jars(tmp_path, LOCK)


def test_missing_jar_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiverError, match=r"a\.jar: is missing"):
        install.verify_jars(tmp_path, LOCK)


def test_only_locked_jars_are_installed(
    install_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub_download(monkeypatch, GOOD)
    install._provide_jars(LOCK, None)
    files = [path for path in install_folder.rglob("*") if path.is_file()]
    assert files == [install_folder / "jars" / "a.jar"]


def test_downloaded_jar_with_another_checksum_is_not_installed(
    install_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub_download(monkeypatch, b"something else")
    with pytest.raises(ArchiverError):
        install._provide_jars(LOCK, None)
    assert list(install_folder.iterdir()) == []


def test_complete_installation_is_not_repeated(
    install_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = record_steps(install_folder, monkeypatch)
    assert install.main() == 0
    assert steps == ["fetch", "compile", "archive work"]
    assert install.main() == 0
    assert len(steps) == 3


def test_changed_stamp_repeats_the_installation(
    install_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = record_steps(install_folder, monkeypatch)
    install.main()
    monkeypatch.setattr(install, "_installation_stamp", lambda _: "second stamp")
    install.main()
    assert len(steps) == 6


def test_damaged_jars_are_downloaded_again(
    install_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = record_steps(install_folder, monkeypatch)
    install.main()
    monkeypatch.setattr(install, "_is_complete", lambda _: False)
    install.main()
    assert steps.count("fetch") == 2


def test_missing_class_archive_is_created_again(
    install_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = record_steps(install_folder, monkeypatch)
    install.main()
    (install_folder / "spark.jsa").unlink()
    install.main()
    assert len(steps) == 6


def test_failed_download_is_reported_in_one_line_and_leaves_no_stamp(
    install_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record_steps(install_folder, monkeypatch)

    def fail(_: object, source: object) -> None:
        raise ArchiverError("a.jar: not downloaded")

    monkeypatch.setattr(install, "_provide_jars", fail)
    assert install.main() == 1
    assert capsys.readouterr().err == "moirae: setup failed: a.jar: not downloaded\n"
    assert not (install_folder / "stamp").exists()


def test_other_classes_are_archived_when_they_are_asked_for(
    install_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = record_steps(install_folder, monkeypatch)
    install.main(classes="start")
    assert steps[-1] == "archive start"
    install.main(classes="work")
    assert steps[-1] == "archive work"
    install.main(classes="none")
    assert not (install_folder / "spark.jsa").exists()
    install.main(classes="none")
    assert len(steps) == 8


def test_stamp_changes_with_the_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = subprocess.CompletedProcess(["java"], 0, "", "openjdk version 17")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: version)
    before = install._installation_stamp("work")
    assert install._installation_stamp("work") == before
    changed = tmp_path / "jars.lock"
    changed.write_text(install._LOCK_FILE.read_text() + "# changed\n")
    monkeypatch.setattr(install, "_LOCK_FILE", changed)
    assert install._installation_stamp("work") != before
