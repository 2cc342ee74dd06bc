"""Rule files whose check crashes the process: rejected after some attempts, checked again on
request.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from py4j.protocol import Py4JNetworkError

from moirae.config.settings import Settings
from moirae.deployments import reload
from moirae.deployments.reload import RuleFileLoader
from moirae.errors import MoiraeError
from moirae.runtime import database
from sql.rules import RuleFileGateway
from tests.property.world import workspace


@pytest.fixture(scope="module")
def settings(public_folder: Path) -> Settings:
    (public_folder / "rules").mkdir()
    (public_folder / "rules" / "rules.yaml").write_text("groups: []\n")
    return workspace(public_folder)


@pytest.fixture(scope="module")
def connection(settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(settings, "rules") as new_connection:
        yield new_connection


def test_rule_files_that_crash_the_check_are_rejected_after_some_attempts(
    settings: Settings, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = 0

    def falls(*_: Any) -> Any:
        nonlocal checks
        checks += 1
        raise Py4JNetworkError("no memory")

    rule_files = RuleFileGateway(connection)
    files = RuleFileLoader(None, settings, connection)  # type: ignore[arg-type]
    monkeypatch.setattr(reload, "check_rule_files", falls)
    for _ in range(reload._MAX_CRASHES):
        assert files.is_check_due(files_changed=True)
        with pytest.raises(Py4JNetworkError):
            files.apply()
    with pytest.raises(MoiraeError, match="3 processes crashed while checking them"):
        files.apply()
    assert checks == reload._MAX_CRASHES
    assert "rule files are not checked:" in (rule_files.get_state().problems or [""])[0]
    assert not files.is_check_due(files_changed=True)
    rule_files.request_reload()
    assert files.is_check_due(files_changed=True)
    monkeypatch.setattr(reload, "check_rule_files", lambda *_: ([], []))
    assert files.apply() == []
    assert rule_files.get_state().problems is None


def test_other_rule_files_keep_all_their_attempts(connection: Connection[Any]) -> None:
    rule_files = RuleFileGateway(connection)
    assert [rule_files.begin_check(digest) for digest in ("a", "a", "b", "a", "a")] == [
        0,
        1,
        0,
        0,
        1,
    ]
    rule_files.record_check(0, "a", None)
    assert rule_files.begin_check("a") == 0
