"""`moirae rules import-sigma` on the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from moirae.cli import app
from moirae.cli import import_sigma as command
from tests.unit.moirae.sigma.examples import CURL, NET, make_workspace, write_rules


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    make_workspace(tmp_path)
    folder = write_rules(tmp_path / "sigma", curl=CURL, net=NET.replace("CommandLine", "Command"))
    return [
        *("rules", "import-sigma", str(folder), "--stream", "process", "--key", "Computer"),
        *("--workspace", str(tmp_path / "moirae.yaml")),
    ]


def test_report_lists_what_is_left_out(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 3
    assert "net.yml:1: left out: field Command: no such column in stream process" in result.stderr
    assert result.stdout.split() == [
        *("imported", "1", "new", "1", "left", "out", "1", "field", "1", "wrote", "1", "file:"),
        "sigma_process_windows_process_creation.yaml",
    ]


def test_json_has_counts_and_places(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, [*arguments, "-o", "json"])
    content = json.loads(result.stdout)
    assert (content["imported"], content["left_out_by_kind"]) == (1, {"field": 1})
    (item,) = content["left_out"]
    assert (item["line"], item["title"], item["kind"]) == (1, "Account list", "field")


def test_complete_import_ends_with_0(arguments: list[str]) -> None:
    arguments[2] += "/curl.yml"
    assert CliRunner().invoke(app, [*arguments, "--dry-run"]).exit_code == 0


def test_missing_extra_is_named(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, arguments)
    assert "pip install 'moirae-monitoring[sigma]'" in str(result.exception)
