"""Builds a tree of nodes with positions from YAML events, for `moirae.documents.reader`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import yaml
from ruamel.yaml import YAML
from ruamel.yaml import events as ev
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from moirae.documents.types import KeyPath
from moirae.documents.yaml_scalars import (
    Position,
    ScalarSpan,
    content_position,
    format_value,
    plain_value,
)
from moirae.errors import MoiraeError

MAX_DEPTH = 32  # levels
MAX_NODES = 30_000  # parsed in under two seconds by either parser: hundreds of long rules
MAX_SYNTAX_PROBLEMS = 100

_NO_SPAN = ScalarSpan(0, 0, "")
# The events of both parsers.
_AliasEvent = (ev.AliasEvent, yaml.AliasEvent)
_DocumentStartEvent = (ev.DocumentStartEvent, yaml.DocumentStartEvent)
_MappingEndEvent = (ev.MappingEndEvent, yaml.MappingEndEvent)
_MappingStartEvent = (ev.MappingStartEvent, yaml.MappingStartEvent)
_ScalarEvent = (ev.ScalarEvent, yaml.ScalarEvent)
_SequenceEndEvent = (ev.SequenceEndEvent, yaml.SequenceEndEvent)
_StreamEndEvent = (ev.StreamEndEvent, yaml.StreamEndEvent)
# As in `moirae.documents.reader`, applied to the characters that escapes such as "\\0" stand for.
_FORBIDDEN_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


@dataclass(slots=True, eq=False)
class YamlNode:
    """A value of the file. The position is that of its content: of a block, the text below `|`."""

    position: Position
    kind: Literal["mapping", "list", "scalar"]
    value: Any = None
    span: ScalarSpan = _NO_SPAN
    keys: dict[str | int, Position] = field(default_factory=dict)
    children: dict[str | int, YamlNode] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether the value is missing, as in `key:`."""
        return self.kind == "scalar" and self.value is None

    def to_data(self) -> Any:
        """The value as dict, list and scalars."""
        if self.kind == "mapping":
            return {key: child.to_data() for key, child in self.children.items()}
        if self.kind == "list":
            return [child.to_data() for child in self.children.values()]
        return self.value


class SyntaxProblem(NamedTuple):
    """A syntax error: its message, position and the path of the value it is in."""

    path: KeyPath
    position: Position
    message: str


@dataclass(slots=True, eq=False)
class YamlTree:
    """The nodes of a text. If not `is_complete`, parsing stopped at the last problem."""

    root: YamlNode | None = None
    problems: list[SyntaxProblem] = field(default_factory=list)
    is_complete: bool = False


def parse_tree(text: str) -> YamlTree:
    """Parse one document. The tree is complete if every problem could be skipped.

    libyaml parses it in a tenth of the time. What it refuses is parsed again in Python, whose
    messages are reported, and so is text with tabs, which libyaml accepts in more places.
    """
    if "\t" in text or not yaml.__with_libyaml__:
        return _parse_in_python(text)
    builder = _TreeBuilder(text, _parse_with_libyaml(text))
    try:
        builder.build()
    except (yaml.YAMLError, MoiraeError, UnicodeError, ValueError):
        return _parse_in_python(text)
    builder.tree.is_complete = True
    return builder.tree


def _parse_with_libyaml(text: str) -> Iterator[Any]:
    """Events as those of `ruamel.yaml`. Raises `yaml.YAMLError`."""
    loader = yaml.CSafeLoader(text)
    try:
        while (event := loader.get_event()) is not None:
            yield event
    finally:
        loader.dispose()


def _parse_in_python(text: str) -> YamlTree:
    builder = _TreeBuilder(text, YAML(typ="safe", pure=True).parse(text))
    try:
        builder.build()
        builder.tree.is_complete = True
    except _ParsingStopped:
        pass
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = builder.position
        if mark is not None:
            position = Position(mark.line + 1, mark.column + 1)
        builder.add_problem(f"not YAML: {error.problem or error.context}", position)
    except (YAMLError, ValueError, LookupError, AttributeError, TypeError, AssertionError) as error:
        # Failures of the parser itself on invalid YAML, such as \U escapes beyond Unicode.
        builder.add_problem(f"not YAML: {error}")
    return builder.tree


class _ParsingStopped(MoiraeError):
    """Parsing cannot continue. The problem is recorded in the tree."""


class _TreeBuilder:
    """Builds the tree from the events of the parser, one at a time."""

    def __init__(self, text: str, events: Iterator[Any]) -> None:
        self.tree = YamlTree()
        self.position = Position(1, 1)  # of the newest event
        self._events = events
        self._text = text
        self._path: list[str | int] = []  # of the current value
        self._node_count = 0

    def build(self) -> None:
        self._next_event()  # start of the stream
        event = self._next_event()
        if not isinstance(event, _DocumentStartEvent):
            return
        if event.version or event.tags:
            raise self._stop("directives (%) are not allowed")
        event = self._next_event()
        self.tree.root = self._make_node(event)
        self._fill(self.tree.root)
        self._next_event()  # end of the document
        if not isinstance(self._next_event(), _StreamEndEvent):
            raise self._stop("only one document is allowed in a file")

    def add_problem(self, message: str, position: Position | None = None) -> None:
        self.tree.problems.append(
            SyntaxProblem(tuple(self._path), position or self.position, message)
        )

    def _stop(self, message: str) -> _ParsingStopped:
        self.add_problem(message)
        return _ParsingStopped(message)

    def _next_event(self) -> Any:
        event = next(self._events)
        mark = event.start_mark
        self.position = Position(mark.line + 1, mark.column + 1)
        if isinstance(event, _AliasEvent):
            raise self._stop("aliases (*) are not allowed; write the value out")
        if getattr(event, "anchor", None) is not None:
            raise self._stop("anchors (&) are not allowed; write values out where they are used")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise self._stop(f"tags (!) are not allowed: {format_value(str(tag))}")
        return event

    def _make_node(self, event: Any) -> YamlNode:
        """The node of a value, without its children."""
        self._node_count += 1
        if self._node_count > MAX_NODES:
            raise self._stop(f"more than {MAX_NODES} values; split the file")
        if len(self._path) >= MAX_DEPTH:
            raise self._stop(f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, _ScalarEvent):
            return self._make_scalar(event)
        if isinstance(event, _MappingStartEvent):
            return YamlNode(self.position, "mapping")
        return YamlNode(self.position, "list")

    def _fill(self, node: YamlNode) -> None:
        if node.kind == "mapping":
            self._fill_mapping(node)
        elif node.kind == "list":
            self._fill_list(node)

    def _fill_list(self, node: YamlNode) -> None:
        while not isinstance(event := self._next_event(), _SequenceEndEvent):
            self._path.append(len(node.children))
            child = node.children[len(node.children)] = self._make_node(event)
            self._fill(child)
            self._path.pop()

    def _fill_mapping(self, node: YamlNode) -> None:
        while not isinstance(event := self._next_event(), _MappingEndEvent):
            key, position = self._read_key(event), self.position
            if len(self.tree.problems) >= MAX_SYNTAX_PROBLEMS:
                raise self._stop("too many problems; the rest of the file is not checked")
            if key in node.keys:
                first_line = node.keys[key].line
                self.add_problem(f"duplicate key {format_value(key)}, first on line {first_line}")
            self._path.append(key)
            child = self._make_node(self._next_event())
            if child.is_empty:  # the parser reports the position of the next token
                child.position = position
            # Attached before it is filled, so that a problem inside has its path.
            if node.keys.setdefault(key, position) is position:
                node.children[key] = child
            self._fill(child)
            self._path.pop()

    def _read_key(self, event: Any) -> str:
        if not isinstance(event, _ScalarEvent):
            raise self._stop("a key must be text")
        if event.value == "<<" and not event.style:
            raise self._stop("merge keys (<<) are not allowed; write the values out")
        self._check_text(event.value)
        return str(event.value)  # keys are always text: `on: …` is the key "on"

    def _make_scalar(self, event: Any) -> YamlNode:
        self._check_text(event.value)
        value = event.value
        if not event.style:
            value = plain_value(value)
        source = ScalarSpan(event.start_mark.index, event.end_mark.index, event.style or "")
        position = content_position(self._text, source, self.position)
        if isinstance(value, float) and not math.isfinite(value):
            self.add_problem(f"must be a finite number, not {format_value(value)}")
        return YamlNode(position, "scalar", value, source)

    def _check_text(self, value: str) -> None:
        forbidden = _FORBIDDEN_CHARACTERS.search(value)
        if forbidden is not None:
            raise self._stop(f"character U+{ord(forbidden[0]):04X} is not allowed")
