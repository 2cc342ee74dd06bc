"""Rule files over which whoever checks them ends: they are refused after some times, and checked again when asked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from py4j.protocol import Py4JNetworkError

from moirae import database
from moirae.deployments import reload
from moirae.deployments.registry import Registry
from moirae.deployments.reload import RuleFiles
from moirae.errors import MoiraeError
from moirae.settings import Settings
from tests.property.world import workspace


@pytest.fixture(scope="module")
def place(public_folder: Path) -> Settings:
    (public_folder / "rules").mkdir()
    (public_folder / "rules" / "rules.yaml").write_text("groups: []\n")
    return workspace(public_folder)


@pytest.fixture(scope="module")
def connection(place: Settings) -> Iterator[Connection[Any]]:
    with database.connect(place, "rules") as made:
        yield made


def test_files_that_end_the_process_are_refused_after_a_while(
    place: Settings, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = 0

    def falls(*_: Any) -> Any:
        nonlocal checks
        checks += 1
        raise Py4JNetworkError("no memory")

    registry = Registry(connection)
    files = RuleFiles(None, place, connection)  # type: ignore[arg-type]
    monkeypatch.setattr(reload, "checked", falls)
    for _ in range(reload._FALLS):
        assert files.due(watch=True)
        with pytest.raises(Py4JNetworkError):
            files.apply()
    with pytest.raises(MoiraeError, match="3 processes have ended while they did so"):
        files.apply()
    assert checks == reload._FALLS
    assert "not checked again" in (registry.rule_files().problems or [""])[0]
    assert not files.due(watch=True)
    registry.ask_reload()
    assert files.due(watch=True)
    monkeypatch.setattr(reload, "checked", lambda *_: ([], []))
    assert files.apply() == []
    assert registry.rule_files().problems is None


def test_other_files_have_all_their_tries(connection: Connection[Any]) -> None:
    registry = Registry(connection)
    assert [registry.begin_look(digest) for digest in ("a", "a", "b", "a", "a")] == [0, 1, 0, 0, 1]
    registry.looked(0, "a", None)
    assert registry.begin_look("a") == 0
