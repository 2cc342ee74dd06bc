"""The one reader of YAML: text -> plain data, and the place of every key and value.

YAML 1.2: `NO`, `on` and `12:30:45` are text. What makes a file mean more than it shows (anchors, aliases, tags,
merge keys, further documents, directives) is refused at its first appearance, before anything is built from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moirae.contract import KeyPath
from moirae.errors import Problem
from moirae.nodes import Node, Refused, build
from moirae.scalars import Position, position_at, source_position

MAX_BYTES = 1 << 20

_NOT_TEXT = re.compile("[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A file that was read: its data, and where each part of it stands."""

    file: str
    text: str
    root: Node
    data: dict[str, Any]

    def position(self, path: KeyPath) -> Position:
        """Where a value starts; of a path that is not there, where its last existing part starts."""
        node, rest = self._walk(path)
        return self.key_position(path[: len(path) - len(rest)]) if rest else node.position

    def key_position(self, path: KeyPath) -> Position:
        """Where the key of a value starts; of a list's item, the item."""
        parent, _ = self._walk(path[:-1])
        return parent.keys.get(path[-1]) or self._walk(path)[0].position if path else self.root.position

    def inside(self, path: KeyPath, line: int, column: int) -> Position:
        """Where the character at `line` and `column` (from 1) of a text value stands in the file."""
        node, rest = self._walk(path)
        if rest or not isinstance(node.value, str):
            return self.position(path)
        return source_position(self.text, node.source, node.value, line, column)

    def has(self, path: KeyPath) -> bool:
        """Whether the file has a value at `path`."""
        return not self._walk(path)[1]

    def value(self, path: KeyPath) -> object:
        """The scalar at `path`; None where there is none."""
        node, rest = self._walk(path)
        return None if rest else node.value

    def problem(self, path: KeyPath, message: str) -> Problem:
        """A problem at a value of this document."""
        return Problem(self.file, *self.position(path), message)

    def _walk(self, path: KeyPath) -> tuple[Node, KeyPath]:
        node = self.root
        for depth, part in enumerate(path):
            child = node.children.get(part)
            if child is None:
                return node, path[depth:]
            node = child
        return node, ()


def read_document(file: Path, *, empty: str) -> tuple[Document | None, tuple[Problem, ...]]:
    """Read a file; `empty` is the message for one that holds nothing. See `parse_document`."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return None, (Problem(str(file), None, None, f"cannot be read: {error.strerror}"),)
    if len(raw) > MAX_BYTES:
        return None, (Problem(str(file), None, None, "larger than 1 MiB; split the file"),)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return None, (Problem(str(file), line, None, "not UTF-8 text"),)
    return parse_document(str(file), text, empty=empty)


def parse_document(file: str, text: str, *, empty: str) -> tuple[Document | None, tuple[Problem, ...]]:
    """Read YAML text.

    Gives no document when the text cannot be understood at all. Faults that leave the rest readable (a duplicate
    key, of which the first is kept) come with the document, so that its other problems can be found as well.
    """
    text = text.replace("\r\n", "\n")
    if len(text) > MAX_BYTES:
        return None, (Problem(file, None, None, "larger than 1 MiB; split the file"),)
    strange = _NOT_TEXT.search(text)
    if strange is not None:
        where = position_at(text, strange.start())
        return None, (Problem(file, *where, f"character U+{ord(strange[0]):04X} is not allowed"),)
    try:
        root, faults = build(text)
    except Refused as refused:
        return None, (Problem(file, *refused.position, refused.message),)
    problems = tuple(Problem(file, *position, message) for position, message in faults)
    if root is None or root.is_empty:
        return None, (*problems, Problem(file, 1, 1, empty))
    if root.kind != "mapping":
        return None, (*problems, Problem(file, *root.position, "the file must hold keys with values, `key: …`"))
    return Document(file, text, root, root.data()), problems
