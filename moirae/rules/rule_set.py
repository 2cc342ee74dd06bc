"""What rule files become: rules and derived streams that know their group, their version and their place."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson

from moirae.documents import Document, KeyPath, Position
from moirae.errors import Problem, Severity
from moirae.rules.model import AlertSpec, DerivedStreamSpec, Group

# The keys that decide which events there are and what their contexts hold.
_VERSION_KEYS = (
    "expr",
    "absent",
    "stream",
    "key",
    "id",
    "for",
    "keep_firing_for",
    "delay",
    "context",
)


@dataclass(frozen=True, slots=True)
class Origin:
    """The place in a file that something was read from."""

    document: Document
    path: KeyPath

    @property
    def file(self) -> str:
        return self.document.file

    def position(self, *path: str | int, line: int = 1, column: int = 1) -> Position:
        """Where a value below this place starts; in a text, where its character at line and column stands."""
        return self.document.text_position(self.path + path, line, column)


@dataclass(frozen=True, slots=True)
class DerivedQuery:
    """A named query whose result is a stream."""

    group: str
    stream: str
    expr: str
    archive: bool = False
    origin: Origin | None = field(default=None, compare=False, repr=False)

    def problem(
        self,
        message: str,
        *path: str | int,
        line: int = 1,
        column: int = 1,
        severity: Severity = "error",
    ) -> Problem:
        """A problem at a key of this stream, such as "expr"; line and column count inside its text."""
        name = f"{self.group}/{self.stream}"
        return _build_problem(self.origin, name, message, path, line, column, severity)


@dataclass(frozen=True, slots=True)
class Rule:
    """An alert rule of a group. `spec` holds what was written, the defaults filled in."""

    group: str
    spec: AlertSpec
    derived: tuple[DerivedQuery, ...] = ()  # all of its group
    interval: timedelta | None = None
    query_offset: timedelta = timedelta(0)
    limit: int | None = None  # the rule's own, else its group's
    origin: Origin | None = field(default=None, compare=False, repr=False)

    @property
    def id(self) -> str:
        return f"{self.group}/{self.spec.alert}"

    @property
    def version(self) -> str:
        """Changes when the rule's events or their contexts may: an edited annotation keeps its past."""
        spec = self.spec.model_dump(mode="json", by_alias=True)
        content = {name: spec[name] for name in _VERSION_KEYS}
        content["derived"] = {one.stream: one.expr for one in self.derived}
        return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    def position(self, *path: str | int, line: int = 1, column: int = 1) -> Position | None:
        """Where a key of the rule stands in its file, see `Origin.position`; None without a file."""
        return (
            None if self.origin is None else self.origin.position(*path, line=line, column=column)
        )

    def problem(
        self,
        message: str,
        *path: str | int,
        line: int = 1,
        column: int = 1,
        severity: Severity = "error",
    ) -> Problem:
        """A problem at a key of the rule, such as "context", "own", "sql"; it names the rule."""
        return _build_problem(self.origin, self.id, message, path, line, column, severity)

    def to_json(self) -> dict[str, Any]:
        """The rule as plain data, from which `from_json` makes an equal one."""
        group = {
            "name": self.group,
            "interval": self.interval,
            "query_offset": self.query_offset,
            "limit": self.limit,
            "derived": [
                {"stream": one.stream, "expr": one.expr, "archive": one.archive}
                for one in self.derived
            ],
            "rules": [self.spec],
        }
        return Group.model_validate(group).model_dump(mode="json", by_alias=True)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rule:
        """A stored rule; it has no origin."""
        return build_rules(Group.model_validate(data))[0]


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules and derived streams of a workspace, in the order of their files."""

    rules: tuple[Rule, ...] = ()
    derived: tuple[DerivedQuery, ...] = ()

    def find_rule(self, id: str) -> Rule | None:
        return next((rule for rule in self.rules if rule.id == id), None)


def build_derived_queries(group: Group, origin: Origin | None = None) -> tuple[DerivedQuery, ...]:
    """The derived streams of a group; `origin` is the group's."""
    return tuple(
        _build_derived_query(group.name, stream, _child_origin(origin, "derived", place))
        for place, stream in enumerate(group.derived)
    )


def build_rules(group: Group, origin: Origin | None = None) -> tuple[Rule, ...]:
    """The rules of a group; `origin` is the group's."""
    derived = build_derived_queries(group, origin)
    return tuple(
        Rule(
            group=group.name,
            spec=spec,
            derived=derived,
            interval=group.interval,
            query_offset=group.query_offset,
            limit=spec.limit or group.limit,
            origin=_child_origin(origin, "rules", place),
        )
        for place, spec in enumerate(group.rules)
    )


def _build_derived_query(
    group: str, spec: DerivedStreamSpec, origin: Origin | None
) -> DerivedQuery:
    return DerivedQuery(group, spec.stream, spec.expr, spec.archive, origin)


def _child_origin(origin: Origin | None, *path: str | int) -> Origin | None:
    return None if origin is None else Origin(origin.document, origin.path + path)


def _build_problem(
    origin: Origin | None,
    name: str,
    message: str,
    path: KeyPath,
    line: int,
    column: int,
    severity: Severity,
) -> Problem:
    if origin is None:
        return Problem(name, None, None, message, severity)
    position = origin.position(*path, line=line, column=column)
    return Problem(origin.file, *position, f"{name}: {message}", severity)
