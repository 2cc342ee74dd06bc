"""A small workspace of an earlier version goes on: no file is read twice, and no record is archived
twice, also if its columns change with the upgrade.

`make_small_workspace.py` makes such workspaces.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Commands
from tests.compatibility.workspace import (
    MORE,
    answers,
    public_folder,
    restore,
    running_database,
    unpack,
)

_HERE = Path(__file__).parent
_PACKAGES = sorted(
    folder.parent.name
    for folder in _HERE.glob("*/workspace.tar.xz")
    if not folder.parent.name.startswith("v")
)

pytestmark = pytest.mark.services


@dataclass
class Upgraded:
    """An unpacked workspace, and what the version that wrote it said of it."""

    root: Path
    process: Commands
    before: dict[str, Any]

    def drain(self) -> None:
        """Read what is unread. All must be well."""
        done = self.process.run("up", "--drain")
        assert done.returncode == 0, done.stderr
        self.process.output("doctor")

    def count(self, stream: str, counter: str) -> int:
        """By how much a counter of a stream has grown since the upgrade."""
        counters = answers(self.process)["streams"][stream]
        return int(counters[counter] - self.before["streams"][stream][counter])

    def replace(self, old: str, new: str) -> None:
        """Edit the workspace file."""
        path = self.root / "moirae.yaml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def bring_more(self) -> None:
        """Files with rows of before, and with new ones."""
        for path in sorted((self.root / MORE).glob("*/*")):
            if path.parent.name == "posted":
                self.process.output("ingest", "posted", str(path))
            else:
                shutil.copy(path, self.root / "landing" / path.parent.name / path.name)


@pytest.fixture(params=_PACKAGES)
def upgraded(request: pytest.FixtureRequest) -> Iterator[Upgraded]:
    folder = _HERE / request.param
    described = json.loads((folder / "answers.json").read_text())
    with public_folder() as root:
        dump = unpack(folder / "workspace.tar.xz", root)
        with running_database(root) as server:
            restore(server, dump)
            with Commands(root) as process:
                yield Upgraded(root, process, described)


def _lasting(recalls: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What does not depend on when an answer was revised."""
    return sorted((row["eid"], row["recall"], row["state"], str(row["answer"])) for row in recalls)


@pytest.mark.slow
def test_rows_of_before_are_duplicates_although_columns_change(upgraded: Upgraded) -> None:
    """`n` is widened; `rack`, `process` and `cores` were not declared."""
    upgraded.replace("n: bigint, cpu: double", "n: double, cpu: double, rack: int")
    upgraded.replace("user: string", "user: string, process: string")
    upgraded.replace("load: float", "load: double, cores: bigint")
    upgraded.bring_more()
    upgraded.drain()
    for stream, counts in {
        "cpu": (135, 35, 100),
        "jobs": (50, 0, 50),
        "posted": (50, 0, 50),
    }.items():
        counters = ("read", "archived", "duplicates")
        assert tuple(upgraded.count(stream, counter) for counter in counters) == counts


@pytest.mark.slow
def test_no_file_is_read_twice(upgraded: Upgraded) -> None:
    upgraded.drain()
    actual = answers(upgraded.process)
    # Later versions have built-in streams.
    actual["streams"] = {name: actual["streams"][name] for name in upgraded.before["streams"]}
    for name in ("streams", "dead_letters", "rules", "events", "alerts"):
        assert actual[name] == upgraded.before[name]
    assert _lasting(actual["recalls"]) == _lasting(upgraded.before["recalls"])
    for eid in {row["eid"] for row in actual["recalls"] if row["final"]}:
        upgraded.process.output("recalls", "repeat", eid)
    upgraded.bring_more()
    upgraded.drain()
    assert [upgraded.count("cpu", name) for name in ("read", "duplicates")] == [135, 100]
