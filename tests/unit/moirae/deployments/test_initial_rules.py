"""The rule files of a workspace at the start."""

from typing import Any

import pytest

from moirae.deployments.initial_rules import InitialRules
from moirae.errors import MoiraeError


class _Files:
    """Stands for settings, loader and registry."""

    def __init__(self, files: list[str], applied: list[str]) -> None:
        self._files = files
        self._applied = applied
        self.was_loaded = False

    def find_rule_files(self) -> list[str]:
        return self._files

    def desired_rules(self) -> list[str]:
        return self._applied

    def apply(self) -> None:
        self.was_loaded = True
        raise MoiraeError("rules.yaml:1:1: invalid")


def _apply(files: _Files, *, required: bool) -> None:
    parts: Any = files
    InitialRules(parts, parts, parts, required=required).apply()


@pytest.mark.parametrize("required", [False, True])
def test_without_files_nothing_changes(required: bool) -> None:
    files = _Files([], [])
    _apply(files, required=required)
    assert not files.was_loaded


def test_invalid_files_are_an_error_without_applied_rules() -> None:
    with pytest.raises(MoiraeError):
        _apply(_Files(["rules.yaml"], []), required=False)


def test_applied_rules_stay_with_invalid_files() -> None:
    files = _Files(["rules.yaml"], ["g/r"])
    _apply(files, required=False)
    assert files.was_loaded


def test_invalid_files_are_an_error_where_they_are_required() -> None:
    with pytest.raises(MoiraeError):
        _apply(_Files(["rules.yaml"], ["g/r"]), required=True)
