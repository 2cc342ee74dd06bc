"""The course of the demo, without its processes."""

import io
import threading
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from moirae.demo.run import (
    _Demo,
    _describe_engine,
    _format_duration,
    _Interrupted,
    create_workspace,
    move_previous_workspace,
)
from moirae.errors import MoiraeError


def test_progress_bar_is_not_drawn_below_the_message_of_an_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr("sys.stderr", terminal)
    demo = _Demo.__new__(_Demo)
    demo._stop = threading.Event()
    demo._console = Console(file=terminal, force_terminal=True)
    with suppress(_Interrupted), demo._open_progress_bar() as progress:
        progress.add_task("archiving", total=1)
        progress.refresh()
        demo._stop.set()
        demo._wait(0.0)
    before, _, after = terminal.getvalue().partition("Interrupted")
    assert "archiving" in before
    assert "archiving" not in after


@pytest.mark.parametrize(("cores", "engine"), [(2, "auto"), (8, "spark")])
def test_executors_do_all_work_only_with_the_cores_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cores: int, engine: str
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert create_workspace(tmp_path / "demo").engine == engine
    assert f"Engine {engine}" in _describe_engine()


def test_previous_workspace_is_moved_and_the_one_before_it_deleted(tmp_path: Path) -> None:
    directory, previous = tmp_path / "demo", tmp_path / "demo.old"
    assert move_previous_workspace(directory) is None
    for number in range(3):
        create_workspace(directory)
        (directory / f"note-{number}").touch()
        assert move_previous_workspace(directory) == previous
        assert [path.name for path in previous.glob("note-*")] == [f"note-{number}"]
        assert not directory.exists()


@pytest.mark.parametrize("name", ["demo", "demo.old"])
def test_directory_that_is_not_a_demo_is_neither_moved_nor_deleted(
    tmp_path: Path, name: str
) -> None:
    create_workspace(tmp_path / "demo")
    create_workspace(tmp_path / "demo.old")
    (tmp_path / name / ".moirae-demo").unlink()
    with pytest.raises(MoiraeError, match=f"{name}: directory is not empty and not a demo"):
        move_previous_workspace(tmp_path / "demo")
    assert (tmp_path / "demo" / "moirae.yaml").exists()
    assert (tmp_path / "demo.old" / "moirae.yaml").exists()


def test_port_is_that_of_the_dashboard(tmp_path: Path) -> None:
    assert create_workspace(tmp_path / "a", 9001).server.public_url == "http://127.0.0.1:9001"
    assert create_workspace(tmp_path / "b").server.port == 8765


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3, "3 seconds"), (60, "a minute"), (90, "1.5 minutes"), (600, "10 minutes")],
)
def test_duration_of_the_live_phase_is_stated(seconds: int, text: str) -> None:
    assert _format_duration(timedelta(seconds=seconds)) == text
