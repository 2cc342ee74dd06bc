"""The option `--fast`: only tests without Spark, databases and other servers; `--not-fast`: the others.

Tests that are marked `services` or `processes` are deselected. A test that starts a service anyway
fails, whatever the code under test makes of the refusal; child processes refuse to start services
as well.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.service_guard import refused_services

_GUARD_FOLDER = Path(refused_services.__file__).parent
_TESTS = Path(__file__).parent
_FAST_FOLDERS = ("unit", "property")
_SLOW_TO_START = ("services", "processes")


def refuse_connection(*arguments: Any, **options: Any) -> None:
    refused_services.refuse("PostgreSQL")


def refuse_services() -> None:
    """Refuse services in this process and its children until it ends."""
    refused_services.install()
    search_path = [str(_GUARD_FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(search_path)
    psycopg.connect = refuse_connection  # type: ignore[assignment]
    psycopg.Connection.connect = refuse_connection  # type: ignore[assignment,method-assign]


def _is_slow_to_start(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in _SLOW_TO_START)


def _is_fast(item: pytest.Item) -> bool:
    """Whether `make test-fast` runs it."""
    folder = item.path.relative_to(_TESTS).parts[0]
    return folder in _FAST_FOLDERS and not _is_slow_to_start(item)


def _deselect(
    config: pytest.Config, items: list[pytest.Item], condition: Callable[[pytest.Item], bool]
) -> None:
    config.hook.pytest_deselected(items=[item for item in items if condition(item)])
    items[:] = [item for item in items if not condition(item)]


class OnlyWithServices:
    """The hooks of a run with `--not-fast`."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Import no file without such a test: that takes half of the time of collection."""
        if not collection_path.name.startswith("test_"):
            return None
        if collection_path.relative_to(_TESTS).parts[0] not in _FAST_FOLDERS:
            return None
        source = collection_path.read_text("utf-8")
        return None if any(f"mark.{name}" in source for name in _SLOW_TO_START) else True

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        _deselect(config, items, _is_fast)


class WithoutServices:
    """The hooks of a run with `--fast`."""

    def __init__(self) -> None:
        self._refused = refused_services.refused

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        _deselect(config, items, _is_slow_to_start)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        self._refused.clear()
        yield
        if self._refused:
            pytest.fail(self._refused[0], pytrace=False)
