"""Output of the demo: similar events, what is normal, and commands that can be copied."""

import io
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from rich.console import Console

from moirae.demo.report import AlertNarrator, DemoReport, format_norm, print_next_commands
from moirae.inspect.past_events import SimilarEvent

WIDTH = 80
COVERAGE = {"read": 1, "left": 26, "failed": 0, "by_summary": 0, "final": False}


def _console() -> tuple[Console, io.StringIO]:
    output = io.StringIO()
    return Console(file=output, width=WIDTH), output


def test_lines_of_a_similar_event_fit_the_terminal_and_are_aligned() -> None:
    past: Any = {
        "key": {"host": "lund-1"},
        "notes": [{"kind": "resolution", "text": "Lowered its priority. " * 5, "tag": "renice"}],
    }
    hit = SimilarEvent(
        eid=UUID(int=1),
        rank=1,
        score=0.89,
        ts=datetime(2026, 11, 10, 18, 12, tzinfo=UTC),
        shared=[("experiment=key-search", 0.5), ("user=poplar", 0.3), ("process=hashsweep", 0.2)],
        only_new=[],
        only_past=[],
        past=past,
    )
    console, output = _console()
    AlertNarrator(None, console, datetime.now(UTC))._print_hits([hit])  # type: ignore[arg-type]
    lines = output.getvalue().splitlines()
    assert lines[0].startswith("      0.89  Nov 10 18:12Z on lund-1  both ran experiment=")
    note = [line.startswith("            fixed: Lowered") for line in lines].index(True)
    assert note > 1
    assert all(line.startswith(" " * 12) for line in lines[1:note])
    assert len(lines) > note + 1
    assert all(line.startswith(" " * 19) for line in lines[note + 1 :])
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize(
    ("program", "path", "shown"),
    [
        (".venv/bin/moirae", "/usr/bin", ".venv/bin/moirae"),  # as `make demo` starts it
        (".venv/bin/moirae", "{bin}", "moirae"),  # in the activated virtual environment
    ],
)
def test_closing_commands_work_in_the_current_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, path: str, shown: str
) -> None:
    executable = tmp_path / program
    executable.parent.mkdir(parents=True)
    executable.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path.format(bin=executable.parent))
    monkeypatch.setattr(sys, "argv", [program])
    console, output = _console()
    print_next_commands(console, tmp_path / ".moirae-demo" / "moirae.yaml")
    commands = [line for line in output.getvalue().splitlines() if line.startswith("  ")]
    options = "--workspace .moirae-demo/moirae.yaml"
    assert commands == [
        f"  {shown} up {options}",
        f"  {shown} tokens login-url demo {options}",
        f"  {shown} alerts list {options}",
    ]


@pytest.mark.parametrize("recurring", [True, False])
def test_advice_to_resolve_an_alert_is_given_if_a_similar_one_follows(recurring: bool) -> None:
    console, output = _console()
    url = "http://127.0.0.1:8765/login#code=" + "x" * 43
    DemoReport(console).print_dashboard(url, recurring)
    assert f"  {url}\n" in output.getvalue()  # not wrapped
    assert ("Resolve an alert" in output.getvalue()) is recurring


def test_demo_without_dashboard_names_the_log_and_another_port() -> None:
    console, output = _console()
    DemoReport(console).print_dashboard(None, recurring=True)
    assert "up.log" in output.getvalue()
    assert "--port" in output.getvalue()


@pytest.mark.parametrize(
    ("changes", "samples", "label", "chunks"),
    [
        ({}, 900, "there so far", "1 of 27 chunks read, too few to judge"),
        ({"read": 5, "left": 22}, 29, "there so far", "5 of 27 chunks read, too few to judge"),
        ({"read": 5, "left": 22}, 900, "normal there so far", "5 of 27 chunks read"),
        ({"by_summary": 4}, 900, "normal there so far", "5 of 31 chunks read"),
        ({"left": 0, "final": True}, 9, "normal there", "1 of 1 chunks read"),
    ],
)
def test_few_chunks_do_not_say_what_is_normal(
    changes: dict[str, Any], samples: int, label: str, chunks: str
) -> None:
    statistics = {"mean": 39.71, "sd": 6.3, "highest": 55.4, "samples": samples}
    text = format_norm(statistics, {**COVERAGE, **changes}).plain
    assert text == f"    {label}: mean 39.7 ± 6.3, at most 55.4  ({chunks})"
