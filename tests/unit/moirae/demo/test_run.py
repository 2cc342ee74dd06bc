"""The course of the demo, without its processes."""

import io
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

from moirae.demo.run import _Demo, _describe_engine, _Interrupted, create_workspace


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
