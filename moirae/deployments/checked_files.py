"""Results of checks of rule files that are stored, so that the same files are not read again.

The purpose of a check says what its warnings are: `rules check` also looks for lints.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from moirae.config import Settings
from moirae.deployments.check import select_rule_files
from moirae.errors import Problem
from moirae.rules.checks import VerdictStore
from moirae.runtime.storage import find_altered_types, find_changed_types

Purpose = Literal["check", "apply"]


def find_checked_files(
    settings: Settings, files: Sequence[Path], purpose: Purpose = "check"
) -> tuple[int, list[Problem]] | None:
    """The number of rules in valid files, and the warnings about them; None: not known.

    `files`: none for those of the workspace.
    """
    paths = select_rule_files(settings, files)
    result = VerdictStore(settings).find(_describe(settings, paths, purpose))
    if result is None:
        return None
    warnings: list[Problem] = []
    for number, *values in result["warnings"]:
        warnings.append(Problem(str(paths[number]), *values))
    return result["rules"], warnings


def store_checked_files(
    settings: Settings,
    files: Sequence[Path],
    rules: int,
    warnings: Sequence[Problem],
    purpose: Purpose = "check",
) -> None:
    """Store the result of a check of valid files, if all warnings are about them."""
    paths = select_rule_files(settings, files)
    numbers = {str(path): number for number, path in enumerate(paths)}
    if any(warning.file not in numbers for warning in warnings):
        return
    stored_warnings: list[list[Any]] = []
    for warning in warnings:
        file, *values = asdict(warning).values()
        stored_warnings.append([numbers[file], *values])
    store = VerdictStore(settings)
    store.put(_describe(settings, paths, purpose), {"rules": rules, "warnings": stored_warnings})
    store.save()


def _describe(settings: Settings, paths: Sequence[Path], purpose: Purpose) -> Any:
    """What the result depends on, besides the declared columns, as JSON."""
    digests: list[str] = []
    for path in paths:
        try:
            digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
        except OSError:
            digests.append("")
    altered = {name: dict(types) for name, types in find_altered_types(settings).items()}
    changed = {name: dict(types) for name, types in find_changed_types(settings).items()}
    routes = [route.model_dump(mode="json") for route in settings.routes]
    kind = "files" if purpose == "check" else "applied files"
    return [kind, digests, sorted(settings.table_names), changed, altered, routes]
