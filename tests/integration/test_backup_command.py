"""`moirae backup` and `moirae restore` on a machine that was lost."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from moirae.cli import app
from moirae.errors import MoiraeError
from tests.backups import filled, make_workspace, numbers_of, stop_database

pytestmark = pytest.mark.services


class Machine:
    """A folder with a workspace, and one with its backups."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.backups = folder / "backups"
        self.settings = make_workspace(folder / "ws")

    def run(self, *arguments: str, code: int = 0) -> Result:
        """Run a command on the workspace."""
        workspace = ["--workspace", str(self.folder / "ws" / "moirae.yaml")]
        result = CliRunner().invoke(app, [*arguments, *workspace])
        if isinstance(result.exception, MoiraeError):
            assert code == result.exception.exit_code, result.exception
            return result
        assert result.exit_code == code, result.output
        return result

    def json(self, *arguments: str) -> Any:
        """The output of a command as JSON."""
        return json.loads(self.run(*arguments, "-o", "json").stdout)

    def lose(self) -> None:
        """All but the backups is gone."""
        stop_database(self.settings)
        shutil.rmtree(self.folder / "ws")


@pytest.fixture
def machine(public_folder: Path) -> Iterator[Machine]:
    machine = Machine(public_folder / "machine")
    with filled(machine.settings) as archive:
        archive.archive_each(range(3))
    yield machine
    stop_database(machine.settings)
    shutil.rmtree(machine.folder)


@pytest.mark.slow
def test_lost_machine_is_restored_from_the_newest_backup(machine: Machine) -> None:
    key = machine.folder / "key"
    assert "public key is age1" in CliRunner().invoke(app, ["backup", "new-key", str(key)]).stdout
    options = [str(machine.backups), "--key-file", str(key)]
    first = machine.run("backup", *options).stdout
    assert first.startswith("backup 20")
    assert "3 rows" in first
    with filled(machine.settings) as archive:
        archive.archive_each(range(3, 5))
    (listed,) = machine.json("backup", "list", *options)
    second = machine.json("backup", *options, "--since", "LAST")
    manifest = machine.backups / "backups" / second["name"] / "manifest.json"
    manifest.rename(machine.folder / "manifest")
    listing = machine.run("backup", "list", *options)
    assert listed["name"] in listing.stdout
    assert f"not complete: {second['name']}: in progress, interrupted" in listing.stderr
    (machine.folder / "manifest").rename(manifest)
    assert (second["rows"], second["generation"]) == (5, 1)
    assert second["appends"] == {"cpu": 5, "external_alerts": 0}
    assert second["new_bytes"] < second["bytes"]
    verified = machine.run("backup", "--verify", *options).stdout
    assert "is what was backed up" in verified
    assert "5 rows by identity" in verified

    machine.lose()
    wrong = machine.run("restore", str(machine.backups), code=2)
    assert "are encrypted for age1" in str(wrong.exception)
    only_files = machine.run("restore", *options, "--files-only").stdout
    assert "run `moirae restore` again" in only_files
    assert not (machine.folder / "ws" / ".moirae").exists()
    restored = machine.run("restore", *options)
    assert "moirae.yaml: exists, not replaced" in restored.stdout
    assert f"backup {second['name']} restored, as generation 2" in restored.stdout
    assert "it cannot notice that it was replaced" in restored.stderr
    assert numbers_of(machine.settings) == list(range(5))
    machine.run("restore", *options, code=2)


def test_misuse_is_explained(machine: Machine) -> None:
    for arguments, message in (
        (["backup"], "no folder of backups"),
        (["backup", "gs://bucket"], "must be a directory"),
        (["backup", "x", "--since", "none"], "no complete backup 'none'"),
        (["backup", "x", "--since", "LAST"], "holds no complete backup"),
        (["backup", "x", "--backup", "name"], "names a backup to --verify"),
        (["backup", "x", "--verify", "--since", "a"], "--verify makes no backup"),
        (["backup", "x", "--without-database"], "has no other backup"),
        (["backup", "--verify", str(machine.backups)], "holds no complete backup"),
        (["restore", str(machine.backups)], "holds no complete backup"),
        (["backup", "list", str(machine.backups)], "is no folder of backups"),
    ):
        result = machine.run(*arguments, code=2)
        assert message in str(result.exception)
