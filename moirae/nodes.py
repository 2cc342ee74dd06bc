"""From YAML events to a tree of nodes that know their places. Used by `moirae.documents` alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ruamel.yaml import YAML
from ruamel.yaml import events as ev
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from moirae.scalars import Position, Scalar, content_start, plain_value, shown

MAX_DEPTH = 32
# What the parser reads in about two seconds; hundreds of long rules.
MAX_NODES = 50_000

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


class Refused(Exception):
    """The text cannot be used, for one reason at one place."""

    def __init__(self, position: Position, message: str) -> None:
        super().__init__(message)
        self.position = position
        self.message = message


@dataclass(slots=True, eq=False)
class Node:
    """A value of the file. Its position is that of its content: a block's text, not the `|` above it."""

    position: Position
    kind: Literal["mapping", "list", "scalar"]
    value: Any = None
    source: Scalar = Scalar(0, 0, "")
    keys: dict[str | int, Position] = field(default_factory=dict)
    children: dict[str | int, Node] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written: `key:` with no value."""
        return self.kind == "scalar" and self.value is None

    def data(self) -> Any:
        """The value as dict, list and scalars."""
        if self.kind == "mapping":
            return {key: child.data() for key, child in self.children.items()}
        if self.kind == "list":
            return [child.data() for child in self.children.values()]
        return self.value


def build(text: str) -> tuple[Node | None, list[tuple[Position, str]]]:
    """Read one document; the faults it can go on after are listed, others raise Refused."""
    builder = _Builder(text)
    try:
        return builder.document(), builder.faults
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Position(mark.line + 1, mark.column + 1) if mark is not None else Position(1, 1)
        raise Refused(place, f"not YAML: {error.problem or error.context}") from error
    except (YAMLError, ValueError, LookupError, AttributeError, TypeError, AssertionError) as error:
        # The parser's own failures on text that is no YAML, such as \U escapes beyond Unicode.
        raise Refused(builder.place, f"not YAML: {error}") from error


class _Builder:
    """Follows the parser's events; holds no more than the nodes made so far."""

    def __init__(self, text: str) -> None:
        self.faults: list[tuple[Position, str]] = []
        self.place = Position(1, 1)  # of the newest event
        self._events: Iterator[ev.Event] = YAML(typ="safe", pure=True).parse(text)
        self._text = text
        self._count = 0

    def document(self) -> Node | None:
        self._next()  # the stream's start
        event = self._next()
        if not isinstance(event, ev.DocumentStartEvent):
            return None
        if event.version or event.tags:
            raise self._refused("directives (%) are not allowed")
        root = self._value(self._next(), 1, "")
        self._next()  # the document's end
        if not isinstance(self._next(), ev.StreamEndEvent):
            raise self._refused("only one document is allowed in a file")
        return root

    def _next(self) -> ev.Event:
        event = next(self._events)
        mark = event.start_mark
        self.place = Position(mark.line + 1, mark.column + 1)
        if isinstance(event, ev.AliasEvent):
            raise self._refused("aliases (*) are not allowed; write the value out")
        if getattr(event, "anchor", None) is not None:
            raise self._refused("anchors (&) are not allowed; write values out where they are used")
        if getattr(event, "tag", None) is not None:
            raise self._refused(f"tags (!) are not allowed: {shown(str(event.tag))}")
        return event

    def _refused(self, message: str) -> Refused:
        return Refused(self.place, message)

    def _value(self, event: ev.Event, depth: int, key: str) -> Node:
        self._count += 1
        if self._count > MAX_NODES:
            raise self._refused(f"more than {MAX_NODES} values; split the file")
        if depth > MAX_DEPTH:
            raise self._refused(f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, ev.MappingStartEvent):
            return self._mapping(depth)
        if isinstance(event, ev.SequenceStartEvent):
            return self._list(depth, key)
        return self._scalar(event, key)

    def _list(self, depth: int, key: str) -> Node:
        node = Node(self.place, "list")
        while not isinstance(event := self._next(), ev.SequenceEndEvent):
            node.children[len(node.children)] = self._value(event, depth + 1, key)
        return node

    def _mapping(self, depth: int) -> Node:
        node = Node(self.place, "mapping")
        while not isinstance(event := self._next(), ev.MappingEndEvent):
            key, place = self._key(event), self.place
            value = self._value(self._next(), depth + 1, key)
            if key in node.keys:
                self.faults.append((place, f"duplicate key {shown(key)}, first on line {node.keys[key].line}"))
                continue
            if value.is_empty:  # the parser places it before the next thing written, lines below
                value.position = place
            node.keys[key] = place
            node.children[key] = value
        return node

    def _key(self, event: ev.Event) -> str:
        if not isinstance(event, ev.ScalarEvent):
            raise self._refused("a key must be text")
        if event.value == "<<" and not event.style:
            raise self._refused("merge keys (<<) are not allowed; write the values out")
        self._check_text(event.value)
        return str(event.value)  # keys are text however they look: `on: …` is the key "on"

    def _scalar(self, event: ev.ScalarEvent, key: str) -> Node:
        self._check_text(event.value)
        value = event.value if event.style else plain_value(event.value)
        source = Scalar(event.start_mark.index, event.end_mark.index, event.style or "")
        node = Node(self.place, "scalar", value, source)
        if source.style in ("|", ">"):
            node.position = content_start(self._text, source)
        if isinstance(value, float) and not math.isfinite(value):
            self.faults.append((node.position, f"{shown(key)} must be a finite number, not {shown(value)}"))
        return node

    def _check_text(self, value: str) -> None:
        control = _CONTROL.search(value)
        if control is not None:  # by an escape such as "\0"
            raise self._refused(f"character U+{ord(control[0]):04X} is not allowed")
