"""From YAML events to a tree of nodes that know their places. Used by `moirae.documents` alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml import events as ev
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from moirae.contract import KeyPath
from moirae.scalars import Position, Scalar, content_start, plain_value, shown

MAX_DEPTH = 32
# What the parser reads in less than two seconds; hundreds of long rules.
MAX_NODES = 30_000
MAX_FAULTS = 100

_NOWHERE = Scalar(0, 0, "")
# As in `moirae.documents`, here for what escapes such as "\\0" stand for.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


@dataclass(slots=True, eq=False)
class Node:
    """A value of the file. Its position is that of its content: a block's text, not the `|` above it."""

    position: Position
    kind: Literal["mapping", "list", "scalar"]
    value: Any = None
    source: Scalar = _NOWHERE
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


class Fault(NamedTuple):
    """What is wrong with the text, where, and in which value."""

    path: KeyPath
    position: Position
    message: str


@dataclass(slots=True, eq=False)
class Tree:
    """What was read of a text. Not `whole`: reading ended at the last fault."""

    root: Node | None = None
    faults: list[Fault] = field(default_factory=list)
    whole: bool = False


def build(text: str) -> Tree:
    """Read one document; a fault that can be gone on after leaves the tree whole."""
    builder = _Builder(text)
    try:
        builder.document()
        builder.tree.whole = True
    except _Refused:
        pass
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = builder.place if mark is None else Position(mark.line + 1, mark.column + 1)
        builder.fault(f"not YAML: {error.problem or error.context}", place)
    except (YAMLError, ValueError, LookupError, AttributeError, TypeError, AssertionError) as error:
        # The parser's own failures on text that is no YAML, such as \U escapes beyond Unicode.
        builder.fault(f"not YAML: {error}")
    return builder.tree


class _Refused(Exception):
    """Ends the reading; the fault is with the tree."""


class _Builder:
    """Follows the parser's events; holds no more than the nodes made so far."""

    def __init__(self, text: str) -> None:
        self.tree = Tree()
        self.place = Position(1, 1)  # of the newest event
        self._events: Iterator[ev.Event] = YAML(typ="safe", pure=True).parse(text)
        self._text = text
        self._path: list[str | int] = []  # of the value being read
        self._count = 0

    def document(self) -> None:
        self._next()  # the stream's start
        event = self._next()
        if not isinstance(event, ev.DocumentStartEvent):
            return
        if event.version or event.tags:
            raise self._refused("directives (%) are not allowed")
        event = self._next()
        self.tree.root = self._node(event)
        self._fill(self.tree.root)
        self._next()  # the document's end
        if not isinstance(self._next(), ev.StreamEndEvent):
            raise self._refused("only one document is allowed in a file")

    def fault(self, message: str, position: Position | None = None) -> None:
        self.tree.faults.append(Fault(tuple(self._path), position or self.place, message))

    def _refused(self, message: str) -> _Refused:
        self.fault(message)
        return _Refused(message)

    def _next(self) -> ev.Event:
        event = next(self._events)
        mark = event.start_mark
        self.place = Position(mark.line + 1, mark.column + 1)
        if isinstance(event, ev.AliasEvent):
            raise self._refused("aliases (*) are not allowed; write the value out")
        if getattr(event, "anchor", None) is not None:
            raise self._refused("anchors (&) are not allowed; write values out where they are used")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise self._refused(f"tags (!) are not allowed: {shown(str(tag))}")
        return event

    def _node(self, event: ev.Event) -> Node:
        """A value's node, without what is in it."""
        self._count += 1
        if self._count > MAX_NODES:
            raise self._refused(f"more than {MAX_NODES} values; split the file")
        if len(self._path) >= MAX_DEPTH:
            raise self._refused(f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, ev.ScalarEvent):
            return self._scalar(event)
        return Node(self.place, "mapping" if isinstance(event, ev.MappingStartEvent) else "list")

    def _fill(self, node: Node) -> None:
        if node.kind == "mapping":
            self._fill_mapping(node)
        elif node.kind == "list":
            self._fill_list(node)

    def _fill_list(self, node: Node) -> None:
        while not isinstance(event := self._next(), ev.SequenceEndEvent):
            self._path.append(len(node.children))
            child = node.children[len(node.children)] = self._node(event)
            self._fill(child)
            self._path.pop()

    def _fill_mapping(self, node: Node) -> None:
        while not isinstance(event := self._next(), ev.MappingEndEvent):
            key, place = self._key(event), self.place
            if len(self.tree.faults) >= MAX_FAULTS:
                raise self._refused("too many faults; the rest is not read")
            if key in node.keys:
                self.fault(f"duplicate key {shown(key)}, first on line {node.keys[key].line}")
            self._path.append(key)
            child = self._node(self._next())
            if child.is_empty:  # the parser places it before the next thing written, lines below
                child.position = place
            # Attached before it is filled, so that what stops the reading inside can be told by its path.
            if node.keys.setdefault(key, place) is place:
                node.children[key] = child
            self._fill(child)
            self._path.pop()

    def _key(self, event: ev.Event) -> str:
        if not isinstance(event, ev.ScalarEvent):
            raise self._refused("a key must be text")
        if event.value == "<<" and not event.style:
            raise self._refused("merge keys (<<) are not allowed; write the values out")
        self._check_text(event.value)
        return str(event.value)  # keys are text however they look: `on: …` is the key "on"

    def _scalar(self, event: ev.ScalarEvent) -> Node:
        self._check_text(event.value)
        value = event.value if event.style else plain_value(event.value)
        source = Scalar(event.start_mark.index, event.end_mark.index, event.style or "")
        position = content_start(self._text, source, self.place)
        if isinstance(value, float) and not math.isfinite(value):
            self.fault(f"must be a finite number, not {shown(value)}")
        return Node(position, "scalar", value, source)

    def _check_text(self, value: str) -> None:
        control = _CONTROL.search(value)
        if control is not None:
            raise self._refused(f"character U+{ord(control[0]):04X} is not allowed")
