"""SQL text to syntax trees, and what can be read off a tree without knowing any tables. No I/O.

A text is parsed once: what others need of it is cached for the life of the process.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from recall.errors import RecallError
from recall.query.notations import inline_windows, replace_values

# Levels of a syntax tree. Recursive functions over the tree must not exhaust the stack.
_MAX_DEPTH = 250
_NAMED_WINDOW = [TokenType.ALIAS, TokenType.L_PAREN]  # after `WINDOW name`
_EVENTS = "events"  # the qualifier of the streams of rules' events
_MAX_TREES = 512  # syntax trees that are cached: about 100 kB each
_MAX_DESCRIPTIONS = 16_384  # texts whose tables and outputs are cached


EVENTS_PREFIX = "events."
"""Of the names of streams of rules' events, in trees and in `tables_in`."""


class EventSql(Spark):
    """Spark's SQL in which `window` is a function name, but for `WINDOW name AS (`."""

    class Tokenizer(Spark.Tokenizer):
        """Without the keyword, `GROUP BY window(…)` parses as a function call."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: token for word, token in Spark.Tokenizer.KEYWORDS.items() if word != "WINDOW"
        }

    def tokenize(
        self, sql: str, dialect: str | Dialect | type[Dialect] | None = None
    ) -> list[Token]:
        """The tokens of a text, with those of WINDOW clauses and of further names in them."""
        tokens: list[Token] = super().tokenize(sql, dialect)
        for number, token in enumerate(tokens[:-3]):
            following = [item.token_type for item in tokens[number + 2 : number + 4]]
            if token.text.upper() == "WINDOW" and following == _NAMED_WINDOW:
                tokens[number] = _with_type(token, TokenType.WINDOW)
        return tokens


def _with_type(token: Token, token_type: TokenType) -> Token:
    return Token(
        token_type, token.text, token.line, token.col, token.start, token.end, token.comments
    )


class Unsupported(RecallError):
    """A query that cannot be evaluated piece by piece.

    `line` and `column` (from 1) point into its text.
    """

    def __init__(self, message: str, node: exp.Expr | None = None) -> None:
        super().__init__(message)
        self.line, self.column = _position(node)


class Unsplittable(Unsupported):
    """A query that cannot be evaluated piece by piece, but over a whole range."""


def _position(node: exp.Expr | None) -> tuple[int, int]:
    """Line and column of the first token of a node; (1, 1) where the parser kept none."""
    if node is None:
        return 1, 1
    for part in node.walk():
        if "line" in part.meta:
            length = part.meta["end"] - part.meta["start"]
            return part.meta["line"], part.meta["col"] - length
    return 1, 1


class _Description(NamedTuple):
    """The tables of a query, in lower case, and the position of each output by its name."""

    tables: frozenset[str]
    outputs: Mapping[str, int]


def parse(sql: str) -> exp.Query:
    """The syntax tree of one query, which the caller may change.

    Raises `Unsupported` for a syntax error or any other statement.
    """
    return _parse_once(sql).copy()


def read_query(sql: str) -> exp.Query:
    """As `parse`; the tree is shared, the caller must not change it."""
    return _parse_once(sql)


def count_parsed_texts() -> int:
    """How often this process has parsed a text."""
    return _parse_once.cache_info().misses


@lru_cache(_MAX_TREES)
def _parse_once(sql: str) -> exp.Query:
    try:
        statements = sqlglot.parse(sql, read=EventSql)
    except RecursionError as error:
        raise Unsupported("SQL is nested too deeply") from error
    except sqlglot.errors.SqlglotError as error:
        raise _to_syntax_error(error) from error
    except Exception as error:
        # The parser fails on some texts without refusing them, for example on `|> LIMIT 1`.
        raise Unsupported("SQL syntax error: the query cannot be parsed") from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise Unsupported("expected a single SELECT statement")
    if _depth(statements[0]) > _MAX_DEPTH:
        raise Unsupported(
            f"SQL is nested deeper than {_MAX_DEPTH} levels; "
            "each operator of a chain (AND, +) counts as one level"
        )
    _join_event_names(statements[0])
    unknown = inline_windows(statements[0])
    if unknown is not None:
        raise Unsupported(f"unknown window {unknown.alias!r}", unknown)
    replace_values(statements[0])
    return statements[0]


def _join_event_names(query: exp.Expr) -> None:
    """Make `events.NAME` one identifier, the name of the stream of a rule's events, in place.

    Without an alias its columns are qualified by NAME.
    """
    for table in query.find_all(exp.Table):
        if table.db.lower() != _EVENTS or table.catalog:
            continue
        if not isinstance(table.this, exp.Identifier):
            continue
        name = table.name
        identifier = exp.to_identifier(EVENTS_PREFIX + name, quoted=True)
        identifier.meta.update(table.args["db"].meta)
        table.set("this", identifier)
        table.set("db", None)
        if not table.alias:
            alias = exp.to_identifier(name, quoted=True)
            table.set("alias", exp.TableAlias(this=alias))


def rename_tables(sql: str, names: Mapping[str, str]) -> str:
    """A query that reads other tables under the aliases of those that it names.

    `names`: the new names by those in the query, in lower case. Raises `Unsupported`.
    """
    if not tables_used(sql, names.keys()):
        return sql
    query = parse(sql)
    for table in query.find_all(exp.Table):
        new_name = names.get(table.name.lower())
        if new_name is None:
            continue
        alias = table.alias_or_name
        table.set("this", exp.to_identifier(new_name, quoted=True))
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    text: str = query.sql(dialect="spark")
    return text


def find_table(sql: str, name: str) -> tuple[int, int]:
    """Line and column at which a query names a table, in lower case; (1, 1): it does not."""
    for table in read_query(sql).find_all(exp.Table):
        if table.name.lower() == name:
            return _position(table)
    return 1, 1


def _to_syntax_error(error: sqlglot.errors.SqlglotError) -> Unsupported:
    details: Mapping[str, Any] = {}
    if isinstance(error, sqlglot.errors.ParseError) and error.errors:
        details = error.errors[0]
    syntax_error = Unsupported(f"SQL syntax error: {details.get('description', str(error))}")
    syntax_error.line = details.get("line", 1) or 1
    syntax_error.column = details.get("col", 1) or 1
    return syntax_error


def _depth(root: exp.Expr) -> int:
    deepest = 0
    stack = [(root, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        for child in node.iter_expressions():
            stack.append((child, depth + 1))
    return deepest


@lru_cache(_MAX_DESCRIPTIONS)
def _describe(sql: str) -> _Description:
    query = _parse_once(sql)
    outputs: dict[str, int] = {}
    for number, output in enumerate(query.selects):
        outputs[output.alias_or_name or output.sql(dialect="spark")] = number
    tables = frozenset(table.name.lower() for table in query.find_all(exp.Table))
    return _Description(tables, outputs)


def tables_in(sql: str) -> frozenset[str]:
    """The names of all tables in a query, in lower case."""
    return _describe(sql).tables


def find_tables_reached(tables: Collection[str], derived: Mapping[str, str]) -> frozenset[str]:
    """The tables with all that derived streams among them read, through others too.

    `derived`: queries by stream, in lower case; one that cannot be parsed reads nothing.
    """
    reached: set[str] = set()
    pending = set(tables)
    while pending:
        reached |= pending
        read: set[str] = set()
        for name in pending & derived.keys():
            with suppress(Unsupported):
                read |= tables_in(derived[name])
        pending = read - reached
    return frozenset(reached)


def tables_used(sql: str, names: Collection[str]) -> frozenset[str]:
    """Those of `names` (lower case) that a query reads."""
    return tables_in(sql).intersection(names)


def order_columns(sql: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of an answer with their columns in the order of the query's SELECT list.

    Stored answers may have lost that order (`jsonb` sorts keys). Columns that the SELECT list does
    not name come last, in their present order.
    """
    positions = _describe(sql).outputs

    def position(name: str) -> int:
        return positions.get(name, len(positions))

    ordered_rows = []
    for row in rows:
        names = sorted(row, key=position)
        ordered_rows.append({name: row[name] for name in names})
    return ordered_rows
