"""Detection rules that nobody here wrote, over real process starts, and the same rules for SQLite.

The data are in the folder `sigma` of `benchmarks.quality`'s data folder: conditions in Spark's SQL,
events, and which rule matches which event.
"""

import csv
import gzip
import hashlib
import io
import json
import random
import re
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
from sqlglot import exp

from benchmarks.quality import SCENARIO_FOLDER
from moirae.evaluation.plan import ActiveRule
from moirae.rules import Definition, Rule
from moirae.rules.model import AlertSpec
from recall.query import Shape, Tables, parse

FOLDER = SCENARIO_FOLDER.parent / "sigma"
STREAM = "process"
OUTPUTS = ("Image", "CommandLine")
_TABLES = Tables({STREAM: "ts"})
_LITERAL = re.compile(r"'((?:[^'\\]|\\.)*)'")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
# Two characters that stand for one; a letter after a backslash may be a class of a pattern.
_ESCAPE_OR_LETTER = re.compile(r"\\.|\(\?[a-z]+\)|[a-zA-Z]", re.DOTALL)


class DetectionRule(NamedTuple):
    """A condition over the columns of an event."""

    name: str
    where: str

    @property
    def query(self) -> str:
        """The rule's event query."""
        return f"SELECT ts, {', '.join(OUTPUTS)} FROM {STREAM} WHERE {self.where}"

    def activate(self) -> ActiveRule:
        """The rule as the live process has it."""
        alert = f"r{hashlib.sha256(self.name.encode()).hexdigest()[:60]}"  # names may be longer
        rule = Rule("sigma", AlertSpec(alert=alert, expr=self.query))
        definition = Definition(rule, dict.fromkeys(OUTPUTS, "string"), OUTPUTS, OUTPUTS)
        return ActiveRule(definition, _TABLES, Shape(frozenset({STREAM})))

    def replace_constants(self, seed: int) -> "DetectionRule":
        """The rule with other letters in its constants."""
        letters = random.Random(f"{self.name} {seed}")

        def replace_letter(match: re.Match[str]) -> str:
            return match.group() if len(match.group()) > 1 else letters.choice(_LETTERS)

        def replace_literal(match: re.Match[str]) -> str:
            return _ESCAPE_OR_LETTER.sub(replace_letter, match.group())

        return DetectionRule(f"{self.name}_{seed}", _LITERAL.sub(replace_literal, self.where))


@cache
def read_rules() -> Sequence[DetectionRule]:
    """The rules, in the order of their names."""
    lines = gzip.decompress((FOLDER / "rules.jsonl.gz").read_bytes()).decode().splitlines()
    rules = map(json.loads, lines)
    return [DetectionRule(rule["name"], rule["where"]) for rule in rules]


@cache
def read_columns() -> dict[str, str]:
    """The types of an event's columns."""
    names = {name for event in read_lines() for name in event}
    return {"ts": "timestamp", **dict.fromkeys(sorted(names - {"ts"}), "string")}


def read_events(suffix: str = "") -> pa.Table:
    """The events. `suffix`: added to each text."""
    columns: dict[str, pa.Array] = {}
    events = read_lines()
    for name, type_name in read_columns().items():
        values = [event.get(name) for event in events]
        if type_name == "timestamp":
            times = [datetime.fromisoformat(str(value)) for value in values]
            columns[name] = pa.array(times, pa.timestamp("us", tz="UTC"))
        else:
            texts = [None if value is None else value + suffix for value in values]
            columns[name] = pa.array(texts, pa.string())
    return pa.table(columns)


def read_expected() -> set[tuple[str, int]]:
    """The pairs of a rule and the position of an event that it matches."""
    text = gzip.decompress((FOLDER / "expected.csv.gz").read_bytes()).decode()
    return {(row["rule"], int(row["row"])) for row in csv.DictReader(io.StringIO(text))}


@cache
def read_lines() -> Sequence[dict[str, Any]]:
    """The events as they are stored."""
    lines = gzip.decompress((FOLDER / "events.jsonl.gz").read_bytes()).decode().splitlines()
    return list(map(json.loads, lines))


class SQLiteRules:
    """The events in SQLite, and the conditions as pySigma's backend for SQLite writes them."""

    def __init__(self, rules: Sequence[DetectionRule]) -> None:
        self._conditions = [(rule.name, to_sqlite(rule.where)) for rule in rules]
        self._database = sqlite3.connect(":memory:")
        self._database.create_function("regexp", 2, _match, deterministic=True)
        columns = list(read_columns())
        self._database.execute(f"CREATE TABLE events ({', '.join(columns)})")
        rows = [tuple(event.get(name) for name in columns) for event in read_lines()]
        self._database.executemany(
            f"INSERT INTO events VALUES ({', '.join('?' * len(columns))})", rows
        )

    def evaluate(self) -> set[tuple[str, int]]:
        """The pairs of a rule and the position of an event that it matches."""
        pairs: set[tuple[str, int]] = set()
        for name, condition in self._conditions:
            statement = f"SELECT rowid FROM events WHERE {condition}"
            pairs.update((name, number - 1) for (number,) in self._database.execute(statement))
        return pairs


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.removeprefix("(?iu)"), re.IGNORECASE)


def _match(pattern: str, value: str | None) -> bool | None:
    return None if value is None else _compile(pattern).search(value) is not None


def to_sqlite(where: str) -> str:
    """A condition as LIKE over plain texts, or REGEXP."""
    return _to_sqlite(parse(f"SELECT 1 FROM x WHERE {where}").args["where"].this)


def _to_sqlite(node: exp.Expr) -> str:
    if isinstance(node, exp.Paren):
        return f"({_to_sqlite(node.this)})"
    if isinstance(node, exp.Not):
        return f"NOT {_to_sqlite(node.this)}"
    if isinstance(node, exp.And | exp.Or):
        word = "AND" if isinstance(node, exp.And) else "OR"
        return f"({_to_sqlite(node.left)} {word} {_to_sqlite(node.right)})"
    patterns: Sequence[str] | None = None
    if isinstance(node, exp.Contains | exp.StartsWith | exp.EndsWith | exp.EQ):
        text = _text_of(node.expression)
        if text is not None:
            before = "" if isinstance(node, exp.StartsWith | exp.EQ) else "%"
            after = "" if isinstance(node, exp.EndsWith | exp.EQ) else "%"
            patterns = [f"{before}{_escape(text)}{after}"]
    elif isinstance(node, exp.RegexpLike):
        patterns = _like_patterns(node.expression.name)
        if patterns is None:
            pattern = exp.Literal.string(node.expression.name).sql("sqlite")
            return f"{_column_of(node)} REGEXP {pattern}"
    if patterns is None:
        return node.sql("sqlite")
    likes = []
    for pattern in patterns:
        literal = exp.Literal.string(pattern).sql("sqlite")
        likes.append(f"{_column_of(node)} LIKE {literal} ESCAPE '\\'")
    return f"({' OR '.join(likes)})"


def _column_of(node: exp.Expr) -> str:
    column = node.find(exp.Column)
    assert column is not None
    return str(column.name)


def _text_of(node: exp.Expr) -> str | None:
    if isinstance(node, exp.Lower):
        node = node.this
    return node.name if isinstance(node, exp.Literal) else None


def _escape(text: str) -> str:
    return re.sub(r"[%_\\]", lambda match: f"\\{match.group()}", text)


def _like_patterns(pattern: str) -> Sequence[str] | None:
    """The patterns of LIKE for a list of texts in a regular expression; None for others."""
    match = re.fullmatch(r"\(\?iu\)(\.\*|\^?)\((.*)\)(\.\*|\$)", pattern, re.DOTALL)
    if match is None:
        return None
    before, body, after = match.groups()
    texts = list(_alternatives(body))
    if None in texts:
        return None
    start = "" if before == "^" else "%"
    end = "" if after == "$" else "%"
    return [f"{start}{_escape(text)}{end}" for text in texts if text is not None]


def _alternatives(body: str) -> Iterator[str | None]:
    """The texts of alternatives; None for one that is more than a text."""
    for part in re.findall(r"(?:[^\\|]|\\.)+", body, re.DOTALL):
        without_escapes = re.sub(r"\\[^a-zA-Z0-9]", "", part)
        if re.search(r"[.*+?()\[\]{}^$\\]", without_escapes):
            yield None
        else:
            yield re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL)
