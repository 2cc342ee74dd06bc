"""Writes imported rules as YAML, and edits single rules of a file. No I/O.

What is not edited keeps its text, with its comments.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.scalarstring import LiteralScalarString

from moirae.errors import MoiraeError

KeyPath = tuple[str, ...]
RuleValues = dict[str, Any]
"""Keys of a rule -> text, list of texts, or mapping of texts."""

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./()-]*(?: [A-Za-z0-9_./()-]+)*")
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_ITEM_COLUMN = 2  # of the dash of a new rule
_INDENT = "    "  # of the keys of a rule: `  - alert: …`


def write_rule(values: RuleValues) -> str:
    """A new rule as an item of the list `rules` of a group."""
    lines = list(_write_mapping(values, _INDENT))
    lines[0] = "  - " + lines[0].removeprefix(_INDENT)
    return "\n".join(lines) + "\n"


def write_header(group: str, comment: str) -> str:
    """The beginning of a file with one group."""
    return f"# {comment}\ngroups:\n- name: {group}\n  rules:\n"


def _write_mapping(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            if value:
                yield f"{indent}{name}:"
                yield from _write_mapping(value, indent + "  ")
        elif isinstance(value, str):
            yield from _write_text(name, value, indent)
        else:
            items = ", ".join(map(_write_scalar, value))
            yield f"{indent}{name}: [{items}]"


def _write_text(name: str, value: str, indent: str) -> Iterator[str]:
    if not _is_block(value) and name != "expr":
        yield f"{indent}{name}: {_write_scalar(value)}"
        return
    yield f"{indent}{name}: |-"
    for line in value.split("\n"):
        yield f"{indent}  {line}".rstrip()


def _is_block(value: str) -> bool:
    lines = value.split("\n")
    is_regular = all(line == line.rstrip() for line in lines) and "\t" not in value
    return len(lines) > 1 and is_regular and not lines[0].startswith(" ") and lines[-1] != ""


def _write_scalar(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    return json.dumps(value, ensure_ascii=False)


class RuleFileText:
    """The text of a rule file and where its rules are."""

    def __init__(self, text: str) -> None:
        """Raises `MoiraeError` if the text is not YAML."""
        self._lines = text.replace("\r\n", "\n").split("\n")
        try:
            root: Any = yaml.compose(text, Loader=yaml.CSafeLoader)
        except yaml.YAMLError as error:
            raise MoiraeError(f"not YAML: {' '.join(str(error).split())}") from error
        self.rules: dict[str, _RuleBlock] = {}
        self.groups: list[str] = []
        # Whether a rule can be added at the end of the text.
        self.ends_with_rules = False
        for group in _items(_child(root, "groups")):
            self.groups.append(str(_value(_child(group, "name"))))
            rules = _child(group, "rules")
            self.ends_with_rules = (
                isinstance(rules, yaml.SequenceNode)
                and not (rules.flow_style or group.flow_style)
                and rules.start_mark.column == _ITEM_COLUMN
                and group.value[-1][1] is rules
                and root.value[-1][1].value[-1] is group
            )
            for node in _items(rules):
                name = _value(_child(node, "alert"))
                if isinstance(name, str):
                    self.rules[name] = _RuleBlock(node, self.groups[-1])

    def values(self, name: str) -> RuleValues:
        """A rule by its name: all scalars as text."""
        values: RuleValues = _value(self.rules[name].node)
        return values

    @property
    def size(self) -> int:
        """Length of the text, in characters."""
        return sum(map(len, self._lines)) + len(self._lines)

    def edit(self, changes: Mapping[str, Mapping[KeyPath, Any]], new_rules: Sequence[str]) -> str:
        """The text with some keys of rules set (None: deleted), and new rules at its end."""
        lines = list(self._lines)
        blocks = sorted(changes, key=lambda name: -self.rules[name].node.start_mark.line)
        for name in blocks:
            node = self.rules[name].node
            start, column = node.start_mark.line, node.start_mark.column
            end = _last_line(lines, node) + 1
            lines[start:end] = _edit_block(lines[start:end], column, changes[name])
        text = "\n".join(lines)
        if new_rules:
            text = text.rstrip("\n") + "\n" + "".join(new_rules)
        return text

    def can_edit(self, name: str) -> bool:
        """Whether a rule is written in lines of its own."""
        return not self.rules[name].node.flow_style


class _RuleBlock:
    def __init__(self, node: Any, group: str) -> None:
        self.node = node
        self.group = group


def _edit_block(lines: list[str], column: int, changes: Mapping[KeyPath, Any]) -> list[str]:
    prefix = lines[0][:column]
    block = [" " * column + lines[0][column:], *lines[1:]]
    unindented = [line[column:] if not line[:column].strip() else line for line in block]
    editor = YAML(typ="rt")
    editor.preserve_quotes = True
    editor.width = 1_000_000
    content = editor.load("\n".join(unindented) + "\n")
    for path, value in changes.items():
        _set(content, path, value)
    output = StringIO()
    editor.dump(content, output)
    edited = output.getvalue().rstrip("\n").split("\n")
    indented = [" " * column + line if line else "" for line in edited]
    indented[0] = prefix + edited[0]
    return indented


def _set(content: Any, path: KeyPath, value: Any) -> None:
    for name in path[:-1]:
        content = content.setdefault(name, CommentedMap())
    if value is None:
        content.pop(path[-1], None)
    elif isinstance(value, str) and (_is_block(value) or path == ("expr",)):
        content[path[-1]] = LiteralScalarString(value)
    else:
        content[path[-1]] = value


def _last_line(lines: Sequence[str], node: Any) -> int:
    """The number of the last line of a node: comments after it that are indented less are not."""
    column: int = node.start_mark.column
    last: int = min(node.end_mark.line, len(lines) - 1)
    if last > node.start_mark.line and node.end_mark.column <= column:
        last -= 1
    while last > node.start_mark.line:
        line = lines[last]
        is_comment = line.lstrip().startswith("#")
        if line.strip() and not (is_comment and len(line) - len(line.lstrip()) < column):
            break
        last -= 1
    return last


def _child(node: Any, key: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key:
                return value
    return None


def _items(node: Any) -> list[Any]:
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _value(node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {str(name.value): _value(value) for name, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_value(item) for item in node.value]
    return None if node is None else node.value
