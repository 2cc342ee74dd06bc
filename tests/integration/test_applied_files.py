"""Rule files that are applied are not read again by the next start, until something differs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from moirae.config.settings import Settings
from moirae.deployments import RuleRegistry, reload
from moirae.deployments.reload import RuleFileLoader
from moirae.errors import Problem
from moirae.rules import Definition, make_external_definition
from moirae.runtime import database
from tests.property.world import workspace


class _Start:
    """Starts of a workspace whose files are checked without Spark."""

    def __init__(self, settings: Settings, connection: Connection[Any]) -> None:
        self.settings = settings
        self.connection = connection
        self.file = Path(settings.file).parent / "rules" / "rules.yaml"
        self.checks = 0
        self.definitions: list[Definition] = [make_external_definition("a")]

    def check(self, *_: Any) -> tuple[list[Definition], list[Problem]]:
        self.checks += 1
        return self.definitions, [Problem(str(self.file), 1, 1, "odd", "warning")]

    def start(self) -> bool:
        """Start once. Returns whether the files were read."""
        before = self.checks
        RuleFileLoader(None, self.settings, self.connection).apply()  # type: ignore[arg-type]
        return self.checks > before


@pytest.fixture
def starts(public_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Start]:
    (public_folder / "rules").mkdir(exist_ok=True)
    (public_folder / "rules" / "rules.yaml").write_text("groups: []\n")
    settings = workspace(public_folder)
    with database.connect_database(settings, "rules") as connection:
        starts = _Start(settings, connection)
        monkeypatch.setattr(reload, "check_rule_files", starts.check)
        yield starts


def test_applied_files_are_read_again_only_if_something_differs(
    starts: _Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(reload._LOG, "warning", lambda _, **details: warnings.append(str(details)))
    assert starts.start()
    assert not starts.start()
    assert len(warnings) == 2  # each start tells them
    # Another file.
    starts.file.write_text("groups: [] # edited\n")
    assert starts.start()
    assert not starts.start()
    # Rules that were applied otherwise.
    RuleRegistry(starts.connection).apply([make_external_definition("b")])
    assert starts.start()
    assert not starts.start()
    # The verdict is gone, as after a new version of the gate.
    (Path(starts.settings.home) / "rule_verdicts.jsonl").unlink()
    assert starts.start()
    assert not starts.start()


def test_files_that_change_while_they_are_checked_are_read_again(
    starts: _Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = starts.check

    def check_slowly(*arguments: Any) -> tuple[list[Definition], list[Problem]]:
        content = starts.file.read_text()
        starts.file.write_text("groups: [] # for a moment\n")
        result = check(*arguments)
        if starts.checks > 1:
            starts.file.write_text(content)
        return result

    monkeypatch.setattr(reload, "check_rule_files", check_slowly)
    assert starts.start()
    starts.file.write_text("groups: []\n")
    assert starts.start()
