"""The one reader of YAML: text -> plain data, and the place of every key and value.

YAML 1.2: `NO`, `on` and `12:30:45` are text. What makes a file mean more than it shows (anchors, aliases,
tags, merge keys, further documents, directives) is refused where it first appears, before it is followed.
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
# Some faults within a line take the parser time that grows with the square of its length.
MAX_LINE_LENGTH = 100_000

# Control characters, other line ends, byte order marks and halves of characters.
_FORBIDDEN_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]"
)


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A file that was read: its data, and where each part of it stands."""

    file: str
    text: str
    root: YamlNode
    data: dict[str, Any]

    def position(self, path: KeyPath) -> Position:
        """Where a value starts; of a path that is not there, where its last existing part starts."""
        node, rest = self._walk(path)
        return self.key_position(path[: len(path) - len(rest)]) if rest else node.position

    def key_position(self, path: KeyPath) -> Position:
        """Where the key of a value starts; of a list's item, the item."""
        parent, _ = self._walk(path[:-1])
        return (
            parent.keys.get(path[-1]) or self._walk(path)[0].position
            if path
            else self.root.position
        )

    def text_position(self, path: KeyPath, line: int, column: int) -> Position:
        """Where the character at `line` and `column` (from 1) of a text value stands in the file."""
        node, rest = self._walk(path)
        if rest or not isinstance(node.value, str):
            return self.position(path)
        return source_position(self.text, node.span, node.value, line, column)

    def has(self, path: KeyPath) -> bool:
        """Whether the file has a value at `path`."""
        return not self._walk(path)[1]

    def value(self, path: KeyPath) -> object:
        """The scalar at `path`; None where there is none."""
        node, rest = self._walk(path)
        return None if rest else node.value

    def make_problem(
        self, path: KeyPath, position: Position, message: str, describe: PathDescriber
    ) -> Problem:
        """A problem that says in which part of the file it is."""
        where = describe(self, path)
        return Problem(self.file, *position, f"{where}: {message}" if where else message)

    def _walk(self, path: KeyPath) -> tuple[YamlNode, KeyPath]:
        node = self.root
        for depth, part in enumerate(path):
            child = node.children.get(part)
            if child is None:
                return node, path[depth:]
            node = child
        return node, ()


def format_path(path: KeyPath) -> str:
    """A path as people write it: `streams.cpu.id[0]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{_shorten(part)}" for part in path)
    return text.removeprefix(".")


def _shorten(part: str) -> str:
    return part if part.isprintable() and len(part) <= 130 else format_value(part)


PathDescriber = Callable[[Document, KeyPath], str]
"""Names the part of a document that a path leads to, for people."""


def describe_keys(_: Document, path: KeyPath) -> str:
    """The path itself."""
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
    """Read YAML text; `empty` is the message for a text that holds nothing.

    Gives no document when the text cannot be understood at all. Faults that leave the rest readable, such as
    a duplicate key, of which the first is kept, come with the document, so that all others are found too.
    """
    text = text.replace("\r\n", "\n")
    if len(text) > MAX_BYTES:
        return None, (Problem(file, None, None, "larger than 1 MiB; split the file"),)
    strange = _FORBIDDEN_CHARACTERS.search(text)
    if strange is not None:
        where = position_at(text, strange.start())
        return None, (Problem(file, *where, f"character U+{ord(strange[0]):04X} is not allowed"),)
    if max(map(len, text.split("\n"))) > MAX_LINE_LENGTH:
        return None, (
            Problem(file, None, None, f"a line is longer than {MAX_LINE_LENGTH} characters"),
        )
    tree = parse_tree(text)
    root = tree.root or YamlNode(Position(1, 1), "scalar")
    document = Document(
        file, text, root, root.to_data() if tree.is_complete and root.kind == "mapping" else {}
    )
    problems = [
        document.make_problem(fault.path, fault.position, fault.message, describe)
        for fault in tree.problems
    ]
    if not tree.is_complete:
        return None, tuple(problems)
    if root.is_empty:
        return None, (*problems, Problem(file, 1, 1, empty_message))
    if root.kind != "mapping":
        return None, (
            *problems,
            Problem(file, *root.position, "the file must hold a mapping, `key: value`"),
        )
    return document, tuple(problems)
