"""Reads YAML files: plain data, and the line and column of every key and value.

YAML 1.2: `NO`, `on` and `12:30:45` are text. Anchors, aliases, tags, merge keys, directives and
further documents are rejected where they appear and never resolved.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moirae.documents.types import KeyPath
from moirae.documents.yaml_nodes import YamlNode, parse_tree
from moirae.documents.yaml_scalars import Position, format_value, position_at, source_position
from moirae.errors import Problem

MAX_BYTES = 1 << 20
# Characters. The parser's time for some errors is quadratic in the length of the line.
MAX_LINE_LENGTH = 100_000
_MAX_KEY_LENGTH = 130  # characters of a key that messages show in full

# Control characters, line separators other than \n, byte order marks and surrogates.
_FORBIDDEN_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]"
)


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A parsed file: its data and the positions of all its parts."""

    file: str
    text: str
    root: YamlNode
    data: dict[str, Any]

    def position(self, path: KeyPath) -> Position:
        """The position of a value, or of the deepest existing part of its path."""
        node, rest = self._walk(path)
        if rest:
            return self.key_position(path[: len(path) - len(rest)])
        return node.position

    def key_position(self, path: KeyPath) -> Position:
        """The position of the key of a value; for an item of a list, of the item."""
        if not path:
            return self.root.position
        parent, _ = self._walk(path[:-1])
        return parent.keys.get(path[-1]) or self._walk(path)[0].position

    def text_position(self, path: KeyPath, line: int, column: int) -> Position:
        """The position in the file of `line` and `column` (from 1) inside a text value."""
        node, rest = self._walk(path)
        if rest or not isinstance(node.value, str):
            return self.position(path)
        return source_position(self.text, node.span, node.value, line, column)

    def has(self, path: KeyPath) -> bool:
        """Whether the file has a value at `path`."""
        return not self._walk(path)[1]

    def value(self, path: KeyPath) -> object:
        """The scalar at `path`, or None."""
        node, rest = self._walk(path)
        if rest:
            return None
        return node.value

    def make_problem(
        self, path: KeyPath, position: Position, message: str, describe: PathDescriber
    ) -> Problem:
        """A problem whose message starts with the part of the file it concerns."""
        part = describe(self, path)
        if part:
            message = f"{part}: {message}"
        return Problem(self.file, *position, message)

    def _walk(self, path: KeyPath) -> tuple[YamlNode, KeyPath]:
        node = self.root
        for depth, part in enumerate(path):
            child = node.children.get(part)
            if child is None:
                return node, path[depth:]
            node = child
        return node, ()


def format_path(path: KeyPath) -> str:
    """A path in dotted form: `streams.cpu.id[0]`."""
    return "".join(map(_format_part, path)).removeprefix(".")


def _format_part(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if part.isprintable() and len(part) <= _MAX_KEY_LENGTH:
        return f".{part}"
    return f".{format_value(part)}"


PathDescriber = Callable[[Document, KeyPath], str]
"""Describes the part of a document at a path, for messages."""


def describe_keys(_: Document, path: KeyPath) -> str:
    """The path in dotted form."""
    return format_path(path)


ReadResult = tuple[Document | None, tuple[Problem, ...]]


def read_document(
    file: Path, *, empty_message: str, describe: PathDescriber = describe_keys
) -> ReadResult:
    """Read a file; see `parse_document`."""
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
    return parse_document(str(file), text, empty_message=empty_message, describe=describe)


def parse_document(
    file: str, text: str, *, empty_message: str, describe: PathDescriber = describe_keys
) -> ReadResult:
    """Parse YAML text. `empty_message` is the problem reported for a text without content.

    The document is None if the text is not YAML. Problems that leave the rest readable, such as a
    duplicate key (the first one counts), are returned with the document, so that validation can
    report further ones.
    """
    text = text.replace("\r\n", "\n")
    if len(text) > MAX_BYTES:
        return None, (Problem(file, None, None, "larger than 1 MiB; split the file"),)
    forbidden = _FORBIDDEN_CHARACTERS.search(text)
    if forbidden is not None:
        position = position_at(text, forbidden.start())
        message = f"character U+{ord(forbidden[0]):04X} is not allowed"
        return None, (Problem(file, *position, message),)
    if max(map(len, text.split("\n"))) > MAX_LINE_LENGTH:
        message = f"a line is longer than {MAX_LINE_LENGTH} characters"
        return None, (Problem(file, None, None, message),)
    tree = parse_tree(text)
    root = tree.root or YamlNode(Position(1, 1), "scalar")
    data: dict[str, Any] = {}
    if tree.is_complete and root.kind == "mapping":
        data = root.to_data()
    document = Document(file, text, root, data)
    problems = [
        document.make_problem(fault.path, fault.position, fault.message, describe)
        for fault in tree.problems
    ]
    if not tree.is_complete:
        return None, tuple(problems)
    if root.is_empty:
        return None, (*problems, Problem(file, 1, 1, empty_message))
    if root.kind != "mapping":
        message = "the file must contain a mapping, `key: value`"
        return None, (*problems, Problem(file, *root.position, message))
    return document, tuple(problems)
