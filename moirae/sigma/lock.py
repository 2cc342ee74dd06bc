"""The lock file of an import: the name and place of each imported rule, and what was imported.

It is beside the rule files, and belongs under version control with them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from moirae.errors import MoiraeError

VERSION = 1


@dataclass(frozen=True)
class LockedRule:
    """An imported rule. `alert`, `file`: its name and rule file; `base`: its keys as imported."""

    alert: str
    file: str
    base: Mapping[str, Any]
    source: str = ""


@dataclass
class LockFile:
    """The rules that were imported over a stream, by Sigma ID."""

    stream: str
    rules: dict[str, LockedRule] = field(default_factory=dict)


def read_lock(path: Path, stream: str) -> LockFile:
    """The lock file; an empty one if there is none. Raises `MoiraeError`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["version"] > VERSION:
            raise MoiraeError(f"{path}: written by a later version of moirae; use that version")
        rules = {name: LockedRule(**rule) for name, rule in content["rules"].items()}
    except FileNotFoundError:
        return LockFile(stream)
    except OSError as error:
        raise MoiraeError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MoiraeError(
            f"{path}: not a lock file of import-sigma; restore it, or delete it: then local changes "
            "of imported rules count as conflicts"
        ) from error
    return LockFile(str(content.get("stream") or stream), rules)


def format_lock(lock: LockFile) -> str:
    """The text of a lock file, in the order of IDs: a difference shows what was imported."""
    rules = {name: asdict(rule) for name, rule in sorted(lock.rules.items())}
    content = {"version": VERSION, "stream": lock.stream, "rules": rules}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
