"""Rule files -> a RuleSet, or every problem in all of them at once. SQL is judged elsewhere (`check`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from moirae.contract import KeyPath
from moirae.documents import Document, parse_document, read_document
from moirae.errors import Problem
from moirae.rules.model import RuleFile
from moirae.rules.ruleset import Derived, Origin, Rule, RuleSet, derived_of, rules_of
from moirae.rules.templates import TemplateFault, names_in
from moirae.scalars import shown
from moirae.validation import dotted, sorted_problems, validate

EMPTY = "the file holds no rule"

# What annotations are filled from.
TEMPLATE_NAMES = frozenset({"event", "labels"})

Parsed = tuple[RuleSet, tuple[Problem, ...]]


def read_rule_files(paths: Iterable[Path], taken: frozenset[str] = frozenset()) -> Parsed:
    """Read rule files; `taken` are the names of streams and relations.

    With an error among the problems the set holds only what was understood, and must not be deployed.
    """
    reading = _Reading(taken)
    for path in paths:
        reading.add(*read_document(path, empty=EMPTY))
    return reading.result()


def parse_rules(file: str, text: str, taken: frozenset[str] = frozenset()) -> Parsed:
    """Read one text of rules, as posted to the server or stored; `file` names it in problems."""
    reading = _Reading(taken)
    reading.add(*parse_document(file, text, empty=EMPTY))
    return reading.result()


@dataclass
class _Reading:
    """What was read so far, and under which names."""

    taken: frozenset[str]
    rules: list[Rule] = field(default_factory=list)
    derived: list[Derived] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)  # name -> where it was first seen

    def add(self, document: Document | None, problems: Iterable[Problem]) -> None:
        self.problems += problems
        if document is None:
            return
        content, found = validate(RuleFile, document, describe=lambda path: describe(document, path))
        self.problems += found
        for place, group in enumerate(content.groups if content else ()):
            origin = Origin(document, ("groups", place))
            self._add_name(self.groups, group.name, "group", origin, "name")
            self.rules += rules_of(group, origin)
            self.derived += derived_of(group, origin)

    def result(self) -> Parsed:
        self._check_alerts()
        streams = self._check_derived()
        for rule in self.rules:
            self.problems += (*_shadowing(rule, self.taken | streams), *_template_problems(rule))
        return RuleSet(tuple(self.rules), tuple(self.derived)), sorted_problems(self.problems)

    def _check_alerts(self) -> None:
        seen: dict[str, str] = {}
        for rule in self.rules:
            if rule.origin is not None:
                self._add_name(seen, rule.id, "alert", rule.origin, "alert")

    def _check_derived(self) -> frozenset[str]:
        seen: dict[str, str] = {}
        for one in self.derived:
            if one.stream in self.taken or one.stream == "event":
                self.problems.append(one.problem(f"the stream name {one.stream!r} is taken", "stream"))
            elif one.origin is not None:
                self._add_name(seen, one.stream, "derived stream", one.origin, "stream")
        return frozenset(seen)

    def _add_name(self, seen: dict[str, str], name: str, kind: str, origin: Origin, key: str) -> None:
        line, column = origin.position(key)
        if name in seen:
            message = f"duplicate {kind} {name!r}, first at {seen[name]}"
            self.problems.append(Problem(origin.file, line, column, message))
        else:
            seen[name] = f"{origin.file}:{line}"


def describe(document: Document, path: KeyPath) -> str:
    """A path in a rule file as people say it: `testbed/NodeOverloaded.recall.norm`."""
    if len(path) < 2 or path[0] != "groups":
        return dotted(path)
    group = _name(document, (*path[:2], "name")) or dotted(path[:2])
    if len(path) < 4 or path[2] not in ("rules", "derived"):
        return _joined(group, path[2:])
    key = "alert" if path[2] == "rules" else "stream"
    name = _name(document, (*path[:4], key)) or dotted(path[2:4])
    return _joined(f"{group}/{name}", path[4:])


def _joined(name: str, rest: KeyPath) -> str:
    return dotted((name, *rest))


def _name(document: Document, path: KeyPath) -> str | None:
    value = document.value(path)
    return value if isinstance(value, str) and value else None


def _shadowing(rule: Rule, streams: frozenset[str]) -> Iterator[Problem]:
    spec = rule.spec
    tables = [("context", name) for name in spec.context]
    tables += [("surroundings", name) for name in spec.surroundings]
    tables += [("recall", name) for name in spec.recall]
    for kind, name in tables:
        if name in streams:
            yield rule.problem(f"{kind} {name!r} has the name of a stream or relation", kind, name)
    for place, stage in enumerate(spec.then):
        if stage.stream in streams:
            yield rule.problem(f"the stream name {stage.stream!r} is taken", "then", place, "stream")


def _template_problems(rule: Rule) -> Iterator[Problem]:
    spec = rule.spec
    for name, text in spec.annotations.items():
        try:
            unknown = sorted(names_in(text) - TEMPLATE_NAMES)
        except TemplateFault as fault:
            yield rule.problem(f"annotation {name!r}: {fault.message}", "annotations", name, line=fault.line)
            continue
        if unknown:
            message = f"annotation {name!r}: unknown variable {shown(unknown[0])}; there are event and labels"
            yield rule.problem(message, "annotations", name)
