"""Event queries of imported rules over a stream. No I/O."""

from collections.abc import Sequence
from typing import Any

from sigma.exceptions import SigmaError
from sigma.rule import SigmaRule

from moirae.documents.types import MAX_SQL_LENGTH, MAX_SQL_NESTING
from moirae.errors import NotImported
from moirae.sigma.conditions import SparkBackend
from moirae.sigma.fields import LogSourceKey, StreamFields, StreamLayout
from moirae.sigma.sql_text import quote_name

_REFUSED_STATUS = frozenset({"deprecated", "unsupported"})


class QueryWriter:
    """Writes the queries of rules over one stream."""

    def __init__(self, layout: StreamLayout, time_column: str, id_columns: Sequence[str]) -> None:
        """`id_columns`: that, with the time, identify a row of the stream."""
        self.layout = layout
        self.id_columns = tuple(id_columns)
        self.time_sql = quote_name(time_column)

    def write_filter(self, rule: SigmaRule) -> str:
        """The query whose rows are the events of a rule. Raises `NotImported`."""
        _, condition = self.write_condition(rule)
        time = "" if self.time_sql == "ts" else f", {self.time_sql} AS ts"
        sql = f"SELECT *{time} FROM {self.layout.stream}\nWHERE {condition}"
        check_size(sql)
        return sql

    def write_condition(self, rule: SigmaRule) -> tuple[StreamFields, str]:
        """The condition of a rule over the stream, and its fields. Raises `NotImported`."""
        if rule.errors:
            raise NotImported("invalid", str(rule.errors[0]))
        source = rule.logsource
        entry = self.layout.find_log_source(
            LogSourceKey(source.category, source.product, source.service)
        )
        fields = self.layout.fields_of(entry)
        backend = SparkBackend(fields, self.layout.map.placeholders)
        try:
            condition = backend.convert_detection(rule)
        except NotImported as error:
            self.check_missing(fields)
            raise error
        except SigmaError as error:
            raise NotImported("condition", " ".join(str(error).split())) from error
        except (NotImplementedError, TypeError, ValueError, RecursionError) as error:
            raise NotImported("condition", f"pySigma cannot convert it: {error}") from error
        self.check_missing(fields)
        if entry.where is None:
            return fields, condition
        return fields, f"({entry.where})\n  AND {_in_brackets(condition)}"

    def check_missing(self, fields: StreamFields) -> None:
        """Raises `NotImported` if a rule uses fields that the stream has not."""
        if fields.missing:
            names = ", ".join(fields.missing)
            noun = "field" if len(fields.missing) == 1 else "fields"
            raise NotImported(
                "field", f"{noun} {names}: no such column in stream {self.layout.stream}"
            )


def check_status(rule: Any) -> None:
    """Raises `NotImported` for rules that their authors have withdrawn."""
    status = "" if rule.status is None else str(rule.status).lower()
    if status in _REFUSED_STATUS:
        raise NotImported("status", f"its status is {status}")


def check_size(sql: str) -> None:
    """Raises `NotImported` for a query that a rule file does not take."""
    if len(sql) > MAX_SQL_LENGTH:
        raise NotImported(
            "size", f"its query has {len(sql):,} characters; {MAX_SQL_LENGTH:,} are allowed"
        )
    depth = deepest = 0
    for character in sql:
        depth += (character in "([") - (character in ")]")
        deepest = max(deepest, depth)
    if deepest > MAX_SQL_NESTING:
        raise NotImported("size", f"brackets are nested deeper than {MAX_SQL_NESTING} levels")


def _in_brackets(condition: str) -> str:
    """A condition as an operand of AND: in brackets unless its lines are joined by AND."""
    return condition if "\n  AND " in condition else f"({condition})"
