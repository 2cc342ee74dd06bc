"""Workspaces that released versions wrote (`v*/`, see `make_workspace.py`) open, answer as before,
and go on.

Through the command line and exports only. A fixture is never made again: where such a test fails,
the code has broken existing workspaces.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Commands
from tests.compatibility.workspace import (
    EXPORTS,
    answers,
    bring_more,
    compact_with_kills,
    holds,
    lasting,
    public_folder,
    restore,
    rows_by_id,
    run_all,
    running_database,
    unpack,
)

_HERE = Path(__file__).parent
_PACKAGES = sorted(folder.parent.name for folder in _HERE.glob("v*/workspace.tar.xz"))

pytestmark = [pytest.mark.services, pytest.mark.slow]


@dataclass
class Opened:
    """An unpacked workspace, and what the version that wrote it said of it before and after more
    rows came.
    """

    root: Path
    process: Commands
    before: dict[str, Any]
    after: dict[str, Any]

    def asked_about(self) -> list[str]:
        """Events about which there are recalls."""
        return sorted({row["eid"] for row in self.before["recalls"]})


@dataclass
class Results:
    """What the command line says now; of commands, exit code and output."""

    answers: dict[str, Any]
    commands: dict[str, tuple[int, str]]


@pytest.fixture(
    scope="module",
    params=[(name, kills) for name in _PACKAGES for kills in (None, 3)],
    ids=lambda param: param[0] if param[1] is None else f"{param[0]}-compacted",
)
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """As it was packed, or with all files rewritten by runs of which some were killed."""
    name, kills = request.param
    folder = _HERE / name
    described = json.loads((folder / "answers.json").read_text())
    with public_folder() as root:
        dump = unpack(folder / "workspace.tar.xz", root)
        with running_database(root) as server:
            restore(server, dump)
            with Commands(root) as process:
                if kills is not None:
                    compact_with_kills(root, kills, random.Random(5))
                yield Opened(root, process, described["before"], described["after"])


@pytest.fixture(scope="module")
def now(opened: Opened) -> Results:
    """Before anything has run in it."""
    compared = {row["query"] for row in opened.before["similar"]}
    commands = {
        "doctor": ["doctor"],
        "diff": ["rules", "diff"],
        **{f"show {alert}": ["alerts", "show", alert] for alert in opened.before["notes"]},
        **{f"similar {eid}": ["similar", eid] for eid in sorted(compared)},
        **{f"repeat {eid}": ["recalls", "repeat", eid] for eid in opened.asked_about()},
    }
    return Results(answers(opened.process), _run(opened.process, commands))


@pytest.fixture(scope="module")
def later(opened: Opened, now: Results) -> Results:
    """After more rows came."""
    bring_more(opened.root)
    drained = opened.process.run("up", "--drain")
    assert drained.returncode == 0, drained.stderr
    eids = [row["eid"] for row in (opened.before["recalls"][0], opened.after["recalls"][-1])]
    commands = {
        "doctor": ["doctor"],
        **{f"repeat {eid}": ["recalls", "repeat", eid] for eid in eids},
    }
    return Results(answers(opened.process), _run(opened.process, commands))


def _run(process: Commands, commands: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, str]]:
    return dict(zip(commands, run_all(process, list(commands.values())), strict=True))


@pytest.mark.parametrize("kind", EXPORTS)
def test_exports_are_as_before(opened: Opened, now: Results, kind: str) -> None:
    expected, actual = rows_by_id(opened.before[kind], kind), rows_by_id(now.answers[kind], kind)
    assert actual.keys() == expected.keys()
    for name, rows in expected.items():
        assert holds(actual[name], rows), (actual[name], rows)


def test_rules_keep_their_versions(opened: Opened, now: Results) -> None:
    assert now.answers["rules"] == opened.before["rules"]
    code, output = now.commands["diff"]
    assert code == 0, output


@pytest.mark.parametrize("what", ["streams", "dead_letters", "chunks"])
def test_accounting_is_as_before(opened: Opened, now: Results, what: str) -> None:
    """Of streams and chunks that were there: later versions have streams of their own."""
    expected, actual = opened.before[what], now.answers[what]
    if isinstance(expected, dict):
        actual = {name: actual[name] for name in expected}
    assert actual == expected


def test_doctor_finds_nothing_wrong(now: Results) -> None:
    code, output = now.commands["doctor"]
    assert code == 0, output


def test_notes_and_tags_are_shown(opened: Opened, now: Results) -> None:
    for alert, notes in opened.before["notes"].items():
        _, output = now.commands[f"show {alert}"]
        for note in notes:
            assert all(text in output for text in note if text), output


def test_similar_events_come_with_what_fixed_them(opened: Opened, now: Results) -> None:
    remedies = {
        text
        for notes in opened.before["notes"].values()
        for kind, _, text, _ in notes
        if kind == "resolution"
    }
    outputs = [output for name, (_, output) in now.commands.items() if name.startswith("similar ")]
    assert outputs
    assert all(any(text in output for output in outputs) for text in remedies)


def test_recalls_repeat_the_same(opened: Opened, now: Results) -> None:
    for eid in opened.asked_about():
        code, output = now.commands[f"repeat {eid}"]
        assert code == 0, output
        answered_recalls = [
            row for row in opened.before["recalls"] if row["eid"] == eid and row["revision"]
        ]
        assert output.count("the same") == len(answered_recalls)


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXPORTS)
def test_more_rows_give_the_same_answers(opened: Opened, later: Results, kind: str) -> None:
    """New rows are judged, compared and asked about as by the version of then; what was there has
    not changed.
    """
    expected = rows_by_id(opened.before[kind], kind) | rows_by_id(opened.after[kind], kind)
    actual = rows_by_id(later.answers[kind], kind)
    assert actual.keys() == expected.keys()
    for name, rows in expected.items():
        expected_rows = [lasting(row, kind) for row in rows]
        assert holds(actual[name], expected_rows), (actual[name], rows)


@pytest.mark.slow
def test_more_rows_are_archived(opened: Opened, later: Results) -> None:
    """Rows that come again are known, whatever version archived them. Later versions have streams
    of their own.
    """
    expected = opened.after["streams"]
    assert {name: later.answers["streams"][name] for name in expected} == expected
    assert later.answers["dead_letters"] == opened.after["dead_letters"]
    assert later.answers["chunks"] == opened.after["chunks"]
    assert later.answers["rules"] == opened.before["rules"]


@pytest.mark.slow
def test_doctor_finds_no_problem_after_more_rows(later: Results) -> None:
    assert {name: code for name, (code, _) in later.commands.items() if code} == {}
