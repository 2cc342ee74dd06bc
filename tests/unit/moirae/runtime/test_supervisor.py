"""The processes that `moirae up` starts."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from moirae.config.settings import Settings, load_settings
from moirae.errors import RoleLost
from moirae.runtime.logs import LogFormat
from moirae.runtime.supervisor import ChildProcess, _make_children


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    file = tmp_path / "moirae.yaml"
    file.write_text("streams: {}\n")
    return load_settings(file, {})


def test_all_processes_log_in_the_format_of_the_supervisor(settings: Settings) -> None:
    children = _make_children(settings, drain=False, log_format=LogFormat.JSON)
    assert {child.name for child in children} == {"live", "recall", "server"}
    for child in children:
        option = list(child.arguments).index("--log-format")
        assert child.arguments[option + 1] == "json"


def test_drain_starts_no_server(settings: Settings) -> None:
    children = _make_children(settings, drain=True, log_format=LogFormat.AUTO)
    assert {child.name for child in children} == {"live", "recall"}
    assert "--drain" in children[0].arguments


def test_process_that_lost_its_role_restarts_without_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ChildProcess, "_kill_process_group", lambda child: None)
    child = ChildProcess("live", [])
    with capture_logs() as entries:
        child.handle_exit(RoleLost.exit_code)
    assert [entry["log_level"] for entry in entries] == ["info"]
    assert child.failed_starts == 0


def test_exit_by_a_signal_is_logged_with_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChildProcess, "_kill_process_group", lambda child: None)
    with capture_logs() as entries:
        ChildProcess("live", []).handle_exit(-9)
        ChildProcess("live", []).handle_exit(70)
    assert [(entry["exit_code"], entry.get("signal")) for entry in entries] == [(-9, 9), (70, None)]
